"""Dice: the histogram of the real rule converges to p, that of a broken rule does not; statistics match scipy."""

import pytest
from scipy.stats import chi2, chisquare

from lookahead import LookaheadError
from lookahead.measure import dice
from lookahead.measure.bugs import BUGS


def last(**options):
    *_, histogram = dice.throw(**options)
    return histogram


def test_the_histogram_converges_to_the_target():
    """With another seed, a correct rule fails with probability 1e-4."""
    histogram = last(throws=3000)
    assert sum(histogram.counts) == 3000
    assert histogram.expected == pytest.approx([3000 * p for p in dice.P])
    assert histogram.p_value > 1e-4
    # The acceptance rate is the overlap of p and q, up to six standard errors.
    overlap = sum(min(p, q) for p, q in zip(dice.P, dice.Q, strict=True))
    assert histogram.accepted / 3000 == pytest.approx(overlap, abs=6 * (0.25 / 3000) ** 0.5)


@pytest.mark.parametrize("bug", [bug for bug in BUGS.values() if bug.rule], ids=lambda bug: bug.id)
def test_with_a_bug_it_converges_to_another_distribution(bug):
    assert last(throws=3000, rule=bug.parts.rule, masked=bug.masked).p_value < 1e-9


def test_masked_samples_follow_the_masked_distribution():
    """No forbidden word is written, and the others keep the target's proportions."""
    histogram = last(throws=3000, masked=True)
    assert all(allowed or not n for allowed, n in zip(dice.ALLOWED, histogram.counts, strict=True))
    assert histogram.p_value > 1e-4
    assert histogram.freedom == sum(dice.ALLOWED) - 1


def test_it_yields_as_it_runs_and_may_be_closed():
    running = dice.throw(throws=1000, every=10)
    histograms = [next(running) for _ in range(5)]
    assert [h.throws for h in histograms] == [10, 20, 30, 40, 50]
    assert all(sum(h.counts) == h.throws for h in histograms)
    assert histograms[0].p_value is None, "ten throws are too few"
    running.close()
    assert next(dice.throw(throws=1000, every=10)) == histograms[0], "the throws are deterministic"


def test_the_statistic_is_pearsons():
    near = dice.Histogram(1000, 1000, (310, 215, 150, 125, 85, 50, 45, 20), 0)
    expected = chisquare(near.counts, near.expected)
    assert (near.chi_square, near.p_value) == (pytest.approx(expected.statistic), pytest.approx(expected.pvalue))
    far = dice.Histogram(1000, 1000, (400, 200, 100, 100, 80, 60, 40, 20), 0)
    assert far.p_value == pytest.approx(chi2.sf(far.chi_square, far.freedom), rel=1e-3) and far.p_value < 1e-8


@pytest.mark.parametrize("bad", [{"throws": 0}, {"throws": 10**9}, {"every": True}], ids=str)
def test_invalid_arguments_raise(bad):
    with pytest.raises(LookaheadError):
        next(dice.throw(**bad))
