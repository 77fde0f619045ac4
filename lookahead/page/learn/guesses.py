"""Cases for a guessing game, out of a real run under the rejection rule: will the drafted token be accepted?

Every drafted token that the rule tested is a case: the target's p, the draft's q and the number that was drawn. Certain ones
make a dull game, so open ones come first; all of them happened.

Knows runs. It does not know who guesses.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...core.events import ACCEPTED, REJECTED, Test
from ...family.models import Models
from ...race.lane import decode
from .widgets import Case

OPEN = (0.05, 0.95)  # chances of acceptance between which a guess can go wrong
DIGITS, TEMPERATURE = 3, 0.8


def cases(models: Models, prompt: str, *, seed: int, most: int = 6) -> Iterator[list[Case]]:
    """Up to `most` cases in the order in which they came, once there are enough or the text has ended.

    Raises `LookaheadError` where no draft model is loaded.
    """
    every: list[Case] = []
    settings = {"temperature": TEMPERATURE, "rule": "rejection", "k": 4, "max_new_tokens": 64, "seed": seed}
    for step in decode(models, prompt, method="draft", details=False, **settings):
        every += [case for test in step.tests if (case := _case(models, test))]
        if sum(map(_is_open, every)) >= most:
            break
    chosen = sorted(range(len(every)), key=lambda i: (not _is_open(every[i]), i))[:most]
    yield [every[i] for i in sorted(chosen)]


def _case(models: Models, test: Test) -> Case | None:
    """A test in `DIGITS` digits; None where it has no two sides, no name, or where rounding would change its outcome."""
    if test.outcome not in (ACCEPTED, REJECTED) or test.q is None or test.draw is None:
        return None
    name = models.tokenizer.decode([test.token]).strip()
    p, q, draw = (round(value, DIGITS) for value in (test.p, test.q, test.draw))
    if not name or not 0 < q <= 1 or draw >= 1:
        return None
    case = Case(token=name, p=p, q=q, draw=draw)
    return case if case.accepted == (test.outcome == ACCEPTED) else None


def _is_open(case: Case) -> bool:
    return OPEN[0] < case.chance < OPEN[1]
