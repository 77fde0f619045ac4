"""Networks whose one pass has slots for all tokens of a draft: a block head, and Medusa heads.

A block head reads [anchor, mask, mask, ...] and drafts a whole block.

The slots attend to the target's hidden states of all tokens before the anchor (DFlash, Chen et al. 2026) and to each other,
in JetSpec only to the slots before. A Markov head adds a bias to the logits of a slot by the token drafted before it. A
confidence head predicts how likely the token is accepted (DSpark, DeepSpec 2026). Embedding and output head are the target's.
"""

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn.functional import linear, silu

from .layers import Layer, LayerCache, Norm, Pairs, RotaryEmbedding, Seen, within
from .shape import HeadShape


class Markov(nn.Module):
    """A bias of a slot's logits by the token before it."""

    def __init__(self, shape: HeadShape):
        super().__init__()
        self.markov_w1 = nn.Embedding(shape.vocab, shape.rank)
        self.markov_w2 = nn.Linear(shape.rank, shape.known, bias=False)
        nn.init.normal_(self.markov_w1.weight, std=0.01)


class Confidence(nn.Module):
    """How likely a slot's token is accepted, of its hidden state and what the Markov head has of the token before."""

    def __init__(self, shape: HeadShape):
        super().__init__()
        self.proj = nn.Linear(shape.hidden + shape.rank, 1)


class _Slots:
    """What a network with slots drafts after its pass: `shape`, `head`, `markov_head` and `confidence_head` are the network's."""

    @torch.inference_mode()
    def bias(self, tokens: Sequence[int]) -> torch.Tensor | float:
        """What the Markov head adds to the logits after tokens, [tokens, known]; nothing without one."""
        markov = self.markov_head
        return markov.markov_w2(markov.markov_w1(torch.tensor(tokens, device=self.head.device))) if markov else 0.0

    @torch.inference_mode()
    def slot(self, hidden: torch.Tensor, logits: torch.Tensor, before: int) -> tuple[torch.Tensor, float | None]:
        """The logits [1, known] of a slot after the token `before`, and how likely its token is accepted, None without a
        confidence head. `hidden` [hidden] and `logits` [known] are the slot's of the pass."""
        logits = (logits + self.bias([before])).view(1, -1)
        if not self.confidence_head:
            return logits, None
        parts = [hidden, self.markov_head.markov_w1.weight[before]]
        return logits, float(self.confidence_head.proj(torch.cat(parts)).sigmoid())


