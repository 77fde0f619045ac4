"""The network of an EAGLE-3 head: one layer that drafts token by token (Li et al. 2025).

A row is a token's embedding with a feature of the token before it. The feature is made of hidden states at three depths of the
target if the target has read that token. For a drafted token it is the head's own output, so the head learns to continue from
its own features ("training-time test"). Embedding and, if it drafts all tokens, output head are the target's.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import nn
from torch.nn.functional import linear

from ...core.tree import ancestor_mask, depths
from .layers import Layer, LayerCache, Norm, Pairs, RotaryEmbedding, Seen, within
from .shape import EACH, WHOLE, HeadShape


class FirstLayer(Layer):
    """The layer that reads embedding and feature side by side."""

    def __init__(self, shape: HeadShape):
        super().__init__(shape, fed=2 * shape.hidden)
        self.hidden_norm = Norm(shape.hidden, shape.eps)


class EagleNetwork(nn.Module):
    """`embed` [vocab, hidden] and `head` [known tokens, hidden] are the target's, or the file's own."""

    def __init__(self, shape: HeadShape, embed: torch.Tensor, head: torch.Tensor):
        super().__init__()
        self.shape = shape
        self.fc = nn.Linear(shape.fed, shape.hidden, bias=False)
        self.input_norm = Norm(shape.fed, shape.eps) if shape.fed_norm == WHOLE else None
        self.fc_norm = nn.ModuleList(
            Norm(shape.hidden, shape.eps) for _ in (shape.taps if shape.fed_norm == EACH else ())
        )
        self.layers = nn.ModuleList([FirstLayer(shape), *(Layer(shape) for _ in range(shape.layers - 1))])
        self.norm, self.rotary = Norm(shape.hidden, shape.eps), RotaryEmbedding(shape)
        self.register_buffer("embed", embed, persistent=False)
        self.register_buffer("head", head, persistent=False)

    def features(self, states: torch.Tensor) -> torch.Tensor:
        """[..., hidden] of the target's hidden states [..., taps times hidden]."""
        if self.input_norm is not None:
            states = self.input_norm(states)
        if len(self.fc_norm):
            parts = states.chunk(len(self.fc_norm), -1)
            states = torch.cat([norm(part) for norm, part in zip(self.fc_norm, parts, strict=True)], -1)
        return self.fc(states)

    def rows(
        self, ids: torch.Tensor, features: torch.Tensor, places: torch.Tensor, far: list[Pairs], near: list[Pairs],
        seen: Seen,
    ) -> tuple[torch.Tensor, list[Pairs]]:  # fmt: skip
        """Rows of ids [texts, groups, rows] at `places` [groups, rows], with features of the tokens before, [texts, groups,
        rows, hidden].

        `far` and `near` have every layer's keys and values of the text, and of the rows that the groups have already; an
        empty list is nothing. The rows see `seen`, whose `near` counts the rows themselves. Returns their last hidden states
        and, of every layer, keys and values of all rows that the groups now have.
        """
        x, rotary, new = features, self.rotary(places), []
        for i, layer in enumerate(self.layers):
            if i == 0:
                fed = layer.hidden_norm(x)
                x = fed if self.shape.residual_normed else x
                fed = torch.cat([layer.input_layernorm(self.embed[ids]), fed], -1)
            else:
                fed = layer.input_layernorm(x)
            pairs = layer.self_attn.pairs(fed, rotary)
            behind = far[i] if far else Pairs(*(part[:, 0, :0] for part in pairs))
            if near:
                pairs = Pairs(*(torch.cat(both, 2) for both in zip(near[i], pairs, strict=True)))
            new.append(pairs)
            x = layer.finish(x, layer.self_attn(fed, rotary, behind, pairs, seen))
        return x, new

    def logits(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Of last hidden states [..., hidden] the features that are handed on, and logits [..., known]."""
        normed = self.norm(x)
        logits = linear(normed.flatten(0, -2), self.head).unflatten(0, x.shape[:-1])
        return normed if self.shape.output_normed else x, logits

    def forward(self, states: torch.Tensor, ids: torch.Tensor, steps: int) -> Iterator[torch.Tensor]:
        """For training: the logits [texts, rows, known] of each of so many drafted tokens after every token but the first
        of texts `ids` [texts, tokens] with those hidden states. In step j row i has read the text to token i + 1 + j, the
        last j tokens as a draft, and its label is token i + 2 + j; of the last j rows there is none.
        """
        count, device = ids.shape[1] - 1, ids.device
        tokens, x = torch.arange(count, device=device), self.features(states[:, :-1])[:, None]
        text = tokens <= tokens[:, None]
        # All rows are one group that reads the text; then each is a group of its own, which drafts.
        x, pairs = self.rows(ids[:, None, 1:], x, tokens[None], [], [], Seen(text[:, :0], text))
        far, near, x = [Pairs(*(part[:, 0] for part in each)) for each in pairs], [], x.transpose(1, 2).contiguous()
        for step in range(1, steps + 1):
            x, logits = self.logits(x)
            yield logits[:, :, 0]
            if step < steps:
                read = nn.functional.pad(ids[:, None, 1 + step :], (0, step)).transpose(1, 2)
                seen = Seen(text[:, None], torch.ones(1, step, dtype=torch.bool, device=device))
                x, near = self.rows(read, x, (tokens + step)[:, None], far, near, seen)

    @torch.inference_mode()
    def read(
        self, states: torch.Tensor, ids: Sequence[int], start: int, cache: LayerCache
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Read further tokens of the text from the one numbered `start` on, whose tokens before have these hidden states
        [tokens, taps times hidden]; the feature [1, hidden] and the logits [1, known] after the last."""
        n, device = len(ids), states.device
        cache.rewind(start)
        tokens, places = torch.tensor(ids, device=device), torch.arange(start, start + n, device=device)
        chain = torch.ones(n, n, dtype=torch.bool, device=device).tril()
        if self.shape.window:
            chain &= ~chain.tril(-self.shape.window)
        seen = Seen(within(self.shape.window, start, places), chain)
        x, pairs = self.rows(tokens[None, None], self.features(states)[None, None], places[None], cache.far, [], seen)
        cache.append([Pairs(*(part[:, 0] for part in each)) for each in pairs])
        return self.logits(x[0, 0, -1:])

    @torch.inference_mode()
    def draft(
        self, ids: Sequence[int], parents: Sequence[int], features: torch.Tensor, first: int, start: int, cache: LayerCache
    ) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
        """Rows from `first` on of a tree of drafted tokens after a text of `start` tokens; their parents have these features
        [rows, hidden]. The rows' own features, and their logits [rows, known]."""
        device = features.device
        places = torch.tensor(depths(parents)[first:], device=device) + (start - 1)
        near = torch.tensor(ancestor_mask(parents), device=device)[first:]
        if cache.near:
            cache.near = [Pairs(*(part[:, :, :first] for part in pairs)) for pairs in cache.near]
        seen = Seen(within(self.shape.window, start, places), near)
        ids = torch.tensor(ids[first:], device=device)
        x, cache.near = self.rows(ids[None, None], features[None, None], places[None], cache.far, cache.near, seen)
        return self.logits(x[0, 0])
