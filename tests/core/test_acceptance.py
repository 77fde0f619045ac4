"""Acceptance by position: tokens without a test do not count, and forecasts for other draft lengths."""

import random

import pytest

from lookahead.core.acceptance import UNTESTED, Acceptance
from lookahead.core.events import ACCEPTED, BONUS, CORRECTION, Draft, Step
from lookahead.core.theory import expected_tokens


def step(accepted, last=CORRECTION, finish=None, drafted=4):
    """Return a pass with a drafted chain."""
    origins = [ACCEPTED] * accepted + ([last] if last else [])
    draft = Draft.chain(range(drafted), "draft")
    return Step("verify", 1, draft, emitted=tuple(range(len(origins))), origins=tuple(origins), finish=finish)


def test_tokens_after_a_rejection_or_after_the_end_are_not_tested():
    acceptance = Acceptance.from_steps([step(0), step(1), step(1), step(4, BONUS), step(2, None, "eos")])
    assert acceptance.tested == (5, 4, 1, 1) and acceptance.accepted == (4, 2, 1, 1)
    assert acceptance.rates == (4 / 5, 2 / 4, 1.0, 1.0)
    assert Acceptance.from_steps([step(0, BONUS, drafted=0)]) == UNTESTED, "without a draft nothing is tested"


def test_the_rate_is_zero_if_all_are_rejected():
    assert Acceptance.from_steps([step(0), step(0)]).rates == (0.0,)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.8])
def test_equal_positions_give_the_formula_of_the_paper(alpha):
    acceptance = Acceptance((round(1000 * alpha),), (1000,))  # later positions get the same rate
    for k in (1, 3, 8):
        chances = acceptance.chances(k)
        assert sum(chances) == pytest.approx(1)
        assert sum(p * (1 + n) for n, p in enumerate(chances)) == pytest.approx(expected_tokens(alpha, k))


def test_expected_passes_agree_with_simulation():
    acceptance, draw = Acceptance((80, 40, 10), (100, 80, 40)), random.Random(1)
    chances, tokens = acceptance.chances(3), 20

    def simulated_passes():
        written = passes = 0
        while written < tokens:
            written, passes = written + 1 + draw.choices(range(4), chances)[0], passes + 1
        return passes

    assert sum(simulated_passes() for _ in range(4000)) / 4000 == pytest.approx(acceptance.passes(3, tokens), rel=0.01)
    assert acceptance.passes(0, 7) == 7 and UNTESTED.passes(5, 7) == 7


def test_counts_of_runs_are_added():
    assert Acceptance((1,), (2,)) + Acceptance((3, 1), (4, 3)) == Acceptance((4, 1), (6, 3))


def test_drafts_that_end_at_low_confidence_have_rates_that_are_too_high():
    """Half of the positions are easy (0.9) and half are hard (0.3). A drafter with confidences drafts only the easy ones."""
    draw = random.Random(1)

    def run(confident):
        drafts = []
        for _ in range(4000):
            accepted, rejected = 0, False
            for position in range(4):
                chance = draw.choice((0.9, 0.3))
                if confident and position and chance < 0.5:
                    break
                if rejected := draw.random() >= chance:
                    break
                accepted += 1
            drafts.append((accepted, rejected))
        return Acceptance.from_counts(drafts)

    fixed, stopped = run(False), run(True)
    assert fixed.rates[1] == pytest.approx(0.6, abs=0.05)
    assert stopped.rates[1] > 0.85, "forecasts need runs with fixed lengths"
