"""Passes of heads through their torch modules: on any device, for any target.

Knows networks and tensors. It does not know tokens' meaning, nor when a pass is due.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ...core.tree import ancestor_mask, depths
from .block import BlockNetwork
from .eagle import EagleNetwork
from .layers import Pairs, Seen
from .medusa import MedusaNetwork


class PlainCache:
    """Keys and values of the text that was read, and of drafted rows after it, by layer."""

    def __init__(self):
        self.far: list[Pairs] = []
        self.near: list[Pairs] = []

    def append(self, pairs: Sequence[Pairs]) -> None:
        """More of the text, [1, tokens, kv heads, dim] a layer."""
        if self.far:
            pairs = [
                Pairs(*(torch.cat(both, 1) for both in zip(*each, strict=True)))
                for each in zip(self.far, pairs, strict=True)
            ]
        self.far, self.near = list(pairs), []

    def rewind(self, length: int) -> None:
        """Cut the text back, and forget the rows after it."""
        self.far, self.near = [Pairs(*(part[:, :length] for part in pairs)) for pairs in self.far], []


def _within(window: int, length: int, places: torch.Tensor) -> torch.Tensor:
    """Which of the first `length` tokens rows at `places` see, [1, rows, length]."""
    tokens = torch.arange(length, device=places.device)
    return (
        (tokens > places[:, None] - window)[None] if window else torch.ones_like(tokens, dtype=torch.bool)[None, None]
    )


class PlainEagle:
    """An EAGLE head's passes."""

    drafts_chains = False  # whether there is a compiled call for several tokens

    def __init__(self, network: EagleNetwork):
        self.network, self.shape = network, network.shape

    def new_cache(self) -> PlainCache:
        """An empty cache."""
        return PlainCache()

    @torch.inference_mode()
    def read(
        self, states: torch.Tensor, ids: Sequence[int], start: int, cache: PlainCache
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Read further tokens of the text from the one numbered `start` on, whose tokens before have these hidden states
        [tokens, taps times hidden]; the feature [1, hidden] and the logits [1, known] after the last."""
        network, n = self.network, len(ids)
        cache.rewind(start)
        tokens, places = torch.tensor(ids, device=states.device), torch.arange(start, start + n, device=states.device)
        chain = torch.ones(n, n, dtype=torch.bool, device=states.device).tril()
        if self.shape.window:
            chain &= ~chain.tril(-self.shape.window)
        seen = Seen(_within(self.shape.window, start, places), chain)
        x, pairs = network.rows(
            tokens[None, None], network.features(states)[None, None], places[None], cache.far, [], seen
        )
        cache.append([Pairs(*(part[:, 0] for part in each)) for each in pairs])
        feature, logits = network.logits(x[0, 0, -1:])
        return feature, logits

    @torch.inference_mode()
    def draft(
        self,
        ids: Sequence[int],
        parents: Sequence[int],
        features: torch.Tensor,
        first: int,
        start: int,
        cache: PlainCache,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows from `first` on of a tree of drafted tokens after a text of `start` tokens; their parents have these features
        [rows, hidden]. The rows' own features, and their logits [rows, known]."""
        device = features.device
        places = torch.tensor(depths(parents)[first:], device=device) + (start - 1)
        near = torch.tensor(ancestor_mask(parents), device=device)[first:]
        if cache.near:
            cache.near = [Pairs(*(part[:, :, :first] for part in pairs)) for pairs in cache.near]
        seen = Seen(_within(self.shape.window, start, places), near)
        ids = torch.tensor(ids[first:], device=device)
        x, cache.near = self.network.rows(
            ids[None, None], features[None, None], places[None], cache.far, cache.near, seen
        )
        return self.network.logits(x[0, 0])


class PlainBlock:
    """A block head's passes."""

    drafts_chains = False

    def __init__(self, network: BlockNetwork):
        self.network, self.shape = network, network.shape

    def new_cache(self) -> PlainCache:
        """An empty cache."""
        return PlainCache()

    @torch.inference_mode()
    def draft(
        self, states: torch.Tensor, anchor: int, start: int, cache: PlainCache
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Read the hidden states [tokens, taps times hidden] of the text from token `start` on, and draft a block after the
        anchor, which follows it: the slots' hidden states [slots, hidden] and logits [slots, known], without the Markov
        head's."""
        network, device, place = self.network, states.device, start + len(states)
        cache.rewind(start)
        cache.append(network.context(states[None], torch.arange(start, place, device=device)))
        at, anchors = torch.tensor([place], device=device), torch.tensor([[anchor]], device=device)
        seen = _within(self.shape.window, place, at + torch.arange(self.shape.rows, device=device))
        hidden = network.slots(anchors, at, cache.far, seen)[0, 0]
        return hidden, torch.nn.functional.linear(hidden, network.head)

    @torch.inference_mode()
    def bias(self, tokens: Sequence[int]) -> torch.Tensor | float:
        """What the Markov head adds to the logits after tokens, [tokens, known]."""
        markov = self.network.markov_head
        return (
            markov.markov_w2(markov.markov_w1(torch.tensor(tokens, device=self.network.head.device))) if markov else 0.0
        )

    @torch.inference_mode()
    def slot(self, hidden: torch.Tensor, logits: torch.Tensor, before: int) -> tuple[torch.Tensor, float | None]:
        """Of a slot's hidden state [hidden] and logits [known] those with the Markov head's bias, [1, known], and how likely
        its token is accepted, None where no head says it."""
        network = self.network
        logits = logits + self.bias([before])
        if not network.confidence_head:
            return logits.view(1, -1), None
        parts = [hidden, network.markov_head.markov_w1.weight[before]]
        return logits, float(network.confidence_head.proj(torch.cat(parts)).sigmoid())


class PlainMedusa:
    """Medusa heads' passes."""

    drafts_chains = False

    def __init__(self, network: MedusaNetwork):
        self.network, self.shape = network, network.shape

    @torch.inference_mode()
    def draft(self, states: torch.Tensor) -> torch.Tensor:
        """The logits [slots, vocab] after a token, of the last hidden state [1, hidden] of the token before."""
        return self.network(states)[0]
