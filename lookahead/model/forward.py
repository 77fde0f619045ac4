"""The interface of a forward pass. transformers' modules (`modules`) and compiled passes (`kernels`) implement it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ..core.lm import DraftRequest, DraftTree
from ..core.numbers import counted
from ..core.tree import ancestor_mask, is_chain
from .cache import KeyValueCache
from .shape import Shape

if TYPE_CHECKING:
    from transformers import PreTrainedModel


ALL_ROWS = slice(None)


class Part(NamedTuple):
    """The rows of one text in a pass."""

    tokens: Sequence[int]
    positions: torch.Tensor | slice
    cache: KeyValueCache
    rows: Any


class Rollback(NamedTuple):
    """How rejected rows leave a model's cache: its layers with keys, those of them with a sliding window, and recurrent layers.

    `row_by_row` is set if recurrent layers compute the rows of a pass one after the other, and `by_paths` if a tree is a batch
    of its paths (`model.paths`).
    """

    keys: int
    windows: int = 0
    recurrent: int = 0
    row_by_row: bool = False
    by_paths: bool = False

    @property
    def sentence(self) -> str:
        """The rollback in words; the Models tab shows it."""
        parts = []
        if self.keys:
            parts.append("The keys and values of rejected tokens are cut from the cache.")
        if self.windows:
            parts.append(
                f"{counted(self.windows, 'layer')} of {self.keys} attend to a window of the newest tokens; older keys are masked."
            )
        if self.recurrent:
            parts.append(
                f"The states of {counted(self.recurrent, 'recurrent layer')} cannot be cut. After a rejection, a snapshot is restored. "
                "The next pass reads the accepted tokens again."
            )
        if self.row_by_row:
            parts.append("These layers compute the rows of a pass one by one, so drafts save little time.")
        if self.by_paths:
            parts.append(
                "Its attention computes only chains. A tree is computed as one chain per branch, so it costs more than its rows."
            )
        return " ".join(parts)


class Mixture(NamedTuple):
    """The layers of a mixture of experts, the experts of each layer, and those that one row activates."""

    layers: int
    total: int
    per_row: int


# Each function returns the passes of a transformers model, or None if it does not support the model. `kernels` appends one.
IMPLEMENTATIONS: list[Callable[[PreTrainedModel], Forward | None]] = []


class Forward(ABC):
    """The passes of one model. Lanes share the weights; each lane has its own cache."""

    shape: Shape
    copies = 0  # bytes of weights packed for kernels, in addition to the model's own
    batch_invariant = False  # whether no bit of a row depends on the other rows of its pass
    batches = False  # whether one pass can have rows of several texts
    is_plain = True  # whether every layer of the cache has keys and values only, of the whole text
    int8 = False  # whether passes of few rows read int8 weights

    @property
    @abstractmethod
    def model(self) -> PreTrainedModel:
        """transformers' model with the same weights."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """The number format of weights and logits."""

    @property
    @abstractmethod
    def tables(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The embedding and the output head, each [vocab, hidden]; often the same tensor."""

    @property
    def rollback(self) -> Rollback:
        """How the cache is rolled back; by default, every layer has keys and values only."""
        return Rollback(self.shape.layers)

    @property
    def mixture(self) -> Mixture | None:
        """The sizes of a mixture of experts, after the first pass; None if it has none or does not report them."""
        return None

    @property
    def device(self) -> torch.device:
        """The device of ids and logits."""
        return torch.device("cpu")

    @property
    def devices(self) -> set[str]:
        """The names of the devices of the layers."""
        return {str(self.device)}

    @abstractmethod
    def new_cache(self) -> KeyValueCache:
        """Return an empty cache for the model's layers."""

    def prepare_rows(self, parents: Sequence[int], base: int, first: int, cache: KeyValueCache) -> Any:
        """Prepare the cache for the rows from `first` on of a pass after `base` tokens; return the `rows` argument of the pass.

        By default it is an additive mask [1, 1, rows, base + rows], or None for a chain. A row attends to the cache and to its
        ancestors.
        """
        if is_chain(parents):
            return None
        visible = torch.tensor(ancestor_mask(parents)[first:], device=self.device)
        mask = torch.zeros(len(visible), base + len(parents), dtype=self.dtype, device=self.device)
        mask[:, base:].masked_fill_(~visible, torch.finfo(self.dtype).min)
        return mask[None, None]

    @abstractmethod
    def __call__(
        self, ids: torch.Tensor, positions: torch.Tensor | slice, cache: KeyValueCache, rows: Any, only: slice = ALL_ROWS
    ) -> torch.Tensor:  # fmt: skip
        """Return logits [rows, vocab] of the rows in `only`, for ids [rows] at positions [rows], a slice for chains."""

    def forward_batch(self, parts: Sequence[Part]) -> list[torch.Tensor]:
        """Return logits [rows, vocab] for each part. If the model `batches`, it runs one pass and the logits are float32."""
        return [self(torch.tensor(part.tokens, device=self.device), *part[1:]) for part in parts]

    def tree(
        self, ids: Sequence[int], base: int, cache: KeyValueCache, request: DraftRequest, branches: int, rows: int
    ) -> DraftTree | None:
        """Append ids and draft a tree of at most `rows` rows, `branches` per level; return None if not compiled."""
        return None

    def head_passes(self, network: torch.nn.Module) -> Any | None:
        """Return the compiled passes of a trained head for this model, or None without such an implementation."""
        return None

    @abstractmethod
    def first(self, layers: int) -> Forward:
        """Return the model of the first `layers` layers, with the same norm and output head (layer skip). Tensors are shared."""

    def for_drafting(self) -> Forward:
        """Return the model for use as a drafter, with other rounding if that is faster."""
        return self

    @abstractmethod
    def converted(self, dtype: torch.dtype) -> Forward:
        """Return the model with weights in another number format."""

    @abstractmethod
    def parameters(self) -> Iterable[torch.Tensor]:
        """Return the weights, each tensor once."""

    @property
    @abstractmethod
    def read_bytes(self) -> int:
        """Bytes of weights that a pass reads. An embedding that is not also the output head is not counted."""

    def parts(self, cached: int) -> Sequence[Callable[[], object]] | None:
        """Return the parts of a one-row pass after `cached` tokens, to be timed separately; None if they cannot be separated.

        The parts are the matrix products of all layers, their attention, and the output head.
        """
        return None

    @property
    def size(self) -> int:
        """The number of weights."""
        return sum(weight.numel() for weight in self.parameters())

    @property
    def nbytes(self) -> int:
        """The bytes of the weights."""
        return sum(weight.nbytes for weight in self.parameters())
