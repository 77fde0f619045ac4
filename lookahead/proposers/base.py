"""What every strategy is: something that is told the text so far and returns a draft.

A proposer may keep state between steps (an index, a model's cache) but must cope with a context
that grew by any number of tokens since it was last asked. How much to draft it asks of the pace.
It does not know the target, the clock or the loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..accept import Rule
from ..events import Draft, SettingsError
from ..lm import CachedLM
from ..pace import Auto, Fixed


@dataclass(frozen=True, slots=True)
class Means:
    """What a proposer may use: the rule, a draft model if it needs one, and what a target pass costs."""

    rule: Rule
    draft: CachedLM | None = None
    pass_s: Callable[[int, int], float] = lambda rows, branches: 1.0  # seconds for so many rows in so many branches


class Proposer(ABC):
    """Base of the strategies. `Options` are what a caller may set; `needs_draft` asks for a model."""

    name: ClassVar[str]
    summary: ClassVar[str]
    needs_draft: ClassVar[bool] = False
    draft_model: ClassVar[str | None] = None  # the one draft model it works with; None leaves the choice to the caller

    @dataclass(frozen=True, slots=True)
    class Options:
        """Settings of this strategy alone."""

    def __init__(self, means: Means, options: Any):
        self.rule, self.lm, self.pass_s, self.options = means.rule, means.draft, means.pass_s, options

    def start(self, context: Sequence[int]) -> None:  # noqa: B027 (nothing to do is a fine answer)
        """Read the prompt. Counted as prefill, not on the race clock."""

    @abstractmethod
    def propose(self, context: Sequence[int], room: int, pace: Auto | Fixed) -> Draft:
        """A draft to follow `context`, at most `room` tokens deep, as much of it as `pace` finds worth it."""

    def observe(self, draft: Draft, logits: Any, context: Sequence[int]) -> None:  # noqa: B027
        """See the target's logits [1 + rows, vocab] for a draft, and the context it led to. On the clock."""


def check_range(options: Any, **ranges: tuple[int, int]) -> None:
    """Whole numbers within their ranges, or a `SettingsError`."""
    for name, (low, high) in ranges.items():
        value = getattr(options, name)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise SettingsError(name, value, f"give a whole number from {low:,} to {high:,}.")
