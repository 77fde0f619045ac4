"""The protocol of a language model, implemented in `model/lm.py`, `model/heads/head.py` and `core/table.py` (tests)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from .policy import StopRule

if TYPE_CHECKING:
    import torch

    from .accept import Pick, Rule, Scores
    from .events import Translation

PREFILL_ROWS = 256  # rows per prefill pass, about 0.5 s with SmolLM2; a race can be stopped between passes
DRAFTED_AT_ONCE = 8  # tokens per call of `draft_chain`, which draws noise for all of them


@dataclass(frozen=True, slots=True)
class DraftRequest:
    """A request to draft at most `max_tokens` tokens in one call, picked by `scores` from the drafter's first `output_vocab` tokens.

    `stop` gets the product of confidences, which begins at `reach`. If the drafter has a reduced vocabulary,
    `ids` [output_vocab] maps its tokens to the target's ids.
    """

    max_tokens: int
    output_vocab: int
    scores: Scores
    stop: StopRule
    reach: float = 1.0
    ids: torch.Tensor | None = None

    def limited_to(self, ids: torch.Tensor | None) -> DraftRequest:
        """Return the same request for a drafter that has only the tokens `ids`; None for all."""
        if ids is None:
            return self
        noise = None if self.scores.noise is None else self.scores.noise[:, ids].contiguous()
        return replace(self, output_vocab=len(ids), scores=replace(self.scores, noise=noise), ids=ids)


class DraftTree(NamedTuple):
    """A tree drafted in one call: tokens, parents (-1: the text's last token), and confidences.

    The drafter's cache holds the first `read` of these tokens after the text.
    """

    tokens: list[int]
    parents: list[int]
    confidences: list[float]
    read: int = 0


class LanguageModel(Protocol):
    """A model with a cache. `tokens` are the tokens in the cache, and `vocab` is the width of the logits."""

    tokens: list[int]
    vocab: int
    context_length: int
    longest: int  # most tokens that it can draft for one pass
    confidence: float | None  # of the last drafted token; None if it is the token's probability
    kind: str | None  # kind of trained head, such as "eagle"; None for a language model
    translation: Translation | None  # of the last draft, if the model has another tokenizer than its target
    seconds: float  # of all passes so far

    def reset(self) -> None:
        """Empty the cache."""

    def sync(self, context: Sequence[int]) -> list[int]:
        """Rewind to the longest prefix shared with `context`; return the tokens of `context` that are not in the cache."""

    def extend(self, tokens: Sequence[int]) -> torch.Tensor:
        """Append tokens; return the logits [1, vocab] after the last one."""

    def forward(self, tokens: Sequence[int], parents: Sequence[int], *, first: int = 0) -> torch.Tensor:
        """Compute the rows of a tree after the cache; return logits [rows - first, vocab]. The rows are pending until `keep`."""

    def keep(self, path: Sequence[int]) -> None:
        """Commit the rows in `path` to the cache and drop all other rows of the last pass."""

    def cached(self) -> int:
        """Return the number of tokens in the cache."""

    def draft_chain(self, tokens: Sequence[int], request: DraftRequest) -> tuple[list[int], list[float]] | None:
        """Append tokens and draft after them in one call; return tokens and confidences, or None if this is not supported."""

    def draft_tree(self, tokens: Sequence[int], request: DraftRequest, branches: int, rows: int) -> DraftTree | None:
        """Append tokens and draft a tree of at most `rows` rows after them, `branches` per level; None if not supported."""


class Target(LanguageModel, Protocol):
    """A model that verifies drafts."""

    @property
    def batches(self) -> bool:
        """Whether one pass can have rows of several texts."""

    @property
    def activated_experts(self) -> float | None:
        """The distinct experts that the rows of the last pass activated, per layer on average; None without experts."""

    def can_copy_from(self, other: Any) -> bool:
        """Return whether the cache of `other` can be copied, because this model would compute the same values."""

    def copy_from(self, other: Any) -> None:
        """Copy the cache of `other` instead of reading its tokens."""

    def forward_batch(
        self, lms: Sequence[Any], rows: Sequence[tuple[Sequence[int], Sequence[int]]]
    ) -> list[torch.Tensor]:
        """Run one pass for several texts with (tokens, parents) each; return the logits [rows, vocab] of each text."""

    def configured(self, draft: Any, drafting: Mapping[str, Any], attention: str | None) -> Any:
        """Return a context in which transformers' models have these settings; see `model/lm.py`."""

    def read_with_transformers(self, tokens: Sequence[int]) -> None:
        """Compute one pass of transformers' model over these tokens."""

    def generate(self, prompt: Sequence[int], emit: Callable[[list[int]], None], *args: Any, **options: Any) -> None:
        """Run transformers' own `generate`; `emit` gets the tokens of each pass."""


def draft_tokens(
    lm: LanguageModel,
    rule: Rule,
    unread: Sequence[int],
    text: Sequence[int],
    max_tokens: int,
    stop: StopRule,
    reach: float = 1,
) -> list[Pick]:
    """Return up to `max_tokens` drafted tokens after `text`, whose last tokens `unread` are not in the model's cache yet.

    One call of `draft_chain` drafts them if the rule needs only logits and the model supports it. Otherwise one token is
    drafted. A model may draft none if it has another tokenizer, or none of the tokens that a schema allows.
    """
    max_tokens = min(max_tokens, DRAFTED_AT_ONCE)
    scores = rule.scores(text, max_tokens, lm.vocab)
    if scores and (drafted := lm.draft_chain(unread, DraftRequest(max_tokens, lm.vocab, scores, stop, reach))):
        from .accept import Pick  # imports torch; the loading page reads recordings without it

        return [Pick(token, chance) for token, chance in zip(*drafted, strict=True)]
    pick = rule.choose(lm.extend(unread)[0], text, lm.confidence)
    return [pick] if pick else []
