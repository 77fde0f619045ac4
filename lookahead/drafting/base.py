"""The base class of all strategies: a drafter reads the text so far and proposes a draft.

A drafter may keep state between passes. Between two drafts the context may grow by any number of tokens. The draft length
policy limits the length of a draft and selects the rows that are verified.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ..core.costs import DrafterCosts, PassCosts
from ..core.events import Draft, whole_number
from ..core.lm import LanguageModel
from ..core.policy import EXPECTED_TOKENS, DraftCost, DraftPolicy

if TYPE_CHECKING:
    import torch

    from ..core.accept import Rule

MAX_ROWS = 64
# Techniques of other engines with which the bench compares a method (`Drafter.technique`).
NO_DRAFT, DRAFT_MODEL, EAGLE, LOOKUP = "no draft", "draft model", "EAGLE", "lookup"
HEAD_TOKENS = 2.4  # `expected_tokens` of a trained head, which was trained on the hidden states of its target


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of a drafter: the acceptance rule, a draft model if it needs one, and measured costs.

    `pass_s(rows, branches)` returns the seconds of a target pass; `costs` are those of the draft model.
    """

    rule: Rule
    draft: LanguageModel | None = None
    pass_s: Callable[[int, int], float] = lambda rows, branches: 1.0
    costs: DrafterCosts | None = None


class Drafter(ABC):
    """The base class of the strategies. A subclass defines `propose`, and `observe` if it uses the target's logits.

    The loop sets `policy` before it calls `start`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    needs_draft: ClassVar[bool] = False  # whether it drafts with a draft model or a trained head
    draft_model: ClassVar[str | None] = None  # the only draft model that it accepts; None for any
    accepts_head: ClassVar[bool] = False  # whether a trained head may replace the draft model
    in_hybrid: ClassVar[bool] = False  # whether `hybrid` uses this strategy with its `draft_model`
    composite: ClassVar[bool] = False  # whether it has several sources, each with its own limit
    needs_schema: ClassVar[bool] = False  # whether it drafts nothing without a schema
    candidate: ClassVar[bool] = True  # whether `decide` measures it by default
    technique: ClassVar[str | None] = None  # technique of other engines to compare with in the bench
    expected_tokens: ClassVar[float] = EXPECTED_TOKENS  # initial estimate of tokens per pass
    policy: DraftPolicy
    lm: Any  # a `LanguageModel`, or None if the strategy needs none

    @dataclass(frozen=True, slots=True)
    class Options:
        """The options of this strategy."""

    def __init__(self, resources: Resources, options: Any):
        self.rule, self.lm, self.pass_s, self.options = resources.rule, resources.draft, resources.pass_s, options
        self._costs = resources.costs

    @classmethod
    def level_rows(cls, options: Mapping[str, Any]) -> int:
        """Return the rows of the draft model's pass for one more level of a draft; 0 without a draft model."""
        return 1 if cls.needs_draft and not cls.composite else 0

    @classmethod
    def text_only(cls) -> bool:
        """Return whether it drafts from the text alone, so that its passes can be recomputed from a recording."""
        return not cls.needs_draft and cls.observe is Drafter.observe

    @classmethod
    def fitted(cls, deciding: PassCosts, measured: PassCosts) -> tuple[str, str] | None:
        """Return the label and the value of a setting that depends on the machine's pass costs; None without such a setting."""
        return None

    def sources(self) -> Mapping[str, DraftCost]:
        """Return the costs of drafts by source. A source without an entry is a lookup."""
        rows = self.level_rows(asdict(self.options)) if self._costs else 0
        if not rows:
            return {}
        return {self.name: DraftCost(self._costs.level_s(rows), self._costs.switch_s(1), self.expected_tokens)}

    def start(self, context: Sequence[int]) -> None:  # noqa: B027 (optional)
        """Read the prompt. Its time counts as prefill, not as drafting."""

    @abstractmethod
    def propose(self, context: Sequence[int], limit: int) -> Draft:
        """Return a draft after `context` with a depth of at most `limit` tokens. `limit` is at least 1."""

    def observe(self, draft: Draft, logits: torch.Tensor, context: Sequence[int]) -> None:  # noqa: B027 (optional)
        """Use the target's logits [1 + rows, vocab] for a draft, and the context after it. The time counts as drafting."""


def rows_looked_up(longest: int) -> int:
    """Return the most rows of a looked-up draft of depth `longest`: twice as many, because of alternatives."""
    return min(2 * longest, MAX_ROWS)


def check_range(options: Any, **ranges: tuple[int, int]) -> None:
    """Raise `SettingsError` unless these options are whole numbers in their ranges."""
    for name, (low, high) in ranges.items():
        whole_number(name, getattr(options, name), low, high)
