"""A block drafter as it is trained: one pass over [anchor, mask, mask, ...] drafts the whole block.

Two layers of Qwen3's kind read the target's hidden states (`taps`) of all that stands before the anchor, and inside the
block each slot the ones before it (DFlash, Chen et al. 2026, with JetSpec's causal mask). The slots do not know what was
drafted before them; a Markov head adds a bias that depends on the token before, and a confidence head says how likely a
slot is to be accepted (DSpark, DeepSpec 2026). Embedding and output head are the target's, frozen. Weights are named as in
`speculators`' files.

Knows tensors. It does not know where text comes from, nor how a block is verified.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, linear, log_softmax, silu
from transformers import LlamaForCausalLM

from .writing import Rows

STRIDE = 4  # tokens of a text from one anchor to the next
FADING = 4.0  # slots after which the weight of a slot's loss has fallen to 1 / e


@dataclass(frozen=True, slots=True)
class BlockShape:
    """What a block drafter is made of, beside its target's sizes. `taps` index transformers' `hidden_states`."""

    hidden: int
    heads: int
    inner: int
    vocab: int
    taps: tuple[int, ...]
    mask: int  # the token whose embedding stands for "not drafted yet"
    layers: int = 2
    size: int = 8  # slots of a block: so many tokens are drafted
    rank: int = 64  # of the Markov head
    theta: float = 10_000.0
    eps: float = 1e-6

    @property
    def head_dim(self) -> int:
        """Width of an attention head."""
        return self.hidden // self.heads


class _Attention(nn.Module):
    """Slots [B, A, K, H] of blocks look at the context before their anchor, and at the slots of their block up to theirs."""

    def __init__(self, shape: BlockShape):
        super().__init__()
        width = shape.hidden
        self.heads, self.dim = shape.heads, shape.head_dim
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.q_norm, self.k_norm = (nn.RMSNorm(shape.head_dim, shape.eps) for _ in range(2))

    def forward(self, x, context, before, turns):
        """`context` [B, T, H]; `before` [A, T] says which of it stands before an anchor; `turns` of context and of slots."""
        heads = lambda y: y.unflatten(-1, (self.heads, self.dim))  # noqa: E731
        (batch, anchors, slots, _), (of_context, of_slots) = x.shape, turns
        q = _turned(self.q_norm(heads(self.q_proj(x))), of_slots)
        k, v = _turned(self.k_norm(heads(self.k_proj(x))), of_slots), heads(self.v_proj(x))
        far_k, far_v = _turned(self.k_norm(heads(self.k_proj(context))), of_context), heads(self.v_proj(context))
        far = torch.einsum("baskd,btkd->bkast", q, far_k).masked_fill(~before[:, None, :], -torch.inf)
        causal = torch.ones(slots, slots, dtype=torch.bool, device=x.device).tril()
        near = torch.einsum("baskd,balkd->bkasl", q, k).masked_fill(~causal, -torch.inf)
        weights = (torch.cat([far, near], -1) * self.dim**-0.5).softmax(-1).to(v.dtype)
        far, near = weights.split([context.shape[1], slots], -1)
        mixed = torch.einsum("bkast,btkd->baskd", far, far_v) + torch.einsum("bkasl,balkd->baskd", near, v)
        return self.o_proj(mixed.flatten(-2))


class _MLP(nn.Module):
    def __init__(self, shape: BlockShape):
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(shape.hidden, shape.inner, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(shape.inner, shape.hidden, bias=False)

    def forward(self, x):
        return self.down_proj(silu(self.gate_proj(x)) * self.up_proj(x))


class _Layer(nn.Module):
    def __init__(self, shape: BlockShape):
        super().__init__()
        self.self_attn, self.mlp = _Attention(shape), _MLP(shape)
        self.input_layernorm, self.post_attention_layernorm = (nn.RMSNorm(shape.hidden, shape.eps) for _ in range(2))

    def forward(self, x, context, before, turns):
        x = x + self.self_attn(self.input_layernorm(x), context, before, turns)
        return x + self.mlp(self.post_attention_layernorm(x))


class _Markov(nn.Module):
    def __init__(self, shape: BlockShape):
        super().__init__()
        self.markov_w1 = nn.Embedding(shape.vocab, shape.rank)
        self.markov_w2 = nn.Linear(shape.rank, shape.vocab, bias=False)
        nn.init.normal_(self.markov_w1.weight, std=0.01)


class _Confidence(nn.Module):
    def __init__(self, shape: BlockShape):
        super().__init__()
        self.proj = nn.Linear(shape.hidden + shape.rank, 1)


class BlockDrafter(nn.Module):
    """Logits and confidences of blocks. `embed` [vocab, hidden] is the target's embedding, which is its head too."""

    def __init__(self, shape: BlockShape, embed: torch.Tensor, head: torch.Tensor | None = None):
        super().__init__()
        self.shape = shape
        self.fc = nn.Linear(len(shape.taps) * shape.hidden, shape.hidden, bias=False)
        self.hidden_norm, self.norm = (nn.RMSNorm(shape.hidden, shape.eps) for _ in range(2))
        self.layers = nn.ModuleList(_Layer(shape) for _ in range(shape.layers))
        self.markov_head, self.confidence_head = _Markov(shape), _Confidence(shape)
        self.register_buffer("embed", embed, persistent=False)
        self.register_buffer("head", embed if head is None else head, persistent=False)
        inv_freq = shape.theta ** -(torch.arange(0, shape.head_dim, 2).float() / shape.head_dim)
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def forward(
        self, taps: torch.Tensor, ids: torch.Tensor, anchors: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The block after each of `anchors` [A] in texts `ids` [B, T], whose hidden states are `taps` [B, T, taps H].

        Returns the slots' hidden states [B, A, K, H], their logits [B, A, K, vocab] with the bias of the text's own token
        before, and the confidences' logits [B, A, K].
        """
        shape = self.shape
        context = self.hidden_norm(self.fc(taps))
        places = anchors[:, None] + torch.arange(shape.size, device=ids.device)
        x = self.embed[shape.mask].expand(len(ids), len(anchors), shape.size - 1, -1)
        x = torch.cat([self.embed[ids[:, anchors]][:, :, None], x], 2)
        before = torch.arange(ids.shape[1], device=ids.device) < anchors[:, None]
        turns = self._turns(torch.arange(ids.shape[1], device=ids.device)), self._turns(places)
        for layer in self.layers:
            x = layer(x, context, before, turns)
        x = self.norm(x)
        previous = self.markov_head.markov_w1(ids[:, places])
        logits = linear(x, self.head) + self.markov_head.markov_w2(previous)
        return x, logits, self.confidence_head.proj(torch.cat([x, previous], -1))[..., 0]

    def _turns(self, places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines [..., 1, head_dim] of positions."""
        angles = (places[..., None].float() * self.inv_freq)
        angles = torch.cat([angles, angles], -1)[..., None, :]
        return angles.cos(), angles.sin()


def _turned(x: torch.Tensor, turns: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    cos, sin = turns
    first, second = x.chunk(2, -1)
    return (x * cos + torch.cat([-second, first], -1) * sin).to(x.dtype)


class BlockLoss:
    """What a block drafter learns: the target's distribution at every slot, and how often it will agree with it.

    Divergence and total variation, whose complement is the acceptance of a sampled token, and the surprise at the target's
    favourite, which decides a greedy one; later slots weigh less, for they are reached less often.
    """

    def __init__(self, target: LlamaForCausalLM, favourite: float):
        self.target, self.favourite = target, favourite

    def __call__(self, drafter: BlockDrafter, rows: Rows) -> torch.Tensor:
        """In nats, of the target's own writing."""
        ids, shape = rows.ids[:, :-1], drafter.shape
        with torch.no_grad():
            body = self.target.model(input_ids=ids, use_cache=False, output_hidden_states=True)
            taps = torch.cat([body.hidden_states[i] for i in shape.taps], -1)
            firsts = torch.arange(1, ids.shape[1] - shape.size - STRIDE, STRIDE, device=ids.device)
            anchors = firsts + torch.randint(STRIDE, (1,), device=ids.device)
            places = anchors[:, None] + torch.arange(shape.size, device=ids.device)
            wanted = log_softmax(self.target.lm_head(body.last_hidden_state).float(), -1)[:, places].flatten(0, -2)
        _, logits, confidence = drafter(taps, ids, anchors)
        logp = log_softmax(logits.float(), -1).flatten(0, -2)
        p = wanted.exp()
        apart = (p * (wanted - logp)).sum(-1)
        variation = (p - logp.exp()).abs().sum(-1) / 2
        surprise = -logp.gather(-1, wanted.argmax(-1, keepdim=True))[:, 0]
        agreeing = binary_cross_entropy_with_logits(
            confidence.flatten().float(), 1 - variation.detach(), reduction="none"
        )
        weights = torch.exp(-torch.arange(shape.size, device=ids.device) / FADING)
        total = apart + variation + self.favourite * surprise + 0.2 * agreeing
        return (total.view(-1, shape.size) * weights).mean() / weights.mean()
