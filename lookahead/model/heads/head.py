"""A trained head as drafters use one: like a language model that reads hidden states of another (`lm.CachedLM`).

`sync` finds what of a text is to be read. `extend` gives the logits after it, and after each token that is then drafted;
`forward` gives those after every row of a tree. Only the first token of a block or Medusa head takes a pass: later tokens are
read off its slots, so there are `longest` at most. Drafted rows leave nothing in its cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch

from ...core.lm import DraftRequest, DraftTree
from ...core.tree import depths
from ..forward import Forward
from ..lm import CachedLM
from ..shape import ENDLESS
from .eagle import EagleNetwork
from .layers import LayerCache
from .shape import BLOCK, EAGLE, MEDUSA, HeadShape
from .slots import BlockNetwork, MedusaNetwork

NETWORKS = {MEDUSA: MedusaNetwork, EAGLE: EagleNetwork, BLOCK: BlockNetwork}
TOGETHER = 256  # tokens of a text that are read in one pass


@dataclass(frozen=True, slots=True)
class Head:
    """A head's passes, shared by all lanes: its network, or compiled ones. `ids` [known] are its tokens, None for all."""

    shape: HeadShape
    passes: Any
    ids: torch.Tensor | None = None
    parameters: int = 0
    nbytes: int = 0

    @classmethod
    def of(cls, network: Any, target: Forward, ids: torch.Tensor | None = None) -> Head:
        """The head of a network, with compiled passes if the target compiles them."""
        weights = list(network.parameters())
        numbers, nbytes = sum(weight.numel() for weight in weights), sum(weight.nbytes for weight in weights)
        return cls(network.shape, target.head_passes(network) or network, ids, numbers, nbytes)

    @property
    def compiled(self) -> bool:
        """Whether a chain or a tree is drafted in one call."""
        return not isinstance(self.passes, torch.nn.Module)

    def new_cache(self) -> Any:
        """An empty cache of the passes."""
        return self.passes.new_cache() if self.compiled else LayerCache()

    def fresh(self, vocab: int) -> CachedHead:
        """The head with a cache of its own, for a target of so many tokens."""
        return {MEDUSA: CachedMedusa, EAGLE: CachedEagle, BLOCK: CachedBlock}[self.shape.kind](self, vocab)


