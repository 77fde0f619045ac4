"""What every strategy is: a drafter, which gets the text so far and returns a draft.

A drafter may keep state between passes (an index, a model's cache) but must cope with a context
that grew by any number of tokens since its last draft. How much to draft the policy decides.
It does not know the target, the clock or the loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..core.accept import Rule
from ..core.events import Draft, whole_number
from ..model.heads.head import CachedHead
from ..model.lm import CachedLM
from .draft_length import DraftLength

MOST_ROWS = 64


@dataclass(frozen=True, slots=True)
class Resources:
    """What a drafter may use: the rule, a draft model if it needs one, and what a target pass costs."""

    rule: Rule
    draft: CachedLM | CachedHead | None = None
    pass_s: Callable[[int, int], float] = lambda rows, branches: 1.0  # seconds for so many rows in so many branches


class Drafter(ABC):
    """Base of the strategies. `Options` are what a caller may set; `needs_draft` asks for a model."""

    name: ClassVar[str]
    summary: ClassVar[str]
    needs_draft: ClassVar[bool] = False
    draft_model: ClassVar[str | None] = None  # the one draft model it works with; None leaves the choice to the caller
    heads_too: ClassVar[bool] = False  # whether a trained head serves it as well as a draft model

    @dataclass(frozen=True, slots=True)
    class Options:
        """Settings of this strategy alone."""

    def __init__(self, resources: Resources, options: Any):
        self.rule, self.lm, self.pass_s, self.options = resources.rule, resources.draft, resources.pass_s, options

    def start(self, context: Sequence[int]) -> None:  # noqa: B027 (nothing to do is a fine answer)
        """Read the prompt. Counted as prefill, not on the race clock."""

    @abstractmethod
    def propose(self, context: Sequence[int], room: int, policy: DraftLength) -> Draft:
        """A draft to follow `context`, at most `room` tokens deep, as much of it as `policy` finds worth it."""

    def observe(self, draft: Draft, logits: Any, context: Sequence[int]) -> None:  # noqa: B027
        """See the target's logits [1 + rows, vocab] for a draft, and the context it led to. On the clock."""


def rows_looked_up(longest: int) -> int:
    """Most rows of a draft that is looked up, of at most `longest` tokens in a chain: room for second choices."""
    return min(2 * longest, MOST_ROWS)


def check_range(options: Any, **ranges: tuple[int, int]) -> None:
    """Whole numbers within their ranges, or a `SettingsError`."""
    for name, (low, high) in ranges.items():
        whole_number(name, getattr(options, name), low, high)
