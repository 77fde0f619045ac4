"""Predictions and their intervals: exact where a run is as regular as the formula, near where it is real, and as sure as said."""

import dataclasses
import random
import statistics

import pytest

from lookahead.core.acceptance import Acceptance
from lookahead.core.costs import CostCurve, PassCosts
from lookahead.measure.forecast import forecast
from lookahead.measure.intervals import interval
from lookahead.measure.progress import questions
from lookahead.measure.sweeps import SEEN, sweep
from lookahead.measure.timing import Timing, middle_pairs, paired, read_entry, samples

COSTS = PassCosts(CostCurve((1, 9), (0.010, 0.018)))
TOKENS = 90


def regular(k, dearer=1.0):
    """A run of drafts whose tokens are always accepted up to the second; its passes take so many times what was calibrated."""
    of = Acceptance((1000,) * min(k, 2) + (0,) * (k > 2), (1000,) * min(k, 3))
    passes = TOKENS // (1 + min(k, 2))
    verify_s, propose_s = passes * COSTS.pass_s(1 + k) * dearer, passes * (0.002 + k * 0.001) * bool(k)
    return Timing(
        tuple(range(TOKENS)), verify_s + propose_s + passes * 0.002, passes, 0, 0, 0, verify_s, propose_s, 0.1, None, of
    )


def test_two_regular_runs_tell_every_length():
    for dearer in (1.0, 1.3):
        naive = regular(0, dearer)
        short, long = (1, [(regular(1, dearer), naive)]), (8, [(regular(8, dearer), naive)])
        for one in forecast(COSTS, short, long, range(1, 9)):
            true = naive.seconds / regular(one.k, dearer).seconds
            assert one.speedup == pytest.approx(true, rel=1e-6) and one.interval is None


def test_intervals_are_over_prompts():
    slower = [dataclasses.replace(regular(8), seconds=regular(8).seconds * by) for by in (1.0, 1.1, 1.5)]
    short, long = (1, [(regular(1), regular(0))]), (8, [(run, regular(0)) for run in slower])
    (one,) = forecast(COSTS, short, long, [8])
    low, high = one.interval
    assert low < one.speedup < high


def test_an_interval_covers_as_often_as_it_says():
    """Benches of 8 prompts resampled from 24: their 90% intervals hold the median of all 24 in 85 to 95% of the draws."""
    hits = []
    for world in range(4):
        draw = random.Random(world)
        speedups = [draw.lognormvariate(0.7, 0.35) for _ in range(24)]
        truth = statistics.median(speedups)
        for seed in range(200):
            low, high = interval(draw.choices(speedups, k=8), statistics.median, seed=seed)
            hits.append(low <= truth <= high)
    assert 0.85 <= statistics.mean(hits) <= 0.95


@pytest.mark.timed
def test_two_runs_tell_what_other_lengths_bring(models):
    ks, prompts = (1, 2, 3, 4, 5, 6, 8), questions("story", most=3, max_new_tokens=96)
    entries = [read_entry("naive"), *(read_entry(f"draft:k={k}") for k in ks)]
    taken = list(samples(models, entries, prompts, 5, {}))
    pairs = {k: middle_pairs(taken, f"draft:k={k}") for k in ks}
    off = []
    for one in forecast(models.costs, (1, pairs[1]), (SEEN, pairs[SEEN]), ks):
        measured = statistics.median(naive.seconds / run.seconds for run, naive in pairs[one.k])
        off.append(abs(one.speedup / measured - 1))
    assert statistics.mean(off) < 0.1, "the bar is 0.05, on a quiet machine"
    assert middle_pairs(taken, "naive")[0][0].acceptance.tested == ()
    assert all(paired(taken, f"draft:k={k}") for k in ks)


def test_a_sweep_of_draft_lengths_predicts_all_of_them(models):
    *_, last = sweep(models, "draft-length", [2, SEEN], repeats=1, tokens=12, most=2)
    assert [one.k for one in last.result.forecasts][:3] == [1, 2, 3] and all(
        one.interval for one in last.result.forecasts
    )
    *_, last = sweep(models, "temperature", [0.0], repeats=1, tokens=8, most=1)
    assert not last.result.forecasts
