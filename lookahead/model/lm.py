"""CachedLM: a causal language model with a key-value cache that can be rolled back.

`forward` runs rows (a chain or a tree) after the cached tokens, `keep` commits one path of them and drops the rest, `sync`
rewinds to the longest prefix that the cache and a context share. Every lane has a CachedLM; lanes may share the model's passes,
and with them its weights. An interrupted pass leaves nothing in the cache: the next call rewinds to the last kept token.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING

import torch

from ..core.lm import PREFILL_ROWS, DraftRequest, DraftTree
from ..core.tree import depths, is_chain
from .forward import EVERY, Forward, Part
from .generate import GenerateMixin

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class CachedLM(GenerateMixin):
    """One model with one cache. `tokens` is what the cache holds; `vocab` cuts padded logits.

    With `exact=False`, for a drafter, weights may be rounded if that is faster. With `reads_all`, ids without an embedding are
    read as the last id; without it they raise `IndexError`.
    """

    longest = 1 << 20  # tokens that it can draft in a row
    kind: str | None = None  # of trained head
    confidence: float | None = None  # how likely its last token is accepted, where that is not its probability

    def __init__(
        self,
        model: Forward | PreTrainedModel,
        vocab: int | None = None,
        exact: bool = True,
        reads_all: bool = False,
    ):
        if not isinstance(model, Forward):
            from .modules import of  # transformers' models take seconds to import; who has one has them already

            model = of(model)
        self.passes = model if exact else model.for_drafting()
        self.vocab, self.reads_all = vocab or self.passes.shape.vocab, reads_all
        self.context_length = self.passes.shape.context_length
        self.device = self.passes.device
        self.taps: Sequence[int] = ()  # layers after which hidden states are kept, from the next `reset` on
        self.seconds = 0.0  # spent in passes so far: positions, mask and model
        self.reset()

    @property
    def model(self) -> PreTrainedModel:
        """transformers' model of the same weights."""
        return self.passes.model

    @property
    def eight_bits(self) -> bool:
        """Whether passes of a few rows read weights in eight bits."""
        return self.passes.int8

    def fresh(self) -> CachedLM:
        """The same model with an empty cache."""
        return CachedLM(self.passes, self.vocab, reads_all=self.reads_all)

    def reset(self) -> None:
        """Forget everything."""
        self.tokens: list[int] = []
        self._rows: list[int] = []  # tokens of the pass that no keep() has settled yet
        self.cache = self.passes.new_cache()
        if self.taps:
            self.cache.tap(self.taps, self.passes.shape.hidden, self.passes.dtype, self.device)

    def synchronize(self) -> None:
        """Wait for the device, so that a clock read next measures finished work (`forward` does)."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def forward(
        self, tokens: Sequence[int], parents: Sequence[int] | None = None, only: slice = EVERY, first: int = 0
    ) -> torch.Tensor:
        """Run rows after the cache; returns logits [rows, vocab], or of the rows in `only`.

        `parents[i]` is the row that row i continues, -1 the last cached token; None is a chain. The rows stay pending until
        `keep`. A pass may continue the pass before: the rows before `first` are then pending rows, and only the rows from
        `first` on are computed and returned.
        """
        parents = range(-1, len(tokens) - 1) if parents is None else parents
        start = perf_counter()
        part = self._part(tokens, parents, first)
        out = self.passes(torch.tensor(part.tokens, device=self.device), *part[1:], only)
        self.synchronize()
        self.seconds += perf_counter() - start
        return self._cut(out)

    def _part(self, tokens: Sequence[int], parents: Sequence[int], first: int = 0) -> Part:
        """Rows made ready for a pass: nothing but they is pending now."""
        base = len(self.tokens)
        self._rewind(base + first)
        self._rows = list(tokens)
        if is_chain(parents):
            positions = slice(base + first, base + len(tokens))
        else:
            positions = torch.tensor(depths(parents)[first:], device=self.device) + (base - 1)
        rows = self.passes.lay_out(parents, base, first, self.cache)
        return Part(self._readable(self._rows[first:]), positions, self.cache, rows)

    def _readable(self, tokens: Sequence[int]) -> Sequence[int]:
        """The ids as the model can read them."""
        last = self.passes.shape.vocab - 1
        return [min(token, last) for token in tokens] if self.reads_all and max(tokens) > last else tokens

    def _cut(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits without what pads the vocabulary."""
        return logits if self.vocab == self.passes.shape.vocab else logits[:, : self.vocab]

    def keep(self, path: Sequence[int]) -> None:
        """Make the rows in `path` (in order) part of the cache; drop the other rows of the pass."""
        base = len(self.tokens)
        if any(row != i for i, row in enumerate(path)):
            with torch.inference_mode():
                self.cache.gather(base, [base + row for row in path])
        self.tokens += [self._rows[row] for row in path]
        self._rewind(len(self.tokens))

    def extend(self, tokens: Sequence[int]) -> torch.Tensor:
        """Append a chain for good; returns the logits [1, vocab] after its last token."""
        if not tokens:
            return torch.empty(0, self.vocab)
        for start in range(0, len(tokens), PREFILL_ROWS):
            chunk = list(tokens[start : start + PREFILL_ROWS])
            logits = self.forward(chunk, only=slice(len(chunk) - 1, len(chunk)))
            self.keep(range(len(chunk)))
        return logits

    def can_take(self, other: CachedLM) -> bool:
        """Whether what the other has read is what would be read here: of the same model, in passes of the same shapes, with
        hidden states where they are kept here."""
        return other.passes is self.passes and (not self.taps or self.taps == other.taps)

    @torch.inference_mode()
    def take(self, other: CachedLM) -> None:
        """Begin with the text that another one holds (`can_take`) instead of reading it."""
        self.reset()
        if other.tokens:
            self.cache.take(other.cache)
        self.tokens = list(other.tokens)

    def draft_chain(self, tokens: Sequence[int], request: DraftRequest) -> tuple[list[int], list[float]] | None:
        """Append a chain and draft after it in one compiled call: drafted tokens, of which all but the last are appended too,
        and how sure the model is of each. None where its passes are not compiled."""
        start = perf_counter()
        chain = self.passes.chain(self._readable(tokens), len(self.tokens), self.cache, request)
        if chain is not None:
            self.tokens += [*tokens, *chain[0][:-1]]
            self._rewind(len(self.tokens))
            self.seconds += perf_counter() - start
        return chain

    def draft_tree(self, tokens: Sequence[int], request: DraftRequest, branches: int, rows: int) -> DraftTree | None:
        """Append a chain and grow a tree of at most so many `rows` after it, `branches` of them a level, in one compiled call.
        Those that the model has read stay pending, as after `forward`. None where its passes are not compiled."""
        start = perf_counter()
        grown = self.passes.tree(self._readable(tokens), len(self.tokens), self.cache, request, branches, rows)
        if grown is not None:
            self.tokens += tokens
            self._rows = grown.tokens[: grown.read]
            self.seconds += perf_counter() - start
        return grown

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
        """Cut the cache back to `length` tokens; a pass that is not settled is dropped."""
        self._rows = []
        self.cache.rewind(length)

    def states(self, start: int) -> torch.Tensor:
        """The hidden states after the layers `taps` of the cached tokens from `start` on, [tokens, taps times hidden]."""
        assert len(self.cache.taps) == len(self.taps), "a cache keeps hidden states from the reset after `taps` is set"
        return self.cache.states(start, len(self.tokens))

    def cached(self) -> int:
        """How many tokens the cache itself says it holds."""
        return self.cache.length()

    @property
    def batches(self) -> bool:
        """Whether one pass takes rows of several texts."""
        return self.passes.batches

    @staticmethod
    def together(lms: Sequence[CachedLM], rows: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[torch.Tensor]:
        """`forward` of several texts that share this model, of (tokens, parents) each: logits [rows, vocab] of each.

        It is one pass if the model batches. Its seconds are shared out by rows.
        """
        one = lms[0]
        if len(lms) == 1 or not one.passes.batches:
            return [lm.forward(*of) for lm, of in zip(lms, rows, strict=True)]
        start = perf_counter()
        logits = one.passes.together([lm._part(*of) for lm, of in zip(lms, rows, strict=True)])
        row_s = (perf_counter() - start) / sum(len(tokens) for tokens, _ in rows)
        for lm, (tokens, _) in zip(lms, rows, strict=True):
            lm.seconds += row_s * len(tokens)
        return [lm._cut(part) for lm, part in zip(lms, logits, strict=True)]
