"""What a server's answer contains: passes as they arrive, the server's counts, and fields of its events.

No server reports which tokens were rejected, only how many, so a pass has counts and no draft.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)  # of a foreign event
MOST_COUNT = 1 << 53  # beyond it a float is not exact


@dataclass(frozen=True, slots=True)
class Pass:
    """What arrived together, `at_s` seconds after the request.

    `ids` are empty if the server sends none. `drafted` and `accepted` are None if it does not report them. `pieces` are the
    texts of the single tokens, if it reports those.
    """

    at_s: float
    text: str
    ids: tuple[int, ...] = ()
    drafted: int | None = None
    accepted: int | None = None
    pieces: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """The number of tokens. Without ids, one is assumed."""
        return len(self.ids) or 1


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer.

    `finish` is the server's reason for the end, None if it gave none. `tokens` is the server's own count. `counts` are drafted
    tokens, accepted tokens and passes with a draft, None if it does not report them. `differs` says how they differ from what
    arrived.
    """

    passes: tuple[Pass, ...]
    finish: str | None = None
    tokens: int = 0
    counts: tuple[int, int, int] | None = None
    differs: str | None = None

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(part.text for part in self.passes)

    @property
    def ids(self) -> tuple[int, ...]:
        """The token ids that arrived."""
        return tuple(token for part in self.passes for token in part.ids)

    @property
    def whole_s(self) -> float:
        """Seconds from the request to the last token."""
        return self.passes[-1].at_s if self.passes else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second, from the request to the last token."""
        return self.tokens / self.whole_s if self.whole_s > 0 else 0.0


def text_in(value: Any) -> str:
    """Return the text of a field that holds a string, null, or a list of parts with text. Raises an error of `UNREADABLE`.

    Half of a surrogate pair becomes a replacement character, because no file or terminal can hold it.
    """
    if value is None:
        return ""
    if isinstance(value, list):
        return "".join(
            text_in(part if isinstance(part, str) else part.get("text") or part.get("thinking")) for part in value
        )
    if not isinstance(value, str):
        raise TypeError(value)
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def ids_in(value: Any) -> tuple[int, ...]:
    """Return the token ids of a field that holds a list of them, or null. Raises an error of `UNREADABLE`."""
    if not isinstance(value, (list, type(None))):
        raise TypeError(value)
    return tuple(map(int, value or ()))


def count_in(value: Any) -> int:
    """Return the count of a field, 0 for null. Raises an error of `UNREADABLE`."""
    count = int(value or 0)
    if not 0 <= count <= MOST_COUNT:
        raise ValueError(value)
    return count
