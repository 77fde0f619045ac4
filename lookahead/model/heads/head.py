"""A trained head as drafters use one: like a language model that reads hidden states of another (`lm.CachedLM`).

`sync` finds what of a text is to be read, `extend` gives the logits after it, and after each token that is then drafted;
`forward` gives those after every row of a tree. Of a block or Medusa head only the first takes a pass: later tokens are
read off its slots, so there are `longest` at most. Drafted rows leave nothing in its cache.

Knows hidden states and ids. It does not know who drafts, nor what is accepted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch

from ...core.lm import DraftRequest, DraftTree
from ...core.tree import depths
from ..forward import Forward
from ..lm import CachedLM
from . import plain
from .block import BlockNetwork
from .eagle import EagleNetwork
from .medusa import MedusaNetwork
from .shape import BLOCK, EAGLE, MEDUSA, HeadShape

NETWORKS = {MEDUSA: MedusaNetwork, EAGLE: EagleNetwork, BLOCK: BlockNetwork}
PLAIN = {MEDUSA: plain.PlainMedusa, EAGLE: plain.PlainEagle, BLOCK: plain.PlainBlock}
TOGETHER = 256  # tokens of a text that are read in one pass
ENDLESS = 1 << 20


@dataclass(frozen=True, slots=True)
class Head:
    """A head's passes, shared by all lanes. `ids` [known] are the tokens that it can draft; None where it knows all."""

    shape: HeadShape
    passes: Any
    ids: torch.Tensor | None = None
    parameters: int = 0
    nbytes: int = 0

    @classmethod
    def of(cls, network: Any, target: Forward, ids: torch.Tensor | None = None) -> Head:
        """A network's, beside a target, compiled where that can be."""
        shape = network.shape
        passes = target.head_passes(network) or PLAIN[shape.kind](network)
        parameters = sum(weight.numel() for weight in network.parameters())
        nbytes = sum(weight.nbytes for weight in network.parameters())
        return cls(shape, passes, ids, parameters, nbytes)

    def fresh(self, vocab: int) -> CachedHead:
        """The head with a cache of its own, for a target of so many tokens."""
        return {MEDUSA: CachedMedusa, EAGLE: CachedEagle, BLOCK: CachedBlock}[self.shape.kind](self, vocab)


