"""A trained head with the interface of a language model, for drafters. It reads the hidden states of a `lm.CachedLM`.

`sync` returns the tokens that are not cached. `extend` returns the logits after them, and then after each drafted token; `forward`
returns the logits after every row of a tree. A block or Medusa head runs one pass for the first token and reads further tokens
from its slots, so it drafts at most `longest` tokens. Drafted rows are never committed to the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch

from ...core.events import Translation
from ...core.lm import DraftRequest, DraftTree
from ...core.tree import depths
from ..forward import Forward
from ..lm import CachedLM
from ..shape import UNLIMITED
from .eagle import EagleNetwork
from .mtp import MtpNetwork
from .shape import BLOCK, EAGLE, MEDUSA, MTP, HeadShape
from .slots import BlockNetwork, MedusaNetwork

NETWORKS = {MEDUSA: MedusaNetwork, MTP: MtpNetwork, EAGLE: EagleNetwork, BLOCK: BlockNetwork}
PASS_TOKENS = 256  # most tokens of a text that are read in one pass


@dataclass(frozen=True, slots=True)
class Head:
    """A network or its compiled passes, which lanes share. `ids` [output_vocab] are the tokens that it drafts; None: all."""

    shape: HeadShape
    passes: Any
    ids: torch.Tensor | None = None
    parameters: int = 0
    nbytes: int = 0

    @classmethod
    def from_network(cls, network: Any, target: Forward, ids: torch.Tensor | None = None) -> Head:
        """Return the head of a network, with compiled passes if the target's implementation has them."""
        weights = list(network.parameters())
        numbers, nbytes = sum(weight.numel() for weight in weights), sum(weight.nbytes for weight in weights)
        return cls(network.shape, target.head_passes(network) or network, ids, numbers, nbytes)

    @property
    def compiled(self) -> bool:
        """Whether a draft is one compiled call."""
        return not isinstance(self.passes, torch.nn.Module)

    def new_cache(self) -> Any:
        """Return an empty cache for the passes."""
        return self.passes.new_cache()

    def fresh(self, vocab: int) -> CachedHead:
        """Return the head with a new cache, for a target with a vocabulary of `vocab` tokens."""
        kinds = {MEDUSA: CachedMedusa, MTP: CachedRecursive, EAGLE: CachedRecursive, BLOCK: CachedBlock}
        return kinds[self.shape.kind](self, vocab)


class CachedHead:
    """The methods of `core.lm.LanguageModel` for all kinds of heads. `vocab` is the target's.

    Before a draft, `sync` returns the tokens that are not cached; none if the target has read too few tokens. Subclasses implement
    `_extend` and `_forward`, which return logits [rows, output_vocab or more], and `_chain` and `_tree`, which draft with compiled passes.
    """

    context_length = UNLIMITED  # the target's context length applies
    longest = UNLIMITED
    translation: Translation | None = None

    def __init__(self, head: Head, vocab: int):
        self.head, self.shape, self.vocab, self.kind = head, head.shape, vocab, head.shape.kind
        self.seconds = 0.0
        self.confidence: float | None = None
        self.reset()

    def follow(self, target: CachedLM) -> None:
        """Read the hidden states of `target`, which stores them from its next `reset` on."""
        target.taps = self.shape.taps
        self._target = target
        self.reset()

    def extend(self, tokens: Sequence[int]) -> torch.Tensor:
        """Return the logits [1, vocab] after the tokens that `sync` returned; in later calls, after one drafted token each."""
        start = perf_counter()
        logits = self._extend(tokens)
        self.seconds += perf_counter() - start
        return self._full_vocab(logits)

    def forward(self, tokens: Sequence[int], parents: Sequence[int], first: int = 0) -> torch.Tensor:
        """Return the logits [rows, vocab] after the rows from `first` on of a tree of drafted tokens."""
        start = perf_counter()
        logits = self._forward(tokens, parents, first)
        self.seconds += perf_counter() - start
        return self._full_vocab(logits)

    def draft_chain(self, tokens: Sequence[int], request: DraftRequest) -> tuple[list[int], list[float]] | None:
        """Draft a chain; return tokens and confidences, or None if passes are not compiled."""
        start = perf_counter()
        drafted = self._chain(tokens, request.limited_to(self.head.ids)) if self.head.compiled else None
        self.seconds += perf_counter() - start
        return drafted

    def draft_tree(self, tokens: Sequence[int], request: DraftRequest, branches: int, rows: int) -> DraftTree | None:
        """Draft a tree of at most `rows` rows, `branches` per level; return None without such a compiled call."""
        start = perf_counter()
        compiled = self.head.compiled
        tree = self._tree(tokens, request.limited_to(self.head.ids), branches, rows) if compiled else None
        self.seconds += perf_counter() - start
        return tree

    def keep(self, path: Sequence[int]) -> None:
        """Do nothing: accepted tokens are read again, with the target's hidden states."""

    def _full_vocab(self, logits: torch.Tensor) -> torch.Tensor:
        """Return logits [rows, output_vocab or more] as [rows, vocab], with -inf for tokens that the head cannot draft."""
        if self.head.ids is None:
            return logits[:, : self.vocab]
        full = logits.new_full((len(logits), self.vocab), -torch.inf)
        full[:, self.head.ids] = logits[:, : len(self.head.ids)]
        return full


