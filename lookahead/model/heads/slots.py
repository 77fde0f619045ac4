"""Networks whose single pass has a slot for every token of a draft: block heads and Medusa heads.

A block head reads [anchor, mask, mask, ...] and drafts a block. The slots attend to the target's hidden states of all tokens
before the anchor (DFlash, Chen et al. 2026) and to each other, in JetSpec only to previous slots. A Markov head adds a bias to the
logits of a slot, which depends on the previous drafted token. A confidence head predicts the probability that the token is
accepted (DSpark, DeepSpec 2026). Embedding and output head are the target's.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, silu

from .layers import KeyValues, Layer, LayerCache, Mask, Norm, RotaryEmbedding, window_mask
from .shape import HeadShape


class Markov(nn.Module):
    """Computes the bias of a slot's logits from the previous token."""

    def __init__(self, shape: HeadShape):
        super().__init__()
        self.markov_w1 = nn.Embedding(shape.vocab, shape.rank)
        self.markov_w2 = nn.Linear(shape.rank, shape.output_vocab, bias=False)
        nn.init.normal_(self.markov_w1.weight, std=0.01)


class Confidence(nn.Module):
    """Predicts whether a slot's token is accepted, from its hidden state and the Markov head's embedding of the previous token."""

    def __init__(self, shape: HeadShape):
        super().__init__()
        self.proj = nn.Linear(shape.hidden + shape.rank, 1)


class _Slots:
    """Drafting from the slots of a pass. Subclasses have `shape`, `head`, `markov_head` and `confidence_head`."""

    @torch.inference_mode()
    def bias(self, tokens: Sequence[int]) -> Tensor | float:
        """Return the Markov head's bias of the logits after tokens, [tokens, output_vocab]; 0 without a Markov head."""
        markov = self.markov_head
        return markov.markov_w2(markov.markov_w1(torch.tensor(tokens, device=self.head.device))) if markov else 0.0

    @torch.inference_mode()
    def slot(self, hidden: Tensor, logits: Tensor, before: int) -> tuple[Tensor, float | None]:
        """Return the logits [1, output_vocab] of a slot after the token `before`, and the predicted probability of acceptance.

        The probability is None without a confidence head. `hidden` [hidden] and `logits` [output_vocab] are the pass's output for the slot.
        """
        logits = (logits + self.bias([before])).view(1, -1)
        if not self.confidence_head:
            return logits, None
        parts = [hidden, self.markov_head.markov_w1.weight[before]]
        return logits, float(self.confidence_head.proj(torch.cat(parts)).sigmoid())