class BlockNetwork(_Slots, nn.Module):
    """`embed` [vocab, hidden] and `head` [vocab, hidden] are the target's."""

    def __init__(self, shape: HeadShape, embed: torch.Tensor, head: torch.Tensor):
        super().__init__()
        self.shape = shape
        self.fc = nn.Linear(shape.fed, shape.hidden, bias=False)
        self.hidden_norm, self.norm = (Norm(shape.hidden, shape.eps) for _ in range(2))
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.markov_head = Markov(shape) if shape.rank else None
        self.confidence_head = Confidence(shape) if shape.confident else None
        self.rotary = RotaryEmbedding(shape)
        self.register_buffer("embed", embed, persistent=False)
        self.register_buffer("head", head, persistent=False)

    def context(self, states: torch.Tensor, places: torch.Tensor) -> list[Pairs]:
        """Every layer's keys and values of tokens, of the target's hidden states [texts, tokens, taps times hidden]."""
        read, rotary = self.hidden_norm(self.fc(states)), self.rotary(places)
        return [layer.self_attn.pairs(read, rotary) for layer in self.layers]

    def slots(
        self, anchors: torch.Tensor, places: torch.Tensor, context: list[Pairs], seen: torch.Tensor
    ) -> torch.Tensor:
        """The normed hidden states [texts, groups, slots, hidden] of blocks after anchors [texts, groups], which stand at
        `places` [groups] and see so much of the context, [groups, 1 or rows, tokens]."""
        shape = self.shape
        masks = self.embed[shape.mask].expand(*anchors.shape, shape.rows - 1, -1)
        x = torch.cat([self.embed[anchors][:, :, None], masks], 2)
        rows = torch.arange(shape.rows, device=x.device)
        rotary, far = self.rotary(places[:, None] + rows), seen
        near = rows[:, None] >= rows if shape.causal else torch.ones_like(rows[:, None] >= rows)
        for layer, read in zip(self.layers, context, strict=True):
            fed = layer.input_layernorm(x)
            pairs = layer.self_attn.pairs(fed, rotary)
            x = layer.finish(x, layer.self_attn(fed, rotary, read, pairs, Seen(far, near)))
        return self.norm(x[:, :, shape.rows - shape.slots :])

    def logits(self, hidden: torch.Tensor, before: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The logits [..., known] of slots [..., hidden] after tokens `before` [...], and those of being accepted [...]."""
        logits, parts = linear(hidden, self.head), [hidden]
        if self.markov_head:
            parts.append(self.markov_head.markov_w1(before))
            logits = logits + self.markov_head.markov_w2(parts[1])
        sure = self.confidence_head.proj(torch.cat(parts, -1))[..., 0] if self.confidence_head else None
        return logits, sure

    def forward(
        self, states: torch.Tensor, ids: torch.Tensor, anchors: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """For training: what `logits` gives [texts, anchors, slots, known] for the block after each of `anchors` [anchors]
        in texts `ids` [texts, tokens] with those hidden states, where the text's own tokens stand before the slots."""
        tokens = torch.arange(ids.shape[1], device=ids.device)
        hidden = self.slots(
            ids[:, anchors], anchors, self.context(states, tokens), (tokens < anchors[:, None])[:, None]
        )
        before = anchors[:, None] + torch.arange(self.shape.slots, device=ids.device)
        return self.logits(hidden, ids[:, before])

    @torch.inference_mode()
    def draft(
        self, states: torch.Tensor, anchor: int, start: int, cache: LayerCache
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Read the hidden states [tokens, taps times hidden] of the text from token `start` on, and draft a block after the
        anchor, which follows it: the slots' hidden states [slots, hidden] and logits [slots, known], without the Markov
        head's."""
        device, place = states.device, start + len(states)
        cache.rewind(start)
        cache.append(self.context(states[None], torch.arange(start, place, device=device)))
        at, anchors = torch.tensor([place], device=device), torch.tensor([[anchor]], device=device)
        seen = within(self.shape.window, place, at + torch.arange(self.shape.rows, device=device))
        hidden = self.slots(anchors, at, cache.far, seen)[0, 0]
        return hidden, linear(hidden, self.head)


class Residual(nn.Module):
    """x + silu(W x + b), of which the first x stays what it was in the beginning: the target's own next token."""

    def __init__(self, shape: HeadShape):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(shape.hidden, shape.hidden, shape.biased) for _ in range(shape.layers))
        for weight in self.parameters():
            nn.init.zeros_(weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., hidden]."""
        for layer in self.layers:
            x = x + silu(layer(x))
        return x


class MedusaNetwork(_Slots, nn.Module):
    """For each of the next tokens a residual block on the target's last hidden state (Cai et al. 2024); names are those of vLLM's.

    `head` [vocab, hidden] is the target's; its embedding is not read. A block does not read what another has drafted.
    """

    markov_head = confidence_head = None

    def __init__(self, shape: HeadShape, embed: torch.Tensor, head: torch.Tensor):
        super().__init__()
        self.shape = shape
        self.blocks = nn.ModuleList(Residual(shape) for _ in range(shape.slots))
        self.register_buffer("head", head, persistent=False)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """The logits [..., slots, vocab] of the tokens after the target's own next one, of its hidden states [..., hidden]."""
        return linear(torch.stack([block(states) for block in self.blocks], -2), self.head)

    @torch.inference_mode()
    def draft(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """A pass after the token of a hidden state [1, hidden]: hidden states, which are not used, and logits [slots, vocab]."""
        return states.expand(self.shape.slots, -1), self(states)[0]
