"""Compare a lane's text with naive's. `verdict.py` describes the outcome in a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from ..core.events import BIT_EXACT, LOSSY, REJECTED, SAME_DISTRIBUTION

TIES = {"bfloat16": 0.5, "float16": 0.06}  # logits closer than this may swap by rounding
TIE = 0.01  # for other number formats


class Outcome(Enum):
    """How a lane's text compares with naive's."""

    SAME = auto()  # equal up to the end of the shorter text
    LENGTH = auto()  # both ended, one earlier: a bug
    DISTRIBUTION = auto()  # the rule keeps the target's distribution, not its text
    LOSSY = auto()  # the rule changes the text
    BUG = auto()  # a token differs although passes are bit-exact
    TIE = auto()  # a token differs, and naive's two best tokens were so close that rounding decides
    TOO_FAR = auto()  # a token differs, and naive's margin is too large for rounding: a bug
    NO_MARGIN = auto()  # a token differs, and naive's margin was not recorded
    NO_TEXT = auto()  # a server sent no text
    SERVERS = auto()  # two servers wrote different texts


@dataclass(frozen=True, slots=True)
class Agreement:
    """The outcome of a comparison, with numbers about the first difference.

    `position` counts from 0. `tokens` are the ids of naive and of the lane at that position. `number` is the lane's pass that
    wrote the token, from 1, and `rows` its number of rows. `lengths` are those of the lane and of naive. If `as_text`,
    positions and lengths count characters, because a server sends no ids.
    """

    outcome: Outcome
    lengths: tuple[int, int] = (0, 0)
    position: int | None = None
    margin: float | None = None
    tokens: tuple[int, int] | None = None
    number: int | None = None
    rows: int | None = None
    as_text: bool = False


def compare(race: Any, lane: int) -> Agreement | None:
    """Return how a lane's text compares with naive's; None for naive itself, and without a naive lane."""
    record, naive = race.lanes[lane], race.naive()
    if naive is None or record is naive:
        return None
    of_servers = "server" in record.options
    if race.settings.rule in SAME_DISTRIBUTION and not of_servers:
        return Agreement(Outcome.DISTRIBUTION)
    if race.settings.rule in LOSSY and not of_servers:
        return Agreement(Outcome.LOSSY, (len(record.tokens), len(naive.tokens)))
    as_text = of_servers and (record.streamed or naive.streamed)
    written, base = (entry.text if as_text else entry.tokens for entry in (record, naive))
    position, lengths = first_difference(written, base), (len(written), len(base))
    if of_servers and not min(lengths):
        return Agreement(Outcome.NO_TEXT, lengths)
    ended = all(entry.steps and entry.steps[-1].finish is not None for entry in (record, naive))
    if position is None or (position == min(lengths) and not ended):
        return Agreement(Outcome.SAME, lengths)
    if of_servers:
        return Agreement(Outcome.SERVERS, lengths, position, as_text=as_text)
    if position == min(lengths):
        return Agreement(Outcome.LENGTH, lengths)
    tests = [test for step in naive.verified for test in step.tests if test.outcome != REJECTED]
    margin = tests[position].margin if position < len(tests) else None  # to naive's second-best token
    if race.exactness == BIT_EXACT and not record.opaque:  # an opaque lane computes the prompt in other passes
        outcome = Outcome.BUG
    elif margin is None:
        outcome = Outcome.NO_MARGIN
    else:
        outcome = Outcome.TIE if margin <= TIES.get(race.machine.dtype, TIE) else Outcome.TOO_FAR
    tokens = base[position], written[position]
    return Agreement(outcome, lengths, position, margin, tokens, *_pass_of(record, position))


def first_difference(a: Sequence[Any], b: Sequence[Any]) -> int | None:
    """Return the first index at which two sequences differ: the shorter length for a prefix, None if they are equal."""
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
