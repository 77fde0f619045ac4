"""One interface of a forward pass: transformers' modules (`modules`) and compiled passes (`kernels`) implement it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ..core.lm import DraftRequest, DraftTree
from ..core.tree import ancestor_mask, is_chain
from .cache import KeyValueCache
from .shape import Shape

if TYPE_CHECKING:
    from transformers import PreTrainedModel


EVERY = slice(None)


class Part(NamedTuple):
    """The rows of one text in a pass."""

    tokens: Sequence[int]
    positions: torch.Tensor | slice
    cache: KeyValueCache
    rows: Any


# Each returns the passes of a transformers model, or None for a model that it does not compute. `kernels` appends one.
IMPLEMENTATIONS: list[Callable[[PreTrainedModel], Forward | None]] = []


class Forward(ABC):
    """The passes of one model. Its weights are shared by all who hold it; a cache belongs to one lane."""

    shape: Shape
    copies = 0  # bytes of weights packed for kernels, in addition to the model's own
    batch_invariant = False  # whether a row's bits cannot depend on its company
    batches = False  # whether one pass takes rows of several texts
    int8 = False  # whether passes of few rows read weights in eight bits

    @property
    @abstractmethod
    def model(self) -> PreTrainedModel:
        """transformers' model of the same weights."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """The number format of weights and logits."""

    @property
    @abstractmethod
    def tables(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The embedding and the output head, [vocab, hidden] each; often the same tensor."""

    @property
    def device(self) -> torch.device:
        """Where ids go and logits come from."""
        return torch.device("cpu")

    @property
    def devices(self) -> set[str]:
        """Where its layers lie."""
        return {str(self.device)}

    @abstractmethod
    def new_cache(self) -> KeyValueCache:
        """An empty cache for its layers."""

    def lay_out(self, parents: Sequence[int], base: int, first: int, cache: KeyValueCache) -> Any:
        """Make the cache ready for the rows from `first` on of a pass after `base` tokens; returns the `rows` of the pass.

        Here an additive mask [1, 1, rows, base + rows], in which a row sees the cache and its ancestors; None for a chain.
        """
        if is_chain(parents):
            return None
        seen = torch.tensor(ancestor_mask(parents)[first:], device=self.device)
        mask = torch.zeros(len(seen), base + len(parents), dtype=self.dtype, device=self.device)
        mask[:, base:].masked_fill_(~seen, torch.finfo(self.dtype).min)
        return mask[None, None]

    @abstractmethod
    def __call__(
        self, ids: torch.Tensor, positions: torch.Tensor | slice, cache: KeyValueCache, rows: Any, only: slice = EVERY
    ) -> torch.Tensor:  # fmt: skip
        """Logits [rows, vocab], or of the rows in `only`, for ids [rows] at positions [rows], a slice for a chain."""

    def together(self, parts: Sequence[Part]) -> list[torch.Tensor]:
        """Logits [rows, vocab] of each text's rows: of one pass if it `batches`, then in float32; else of one pass per text."""
        return [self(torch.tensor(part.tokens, device=self.device), *part[1:]) for part in parts]

    def chain(
        self, ids: Sequence[int], base: int, cache: KeyValueCache, request: DraftRequest
    ) -> tuple[list[int], list[float]] | None:
        """Read ids after `base` cached tokens and draft after them in one call: tokens and confidences. None if not compiled."""
        return None

    def tree(
        self, ids: Sequence[int], base: int, cache: KeyValueCache, request: DraftRequest, branches: int, rows: int
    ) -> DraftTree | None:
        """The same of a tree of at most so many `rows`, `branches` of them a level."""
        return None

    def head_passes(self, network: torch.nn.Module) -> Any | None:
        """The compiled passes of a trained head of this model; None if they are not compiled."""
        return None

    @abstractmethod
    def first(self, layers: int) -> Forward:
        """The model of the first layers, with the same norm and head: the same tensors, nothing copied (layer skip)."""

    def for_drafting(self) -> Forward:
        """The same model for a drafter, whose numbers may be rounded otherwise where that is quicker."""
        return self

    @abstractmethod
    def converted(self, dtype: torch.dtype) -> Forward:
        """The same model with weights in another number format."""

    @abstractmethod
    def parameters(self) -> Iterable[torch.Tensor]:
        """Its weights, each tensor once."""

    @property
    @abstractmethod
    def read_bytes(self) -> int:
        """What a pass reads: all weights, but of an embedding that is not the head's too only the rows it looks up."""

    def parts(self, cached: int) -> Sequence[Callable[[], object]] | None:
        """What a one-row pass after `cached` tokens computes, to be timed alone: the products of all layers, their attention, and
        the output head. None if it cannot be taken apart."""
        return None

    @property
    def size(self) -> int:
        """How many numbers its weights hold."""
        return sum(weight.numel() for weight in self.parameters())

    @property
    def nbytes(self) -> int:
        """Bytes of its weights."""
        return sum(weight.nbytes for weight in self.parameters())
