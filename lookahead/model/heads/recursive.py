"""Networks that draft token by token from their own output: EAGLE-3 heads and multi-token prediction (MTP).

The input of a row is a token's embedding and a feature of the previous token. If the target has read that token, the feature is
computed from the target's hidden states. For a drafted token, the feature is the network's output, so training includes rows with
such features ("training-time test"). The embedding is the target's. So is the output head, if the network drafts all tokens.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from ...core.tree import ancestor_mask, depths
from .layers import KeyValues, LayerCache, Mask, Norm, RotaryEmbedding, window_mask
from .shape import HeadShape


class RecursiveNetwork(nn.Module, ABC):
    """A network of `layers`, with a last `norm`. `embed` [vocab, hidden] and `head` [known, hidden] are the target's or its own."""

    layers: nn.ModuleList
    norm: Norm

    def __init__(self, shape: HeadShape, embed: Tensor, head: Tensor):
        super().__init__()
        self.shape, self.rotary = shape, RotaryEmbedding(shape)
        self.register_buffer("embed", embed, persistent=False)
        self.register_buffer("head", head, persistent=False)

    def new_cache(self) -> LayerCache:
        """Return an empty cache."""
        return LayerCache()

    @abstractmethod
    def features(self, states: Tensor) -> Tensor:
        """Return features [..., hidden] of the target's hidden states [..., taps * hidden]."""

    @abstractmethod
    def joined(self, embedded: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """Join embeddings and features [..., hidden]; return the residual and the normed input of the first layer."""

    def rows(
        self, ids: Tensor, features: Tensor, positions: Tensor, far: list[KeyValues], near: list[KeyValues], mask: Mask
    ) -> tuple[Tensor, list[KeyValues]]:
        """Compute rows of ids [texts, groups, rows] at `positions` [groups, rows].

        `features` [texts, groups, rows, hidden] are those of the previous tokens. `far` and `near` are the keys and values per
        layer of the text and of the groups' previous rows; an empty list if there are none. `mask.near` includes the new rows.
        Returns the last hidden states of the rows, and the keys and values per layer of all rows of the groups.
        """
        (x, inputs), rotary, new = self.joined(self.embed[ids], features), self.rotary(positions), []
        for i, layer in enumerate(self.layers):
            inputs = layer.input_layernorm(x) if i else inputs
            pairs = layer.self_attn.keys_values(inputs, rotary)
            text = far[i] if far else KeyValues(*(part[:, 0, :0] for part in pairs))
            if near:
                pairs = KeyValues(*(torch.cat(parts, 2) for parts in zip(near[i], pairs, strict=True)))
            new.append(pairs)
            x = layer.finish(x, layer.self_attn(inputs, rotary, text, pairs, mask))
        return x, new

    def logits(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the features for the next rows and the logits [..., output_vocab] of last hidden states [..., hidden]."""
        normed = self.norm(x)
        logits = linear(normed.flatten(0, -2), self.head).unflatten(0, x.shape[:-1])
        return normed if self.shape.output_normed else x, logits

    def forward(self, states: Tensor, ids: Tensor, steps: int) -> Iterator[Tensor]:
        """Yield the logits [texts, rows, output_vocab] of each drafted token, for training.

        `ids` [texts, tokens] have the hidden `states` [texts, tokens, taps * hidden]. A draft of `steps` tokens begins after each
        token except the first. In step j, row i has read the text to token i + 1 + j, with the last j tokens as a draft. Its label
        is token i + 2 + j; the last j rows have no label.
        """
        count, device = ids.shape[1] - 1, ids.device
        tokens, x = torch.arange(count, device=device), self.features(states[:, :-1])[:, None]
        text = tokens <= tokens[:, None]
        # First all rows are one group, which reads the text. Then each row is a separate group, which drafts.
        x, pairs = self.rows(ids[:, None, 1:], x, tokens[None], [], [], Mask(text[:, :0], text))
        far, near = [KeyValues(*(part[:, 0] for part in layer)) for layer in pairs], []
        x = x.transpose(1, 2).contiguous()
        for step in range(1, steps + 1):
            x, logits = self.logits(x)
            yield logits[:, :, 0]
            if step < steps:
                read = nn.functional.pad(ids[:, None, 1 + step :], (0, step)).transpose(1, 2)
                mask = Mask(text[:, None], torch.ones(1, step, dtype=torch.bool, device=device))
                x, near = self.rows(read, x, (tokens + step)[:, None], far, near, mask)

    @torch.inference_mode()
    def read(self, states: Tensor, ids: Sequence[int], start: int, cache: LayerCache) -> tuple[Tensor, Tensor]:
        """Append tokens of the text from token `start` on; return the feature [1, hidden] and the logits [1, output_vocab] of the last.

        `states` [tokens, taps * hidden] are the hidden states of the previous tokens: row i is that of the token before `ids[i]`.
        """
        n, device = len(ids), states.device
        cache.rewind(start)
        tokens, positions = torch.tensor([[ids]], device=device), torch.arange(start, start + n, device=device)
        chain = torch.ones(n, n, dtype=torch.bool, device=device).tril()
        if self.shape.window:
            chain &= ~chain.tril(-self.shape.window)
        mask = Mask(window_mask(self.shape.window, start, positions), chain)
        x, pairs = self.rows(tokens, self.features(states)[None, None], positions[None], cache.far, [], mask)
        cache.append([KeyValues(*(part[:, 0] for part in layer)) for layer in pairs])
        return self.logits(x[0, 0, -1:])

    @torch.inference_mode()
    def draft(
        self, ids: Sequence[int], parents: Sequence[int], features: Tensor, first: int, start: int, cache: LayerCache
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Compute the rows from `first` on of a tree of drafted tokens after a text of `start` tokens.

        `features` [rows, hidden] are those of the rows' parents. Returns the features and the logits [rows, output_vocab] of the rows.
        """
        device = features.device
        positions = torch.tensor(depths(parents)[first:], device=device) + (start - 1)
        near = torch.tensor(ancestor_mask(parents), device=device)[first:]
        if cache.near:
            cache.near = [KeyValues(*(part[:, :, :first] for part in pairs)) for pairs in cache.near]
        mask = Mask(window_mask(self.shape.window, start, positions), near)
        ids = torch.tensor(ids[first:], device=device)
        x, cache.near = self.rows(ids[None, None], features[None, None], positions[None], cache.far, cache.near, mask)
        return self.logits(x[0, 0])
