"""What-if compared with real runs, step by step: the same drafts, paths and tokens."""

from time import perf_counter

import pytest
from agreement import assert_agrees
from conftest import emitted, table_steps
from prompts import HUNDRED
from synthetic import lane, trace

import lookahead
from lookahead import Settings, Trace, TraceError
from lookahead.core.costs import CostCurve, PassCosts
from lookahead.core.table import TableLM
from lookahead.engine.lane import Lane
from lookahead.measure.whatif import NaiveRun, oracle_outcome, what_if

COSTS = PassCosts(CostCurve((1, 2, 3, 5, 9, 17, 33), (0.005, 0.0052, 0.0054, 0.0058, 0.0066, 0.0078, 0.01), 0.0003))
SETTINGS = (
    ("ngram", 4, {}), ("ngram", 1, {"candidates": 1}), ("ngram", 8, {"shortest": 1, "longest": 3, "candidates": 4}),
    ("suffix", 4, {}), ("suffix", 12, {"shortest": 1, "reach": 8, "candidates": 3}), ("suffix", 2, {"candidates": 1}),
)  # fmt: skip


def shape(steps):
    """Return all fields of a run without times and logits."""
    return [
        (s.draft.tokens, s.draft.parents, s.draft.chances, s.statuses, s.path, s.emitted, s.origins, s.finish)
        for s in steps
        if s.kind == "verify"
    ]


def assert_same_passes(models, prompt, recording, outcome, real, lane, **options):
    """Assert the same passes for the same text. Texts may differ only if two logits tie."""
    if tuple(emitted(real)) == recording.tokens:
        assert shape(outcome.steps) == shape(real), (lane, options)
    else:
        assert_agrees(models, prompt, lane, **options)


def recorded(prompt, tokens, finish="length", max_new_tokens=None):
    """Return a naive run with the pass times of the cost curve."""
    naive_s = len(tokens) * COSTS.pass_s(1)
    return NaiveRun(tuple(prompt), tuple(tokens), COSTS, naive_s, naive_s, finish, max_new_tokens)


@pytest.mark.parametrize("temperature", [0.0, 0.9], ids=["greedy", "coupled"])
def test_a_real_run_has_the_same_steps_on_25_prompts(models, temperature):
    drafted = accepted = 0
    for number, prompt in enumerate(HUNDRED[::4]):
        options = {"max_new_tokens": 11, "details": False, "temperature": temperature, "seed": number}
        ids = models.tokenizer(prompt)["input_ids"]
        *_, last = naive = list(lookahead.decode(models, ids, method="naive", **options))
        recording = recorded(ids, emitted(naive), last.finish, 11)
        for method, k, settings in (SETTINGS * 2)[number % 6 : number % 6 + 2]:
            real = list(lookahead.decode(models, ids, method=method, k=k, **options, **settings))
            outcome = what_if(recording, method, k, **settings)
            assert_same_passes(models, ids, recording, outcome, real, (method, settings), k=k, **options)
            drafted += sum(len(step.draft) for step in outcome.steps)
            accepted += sum(step.accepted for step in outcome.steps)
    assert drafted > 150 and accepted > 15, "the prompts have repetitions to draft"


@pytest.mark.parametrize("finish", ["length", "eos", "stop", "context"])
@pytest.mark.parametrize(("method", "k", "options"), SETTINGS)
def test_the_text_ends_at_the_same_token(method, k, options, finish):
    """Greedy texts of a table model repeat, so long drafts continue after the end of the text."""
    target, changes = TableLM(8, order=1, seed=2), {}
    text = emitted(table_steps("naive", Settings(max_new_tokens=40), target=target, prompt=(1, 2, 3)))
    if finish == "eos":  # a token that does not occur among the first three
        changes = {"eos": (next(t for t in text if text.index(t) >= 3),)}
    if finish == "stop":
        changes = {"stop": lambda written: len(written) >= 12}
    if finish == "context":
        target = TableLM(8, order=1, seed=2, context_length=3 + 23)
    settings = Settings(max_new_tokens=23 if finish == "length" else 100)
    real = table_steps(method, settings, target=target, k=k, prompt=(1, 2, 3), **changes, **options)
    recording = recorded((1, 2, 3), emitted(real), finish, settings.max_new_tokens)
    assert shape(what_if(recording, method, k, **options).steps) == shape(real)
    assert real[-1].finish == finish


