"""Questions of the lessons on which a class can vote, by id. Their answers are computed, so that they are those of this machine."""

from ...core.numbers import decimal, ratio, significant
from ...core.theory import expected_tokens, speedup
from ...family.models import Models
from ...server.votes import Question
from .lessons import lessons
from .widgets import Case, Cost, Figure, Guess, Widget

ROWS = 9
ALPHA, DRAFT_COST, ROW_COST = 0.6, 0.1, 0.03  # for the figure of lesson 6
LENGTHS = (0, 1, 3, 6, 12)


def questions(models: Models) -> dict[str, Question]:
    """Return all questions: `nine-rows`, `best-k`, and `guess-1`, `guess-2`, ... for the cases of the guess in lesson 3."""
    guesses = (part for lesson in lessons() for part in lesson.parts if isinstance(part, Guess))
    cases = [case for part in guesses for case in part.cases]
    return {
        "nine-rows": nine_rows(models.costs.target.ratio(ROWS)),
        "best-k": _best_k(),
        **{f"guess-{number}": _guess(case) for number, case in enumerate(cases, 1)},
    }


def vote(widget: Widget) -> str:
    """Return the id of a widget's question, or "" if it has none. The id of a guess lacks the number of the case."""
    match widget:
        case Cost(predict=9):
            return "nine-rows"
        case Figure(figure="costs"):
            return "best-k"
    return "guess" if isinstance(widget, Guess) else ""


def nine_rows(passes: float) -> Question:
    """Return the question of lesson 1 on a machine with this cost of a pass of `ROWS` rows, in one-row passes."""
    return Question(
        f"How many one-row passes does a pass of {ROWS} rows cost on this machine?",
        ("little more than 1 (less than 2)", "about 3 (from 2 to 5)", "about 9 (more than 5)"),
        0 if passes < 2 else 1 if passes <= 5 else 2,
        f"Measured on this machine: {decimal(passes)} one-row passes.",
    )


def _best_k() -> Question:
    tokens = [expected_tokens(ALPHA, k) for k in LENGTHS]
    costs = [1 + k * (ROW_COST + DRAFT_COST) for k in LENGTHS]
    speedups = [speedup(t, k, DRAFT_COST, 1 + ROW_COST * k) for t, k in zip(tokens, LENGTHS, strict=True)]
    best = speedups.index(max(speedups))
    others = ", ".join(f"k = {k}: {ratio(s)}" for k, s in zip(LENGTHS, speedups, strict=True) if k)
    return Question(
        f"A drafted token is accepted with probability {ALPHA}. It costs {DRAFT_COST} passes, and a further row costs {ROW_COST}. "
        "Which draft length k is fastest?",
        tuple(f"k = {k}" if k else "k = 0: do not draft" for k in LENGTHS),
        best,
        f"k = {LENGTHS[best]} writes {decimal(tokens[best])} tokens for {decimal(costs[best])} passes. Speedups: {others}.",
    )


def _guess(case: Case) -> Question:
    chance = significant(case.chance)
    side, outcome = ("below", "accepted") if case.accepted else ("not below", "rejected")
    return Question(
        f"“{case.token}” is drafted with q = {case.q:g}, and the target has p = {case.p:g}. Will it be accepted?",
        ("it is accepted", "it is rejected"),
        0 if case.accepted else 1,
        f"The chance is min(1, {case.p:g}/{case.q:g}) = {chance}. The draw is {case.draw:g}, {side} {chance}: it is {outcome}.",
    )
