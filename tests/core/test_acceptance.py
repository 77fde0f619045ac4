"""Acceptance by position: what was not tested does not count, and what follows for other draft lengths."""

import random

import pytest

from lookahead.core.acceptance import UNTESTED, Acceptance
from lookahead.core.events import ACCEPTED, BONUS, CORRECTION, Draft, Step
from lookahead.core.theory import expected_tokens


def step(accepted, last=CORRECTION, finish=None, drafted=4):
    """A pass that drafted a chain."""
    origins = [ACCEPTED] * accepted + ([last] if last else [])
    draft = Draft.chain(range(drafted), "draft")
    return Step("verify", 1, draft, emitted=tuple(range(len(origins))), origins=tuple(origins), finish=finish)


def test_behind_a_rejection_and_behind_the_end_nothing_was_tested():
    of = Acceptance.from_steps([step(0), step(1), step(1), step(4, BONUS), step(2, None, "eos")])
    assert of.tested == (5, 4, 1, 1) and of.accepted == (4, 2, 1, 1)
    assert of.rates == (4 / 5, 2 / 4, 1.0, 1.0)
    assert Acceptance.from_steps([step(0, BONUS, drafted=0)]) == UNTESTED, "without a draft nothing is tested"


def test_where_all_were_refused_the_rate_is_zero():
    assert Acceptance.from_steps([step(0), step(0)]).rates == (0.0,)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8])
def test_positions_alike_give_the_papers_formula(alpha):
    of = Acceptance((round(1000 * alpha),), (1000,))  # positions beyond are as good as those that were tested
    for k in (1, 3, 8):
        chances = of.chances(k)
        assert sum(chances) == pytest.approx(1)
        assert sum(p * (1 + n) for n, p in enumerate(chances)) == pytest.approx(expected_tokens(alpha, k))


def test_passes_are_what_throwing_dice_gives():
    of, draw = Acceptance((80, 40, 10), (100, 80, 40)), random.Random(1)
    chances, tokens = of.chances(3), 20

    def thrown():
        written = passes = 0
        while written < tokens:
            written, passes = written + 1 + draw.choices(range(4), chances)[0], passes + 1
        return passes

    assert sum(thrown() for _ in range(4000)) / 4000 == pytest.approx(of.passes(3, tokens), rel=0.01)
    assert of.passes(0, 7) == 7 and UNTESTED.passes(5, 7) == 7


def test_runs_are_taken_together():
    assert Acceptance((1,), (2,)) + Acceptance((3, 1), (4, 3)) == Acceptance((4, 1), (6, 3))


def test_drafts_that_end_at_low_confidence_forecast_too_much():
    """Half of the positions are easy (0.9) and half are hard (0.3); a confident drafter drafts the easy ones only."""
    draw = random.Random(1)

    def run(confident):
        drafts = []
        for _ in range(4000):
            accepted, refused = 0, False
            for place in range(4):
                chance = draw.choice((0.9, 0.3))
                if confident and place and chance < 0.5:
                    break
                if refused := draw.random() >= chance:
                    break
                accepted += 1
            drafts.append((accepted, refused))
        return Acceptance.from_counts(drafts)

    fixed, stopped = run(False), run(True)
    assert fixed.rates[1] == pytest.approx(0.6, abs=0.05)
    assert stopped.rates[1] > 0.85, "so forecasts use runs of fixed lengths"
