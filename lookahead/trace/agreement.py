"""Whether a lane wrote the same text as naive: a badge, and a sentence with the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NotRequired

from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from ..core.events import BIT_EXACT, REJECTED
from ..core.numbers import counted, significant

TIES = {"bfloat16": 0.5, "float16": 0.06}  # logits closer than this may swap by rounding
TIE = 0.01

# Whether the texts are equal (None: they need not be), in few words and in more, and where a token differs.
Badge = TypedDict(
    "Badge",
    {
        "identical": bool | None,
        "badge": str,
        "detail": str | None,
        "position": NotRequired[int],
        "margin": NotRequired[float | None],
        "pass": NotRequired[int],
        "rows": NotRequired[int],
    },
)


def of(race: Any, lane: int) -> Badge | None:
    """Compare a lane with naive; None for naive itself, and without naive."""
    record, naive = race.lanes[lane], race.naive()
    if naive is None or record is naive:
        return None
    if "server" in record.options:
        return _of_servers(record, naive)
    if race.settings.rule == "rejection":
        detail = "The rejection rule keeps the target's distribution, not its text."
        return _badge(None, "same distribution, different text", detail)
    ids, base = record.tokens, naive.tokens
    place = _apart(ids, base, record, naive)
    if place is None:
        return _badge(True, "identical, bit-exact" if race.exactness == BIT_EXACT else "identical")
    if place == min(len(ids), len(base)):
        return _badge(False, "differs in length: a bug", f"{len(ids)} tokens against {len(base)}.")
    margin = _margin(naive, place)
    logits = f"{significant(margin)} logits" if margin is not None else ""
    if race.exactness == BIT_EXACT and not record.opaque:  # an opaque lane reads the prompt in passes of its own
        cause = "a bug"
    elif margin is None:
        cause = "its margin was not recorded"
    else:
        is_tie = margin <= TIES.get(race.machine.dtype, TIE)
        cause = f"a tie of {logits}" if is_tie else f"a bug, the margin is {logits}"
    number, rows = _pass_of(record, place)
    detail = (
        f"Token {place + 1}: naive wrote id {base[place]}, this lane {ids[place]}, "
        f"in its pass {number} of {counted(rows, 'row')}."
    )
    if logits:
        detail += f" Naive's two best tokens were {logits} apart."
    numbers = {"position": place, "margin": margin, "pass": number, "rows": rows}
    return _badge(False, f"differs at token {place + 1}: {cause}", detail, **numbers)


def first_difference(a: Sequence[Any], b: Sequence[Any]) -> int | None:
    """Return the first index at which two sequences differ, the shorter length if one begins the other, None if equal."""
    shorter = min(len(a), len(b))
    return next((i for i in range(shorter) if a[i] != b[i]), None if len(a) == len(b) else shorter)


def _apart(a: Sequence[Any], b: Sequence[Any], *lanes: Any) -> int | None:
    """The first difference of two lanes. A shorter text differs from a longer one only if both have ended."""
    place, shorter = first_difference(a, b), min(len(a), len(b))
    ended = all(lane.steps and lane.steps[-1].finish is not None for lane in lanes)
    return place if ended or place != shorter else None


def _of_servers(record: Any, naive: Any) -> Badge:
    """Compare ids, or the texts if one of the servers gives no ids."""
    as_text = record.streamed or naive.streamed
    one, other = (lane.text if as_text else lane.tokens for lane in (record, naive))
    if not one or not other:
        which = "One of the two servers" if one or other else "Neither server"
        return _badge(None, "no text to compare", f"{which} sent no text.")
    place = _apart(one, other, record, naive)
    if place is None:
        return _badge(True, "identical")
    where = f"{'character' if as_text else 'token'} {place + 1}"
    detail = (
        f"The two texts differ from {where} on. Engines round a row differently with other rows, so if two tokens are "
        "almost equally likely, either may be chosen."
    )
    return _badge(False, f"parts at {where}", detail, position=place)


def _badge(identical: bool | None, badge: str, detail: str | None = None, **numbers: Any) -> Badge:
    return {"identical": identical, "badge": badge, "detail": detail, **numbers}


def _pass_of(lane: Any, position: int) -> tuple[int, int]:
    """The number of the pass that wrote the token at a position, from 1, and the rows of that pass."""
    written = 0
    for number, step in enumerate(lane.verified, start=1):
        written += len(step.emitted)
        if written > position:
            return number, 1 + len(step.draft.tokens)
    return len(lane.verified), 1


def _margin(naive: Any, position: int) -> float | None:
    """How far naive's token led the runner-up at `position`, in the scores that decided."""
    tests = [t for step in naive.verified for t in step.tests if t.outcome != REJECTED]
    return tests[position].margin if position < len(tests) else None
