"""Whether measured costs can be: what a disturbed machine would leave is found, and measured again."""

import os
from dataclasses import replace
from types import SimpleNamespace

import pytest

from lookahead.core.costs import CostCurve, DrafterCosts, PassCosts
from lookahead.family import models as family
from lookahead.family import sense
from lookahead.server.loading_job import MOST_REPEATS, QUIET_S, WhenQuiet

SIZES = {"target": 27_000_000, "draft": 5_800_000, "offdomain": 5_800_000}


def costs(draft_s=0.0003, twin_s=0.0003, curve=(0.002, 0.0021, 0.0024)):
    target = CostCurve((1, 3, 9), curve)
    one, other = (DrafterCosts(CostCurve((1,), (s,))) for s in (draft_s, twin_s))
    return PassCosts(target, {"draft": one, "offdomain": other})


def test_a_quiet_machine_has_no_faults():
    assert sense.faults(costs(), SIZES) == ()
    assert sense.faults(costs(draft_s=0.0021), {"target": 27_000_000, "draft": 5_800_000}) == (), (
        "a little slower may be"
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"draft_s": 0.465, "twin_s": 0.038},
            "a pass of draft took 465 ms, one of target, which is not smaller, 2.00 ms",
        ),
        ({"draft_s": 0.0009}, "a pass of draft took 0.90 ms, one of offdomain, which is not smaller, 0.30 ms"),
        (
            {"curve": (0.02, 0.0021, 0.0024)},
            "a pass of 1 row took 20.0 ms, one of 3 rows, which is not smaller, 2.10 ms",
        ),
    ],
)
def test_what_cannot_be_is_said(given, words):
    assert words in sense.faults(costs(**given), SIZES)


def test_a_family_can_be_measured_again(models, monkeypatch):
    monkeypatch.setattr(family.remembered, "keep", lambda key, measured: kept.append((key, measured)))
    kept = []
    again = family.measured_again(models)
    assert again.spec == models.spec and again.costs is not models.costs
    assert again.costs.drafters.keys() == models.costs.drafters.keys()
    assert again.measured.exactness == models.measured.exactness
    assert kept == [(models.key, again.measured)]


def test_costs_that_cannot_be_are_measured_anew_at_the_next_start(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOKAHEAD_CACHE", str(tmp_path))
    monkeypatch.setattr(sense, "faults", lambda *_: ())  # other workers may disturb what is measured here
    first = family.load("pocket")
    doubted = replace(first.measured, faults=("a pass took too long",), costs=first.costs.scaled(1000.0))
    family.remembered.keep(first.key, doubted)
    again = family.load("pocket")
    assert again.costs.pass_s(1) < 10 * first.costs.pass_s(1), "not what was kept"
    assert again.exactness == first.exactness and not again.measured.faults


def test_it_is_tried_by_itself_when_the_machine_is_quiet(models, monkeypatch):
    submitted = []
    monkeypatch.setattr("lookahead.server.loading_job.measure_again", lambda server, spec: submitted.append(spec))
    doubted = replace(models, measured=replace(models.measured, faults=("a pass took too long",)))

    server = SimpleNamespace(families=[SimpleNamespace(models=doubted)])
    monkeypatch.setattr(os, "getloadavg", lambda: (99.0, 99.0, 99.0), raising=False)
    quiet = WhenQuiet(server)
    quiet.tick(2 * QUIET_S)
    assert submitted == [], "others are at work"
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    quiet.tick(QUIET_S / 2)
    assert submitted == []
    for _ in range(3 * MOST_REPEATS):
        quiet.tick(QUIET_S)
    assert submitted == [doubted.spec] * MOST_REPEATS, "not for ever"
    server.families[0].models = models
    calm = WhenQuiet(server)
    calm.tick(2 * QUIET_S)
    assert len(submitted) == MOST_REPEATS, "what can be is left alone"
