"""How passes are timed: in turns, as often as there is time for, and again if other programs disturbed it."""

from dataclasses import replace

import pytest

import lookahead
from lookahead.core.costs import CostCurve, DrafterCosts, PassCosts
from lookahead.family import cost
from lookahead.family import models as family
from lookahead.model.heads.head import CachedBlock, CachedEagle
from lookahead.model.lm import CachedLM

pytestmark = pytest.mark.models


@pytest.mark.parametrize(
    ("most_s", "laps"), [({}, 8), ({"most_s": 100.0}, 8), ({"most_s": 4.5}, 5), ({"most_s": 0.0}, 3)]
)
def test_works_take_turns_and_end_in_time_but_not_before_the_least(monkeypatch, most_s, laps):
    clock, order = [0.0], []
    monkeypatch.setattr(cost, "perf_counter", lambda: clock[0])

    def work(name, seconds):
        def run():
            order.append(name)
            clock[0] += seconds

        return run

    found = cost.interleaved([work("a", 0.25), work("b", 0.75)], cost.REPEATS, **most_s)
    assert order == ["a", "b"] * laps
    assert found == [0.25, 0.75]


def test_a_second_start_has_drafted_before_a_race(tmp_path, monkeypatch):
    """What passes cost is known then, and nothing is measured; but what has never run may still have to be compiled."""
    monkeypatch.setenv("LOOKAHEAD_CACHE", str(tmp_path))
    monkeypatch.setattr(cost, "plausible", lambda *_: True)  # what other workers disturb would be measured again
    lookahead.load("pocket")
    ran = []

    def spied(cls, name):
        function = getattr(cls, name)
        monkeypatch.setattr(cls, name, lambda self, *given: ran.append((cls.__name__, name)) or function(self, *given))

    spied(CachedLM, "draft_chain")
    for cls in (CachedBlock, CachedEagle):
        spied(cls, "draft_chain")
    spied(CachedBlock, "draft_tree")
    monkeypatch.setattr(cost, "drift", lambda *_: 1.0)
    monkeypatch.setattr(cost, "measure_drafter", None)  # nothing is to call it
    lookahead.load("pocket")
    assert {
        ("CachedLM", "draft_chain"),
        ("CachedBlock", "draft_chain"),
        ("CachedBlock", "draft_tree"),
        ("CachedEagle", "draft_chain"),
    } <= set(ran)


def test_a_pass_that_was_disturbed_takes_no_longer_than_one_of_more_rows():
    assert cost.undisturbed((19.2, 28.9, 25.5, 20.4, 34.0)) == (19.2, 20.4, 20.4, 20.4, 34.0)
    assert cost.undisturbed((1.0, 1.0, 2.0)) == (1.0, 1.0, 2.0)


def costs(draft_s=0.0003, curve=(0.002, 0.0021, 0.0024)):
    return PassCosts(CostCurve((1, 3, 9), curve), {"draft": DrafterCosts(CostCurve((1,), (draft_s,)))})


@pytest.mark.parametrize(
    ("given", "plausible"),
    [({}, True), ({"draft_s": 0.0021}, True), ({"draft_s": 0.465}, False), ({"curve": (0.02, 0.0021, 0.0024)}, False)],
)
def test_costs_of_a_disturbed_measurement_are_not_plausible(given, plausible):
    assert cost.plausible(costs(**given), ["draft"]) == plausible
    assert cost.plausible(costs(draft_s=0.465)), "a large draft model may take long"


def test_disturbed_measurements_are_repeated(models, monkeypatch):
    measured, disturbed = [], cost.measure

    def measure(lm, *rows):
        curve = disturbed(lm, *rows)
        if lm is not models.target:
            return curve
        measured.append(curve)
        slow = 1000.0 if len(measured) < 3 else 0.001
        return replace(curve, seconds=(slow * curve.seconds[-1], *curve.seconds[1:]))

    monkeypatch.setattr(cost, "measure", measure)
    found = family.measured_again(replace(models, key=None))
    assert len(measured) == family.LOOKS and found.costs.target.seconds[0] < measured[-1].seconds[-1]


def test_a_family_can_be_measured_again(models, monkeypatch):
    kept = []
    monkeypatch.setattr(family.remembered, "keep", lambda key, measured: kept.append((key, measured)))
    again = family.measured_again(models)
    assert again.spec == models.spec and again.costs is not models.costs
    assert again.costs.drafters.keys() == models.costs.drafters.keys()
    assert again.measured.exactness == models.measured.exactness
    assert kept == [(models.key, again.measured)]


def test_kept_costs_that_are_not_plausible_are_measured_anew_at_the_next_start(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOKAHEAD_CACHE", str(tmp_path))
    first = family.load("pocket")
    curve = first.costs.target
    bent = replace(curve, seconds=(1000 * curve.seconds[0], *curve.seconds[1:]))
    doubted = replace(first.measured, costs=replace(first.costs, target=bent).scaled(1000.0))
    family.remembered.keep(first.key, doubted)
    again = family.load("pocket")
    assert again.costs.pass_s(1) < 10 * first.costs.pass_s(1), "not what was kept"
    assert again.exactness == first.exactness