class CachedHead(ABC):
    """What all heads share. `tokens` is the text that was read, `seconds` what passes took, and `confidence` how likely the
    head itself finds the token of the last logits, None where it does not say."""

    longest = ENDLESS

    def __init__(self, head: Head, vocab: int):
        self.head, self.shape, self.vocab, self.kind = head, head.shape, vocab, head.shape.kind
        self.context_length = ENDLESS  # the target's counts
        self.seconds = 0.0
        self.confidence: float | None = None
        self.reset()

    def follow(self, target: CachedLM) -> None:
        """Read this target's hidden states, which it keeps from its next `reset` on."""
        target.taps = self.shape.taps
        self._target = target
        self.reset()

    @abstractmethod
    def reset(self) -> None:
        """Forget everything."""

    @abstractmethod
    def sync(self, context: Sequence[int]) -> list[int]:
        """What of `context` is still to be read, before a draft after it; nothing where the target has read too little."""

    @abstractmethod
    def extend(self, tokens: Sequence[int]) -> torch.Tensor:
        """The logits [1, vocab] after the tokens that `sync` gave, then after one drafted token after the other."""

    def draft_chain(self, tokens: Sequence[int], request: DraftRequest) -> tuple[list[int], list[float]] | None:
        """What `extend` gives the logits of, drafted in one compiled call: tokens, and how sure of each. None where passes
        are not compiled."""
        return None

    def draft_tree(self, tokens: Sequence[int], request: DraftRequest, branches: int, rows: int) -> DraftTree | None:
        """A tree after the tokens that `sync` gave, of at most so many `rows`, `branches` of them a level, grown in one
        compiled call. None where there is no such call."""
        return None

    @abstractmethod
    def forward(self, tokens: Sequence[int], parents: Sequence[int], first: int = 0) -> torch.Tensor:
        """The logits [rows, vocab] after the rows from `first` on of a tree of drafted tokens; the rows that those continue
        stand before `first`."""

    def keep(self, path: Sequence[int]) -> None:  # noqa: B027 (nothing to do for all of them)
        """Nothing of what was drafted is kept: the target's hidden states of it are better."""

    def _wide(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits [rows, known] as those of all tokens, [rows, vocab]."""
        if self.head.ids is None:
            return logits[:, : self.vocab]
        wide = logits.new_full((len(logits), self.vocab), -torch.inf)
        wide[:, self.head.ids] = logits[:, : len(self.head.ids)]
        return wide


class CachedEagle(CachedHead):
    """An EAGLE head. Row i of its cache is token i + 1 beside the target's hidden states of token i."""

    def reset(self):
        self._cache = self.head.passes.new_cache()
        self.tokens: list[int] = []
        self._begins = True

    def sync(self, context):
        read = min(len(self.tokens), max(0, len(context) - 2))  # the last is read again where nothing is new
        del self.tokens[read:]
        self._begins = True
        return list(context[1 + read :])

    def extend(self, tokens):
        return self._wide(self._read(tokens))

    def _read(self, tokens) -> torch.Tensor:
        """`extend`'s logits of the known tokens, [1, known]."""
        if not self._begins:
            chain = [*self._rows, *tokens]
            return self._draft(chain, range(-1, len(chain) - 1), len(self._rows))
        start, states = perf_counter(), self._target.states(len(self.tokens))
        for i in range(0, len(tokens), TOGETHER):
            part = tokens[i : i + TOGETHER]
            self._root, logits = self.head.passes.read(states[i : i + len(part)], part, len(self.tokens), self._cache)
            self.tokens += part
        self._rows, self._features, self._begins = [], self._root[:0], False
        self.seconds += perf_counter() - start
        return logits

    def draft_chain(self, tokens, request):
        if not self.head.passes.drafts_chains:
            return None
        logits, start = self._read(tokens)[0], perf_counter()
        feature, behind = torch.cat([self._root, self._features])[-1:], len(self.tokens) + len(self._rows)
        drafted, confidences, features = self.head.passes.chain(
            feature, logits, behind, self._cache, request.limited_to(self.head.ids)
        )
        self._rows, self._features = [*self._rows, *drafted[:-1]], torch.cat([self._features, features])
        self.seconds += perf_counter() - start
        return drafted, confidences

    def draft_tree(self, tokens, request, branches, rows):
        if not self.head.passes.drafts_chains:
            return None
        logits, start = self._read(tokens)[0], perf_counter()
        grown = self.head.passes.tree(
            self._root, logits, len(self.tokens), self._cache, request.limited_to(self.head.ids), branches, rows
        )
        self.seconds += perf_counter() - start
        return grown

    def forward(self, tokens, parents, first=0):
        return self._wide(self._draft(tokens, parents, first))

    def _draft(self, tokens, parents, first) -> torch.Tensor:
        """`forward`'s logits of the known tokens, [rows, known]."""
        start = perf_counter()
        self._rows = list(tokens)
        above = torch.cat([self._root, self._features[:first]])[[parent + 1 for parent in parents[first:]]]
        features, logits = self.head.passes.draft(tokens, parents, above, first, len(self.tokens), self._cache)
        self._features = torch.cat([self._features[:first], features])
        self.seconds += perf_counter() - start
        return logits


class _CachedSlots(CachedHead):
    """A head whose one pass has slots for all that it drafts."""

    def __init__(self, head: Head, vocab: int):
        super().__init__(head, vocab)
        self.longest = head.shape.slots

    def reset(self):
        self.tokens: list[int] = []
        self._slot: int | None = None  # of the last logits; None before the pass

    def extend(self, tokens):
        start = perf_counter()
        if self._slot is None:
            self._draft(tokens)
            self._slot = -1
        self._slot += 1
        logits, self.confidence = self._next(self._slot, tokens[-1])
        self.seconds += perf_counter() - start
        return self._wide(logits)

    def draft_chain(self, tokens, request):
        if not self.head.passes.drafts_chains:
            return None
        start = perf_counter()
        if self._slot is None:
            self._draft(tokens)
            self._slot = -1
        drafted, confidences = self._picked(self._slot + 1, tokens[-1], request.limited_to(self.head.ids))
        self._slot += len(drafted)
        self.seconds += perf_counter() - start
        return drafted, confidences

    def forward(self, tokens, parents, first=0):
        start = perf_counter()
        logits = self._behind(depths(parents)[first:], tokens[first:])
        self.seconds += perf_counter() - start
        return self._wide(logits)

    @abstractmethod
    def _draft(self, tokens: Sequence[int]) -> None:
        """The pass after the tokens that `sync` gave."""

    @abstractmethod
    def _behind(self, slots: Sequence[int], before: Sequence[int]) -> torch.Tensor:
        """The logits [rows, known] of slots, where these tokens stand before them."""

    @abstractmethod
    def _picked(self, first: int, before: int, request: DraftRequest) -> tuple[list[int], list[float]]:
        """Tokens of the slots from `first` on after the token `before`, and how sure of each: `chain`'s compiled call."""

    def _next(self, slot: int, before: int) -> tuple[torch.Tensor, float | None]:
        """The logits [1, known] of a slot where this token stands before it, and how likely the head finds its token."""
        return self._behind([slot], [before]), None


class CachedBlock(_CachedSlots):
    """A block head. Its cache has the target's hidden states of the text before the anchor."""

    def reset(self):
        super().reset()
        self._cache = self.head.passes.new_cache()

    def sync(self, context):
        del self.tokens[len(context) - 1 :]
        self._slot = None
        return list(context[len(self.tokens) :])

    def draft_tree(self, tokens, request, branches, rows):
        if not self.head.passes.drafts_chains:
            return None
        start = perf_counter()
        self._draft(tokens)
        grown = self.head.passes.tree(self._logits, tokens[-1], request.limited_to(self.head.ids), branches, rows)
        self.seconds += perf_counter() - start
        return grown

    def _draft(self, tokens):
        *unread, anchor = tokens
        states = self._target.states(len(self.tokens))[: len(unread)]
        while len(unread) > TOGETHER:
            self.head.passes.draft(states[:TOGETHER], anchor, len(self.tokens), self._cache)
            self.tokens += unread[:TOGETHER]
            unread, states = unread[TOGETHER:], states[TOGETHER:]
        self._hidden, self._logits = self.head.passes.draft(states, anchor, len(self.tokens), self._cache)
        self.tokens += unread

    def _behind(self, slots, before):
        logits = self._logits[slots]
        return logits[:, : self.head.shape.known] + self.head.passes.bias(before)

    def _picked(self, first, before, request):
        return self.head.passes.chain(self._hidden, self._logits, first, before, request)

    def _next(self, slot, before):
        return self.head.passes.slot(self._hidden[slot], self._logits[slot], before)


class CachedMedusa(_CachedSlots):
    """Medusa heads, which read one hidden state: that of the token before the last."""

    def sync(self, context):
        self._slot = None
        self._last = len(context) - 2
        return list(context[-1:]) if self._last >= 0 else []

    def _draft(self, tokens):
        self._logits = self.head.passes.draft(self._target.states(self._last)[:1])

    def _behind(self, slots, before):
        return self._logits[slots, : self.head.shape.known]

    def _picked(self, first, before, request):
        return self.head.passes.chain(self._logits, first, request)
