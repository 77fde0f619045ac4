"""A race repeats: the same drafts and the same passes every time, whatever the clock does. Only seconds differ."""

import random
from dataclasses import replace

import pytest

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
    """What a lane drafted and accepted, pass by pass."""
    steps = lookahead.decode(models, prompt, method, **options)
    return [(step.draft.tokens, step.draft.parents, step.statuses, step.emitted) for step in steps]


def busy(monkeypatch, seed):
    """A clock that a busy machine stops for anything up to half a second, between any two looks at it."""
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
            {number: (step.draft.tokens, step.emitted) for number, step in one.steps.items()} for one in Batch(lanes, 2)
        ]

    once = written()
    for seed in (1, 2):
        busy(monkeypatch, seed)
        assert written() == once


def slower(models, by):
    """The same models on a machine whose wider passes cost more."""
    curve = models.costs.target
    dear = replace(curve, seconds=tuple(s * (1 + by * rows) for rows, s in zip(curve.rows, curve.seconds, strict=True)))
    return replace(models, measured=replace(models.measured, costs=replace(models.costs, target=dear)))


@pytest.mark.parametrize("method", ["draft", "tree", "ngram", "lookahead", "block-tree", "hybrid"])
def test_with_typical_costs_every_machine_has_the_same_passes(models, method):
    options = {"max_new_tokens": 64}
    here = passes(models, PROMPT, method, **options)
    assert here == passes(models, PROMPT, method, costs="typical", **options)
    assert here == passes(slower(models, 3.0), PROMPT, method, **options)


def test_with_this_machines_costs_it_may_decide_otherwise(models):
    options = {"max_new_tokens": 64, "costs": "measured"}
    there = passes(slower(models, 3.0), PROMPT, "draft", **options)
    assert sum(len(tokens) for tokens, *_ in there) < sum(len(step[0]) for step in passes(models, PROMPT, "draft"))


def test_measurements_decide_with_the_costs_of_this_machine(models):
    question = Question("one", "story", "Once", False)
    assert lane_of(models, question, read_entry("draft"), {}).costs == models.costs
    assert lane_of(models, question, read_entry("draft"), {"costs": "typical"}).costs == models.typical.costs
    assert Lane(models, "Once", "draft", Settings()).costs == models.typical.costs != models.costs


def test_a_trace_records_which_costs_decided(models):
    def recorded(models, **options):
        race = lookahead.race(models, "Once", ["naive"], max_new_tokens=1, **options)
        assert [lap.step.kind for lap in race][-1] == "verify"
        return race.result().settings.costs

    assert recorded(models) == recorded(models, costs="typical") == "typical"
    assert recorded(models, costs="measured") == recorded(replace(models, typical=None)) == "measured"


def test_costs_that_are_not_there_are_refused(models):
    with pytest.raises(SettingsError, match="costs is 'cheap': choose one of auto, typical, measured"):
        Settings(costs="cheap")
    with pytest.raises(SettingsError, match="ships no costs of a typical machine"):
        lookahead.race(replace(models, typical=None), "Once", ["naive"], costs="typical")


@pytest.mark.parametrize("scenario", [*SCENARIOS, *TAUGHT], ids=lambda scenario: scenario.id)
def test_a_chips_race_has_the_passes_of_its_recording(models, scenario):
    """If two logits nearly tie, the rounding of another processor may choose another text: such a lane is not compared.

    A draft model rounds its confidence too, and near the stop rule's floor that adds or removes a token. So another processor
    may take a pass in ten more or less.
    """
    recorded, raced = recordings.read(scenario.id), recordings.record(models, scenario)
    for before, now in zip(recorded.lanes, raced.lanes, strict=True):
        if before.tokens == now.tokens:
            assert len(now.verified) == pytest.approx(len(before.verified), abs=1, rel=0.1)
