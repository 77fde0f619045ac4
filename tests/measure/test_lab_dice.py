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


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
def test_p_and_q_are_what_is_tested_at_any_temperature(temperature):
    assert last(throws=1500, temperature=temperature, p=(1, 2, 3), q=(3, 1, 1), seed=4).p_value > 1e-4


def test_a_token_without_mass_never_falls():
    histogram = last(throws=500, p=(0.5, 0.5, 0.0), q=(0.1, 0.1, 0.8))
    assert histogram.seen[2] == 0
    assert histogram.freedom == 1


def test_it_runs_on_and_can_be_left():
    running = dice.throw(throws=1000, every=10)
    seen = [next(running) for _ in range(5)]
    assert [h.throws for h in seen] == [10, 20, 30, 40, 50]
    assert all(sum(h.seen) == h.throws for h in seen)
    assert seen[0].p_value is None, "ten throws tell nothing"
    running.close()
    assert next(dice.throw(throws=1000, every=10)) == seen[0], "the same throws every time"


def test_the_statistic_is_pearsons():
    seen, expected = (18, 55, 27), (25.0, 50.0, 25.0)
    statistic, freedom, p_value = dice.chi_square(seen, expected)
    theirs = chisquare(seen, expected)
    assert (statistic, freedom, p_value) == (pytest.approx(theirs.statistic), 2, pytest.approx(theirs.pvalue))
    assert dice.chi_square((60, 35, 4, 1), (50.0, 44.0, 3.0, 3.0))[:2] == (pytest.approx(2 + 81 / 44 + 1 / 6), 2)
    assert dice.chi_square((9, 0, 1), (5.0, 5.0, 0.0))[2] == 0.0
    assert dice.chi_square((900, 100), (500.0, 500.0))[2] == pytest.approx(chi2.sf(640, 1), rel=1e-3)


@pytest.mark.parametrize(
    "bad",
    [{"p": (1,)}, {"p": (1, -1)}, {"p": (0, 0)}, {"q": (0.5, 0.5)}, {"throws": 0}, {"every": True}, {"temperature": 0}],
    ids=str,
)
def test_bad_dice_are_refused(bad):
    with pytest.raises(LookaheadError):
        dice.throw(**bad)
