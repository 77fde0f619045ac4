"""The protocol of a language model. `model/lm.py` implements it, `model/heads/head.py` for heads, `core/table.py` for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from .policy import StopRule

if TYPE_CHECKING:
    import torch

    from .accept import Pick, Rule, Scores

PREFILL_ROWS = 256  # of a pass that reads a prompt: half a second of SmolLM2, after which a race can be stopped
DRAFTED_AT_ONCE = 8  # tokens per call of `draft_chain`: noise is drawn for all of them, also if fewer are drafted


@dataclass(frozen=True, slots=True)
class DraftRequest:
    """What to draft in one call: at most `most` tokens of the first `known` of the vocabulary, picked by `scores`.

    `stop` gets the product of confidences, which begins at `reach`. A drafter of only some tokens has their `ids` [known].
    """

    most: int
    known: int
    scores: Scores
    stop: StopRule
    reach: float = 1.0
    ids: torch.Tensor | None = None

    def limited_to(self, ids: torch.Tensor | None) -> DraftRequest:
        """The same request to a drafter of these tokens; None for all."""
        if ids is None:
            return self
        noise = None if self.scores.noise is None else self.scores.noise[:, ids].contiguous()
        return replace(self, known=len(ids), scores=replace(self.scores, noise=noise), ids=ids)


class DraftTree(NamedTuple):
    """A tree drafted in one call: tokens, parents (-1: the text's last token), and confidences.

    The keys of the first `read` tokens are in the drafter's cache, after its text.
    """

    tokens: list[int]
    parents: list[int]
    confidences: list[float]
    read: int = 0


class LanguageModel(Protocol):
    """A model with a cache. `tokens` is what the cache holds, and `vocab` the width of its logits."""

    tokens: list[int]
    vocab: int
    context_length: int
    longest: int  # tokens that it can draft in a row
    confidence: float | None  # of its last drafted token; None if that is the token's probability
    kind: str | None  # of trained head, such as "eagle"; None for a language model
    seconds: float  # spent in passes so far

    def reset(self) -> None:
        """Empty the cache."""

    def sync(self, context: Sequence[int]) -> list[int]:
        """Rewind to the longest prefix shared with `context`; returns the tokens that are still to be read."""

    def extend(self, tokens: Sequence[int]) -> torch.Tensor:
        """Append tokens; returns the logits [1, vocab] after the last one."""

    def forward(self, tokens: Sequence[int], parents: Sequence[int], *, first: int = 0) -> torch.Tensor:
        """Run rows of a tree after the cache; returns logits [rows - first, vocab]. The rows stay pending until `keep`."""

    def keep(self, path: Sequence[int]) -> None:
        """Commit the rows in `path` to the cache and drop all other rows of the last pass."""

    def cached(self) -> int:
        """How many tokens the cache holds."""

    def draft_chain(self, tokens: Sequence[int], request: DraftRequest) -> tuple[list[int], list[float]] | None:
        """Append tokens and draft after them in one call: drafted tokens and confidences. None if there is no such call."""

    def draft_tree(self, tokens: Sequence[int], request: DraftRequest, branches: int, rows: int) -> DraftTree | None:
        """Append tokens and draft a tree of at most `rows` rows after them, `branches` per level. None as above."""


class Target(LanguageModel, Protocol):
    """A model that verifies drafts."""

    batches: bool  # whether one pass takes rows of several texts

    def can_take(self, other: Any) -> bool:
        """Whether the cache of `other` holds what this model would have computed for the same tokens."""

    def take(self, other: Any) -> None:
        """Copy the cache of another one instead of reading its tokens."""

    def together(self, lms: Sequence[Any], rows: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[torch.Tensor]:
        """`forward` of several texts that share this model, of (tokens, parents) each."""

    def configured(self, draft: Any, drafting: Mapping[str, Any], attention: str | None) -> Any:
        """A context in which transformers' models have these settings; see `model/lm.py`."""

    def read_plainly(self, tokens: Sequence[int]) -> None:
        """One pass of transformers' model over these tokens."""

    def generate(self, prompt: Sequence[int], emit: Callable[[list[int]], None], *given: Any, **options: Any) -> None:
        """transformers' own `generate`; `emit` gets the tokens of each pass."""


def draft_tokens(
    lm: LanguageModel,
    rule: Rule,
    unread: Sequence[int],
    text: Sequence[int],
    most: int,
    stop: StopRule,
    reach: float = 1.0,
) -> list[Pick]:
    """Draft 1 to `most` tokens after `text`, whose last tokens `unread` the model has yet to read.

    In one call of `draft_chain` if the rule needs nothing but logits and the model has that call; else one token.
    """
    most = min(most, DRAFTED_AT_ONCE)
    scores = rule.scores(len(text), most, lm.vocab)
    if scores and (drafted := lm.draft_chain(unread, DraftRequest(most, lm.vocab, scores, stop, reach))):
        from .accept import Pick  # imports torch, and the loading page reads recordings without it

        return [Pick(token, chance) for token, chance in zip(*drafted, strict=True)]
    return [rule.choose(lm.extend(unread)[0], text, lm.confidence)]
