"""A repeated race has the same drafts and passes, independent of the clock. Only seconds differ."""

import random
from dataclasses import replace

import pytest
from conftest import daily

import lookahead
from lookahead import METHODS, Settings, SettingsError
from lookahead.engine import batch, decode
from lookahead.engine.batch import Batch
from lookahead.engine.external import ExternalGenerator
from lookahead.engine.lane import Lane
from lookahead.engine.methods import method_class
from lookahead.measure import recordings
from lookahead.measure.scenarios import SCENARIOS, TAUGHT
from lookahead.measure.timing import Question, lane_of, read_entry

PROMPT = "Name: Anna, Pet: cat, Color: red\nName: Ben, Pet: dog, Color: blue\nName:"
OURS = [name for name in METHODS if not issubclass(method_class(name), ExternalGenerator)]


def passes(models, prompt, method, **options):
    """Return the drafted and the accepted tokens of every pass of a lane."""
    steps = lookahead.decode(models, prompt, method, **options)
    return [(step.draft.tokens, step.draft.parents, step.statuses, step.emitted) for step in steps]


def busy(monkeypatch, seed):
    """Replace the clock by one with random gaps of up to half a second, as on a busy machine."""
    draws, now = random.Random(seed), [0.0]

    def clock():
        now[0] += draws.choice((1e-6, 1e-3, 0.05, 0.5))
        return now[0]

    monkeypatch.setattr(decode, "perf_counter", clock)
    monkeypatch.setattr(batch, "perf_counter", clock)


@pytest.mark.parametrize("method", OURS)
@pytest.mark.parametrize("options", [{}, {"temperature": 0.8, "seed": 3}], ids=["greedy", "sampled"])
def test_a_race_repeats_on_a_busy_machine(models, monkeypatch, method, options):
    options = {"max_new_tokens": 48, **options}
    once = passes(models, PROMPT, method, **options)
    for seed in (1, 2):
        busy(monkeypatch, seed)
        assert passes(models, PROMPT, method, **options) == once


@pytest.mark.parametrize("method", ["draft", "suffix", "hybrid"])
def test_a_batch_repeats_on_a_busy_machine(models, monkeypatch, method):
    def written():
        prompts = [PROMPT, "Once upon a time there was a small frog", "Lily and Ben went to the park."]
        lanes = [Lane(models, prompt, method, Settings(max_new_tokens=40)) for prompt in prompts]
        return [
            {number: (step.draft.tokens, step.emitted) for number, step in passed.steps.items()}
            for passed in Batch(lanes, 2)
        ]

    once = written()
    for seed in (1, 2):
        busy(monkeypatch, seed)
        assert written() == once


def slower(models, by):
    """Return the same models with higher costs of wide passes."""
    curve = models.costs.target
    expensive = replace(
        curve, seconds=tuple(s * (1 + by * rows) for rows, s in zip(curve.rows, curve.seconds, strict=True))
    )
    return replace(models, measured=replace(models.measured, costs=replace(models.costs, target=expensive)))


@pytest.mark.parametrize("method", ["draft", "tree", "ngram", "lookahead", "block-tree", "hybrid"])
def test_with_typical_costs_every_machine_has_the_same_passes(models, method):
    options = {"max_new_tokens": 64}
    expected = passes(models, PROMPT, method, **options)
    assert expected == passes(models, PROMPT, method, costs="typical", **options)
    assert expected == passes(slower(models, 3.0), PROMPT, method, **options)


def test_the_costs_of_this_machine_may_change_the_drafts(models):
    options = {"max_new_tokens": 64, "costs": "measured"}
    slow = passes(slower(models, 3.0), PROMPT, "draft", **options)
    assert sum(len(tokens) for tokens, *_ in slow) < sum(len(step[0]) for step in passes(models, PROMPT, "draft"))


def test_measurements_use_the_costs_of_this_machine(models):
    question = Question("one", "story", "Once", False)
    assert lane_of(models, question, read_entry("draft"), {}).costs == models.costs
    assert lane_of(models, question, read_entry("draft"), {"costs": "typical"}).costs == models.typical.costs
    assert Lane(models, "Once", "draft", Settings()).costs == models.typical.costs != models.costs


def test_a_trace_records_which_costs_were_used(models):
    def recorded(models, **options):
        race = lookahead.race(models, "Once", ["naive"], max_new_tokens=1, **options)
        assert [lane_step.step.kind for lane_step in race][-1] == "verify"
        return race.result().settings.costs

    assert recorded(models) == recorded(models, costs="typical") == "typical"
    assert recorded(models, costs="measured") == recorded(replace(models, typical=None)) == "measured"


def test_missing_costs_are_refused(models):
    with pytest.raises(SettingsError, match="costs is 'cheap': choose one of auto, typical, measured"):
        Settings(costs="cheap")
    with pytest.raises(SettingsError, match="ships no costs of a typical machine"):
        lookahead.race(replace(models, typical=None), "Once", ["naive"], costs="typical")


@pytest.mark.parametrize("scenario", daily([*SCENARIOS, *TAUGHT], 2), ids=lambda scenario: scenario.id)
def test_a_chips_race_has_the_passes_of_its_recording(models, scenario):
    """If two logits nearly tie, another processor may round to another token. A lane with another text is not compared.

    Rounding also changes confidences. Near the floor of the stop rule this adds or removes a drafted token. So the number of
    passes may differ by a tenth.
    """
    recorded, raced = recordings.read(scenario.id), recordings.record(models, scenario)
    for before, now in zip(recorded.lanes, raced.lanes, strict=True):
        if before.tokens == now.tokens:
            assert len(now.verified) == pytest.approx(len(before.verified), abs=1, rel=0.1)
