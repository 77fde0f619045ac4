"""What a server's answer tells: passes as they arrive, and how they agree with what it counts.

A `Reply` reads one answer event by event; each kind of server has its own. No engine tells which words were rejected, only
how many, so a pass has counts where ours has a draft.

Knows events as plain data. It does not know HTTP or clocks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)  # of a foreign event
MOST_COUNT = 1 << 53  # beyond it a float is not exact


@dataclass(frozen=True, slots=True)
class Pass:
    """What arrived at once, `at_s` seconds after it was asked for: text, token ids where the server gives them, and how many
    tokens were drafted for it and accepted, None where it does not say. `pieces` are the texts of its tokens, where it tells
    which text is whose."""

    at_s: float
    text: str
    ids: tuple[int, ...] = ()
    drafted: int | None = None
    accepted: int | None = None
    pieces: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """How many tokens it brought; a server that gives no ids is taken to send one at a time."""
        return len(self.ids) or 1


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. `finish` is the server's reason for ending, None where it ended without one; `tokens` its own count.
    `counts` are drafted and accepted tokens and passes with a draft, as the server has them, None where it has none, and
    `differs` says how they differ from what arrived."""

    passes: tuple[Pass, ...]
    finish: str | None = None
    tokens: int = 0
    counts: tuple[int, int, int] | None = None
    differs: str | None = None

    @property
    def text(self) -> str:
        """The text in one piece."""
        return "".join(part.text for part in self.passes)

    @property
    def ids(self) -> tuple[int, ...]:
        """The token ids that arrived."""
        return tuple(token for part in self.passes for token in part.ids)

    @property
    def whole_s(self) -> float:
        """Seconds from asking to the last token."""
        return self.passes[-1].at_s if self.passes else 0.0

    @property
    def seconds(self) -> float:
        """From the first token to the last: reading the prompt and waiting for it are left out."""
        return self.passes[-1].at_s - self.passes[0].at_s if self.passes else 0.0

    @property
    def written(self) -> int:
        """Tokens that arrived in those seconds: all but those of the first arrival."""
        return max(0, self.tokens - self.passes[0].tokens) if self.passes else 0


class Reply(ABC):
    """Reads an answer. `name` is the kind of server, `prompt_ids` are those of the prompt, where the server gives them.
    `reconnects`: every text over a connection of its own."""

    name = ""
    reconnects = False

    def __init__(self) -> None:
        self.passes: list[Pass] = []
        self.finish: str | None = None
        self.prompt_ids: tuple[int, ...] = ()

    @staticmethod
    @abstractmethod
    def requests(model: str, prompt: str, most: int, chat: bool) -> list[tuple[str, dict[str, Any]]]:
        """Return the requests, each a path and a body, that continue a prompt greedily by at most `most` tokens.

        The first has the most fields. If a server refuses it as malformed, the next one is sent, which has fewer.
        """

    @abstractmethod
    def read(self, event: Mapping[str, Any], at_s: float) -> list[Pass]:
        """The passes that an event brings; none if it only counts. Raises an error of `UNREADABLE` for a foreign event."""

    def answer(self) -> Answer:
        """What has arrived, with counts where they are known."""
        return Answer(tuple(self.passes), self.finish, sum(part.tokens for part in self.passes))

    def _arrived(self, *passes: Pass) -> list[Pass]:
        self.passes += passes
        return list(passes)


def text_in(value: Any) -> str:
    """The text of a field that holds a string, null, or a list of parts with text. Raises an error of `UNREADABLE`.

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
    """Token ids of a field that holds a list of them, or null. Raises an error of `UNREADABLE`."""
    if not isinstance(value, (list, type(None))):
        raise TypeError(value)
    return tuple(map(int, value or ()))


def count_in(value: Any) -> int:
    """A count that a server gives; 0 for null. Raises an error of `UNREADABLE`."""
    count = int(value or 0)
    if not 0 <= count <= MOST_COUNT:
        raise ValueError(value)
    return count


def with_counts(
    passes: Sequence[Pass], accepted: Sequence[int], drafted: Sequence[int]
) -> tuple[list[Pass], str | None]:
    """Passes with the counts of those that had a draft, in order, and how both differ (None: they agree).

    The first token comes of reading the prompt, without a draft. A pass brings its accepted tokens and one more, the last of
    a text fewer where it is cut. Several may have arrived together; then their counts are added up.
    """
    counted, step = [], 0
    for number, part in enumerate(passes):
        left, sums = part.tokens - (number == 0), [0, 0]
        last = number == len(passes) - 1
        while step < len(accepted) and left > 0 and (accepted[step] < left or last):
            left -= accepted[step] + 1
            sums = [sums[0] + drafted[step], sums[1] + accepted[step]]
            step += 1
        is_counted = sums[0] > 0
        counted.append(replace(part, drafted=sums[0], accepted=sums[1]) if is_counted else part)
    if step < len(accepted):
        return list(passes), f"it counts {len(accepted)} drafts, and what arrived has room for {step} of them"
    return counted, None
