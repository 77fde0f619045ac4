"""What every strategy is: something that is told the text so far and returns a draft.

A proposer may keep state between steps (an index, a model's cache) but must cope with a context
that grew by any number of tokens since it was last asked. It does not know the target, the clock
or the loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..accept import Rule
from ..events import Draft
from ..lm import CachedLM


class Proposer(ABC):
    """Base of the strategies. `Options` are what a caller may set; `needs_draft` asks for a model."""

    name: ClassVar[str]
    summary: ClassVar[str]
    needs_draft: ClassVar[bool] = False

    @dataclass(frozen=True, slots=True)
    class Options:
        """Settings of this strategy alone."""

    def __init__(self, rule: Rule, draft: CachedLM | None, options: Any):
        self.rule, self.lm, self.options = rule, draft, options

    def start(self, context: Sequence[int]) -> None:  # noqa: B027 (nothing to do is a fine answer)
        """Read the prompt. Counted as prefill, not on the race clock."""

    @abstractmethod
    def propose(self, context: Sequence[int], budget: int) -> Draft:
        """A draft to follow `context`, at most `budget` tokens deep."""