class CachedRecursive(CachedHead):
    """An EAGLE head or an MTP module. Row i of the cache has token i + 1 with the target's hidden states of token i."""

    def reset(self):
        self._cache = self.head.new_cache()
        self.tokens: list[int] = []
        self._begins = True

    def sync(self, context):
        read = min(len(self.tokens), max(0, len(context) - 2))  # the last token is read again if no token is new
        del self.tokens[read:]
        self._begins = True
        return list(context[1 + read :])

    def _extend(self, tokens):
        if not self._begins:
            chain = [*self._rows, *tokens]
            return self._forward(chain, range(-1, len(chain) - 1), len(self._rows))
        states = self._target.states(len(self.tokens))
        for i in range(0, len(tokens), PASS_TOKENS):
            part = tokens[i : i + PASS_TOKENS]
            self._root, logits = self.head.passes.read(states[i : i + len(part)], part, len(self.tokens), self._cache)
            self.tokens += part
        self._rows, self._features, self._begins = [], self._root[:0], False
        return logits

    def _chain(self, tokens, request):
        logits = self._extend(tokens)[0]
        feature, start = (self._features if self._rows else self._root)[-1:], len(self.tokens) + len(self._rows)
        drafted, confidences, features = self.head.passes.chain(feature, logits, start, self._cache, request)
        self._rows, self._features = [*self._rows, *drafted[:-1]], torch.cat([self._features, features])
        return drafted, confidences

    def _tree(self, tokens, request, branches, rows):
        logits = self._extend(tokens)[0]
        return self.head.passes.tree(self._root, logits, len(self.tokens), self._cache, request, branches, rows)

    def _forward(self, tokens, parents, first):
        self._rows = list(tokens)
        parent_states = torch.cat([self._root, self._features[:first]])[[parent + 1 for parent in parents[first:]]]
        features, logits = self.head.passes.draft(tokens, parents, parent_states, first, len(self.tokens), self._cache)
        self._features = torch.cat([self._features[:first], features])
        return logits


class _CachedSlots(CachedHead):
    """A head with slots. `_draft` runs one pass and sets the slots' `_hidden` states and `_logits`."""

    @property
    def longest(self):
        return self.shape.slots

    def reset(self):
        self.tokens: list[int] = []
        self._slot: int | None = None  # of the last returned logits; None before the pass

    def _begin(self, tokens: Sequence[int]) -> None:
        """Run the pass after the tokens that `sync` returned, unless it has run."""
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
        return logits[:, : self.shape.output_vocab] + self.head.passes.bias(tokens[first:])


class CachedBlock(_CachedSlots):
    """A block head. The cache has keys and values of the target's hidden states before the anchor."""

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
        while len(unread) > PASS_TOKENS:
            self.head.passes.draft(states[:PASS_TOKENS], anchor, len(self.tokens), self._cache)
            self.tokens += unread[:PASS_TOKENS]
            unread, states = unread[PASS_TOKENS:], states[PASS_TOKENS:]
        self._hidden, self._logits = self.head.passes.draft(states, anchor, len(self.tokens), self._cache)
        self.tokens += unread


class CachedMedusa(_CachedSlots):
    """Medusa heads. They read one hidden state, that of the second-to-last token."""

    def sync(self, context):
        self._slot = None
        self._last = len(context) - 2
        return list(context[-1:]) if self._last >= 0 else []

    def _draft(self, tokens):
        self._hidden, self._logits = self.head.passes.draft(self._target.states(self._last)[:1])

    def _tree(self, tokens, request, branches, rows):
        return None
