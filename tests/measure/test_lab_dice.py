"""Dice: the real rule's histogram settles on p; a broken rule's does not; the statistics are the textbook's."""

import pytest
from scipy.stats import chi2, chisquare

from lookahead import LookaheadError
from lookahead.measure import dice
from lookahead.measure.bugs import BUGS


def last(**options):
    *_, histogram = dice.throw(**options)
    return histogram


def test_the_histogram_settles_on_the_target():
    """Odds of a correct rule failing a fresh seed: one in ten thousand."""
    histogram = last(throws=3000)
    assert sum(histogram.seen) == 3000
    assert histogram.expected == pytest.approx([3000 * p for p in dice.P])
    assert histogram.p_value > 1e-4
    # Accepted as often as p and q overlap: six standard errors at most.
    overlap = sum(min(p, q) for p, q in zip(dice.P, dice.Q, strict=True))
    assert histogram.accepted / 3000 == pytest.approx(overlap, abs=6 * (0.25 / 3000) ** 0.5)


@pytest.mark.parametrize("bug", [bug for bug in BUGS.values() if bug.rule], ids=lambda bug: bug.id)
def test_with_a_bug_it_settles_on_something_else(bug):
    assert last(throws=3000, rule=bug.parts.rule).p_value < 1e-9


def test_it_runs_on_and_can_be_left():
    running = dice.throw(throws=1000, every=10)
    seen = [next(running) for _ in range(5)]
    assert [h.throws for h in seen] == [10, 20, 30, 40, 50]
    assert all(sum(h.seen) == h.throws for h in seen)
    assert seen[0].p_value is None, "ten throws tell nothing"
    running.close()
    assert next(dice.throw(throws=1000, every=10)) == seen[0], "the same throws every time"


def test_the_statistic_is_pearsons():
    found = dice.Histogram(1000, 1000, (310, 215, 150, 125, 85, 50, 45, 20), 0)
    theirs = chisquare(found.seen, found.expected)
    assert (found.chi_square, found.p_value) == (pytest.approx(theirs.statistic), pytest.approx(theirs.pvalue))
    far = dice.Histogram(1000, 1000, (400, 200, 100, 100, 80, 60, 40, 20), 0)
    assert far.p_value == pytest.approx(chi2.sf(far.chi_square, dice.FREEDOM), rel=1e-3) and far.p_value < 1e-8


@pytest.mark.parametrize("bad", [{"throws": 0}, {"throws": 10**9}, {"every": True}], ids=str)
def test_bad_dice_are_refused(bad):
    with pytest.raises(LookaheadError):
        next(dice.throw(**bad))
