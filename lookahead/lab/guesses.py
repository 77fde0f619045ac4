"""Will it stand? Cases for a guessing game, out of a real run under the rejection rule.

Every drafted token that the rule looked at is a case: the target's p, the draft's q and the number that was drawn.
Certain ones make a dull game, so open ones come first; all of them happened.

Knows runs. It does not know who guesses.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..events import ACCEPTED, REJECTED
from ..lane import decode
from ..lessons import Case
from ..models import Models

OPEN = (0.05, 0.95)  # chances of standing between which a guess can go wrong
DIGITS, TEMPERATURE = 3, 0.8


def cases(models: Models, prompt: str, *, seed: int, most: int = 6) -> Iterator[list[Case]]:
    """Up to `most` cases in the order in which they came, once there are enough or the text has ended.

    Raises `LookaheadError` where no draft model is loaded.
    """
    found, unsure = [], []
    options = {"temperature": TEMPERATURE, "rule": "rejection", "k": 4, "max_new_tokens": 64, "seed": seed}
    for step in decode(models, prompt, method="draft", details=False, **options):
        for test in step.tests:
            if test.outcome not in (ACCEPTED, REJECTED) or test.q is None or test.draw is None:
                continue
            name = models.tokenizer.decode([test.token]).strip()
            p, q, draw = round(test.p, DIGITS), round(test.q, DIGITS), round(test.draw, DIGITS)
            if not name or not 0 < q <= 1 or draw >= 1:
                continue
            case = Case(name, p, q, draw)
            if case.stands == (test.outcome == ACCEPTED):  # rounding has not turned it round
                found.append(case)
        unsure = [case for case in found if OPEN[0] < case.chance < OPEN[1]]
        if len(unsure) >= most:
            break
    dull = [case for case in found if case not in unsure]
    chosen = {id(case) for case in (*unsure, *dull)[:most]}
    yield [case for case in found if id(case) in chosen]