class CachedHead:
    """What all heads share: the methods of `core.lm.LanguageModel`, of which `vocab` is the target's.

    Before a draft, `sync` returns what of a text is still to be read: nothing if the target has read too little. Each kind of head
    has `_extend` and `_forward`, which return logits [rows, known or more], and `_chain` and `_tree`, which draft by compiled passes.
    """

    context_length = ENDLESS  # the target's counts

    def __init__(self, head: Head, vocab: int):
        self.head, self.shape, self.vocab, self.kind = head, head.shape, vocab, head.shape.kind
        self.longest = ENDLESS if self.kind == EAGLE else self.shape.slots
        self.seconds = 0.0
        self.confidence: float | None = None
        self.reset()

    def follow(self, target: CachedLM) -> None:
        """Read this target's hidden states, which it keeps from its next `reset` on."""
        target.taps = self.shape.taps
        self._target = target
        self.reset()

    def extend(self, tokens: Sequence[int]) -> torch.Tensor:
        """The logits [1, vocab] after the tokens that `sync` gave, then after one drafted token after the other."""
        start = perf_counter()
        logits = self._extend(tokens)
        self.seconds += perf_counter() - start
        return self._wide(logits)

    def forward(self, tokens: Sequence[int], parents: Sequence[int], first: int = 0) -> torch.Tensor:
        """The logits [rows, vocab] after the rows from `first` on of a tree of drafted tokens; their parents come before."""
        start = perf_counter()
        logits = self._forward(tokens, parents, first)
        self.seconds += perf_counter() - start
        return self._wide(logits)

    def draft_chain(self, tokens: Sequence[int], request: DraftRequest) -> tuple[list[int], list[float]] | None:
        """Tokens and confidences of what `extend` gives the logits of; None if passes are not compiled."""
        start = perf_counter()
        drafted = self._chain(tokens, request.limited_to(self.head.ids)) if self.head.compiled else None
        self.seconds += perf_counter() - start
        return drafted

    def draft_tree(self, tokens: Sequence[int], request: DraftRequest, branches: int, rows: int) -> DraftTree | None:
        """A tree of at most `rows` rows, `branches` per level; None if there is no such compiled call."""
        start = perf_counter()
        compiled = self.head.compiled
        grown = self._tree(tokens, request.limited_to(self.head.ids), branches, rows) if compiled else None
        self.seconds += perf_counter() - start
        return grown

    def keep(self, path: Sequence[int]) -> None:
        """Nothing of what was drafted is kept: the target's hidden states of it are better."""

    def _wide(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits [rows, known or more] as those of all tokens, [rows, vocab]."""
        if self.head.ids is None:
            return logits[:, : self.vocab]
        wide = logits.new_full((len(logits), self.vocab), -torch.inf)
        wide[:, self.head.ids] = logits[:, : len(self.head.ids)]
        return wide


class CachedEagle(CachedHead):
    """An EAGLE head. Row i of its cache is token i + 1 with the target's hidden states of token i."""

    def reset(self):
        self._cache = self.head.new_cache()
        self.tokens: list[int] = []
        self._begins = True

    def sync(self, context):
        read = min(len(self.tokens), max(0, len(context) - 2))  # the last is read again if nothing is new
        del self.tokens[read:]
        self._begins = True
        return list(context[1 + read :])

    def _extend(self, tokens):
        if not self._begins:
            chain = [*self._rows, *tokens]
            return self._forward(chain, range(-1, len(chain) - 1), len(self._rows))
        states = self._target.states(len(self.tokens))
        for i in range(0, len(tokens), TOGETHER):
            part = tokens[i : i + TOGETHER]
            self._root, logits = self.head.passes.read(states[i : i + len(part)], part, len(self.tokens), self._cache)
            self.tokens += part
        self._rows, self._features, self._begins = [], self._root[:0], False
        return logits

    def _chain(self, tokens, request):
        logits = self._extend(tokens)[0]
        feature, behind = (self._features if self._rows else self._root)[-1:], len(self.tokens) + len(self._rows)
        drafted, confidences, features = self.head.passes.chain(feature, logits, behind, self._cache, request)
        self._rows, self._features = [*self._rows, *drafted[:-1]], torch.cat([self._features, features])
        return drafted, confidences

    def _tree(self, tokens, request, branches, rows):
        logits = self._extend(tokens)[0]
        return self.head.passes.tree(self._root, logits, len(self.tokens), self._cache, request, branches, rows)

    def _forward(self, tokens, parents, first):
        self._rows = list(tokens)
        above = torch.cat([self._root, self._features[:first]])[[parent + 1 for parent in parents[first:]]]
        features, logits = self.head.passes.draft(tokens, parents, above, first, len(self.tokens), self._cache)
        self._features = torch.cat([self._features[:first], features])
        return logits


class _CachedSlots(CachedHead):
    """A head whose one pass, `_draft`, has slots for all tokens of a draft: their `_hidden` states and `_logits`."""

    def reset(self):
        self.tokens: list[int] = []
        self._slot: int | None = None  # of the last logits; None before the pass

    def _begin(self, tokens: Sequence[int]) -> None:
        """The pass after the tokens that `sync` gave, unless it was computed."""
        if self._slot is None:
            self._draft(tokens)
            self._slot = -1

    def _extend(self, tokens):
        self._begin(tokens)
        self._slot += 1
        hidden, logits = self._hidden[self._slot], self._logits[self._slot]
        logits, self.confidence = self.head.passes.slot(hidden, logits, tokens[-1])
        return logits

    def _chain(self, tokens, request):
        self._begin(tokens)
        drafted = self.head.passes.chain(self._hidden, self._logits, self._slot + 1, tokens[-1], request)
        self._slot += len(drafted[0])
        return drafted

    def _forward(self, tokens, parents, first):
        logits = self._logits[depths(parents)[first:]]
        return logits[:, : self.shape.known] + self.head.passes.bias(tokens[first:])


class CachedBlock(_CachedSlots):
    """A block head. Its cache has the target's hidden states of the text before the anchor."""

    def reset(self):
        super().reset()
        self._cache = self.head.new_cache()

    def sync(self, context):
        del self.tokens[len(context) - 1 :]
        self._slot = None
        return list(context[len(self.tokens) :])

    def _tree(self, tokens, request, branches, rows):
        self._draft(tokens)
        return self.head.passes.tree(self._logits, tokens[-1], request, branches, rows)

    def _draft(self, tokens):
        *unread, anchor = tokens
        states = self._target.states(len(self.tokens))[: len(unread)]
        while len(unread) > TOGETHER:
            self.head.passes.draft(states[:TOGETHER], anchor, len(self.tokens), self._cache)
            self.tokens += unread[:TOGETHER]
            unread, states = unread[TOGETHER:], states[TOGETHER:]
        self._hidden, self._logits = self.head.passes.draft(states, anchor, len(self.tokens), self._cache)
        self.tokens += unread


class CachedMedusa(_CachedSlots):
    """Medusa heads, which read one hidden state: that of the token before the last."""

    def sync(self, context):
        self._slot = None
        self._last = len(context) - 2
        return list(context[-1:]) if self._last >= 0 else []

    def _draft(self, tokens):
        self._hidden, self._logits = self.head.passes.draft(self._target.states(self._last)[:1])

    def _tree(self, tokens, request, branches, rows):
        return None
