"""CachedLM: a transformers causal LM, its key-value cache, and the way back.

Three moves: `forward` runs rows (a chain or a tree) behind what is cached, `keep` makes one path
of them permanent and drops the rest, `sync` rewinds to whatever the cache and a context have in
common. Every lane owns a CachedLM; lanes may share the model's weights. An interrupted pass
leaves nothing behind: the next move rewinds to the last kept token.

Knows token ids. It does not know which strategy is running, nor what a good draft is.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import torch
from transformers import PreTrainedModel

from . import attention
from .cache import new_cache, room_for
from .llama import fused
from .quick import QuickLlama, quick
from .tree import ancestor_mask, depths, is_chain

PREFILL_ROWS = 512
EVERY = slice(None)
PATIENCE = 8  # passes with buffers longer than needed before they are cut


class CachedLM:
    """One model with one cache. `tokens` is what the cache holds; `vocab` cuts padded logits.

    `exact=False` is for a drafter: its numbers may be rounded otherwise where that is quicker.
    """

    def __init__(self, model: PreTrainedModel, vocab: int | None = None, exact: bool = True):
        config = model.config.get_text_config()
        self.model = model
        self.vocab = vocab or config.vocab_size
        self.context_length = getattr(config, "max_position_embeddings", None) or 1 << 20
        self.device = model.device
        self.by_branch = model.config._attn_implementation == attention.BY_BRANCH
        self._fused = (fused if exact else quick)(model) if self.by_branch else None
        self.tokens: list[int] = []
        self.seconds = 0.0  # spent in passes so far: positions, mask and model
        self._rows: list[int] = []  # tokens of the pass that no keep() has settled yet
        self.cache = new_cache(model, self.by_branch)
        self._room = self._roomy = 0  # length of the cache's buffers, and passes for which it was too much

    @property
    def eight_bits(self) -> int:
        """Bytes of the 8-bit weights that passes of a few rows read; 0 where all passes read the model's own."""
        return self._fused.nbytes if isinstance(self._fused, QuickLlama) else 0

    def reset(self) -> None:
        """Forget everything."""
        self.tokens, self._rows, self._room, self._roomy = [], [], 0, 0
        self.cache = new_cache(self.model, self.by_branch)

    def synchronize(self) -> None:
        """Wait for the device, so that a clock read next measures finished work (`forward` does)."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    @torch.inference_mode()
    def forward(
        self, tokens: Sequence[int], parents: Sequence[int] | None = None, only: slice = EVERY, first: int = 0
    ) -> torch.Tensor:
        """Run rows behind the cache; returns logits [rows, vocab], or of the rows in `only`.

        `parents[i]` is the row that row i continues, -1 the last cached token; None is a chain.
        The rows stay pending until `keep` says which of them were worth it. A pass may continue the one before:
        the rows before `first` are then that one's, and only the others are run and answered for.
        """
        start = perf_counter()
        base = len(self.tokens)
        self._rewind(base + first)
        chain = parents is None or is_chain(parents)
        self._rows = list(tokens)
        ids = torch.tensor(self._rows[first:], device=self.device)
        if chain:
            positions = slice(base + first, base + len(tokens))
        else:
            positions = torch.tensor(depths(parents)[first:], device=self.device) + (base - 1)
        if self.by_branch:
            self._make_room(base + len(tokens) + (0 if chain else attention.room_of_tree(len(tokens))))
            if chain:
                rows = attention.layout(len(tokens) - first, None, base + first, self._room, self.device)
            else:
                rows = attention.layout(len(tokens), parents, base, self._room, self.device, first)
        if self._fused:
            out = self._fused(ids, positions, self.cache, rows, only)
        elif self.by_branch:
            out = self._through_transformers(ids, positions, only, rows=rows, attention_mask=rows.later[None, None])
        else:
            mask = {} if chain else {"attention_mask": self._mask(parents, base)[:, :, first:]}
            out = self._through_transformers(ids, positions, only, **mask)
        self.synchronize()
        self.seconds += perf_counter() - start
        return out[:, : self.vocab]

    def _through_transformers(self, ids: torch.Tensor, positions: torch.Tensor | slice, only: slice, **attending):
        """The same pass by the model's own forward."""
        if isinstance(positions, slice):
            positions = torch.arange(positions.start, positions.stop, device=self.device)
        return self.model(
            input_ids=ids[None],
            position_ids=positions[None],
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=only,  # a slice, for rows may end on another GPU than they began on
            **attending,
        ).logits[0]

    def _make_room(self, columns: int) -> None:
        """Long enough buffers; too long ones, whose emptiness costs time too, are cut after a while."""
        room = room_for(columns)
        self._roomy = 0 if room >= self._room else self._roomy + 1
        if room > self._room or self._roomy > PATIENCE:
            self._room = room
        for layer in self.cache.layers:
            layer.room = self._room

    def _mask(self, parents: Sequence[int], base: int) -> torch.Tensor:
        """Additive mask [1, 1, rows, base + rows]: the whole cache, then only ancestors."""
        dtype = self.model.dtype
        seen = torch.tensor(ancestor_mask(parents), device=self.device)
        mask = torch.zeros(len(parents), base + len(parents), dtype=dtype, device=self.device)
        mask[:, base:].masked_fill_(~seen, torch.finfo(dtype).min)
        return mask[None, None]

    def keep(self, path: Sequence[int]) -> None:
        """Make the rows in `path` (in order) part of the cache; drop the other rows of the pass."""
        base = len(self.tokens)
        if any(row != i for i, row in enumerate(path)):
            with torch.inference_mode():
                rows = torch.tensor(path, device=self.device) + base
                for layer in self.cache.layers:
                    layer.gather(base, rows)
        self.tokens += [self._rows[row] for row in path]
        self._rewind(len(self.tokens))

    def extend(self, tokens: Sequence[int]) -> torch.Tensor:
        """Append a chain for good; returns the logits [1, vocab] behind its last token."""
        for start in range(0, len(tokens), PREFILL_ROWS):
            chunk = list(tokens[start : start + PREFILL_ROWS])
            logits = self.forward(self._filled(chunk), only=slice(len(chunk) - 1, len(chunk)))
            self.keep(range(len(chunk)))
        return logits

    def _filled(self, chunk: list[int]) -> list[int]:
        """The chunk with rows behind it that nobody looks at, up to a power of two.

        The CPU's kernels are compiled per row count: a count never seen would cost more than these rows.
        """
        size = 1 << (len(chunk) - 1).bit_length()
        if not self.by_branch or len(self.tokens) + size > self.context_length:
            return chunk
        return chunk + chunk[-1:] * (size - len(chunk))

    def sync(self, context: Sequence[int]) -> list[int]:
        """Rewind to the longest prefix shared with `context`; returns what is still to be fed.

        At least the last token is left to feed, so that its logits can be had.
        """
        shared, limit = 0, min(len(self.tokens), len(context) - 1)
        if self.tokens[:limit] == list(context[:limit]):
            shared = limit
        else:
            while self.tokens[shared] == context[shared]:
                shared += 1
        del self.tokens[shared:]
        self._rewind(shared)
        return list(context[shared:])

    def _rewind(self, length: int) -> None:
        """Cut every layer back to `length` tokens, also after a pass that broke off half way."""
        self._rows = []
        for layer in self.cache.layers:
            layer.length = min(layer.length, length)

    def cached(self) -> int:
        """How many tokens the cache itself says it holds, every layer alike."""
        lengths = {layer.length for layer in self.cache.layers}
        assert len(lengths) == 1, "all layers hold the same tokens"
        return lengths.pop()