class BlockNetwork(_Slots, nn.Module):
    """The network of a block head. `embed` [vocab, hidden] and `head` [known, hidden] are the target's."""

    def __init__(self, shape: HeadShape, embed: Tensor, head: Tensor):
        super().__init__()
        self.shape = shape
        self.fc = nn.Linear(shape.input_width, shape.hidden, bias=False)
        self.hidden_norm, self.norm = (Norm(shape.hidden, shape.eps) for _ in range(2))
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.markov_head = Markov(shape) if shape.rank else None
        self.confidence_head = Confidence(shape) if shape.confident else None
        self.rotary = RotaryEmbedding(shape)
        self.register_buffer("embed", embed, persistent=False)
        self.register_buffer("head", head, persistent=False)

    def new_cache(self) -> LayerCache:
        """Return an empty cache."""
        return LayerCache()

    def context(self, states: Tensor, positions: Tensor) -> list[KeyValues]:
        """Return the keys and values per layer of tokens, from the target's hidden states [texts, tokens, taps * hidden]."""
        features, rotary = self.hidden_norm(self.fc(states)), self.rotary(positions)
        return [layer.self_attn.keys_values(features, rotary) for layer in self.layers]

    def slots(self, anchors: Tensor, positions: Tensor, context: list[KeyValues], far: Tensor) -> Tensor:
        """Return the normed hidden states [texts, groups, slots, hidden] of blocks after anchors [texts, groups].

        `positions` [groups] are the anchors' positions. `far` [groups, 1 or rows, tokens] is the mask of the context.
        """
        shape = self.shape
        masks = self.embed[shape.mask].expand(*anchors.shape, shape.rows - 1, -1)
        x = torch.cat([self.embed[anchors][:, :, None], masks], 2)
        rows = torch.arange(shape.rows, device=x.device)
        rotary = self.rotary(positions[:, None] + rows)
        near = rows[:, None] >= rows if shape.causal else torch.ones_like(rows[:, None] >= rows)
        for layer, text in zip(self.layers, context, strict=True):
            inputs = layer.input_layernorm(x)
            pairs = layer.self_attn.keys_values(inputs, rotary)
            x = layer.finish(x, layer.self_attn(inputs, rotary, text, pairs, Mask(far, near)))
        return self.norm(x[:, :, shape.rows - shape.slots :])

    def logits(self, hidden: Tensor, before: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the logits [..., output_vocab] of slots [..., hidden] after tokens `before` [...], and the acceptance logits [...].

        The acceptance logits are None without a confidence head.
        """
        logits, parts = linear(hidden, self.head), [hidden]
        if self.markov_head:
            parts.append(self.markov_head.markov_w1(before))
            logits = logits + self.markov_head.markov_w2(parts[1])
        acceptance = self.confidence_head.proj(torch.cat(parts, -1))[..., 0] if self.confidence_head else None
        return logits, acceptance

    def forward(self, states: Tensor, ids: Tensor, anchors: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return `logits` [texts, anchors, slots, output_vocab] for the blocks after `anchors` [anchors] in each text, for training.

        `ids` [texts, tokens] have the hidden `states` [texts, tokens, taps * hidden]. The token before a slot is the text's.
        """
        tokens = torch.arange(ids.shape[1], device=ids.device)
        far = (tokens < anchors[:, None])[:, None]
        hidden = self.slots(ids[:, anchors], anchors, self.context(states, tokens), far)
        before = anchors[:, None] + torch.arange(self.shape.slots, device=ids.device)
        return self.logits(hidden, ids[:, before])

    @torch.inference_mode()
    def draft(self, states: Tensor, anchor: int, start: int, cache: LayerCache) -> tuple[Tensor, Tensor]:
        """Append tokens of the text from token `start` on, then draft a block after the anchor, which is the next token.

        `states` [tokens, taps * hidden] are the appended tokens' hidden states. Returns the slots' hidden states [slots, hidden]
        and logits [slots, output_vocab], without the Markov head's bias.
        """
        device, stop = states.device, start + len(states)
        cache.rewind(start)
        cache.append(self.context(states[None], torch.arange(start, stop, device=device)))
        position, anchors = torch.tensor([stop], device=device), torch.tensor([[anchor]], device=device)
        far = window_mask(self.shape.window, stop, position + torch.arange(self.shape.rows, device=device))
        hidden = self.slots(anchors, position, cache.far, far)[0, 0]
        return hidden, linear(hidden, self.head)


class Residual(nn.Module):
    """Layers of x + silu(W x + b). Weights begin at 0, so the initial output is x and predicts the target's next token."""

    def __init__(self, shape: HeadShape):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(shape.hidden, shape.hidden, shape.biased) for _ in range(shape.layers))
        for weight in self.parameters():
            nn.init.zeros_(weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output [..., hidden] of the layers for x [..., hidden]."""
        for layer in self.layers:
            x = x + silu(layer(x))
        return x


class MedusaNetwork(_Slots, nn.Module):
    """Medusa heads: a residual block on the target's last hidden state for each drafted token (Cai et al. 2024).

    `head` [vocab, hidden] is the target's; the embedding is not used. A block does not read the tokens that other blocks draft.
    Modules have vLLM's names.
    """

    markov_head = confidence_head = None

    def __init__(self, shape: HeadShape, embed: Tensor, head: Tensor):
        super().__init__()
        self.shape = shape
        self.blocks = nn.ModuleList(Residual(shape) for _ in range(shape.slots))
        self.register_buffer("head", head, persistent=False)

    def forward(self, states: Tensor) -> Tensor:
        """Return the logits [..., slots, vocab] of the tokens after the target's next token, for hidden states [..., hidden]."""
        return linear(torch.stack([block(states) for block in self.blocks], -2), self.head)

    @torch.inference_mode()
    def draft(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Run a pass on a hidden state [1, hidden]; return it per slot, unused, and the logits [slots, vocab]."""
        return states.expand(self.shape.slots, -1), self(states)[0]
