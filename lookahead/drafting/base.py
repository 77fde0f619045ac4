"""The base of all strategies: a drafter gets the text so far and proposes a draft.

A drafter may keep state between passes. The context may have grown by any number of tokens since its last draft. The loop
decides how long a draft may be, and which of its rows are verified.
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

MOST_ROWS = 64
# Techniques that other engines have too: what a method is compared with in the bench (`Drafter.technique`).
NO_DRAFT, DRAFT_MODEL, EAGLE, LOOKUP = "no draft", "draft model", "EAGLE", "lookup"
HEAD_TOKENS = 2.4  # `expected_tokens` of a trained head: it was trained on the hidden states of its target


@dataclass(frozen=True, slots=True)
class Resources:
    """What a drafter may use: the acceptance rule, a draft model if it needs one, and measured costs.

    `pass_s(rows, branches)` returns the seconds of a target pass; `costs` are those of the draft model.
    """

    rule: Rule
    draft: LanguageModel | None = None
    pass_s: Callable[[int, int], float] = lambda rows, branches: 1.0
    costs: DrafterCosts | None = None


class Drafter(ABC):
    """Base of the strategies. `propose` is mandatory, and `observe` if the drafter learns from the target's logits.

    The loop sets `policy` before `start`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    needs_draft: ClassVar[bool] = False  # whether it uses a draft model or a trained head
    draft_model: ClassVar[str | None] = None  # the only draft model it works with; None leaves the choice to the caller
    accepts_head: ClassVar[bool] = False  # whether a trained head may stand in for the draft model
    in_hybrid: ClassVar[bool] = False  # whether `hybrid` uses this strategy with its `draft_model`
    composite: ClassVar[bool] = False  # whether it has several sources, and asks the policy for the limit of each
    candidate: ClassVar[bool] = True  # whether `decide` measures it if no methods are named
    technique: ClassVar[str | None] = None  # what the bench compares it with in other engines; None: with nothing
    expected_tokens: ClassVar[float] = EXPECTED_TOKENS  # per pass, before the first one
    policy: DraftPolicy

    @dataclass(frozen=True, slots=True)
    class Options:
        """Settings of this strategy alone."""

    def __init__(self, resources: Resources, options: Any):
        self.rule, self.lm, self.pass_s, self.options = resources.rule, resources.draft, resources.pass_s, options
        self._costs = resources.costs

    @classmethod
    def level_rows(cls, options: Mapping[str, Any]) -> int:
        """Rows of the draft model's pass for one more level of a draft; 0 without a draft model."""
        return 1 if cls.needs_draft and not cls.composite else 0

    @classmethod
    def text_only(cls) -> bool:
        """Whether it drafts from the text alone, so that its passes can be recomputed from a recording."""
        return not cls.needs_draft and cls.observe is Drafter.observe

    @classmethod
    def fitted(cls, deciding: PassCosts, measured: PassCosts) -> tuple[str, str] | None:
        """What this strategy sets by the pass costs of a machine: its name and value in words; None if nothing."""
        return None

    def sources(self) -> Mapping[str, DraftCost]:
        """What drafts cost, by source; a source that is not named looks its tokens up."""
        rows = self.level_rows(asdict(self.options)) if self._costs else 0
        if not rows:
            return {}
        return {self.name: DraftCost(self._costs.level_s(rows), self._costs.switch_s(1), self.expected_tokens)}

    def start(self, context: Sequence[int]) -> None:  # noqa: B027 (optional)
        """Read the prompt. This counts as prefill, not as drafting."""

    @abstractmethod
    def propose(self, context: Sequence[int], limit: int) -> Draft:
        """Propose a draft after `context`, at most `limit` tokens deep; `limit` is at least 1."""

    def observe(self, draft: Draft, logits: torch.Tensor, context: Sequence[int]) -> None:  # noqa: B027 (optional)
        """Learn from the target's logits [1 + rows, vocab] for a draft, and from the context after it. Counts as drafting."""


def rows_looked_up(longest: int) -> int:
    """Most rows of a looked-up draft of at most `longest` tokens in a chain: leaves room for second choices."""
    return min(2 * longest, MOST_ROWS)


def check_range(options: Any, **ranges: tuple[int, int]) -> None:
    """Raise `SettingsError` unless these options are whole numbers within their ranges."""
    for name, (low, high) in ranges.items():
        whole_number(name, getattr(options, name), low, high)