def test_a_trace_is_a_recording():
    race = trace(lane("naive"), lane("ngram", k=4))
    recording = NaiveRun.from_trace(race)
    assert recording.naive_s == pytest.approx(race.naive().clock_s)
    outcome = what_if(recording, "ngram", 4)
    assert shape(outcome.steps)[0][5] == tuple(race.naive().tokens[:1])
    assert [t for s in outcome.steps for t in s.emitted] == race.naive().tokens
    again = NaiveRun.from_trace(Trace.from_json(race.to_json()))
    assert shape(what_if(again, "ngram", 4).steps) == shape(outcome.steps)


def test_without_drafts_it_takes_the_time_of_naive():
    recording = NaiveRun.from_trace(trace(lane("naive")))
    outcome = what_if(recording, "ngram", 0)
    assert outcome.tokens_per_pass == 1 and outcome.acceptance_rate is None
    spent = sum(step.propose_s for step in outcome.steps)
    assert outcome.seconds - spent == pytest.approx(recording.naive_s)
    assert outcome.speedup == pytest.approx(1.0, abs=0.05)


def test_the_oracle_is_fully_accepted_and_the_fastest():
    recording = NaiveRun.from_trace(trace(lane("naive")))
    for k in (1, 3, 8):
        best = oracle_outcome(recording, k)
        assert all(len(s.emitted) == k + 1 for s in best.steps[:-1])
        assert best.acceptance_rate == 1.0
        tokens = len(recording.tokens)
        assert len(best.steps) == -(-tokens // (k + 1))
        suffix = what_if(recording, "suffix", k, shortest=1)
        assert best.speedup > suffix.speedup
        assert suffix.tokens_per_pass <= best.tokens_per_pass
    # By hand: each pass has the cost curve's time for its rows, scaled to the times of the naive passes.
    k, last = 3, len(recording.tokens) % 4
    passes = len(recording.tokens) // 4
    verify_s = passes * recording.costs.pass_s(4) + (recording.costs.pass_s(last) if last else 0)
    scale = recording.verify_s / (len(recording.tokens) * recording.costs.pass_s(1))
    other_s = (recording.naive_s - recording.verify_s) / len(recording.tokens)
    expected = scale * verify_s + (passes + bool(last)) * other_s
    assert oracle_outcome(recording, k).seconds == pytest.approx(expected)


@pytest.mark.timed
def test_it_is_fast_enough_for_a_slider():
    draws = [(i * i * 7 + i // 5) % 50 for i in range(320)]
    recording = recorded(draws[:64], draws[64:])
    for method, k, options in SETTINGS:
        times = []
        for _ in range(3):
            start = perf_counter()
            what_if(recording, method, k, **options)
            times.append(perf_counter() - start)
        assert min(times) < 0.05, (method, times)


def test_invalid_settings_raise():
    recording = NaiveRun.from_trace(trace(lane("naive")))
    for method in ("draft", "lookahead", "nope"):
        with pytest.raises(lookahead.MethodError, match="choose ngram or suffix"):
            what_if(recording, method)
    with pytest.raises(lookahead.SettingsError, match="k is"):
        what_if(recording, "ngram", 99)
    with pytest.raises(lookahead.MethodError, match="its options are"):
        what_if(recording, "ngram", 4, color="red")
    with pytest.raises(TraceError, match="naive"):
        NaiveRun.from_trace(trace(lane("ngram")))
    rejection = trace(lane("naive"))
    changed = rejection.settings.model_copy(update={"rule": "rejection", "temperature": 1.0})
    with pytest.raises(TraceError, match="depends on the drafter"):
        NaiveRun.from_trace(rejection.model_copy(update={"settings": changed}))


def test_a_stopped_run_counts_as_complete(models):
    running = lookahead.race(models, "Once upon a time", ["naive"], max_new_tokens=30)
    for lane_step, _ in zip(running, range(9), strict=False):
        assert lane_step.lane == 0
    running.close()
    recording = NaiveRun.from_trace(running.result())
    outcome = what_if(recording, "suffix", 4)
    assert [t for s in outcome.steps for t in s.emitted] == list(recording.tokens)
    assert 6 <= len(recording.tokens) <= 9
    assert Lane(models, "Once upon a time", "naive", Settings()).prompt == list(recording.prompt)
