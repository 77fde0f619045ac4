"""Whether a lane wrote the same text as naive, as an outcome and numbers. `verdict.py` has the words."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from ..core.events import BIT_EXACT, REJECTED

TIES = {"bfloat16": 0.5, "float16": 0.06}  # logits closer than this may swap by rounding
TIE = 0.01


class Outcome(Enum):
    """How a lane's text compares with naive's."""

    SAME = auto()  # as far as both were written
    LENGTH = auto()  # both ended, one earlier: a bug
    DISTRIBUTION = auto()  # the rejection rule keeps the target's distribution, not its text
    BUG = auto()  # a token differs although passes are bit-exact
    TIE = auto()  # a token differs, and naive's two best tokens were so close that rounding decides
    TOO_FAR = auto()  # a token differs, and naive's margin is too large for rounding: a bug
    NO_MARGIN = auto()  # a token differs, and naive's margin was not recorded
    NO_TEXT = auto()  # a server sent no text
    SERVERS = auto()  # two servers wrote different texts


@dataclass(frozen=True, slots=True)
class Agreement:
    """The outcome, and numbers about the first difference.

    `position` counts from 0. `tokens` are the ids of naive and of the lane at that position. `number` is the lane's pass that
    wrote the token, from 1, and `rows` the rows of that pass. `lengths` are the lane's and naive's. `as_text` is true if
    characters were compared, because a server gives no ids.
    """

    outcome: Outcome
    lengths: tuple[int, int] = (0, 0)
    position: int | None = None
    margin: float | None = None
    tokens: tuple[int, int] | None = None
    number: int | None = None
    rows: int | None = None
    as_text: bool = False


def of(race: Any, lane: int) -> Agreement | None:
    """Compare a lane with naive; None for naive itself, and without naive.

    Texts of servers are compared if one of the servers gives no ids.
    """
    record, naive = race.lanes[lane], race.naive()
    if naive is None or record is naive:
        return None
    of_servers = "server" in record.options
    if race.settings.rule == "rejection" and not of_servers:
        return Agreement(Outcome.DISTRIBUTION)
    as_text = of_servers and (record.streamed or naive.streamed)
    written, base = (one.text if as_text else one.tokens for one in (record, naive))
    place, lengths = first_difference(written, base), (len(written), len(base))
    if of_servers and not min(lengths):
        return Agreement(Outcome.NO_TEXT, lengths)
    ended = all(one.steps and one.steps[-1].finish is not None for one in (record, naive))
    if place is None or (place == min(lengths) and not ended):
        return Agreement(Outcome.SAME, lengths)
    if of_servers:
        return Agreement(Outcome.SERVERS, lengths, place, as_text=as_text)
    if place == min(lengths):
        return Agreement(Outcome.LENGTH, lengths)
    tests = [test for step in naive.verified for test in step.tests if test.outcome != REJECTED]
    margin = tests[place].margin if place < len(tests) else None  # to naive's second-best token
    if race.exactness == BIT_EXACT and not record.opaque:  # an opaque lane reads the prompt in passes of its own
        outcome = Outcome.BUG
    elif margin is None:
        outcome = Outcome.NO_MARGIN
    else:
        outcome = Outcome.TIE if margin <= TIES.get(race.machine.dtype, TIE) else Outcome.TOO_FAR
    return Agreement(outcome, lengths, place, margin, (base[place], written[place]), *_pass_of(record, place))


def first_difference(a: Sequence[Any], b: Sequence[Any]) -> int | None:
    """Return the first index at which two sequences differ, the shorter length if one begins the other, None if equal."""
    shorter = min(len(a), len(b))
    return next((i for i in range(shorter) if a[i] != b[i]), None if len(a) == len(b) else shorter)


def _pass_of(lane: Any, position: int) -> tuple[int, int]:
    """Return the number of the pass that wrote the token at a position, from 1, and its rows."""
    written = 0
    for number, step in enumerate(lane.verified, start=1):
        written += len(step.emitted)
        if written > position:
            return number, 1 + len(step.draft.tokens)
    return len(lane.verified), 1
