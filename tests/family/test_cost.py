"""Timing of passes: interleaved functions, time limits, and repeated measurements after disturbances."""

from dataclasses import replace

import pytest

import lookahead
from lookahead.core.costs import CostCurve, DrafterCosts, PassCosts
from lookahead.family import cost
from lookahead.family import models as family
from lookahead.family.typical import Typical
from lookahead.model.heads.head import CachedBlock, CachedRecursive
from lookahead.model.lm import CachedLM

pytestmark = pytest.mark.models


@pytest.mark.parametrize(
    ("most_s", "repeats"), [({}, 8), ({"most_s": 100.0}, 8), ({"most_s": 4.5}, 5), ({"most_s": 0.0}, 3)]
)
def test_functions_run_in_turn_until_the_time_limit_but_for_the_least_repeats(monkeypatch, most_s, repeats):
    clock, order = [0.0], []
    monkeypatch.setattr(cost, "perf_counter", lambda: clock[0])

    def work(name, seconds):
        def run():
            order.append(name)
            clock[0] += seconds

        return run

    medians = cost.interleaved([work("a", 0.25), work("b", 0.75)], cost.REPEATS, **most_s)
    assert order == ["a", "b"] * repeats
    assert medians == [0.25, 0.75]


def test_every_start_drafts_before_a_race(tmp_path, monkeypatch):
    """With stored costs nothing is measured, but drafting code may still have to be compiled."""
    monkeypatch.setenv("LOOKAHEAD_CACHE", str(tmp_path))
    monkeypatch.setattr(cost, "plausible", lambda *_: True)  # other test workers may disturb the measurement
    lookahead.load("pocket")
    calls = []

    def record(cls, name):
        function = getattr(cls, name)
        monkeypatch.setattr(cls, name, lambda self, *args: calls.append((cls.__name__, name)) or function(self, *args))

    record(CachedLM, "draft_chain")
    for cls in (CachedBlock, CachedRecursive):
        record(cls, "draft_chain")
    record(CachedBlock, "draft_tree")
    monkeypatch.setattr(cost, "drift", lambda *_: 1.0)
    monkeypatch.setattr(cost, "measure_drafter", None)  # must not be called
    lookahead.load("pocket")
    assert {
        ("CachedLM", "draft_chain"),
        ("CachedBlock", "draft_chain"),
        ("CachedBlock", "draft_tree"),
        ("CachedRecursive", "draft_chain"),
    } <= set(calls)


def test_a_disturbed_pass_gets_at_most_the_time_of_a_pass_with_more_rows():
    assert cost.undisturbed((19.2, 28.9, 25.5, 20.4, 34.0)) == (19.2, 20.4, 20.4, 20.4, 34.0)
    assert cost.undisturbed((1.0, 1.0, 2.0)) == (1.0, 1.0, 2.0)


def test_the_cost_of_a_long_text_is_measured(models, monkeypatch):
    monkeypatch.setattr(cost, "SLOW_S", 1000.0)  # the machine may be busy
    lm = models.target.fresh()
    curve = cost.measure(lm)
    assert len(curve.context_s) == len(curve.rows) and max(curve.context_s) > 0 and not lm.tokens
    lm.context_length = 100
    assert cost.measure(lm).context_s == ()


def test_disturbed_passes_give_no_negative_cost(models, monkeypatch):
    monkeypatch.setattr(cost, "interleaved", lambda *_, **__: [0.001, 0.101, 0.001, 0.051, 0.001, 0.0])
    assert cost._context_s(models.target.fresh(), cost.ROWS) == (0.0,) * len(cost.ROWS)
    monkeypatch.setattr(cost, "interleaved", lambda *_, **__: [0.001, 0.002, 0.001, 0.005, 0.001, 0.004])
    assert list(costs_s := cost._context_s(models.target.fresh(), cost.ROWS)) == sorted(costs_s) and costs_s[0] > 0


def test_auto_uses_the_costs_of_its_text(models):
    """With rows that are free after a short text and expensive after a long one, `auto` drafts only at first."""
    rows = (1, 64)
    target = CostCurve(rows, (0.01, 0.01), context_s=(0.0, 1.0))
    typical = Typical("test", PassCosts(target, {"draft": DrafterCosts(CostCurve((1,), (1e-4,)))}))
    changed = replace(models, typical=typical)
    steps = [*lookahead.decode(changed, [5] * 60, "draft", k="auto", max_new_tokens=120)][1:]
    written, drafted = 0, {True: [], False: []}
    for step in steps:
        drafted[60 + written < 128].append(len(step.draft))
        written += len(step.emitted)
    assert max(drafted[True]) > 2 and not any(drafted[False][1:])


def costs(draft_s=0.0003, curve=(0.002, 0.0021, 0.0024)):
    return PassCosts(CostCurve((1, 3, 9), curve), {"draft": DrafterCosts(CostCurve((1,), (draft_s,)))})


@pytest.mark.parametrize(
    ("changes", "plausible"),
    [({}, True), ({"draft_s": 0.0021}, True), ({"draft_s": 0.465}, False), ({"curve": (0.02, 0.0021, 0.0024)}, False)],
)
def test_costs_of_a_disturbed_measurement_are_not_plausible(changes, plausible):
    assert cost.plausible(costs(**changes), ["draft"]) == plausible
    assert cost.plausible(costs(draft_s=0.465)), "a large draft model may take long"


def test_disturbed_measurements_are_repeated(models, monkeypatch):
    measured, original = [], cost.measure

    def measure(lm, *rows):
        curve = original(lm, *rows)
        if lm is not models.target:
            return curve
        measured.append(curve)
        slow = 1000.0 if len(measured) < 3 else 0.001
        return replace(curve, seconds=(slow * curve.seconds[-1], *curve.seconds[1:]))

    monkeypatch.setattr(cost, "measure", measure)
    again = family.measured_again(replace(models, key=None))
    assert len(measured) == family.MAX_MEASUREMENTS and again.costs.target.seconds[0] < measured[-1].seconds[-1]


def test_a_family_can_be_measured_again(models, monkeypatch):
    written = []
    monkeypatch.setattr(family.measurements, "write", lambda key, measured: written.append((key, measured)))
    again = family.measured_again(models)
    assert again.spec == models.spec and again.costs is not models.costs
    assert again.costs.drafters.keys() == models.costs.drafters.keys()
    assert again.measured.exactness == models.measured.exactness
    assert written == [(models.key, again.measured)]


def test_stored_costs_that_are_not_plausible_are_measured_again_at_the_next_start(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOKAHEAD_CACHE", str(tmp_path))
    first = family.load("pocket")
    curve = first.costs.target
    implausible = replace(curve, seconds=(1000 * curve.seconds[0], *curve.seconds[1:]))
    measured = replace(first.measured, costs=replace(first.costs, target=implausible).scaled(1000.0))
    family.measurements.write(first.key, measured)
    again = family.load("pocket")
    assert again.costs.pass_s(1) < 10 * first.costs.pass_s(1), "the stored costs are not used"
    assert again.exactness == first.exactness
