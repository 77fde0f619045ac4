"""Passes of heads in compiled calls (`block_pass`, `eagle_pass`, `medusa_pass`), with weights in eight bits: on a processor,
beside a target whose passes are compiled too.

What a head drafts is verified, so its numbers may be rounded otherwise than its network's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from ..core.lm import DraftRequest, DraftTree
from ..model.heads.block import BlockNetwork
from ..model.heads.eagle import EagleNetwork
from ..model.heads.layers import Layer
from ..model.heads.medusa import MedusaNetwork
from ..model.heads.shape import BLOCK, EAGLE, MEDUSA, NONE, HeadShape
from ..model.rotary import RotaryTables
from . import block_pass, eagle_pass, medusa_pass, whole_pass
from .cache import CompiledCache
from .chain import Request
from .columns import SPARE_POSITIONS, Columns, fits
from .multiply import spare_floats
from .product import Product
from .vectors import BLOCK as OUTPUTS
from .vectors import whole

if TYPE_CHECKING:
    from .llama import Llama


def passes(network: nn.Module, target: Llama) -> CompiledBlock | CompiledEagle | CompiledMedusa | None:
    """The compiled passes of a head beside this target; None if they are not compiled."""
    kinds = {MEDUSA: CompiledMedusa, EAGLE: CompiledEagle, BLOCK: CompiledBlock}
    return kinds[network.shape.kind](network, target) if _compiles(network.shape, target) else None


def _compiles(shape: HeadShape, target: Llama) -> bool:
    if shape.hidden != target.shape.hidden:
        return False
    free = shape.window == 0 or shape.window >= target.shape.context_length
    usual = shape.fed_norm == NONE and not shape.output_normed and shape.layers == 1
    simple = fits(shape) and free and not shape.biased
    return {MEDUSA: shape.layers == 1 and not shape.draft_vocab, EAGLE: simple and usual, BLOCK: simple}[shape.kind]


class _Tables:
    """What compiled passes take of a network's layers: addresses of weights, norms and the rotation's tables."""

    def __init__(self, network: BlockNetwork | EagleNetwork, target: Llama, norms: Sequence[nn.Module], fc: nn.Linear):
        shape = network.shape
        self.target, self.dtype, self.rounded = target, target.dtype, int(target.dtype == torch.bfloat16)
        self._products = [
            [Product(weight.to(self.dtype), small=True) for weight in _weights(layer)] for layer in network.layers
        ]
        head = Product(network.head.to(self.dtype), small=True) if shape.draft_vocab else target.drafting_head
        last = [Product(fc.weight.to(self.dtype), small=True), head]
        rows = [*self._products, [*last, *last]]
        self._last = last
        self.weights = np.array([[product.blocks.ctypes.data for product in row] for row in rows])
        self.scales = np.array([[product.scales.ctypes.data for product in row] for row in rows])
        self.norms = torch.stack([norm.weight.to(self.dtype) for norm in norms]).float().numpy()
        pairs = [
            [norm.weight.to(self.dtype).float() for norm in (layer.self_attn.q_norm, layer.self_attn.k_norm)]
            if shape.head_norms
            else []
            for layer in network.layers
        ]
        self.head_norms = np.array([[norm.numpy() for norm in pair] for pair in pairs], np.float32)
        self.head_norms = self.head_norms.reshape(shape.layers, -1, shape.head_dim)
        rotations = partial(_rotations, network.turns, self.dtype)
        self.rotary = RotaryTables(rotations, target.shape.context_length + SPARE_POSITIONS + shape.rows)
        self.kernels = whole_pass.addresses(last[0].stored)
        self.embed = target.weights.embed
        self.widest = max(shape.fed, shape.inner, 2 * shape.hidden, shape.heads * shape.head_dim)
        self.eps, self.scaling = np.float32(shape.eps), np.float32(shape.head_dim**-0.5)

    def new_cache(self) -> CompiledCache:
        """An empty cache."""
        return CompiledCache(len(self._products))

    @property
    def nbytes(self) -> int:
        """Bytes that they take, but for an output head that is the target's."""
        last = self._last if self.shape.draft_vocab else self._last[:1]
        return sum(product.nbytes for row in (*self._products, last) for product in row)


def _rotations(turns: nn.Module, dtype: torch.dtype, places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines [positions, head dim], as the kernels take them."""
    cos, sin = (table[:, 0] for table in turns(places))
    half = cos.shape[-1] // 2
    return cos.to(dtype), torch.cat([-sin[:, :half], sin[:, half:]], -1).to(dtype)


def _weights(layer: Layer) -> list[torch.Tensor]:
    attention, mlp = layer.self_attn, layer.mlp
    qkv = torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight])
    return [qkv, attention.o_proj.weight, torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]), mlp.down_proj.weight]


class CompiledBlock(_Tables):
    """A block head's passes; see `model.heads.plain.PlainBlock`."""

    drafts_chains = True

    @torch.inference_mode()
    def __init__(self, network: BlockNetwork, target: Llama):
        self.shape = network.shape
        around = [norm for layer in network.layers for norm in (layer.input_layernorm, layer.post_attention_layernorm)]
        super().__init__(network, target, [network.hidden_norm, *around, network.norm], network.fc)
        self._ids = np.full(self.shape.rows, self.shape.mask)
        self._before, bias = np.zeros((self.shape.vocab, 0), np.float32), (0, 0)
        if network.markov_head:
            self._before = network.markov_head.markov_w1.weight.float().numpy().copy()
            self._bias = Product(network.markov_head.markov_w2.weight.to(self.dtype), small=True)
            bias = self._bias.blocks.ctypes.data, self._bias.scales.ctypes.data
        proj, proj_bias = np.zeros(self.shape.hidden + self.shape.rank, np.float32), 0.0
        if network.confidence_head:
            proj, proj_bias = (weight.float().numpy()[0].copy() for weight in network.confidence_head.proj.parameters())
        # What `block_pass.slot` takes behind a slot's own numbers.
        self._slot_tables = (*bias, proj, np.float32(proj_bias), self.rounded, spare_floats(1, self.shape.rank))

    def draft(
        self, states: torch.Tensor, anchor: int, start: int, cache: CompiledCache
    ) -> tuple[torch.Tensor, torch.Tensor]:
        shape, n = self.shape, len(states)
        both = n + shape.rows
        cache.rewind(start)
        cache.lay_out(start + both)
        caches = cache.make_room(both, shape.kv_heads, shape.head_dim, self.dtype)
        cos, sin = (table[start : start + both] for table in self.rotary.up_to(start + both))
        hidden, logits = torch.empty(shape.rows, shape.hidden), torch.empty(shape.rows, whole(shape.known, OUTPUTS))
        states = states.contiguous()
        self._ids[0] = anchor
        block_pass.forward(
            self.kernels, states.data_ptr(), n, shape.fed, self._ids, self.embed.data_ptr(), cos, sin, self.norms, self.head_norms,
            self.weights, self.scales, caches, start, int(shape.causal), cache.room, shape.heads,
            shape.kv_heads, shape.inner, shape.vocab, shape.known, self.rounded, spare_floats(both, self.widest), hidden.data_ptr(),
            logits.data_ptr(), self.eps, self.scaling,
        )  # fmt: skip
        first = shape.rows - shape.slots
        return hidden[first:], logits[first:]

    def slot(self, hidden: torch.Tensor, logits: torch.Tensor, before: int) -> tuple[torch.Tensor, float | None]:
        out = torch.empty(1, len(logits))
        chance, _ = block_pass.slot(
            self.kernels[0], hidden.numpy(), logits.numpy(), self._before[before], *self._slot_tables, out.numpy()[0]
        )
        return out, chance if self.shape.confident else None

    def chain(
        self, hidden: torch.Tensor, logits: torch.Tensor, first: int, before: int, request: DraftRequest
    ) -> tuple[list[int], list[float]]:
        """Tokens of the slots from `first` on, and how likely each is accepted."""
        bias, scales, proj, proj_bias, rounded, spare = self._slot_tables
        tokens, confidences = block_pass.chain(
            self.kernels[0], hidden.numpy(), logits.numpy(), first, before, self._before, bias, scales, proj, proj_bias,
            self.shape.confident, rounded, spare, Request.of(request),
        )  # fmt: skip
        return tokens.tolist(), confidences.tolist()

    def tree(self, logits: torch.Tensor, before: int, request: DraftRequest, branches: int, rows: int) -> DraftTree:
        """A tree of the slots' favourites behind a token: tokens, parents, and the share of each of its softmax."""
        bias, scales, _, _, rounded, _ = self._slot_tables
        spare = spare_floats(branches, self.shape.rank)
        *grown, _ = block_pass.tree(
            self.kernels[0], logits.numpy(), before, self._before, bias, scales, rounded, spare, branches, rows,
            Request.of(request),
        )  # fmt: skip
        return DraftTree(*(part.tolist() for part in grown))

    def bias(self, tokens: Sequence[int]) -> torch.Tensor | float:
        return self._bias(torch.from_numpy(self._before[list(tokens)])) if self.shape.rank else 0.0


class CompiledEagle(_Tables):
    """An EAGLE head's passes; see `model.heads.plain.PlainEagle`."""

    drafts_chains = True

    @torch.inference_mode()
    def __init__(self, network: EagleNetwork, target: Llama):
        self.shape, layer = network.shape, network.layers[0]
        norms = [layer.input_layernorm, layer.hidden_norm, layer.post_attention_layernorm, network.norm]
        super().__init__(network, target, norms, network.fc)

    def read(
        self, states: torch.Tensor, ids: Sequence[int], start: int, cache: CompiledCache
    ) -> tuple[torch.Tensor, torch.Tensor]:
        n = len(ids)
        cache.rewind(start)
        columns = Columns.of(range(-1, n - 1), start)
        features, logits = self._pass(
            states.contiguous(), self.shape.fed, ids, columns, slice(start, start + n), n - 1, cache
        )
        return features[-1:], logits

    def draft(
        self,
        ids: Sequence[int],
        parents: Sequence[int],
        features: torch.Tensor,
        first: int,
        start: int,
        cache: CompiledCache,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        cache.rewind(start + first)
        columns = Columns.of(parents, start, first)
        places = columns.straight + columns.counts - 1
        return self._pass(features.contiguous(), 0, ids[first:], columns, places, 0, cache)

    def chain(
        self, feature: torch.Tensor, logits: torch.Tensor, start: int, cache: CompiledCache, request: DraftRequest
    ) -> tuple[list[int], list[float], torch.Tensor]:
        """Draft behind a text of `start` tokens whose last has this feature [1, hidden] and these logits [known]: tokens, how
        sure of each, and features [rows, hidden] of all but the last."""
        shape = self.shape
        cache.rewind(start)
        cache.lay_out(start + request.most)
        caches = cache.make_room(request.most, shape.kv_heads, shape.head_dim, self.dtype)
        tokens, confidences, features, _ = eagle_pass.chain(
            self.kernels, feature.numpy(), logits.numpy(), self.embed.data_ptr(), *self.rotary.up_to(start + request.most), self.norms, self.head_norms[0],
            self.weights, self.scales, caches, start, cache.room, shape.heads, shape.kv_heads, shape.inner,
            shape.vocab, shape.known, self.rounded, int(shape.residual_normed), spare_floats(1, self.widest), self.eps,
            self.scaling, Request.of(request),
        )  # fmt: skip
        return tokens.tolist(), confidences.tolist(), torch.from_numpy(features)

    def tree(
        self, feature: torch.Tensor, logits: torch.Tensor, start: int, cache: CompiledCache, request: DraftRequest, branches: int,
        rows: int,
    ) -> DraftTree:  # fmt: skip
        """A tree behind the same text: tokens, parents, and the share of each of its softmax."""
        shape = self.shape
        cache.rewind(start)
        cache.lay_out(start + rows)
        caches = cache.make_room(rows, shape.kv_heads, shape.head_dim, self.dtype)
        *grown, _ = eagle_pass.tree(
            self.kernels, feature.numpy(), logits.numpy(), self.embed.data_ptr(), *self.rotary.up_to(start + rows), self.norms, self.head_norms[0],
            self.weights, self.scales, caches, start, cache.room, shape.heads, shape.kv_heads, shape.inner,
            shape.vocab, shape.known, self.rounded, int(shape.residual_normed), spare_floats(branches, self.widest), self.eps,
            self.scaling, branches, rows, Request.of(request),
        )  # fmt: skip
        return DraftTree(*(part.tolist() for part in grown))

    def _pass(self, given, fed, ids, columns, places, first, cache):
        shape, n = self.shape, len(ids)
        cache.lay_out(int(columns.new[-1]) + 1)
        caches = cache.make_room(n, shape.kv_heads, shape.head_dim, self.dtype)
        end = places.stop if isinstance(places, slice) else int(places.max()) + 1
        cos, sin = (table[places] for table in self.rotary.up_to(end))
        features, logits = torch.empty(n, shape.hidden), torch.empty(n - first, whole(shape.known, OUTPUTS))
        eagle_pass.forward(
            self.kernels, given.data_ptr(), fed, np.array(ids), self.embed.data_ptr(), cos, sin, self.norms, self.head_norms[0],
            self.weights, self.scales, caches, cache.room, columns.new, columns.straight, columns.branch,
            columns.counts, shape.heads, shape.kv_heads, shape.inner, shape.vocab, shape.known, self.rounded, int(shape.residual_normed),
            spare_floats(n, self.widest), features.data_ptr(), first, logits.data_ptr(), self.eps, self.scaling,
        )  # fmt: skip
        return features, logits[:, : shape.known]


class CompiledMedusa:
    """Medusa heads' passes; see `model.heads.plain.PlainMedusa`."""

    drafts_chains = True

    @torch.inference_mode()
    def __init__(self, network: MedusaNetwork, target: Llama):
        self.shape, self.rounded = network.shape, int(target.dtype == torch.bfloat16)
        layers = [block.layers[0] for block in network.blocks]
        self._products = [
            Product(torch.cat([layer.weight for layer in layers]).to(target.dtype), small=True), target.drafting_head
        ]  # fmt: skip
        self._weights, self._scales = (
            np.array([getattr(product, part).ctypes.data for product in self._products])
            for part in ("blocks", "scales")
        )
        self._biases = np.zeros((self.shape.slots, self.shape.hidden), np.float32)
        if self.shape.biased:
            self._biases = torch.stack([layer.bias.float() for layer in layers]).numpy().copy()
        self._kernels = whole_pass.addresses(self._products[0].stored)
        self._spare = spare_floats(self.shape.slots, self.shape.hidden)
        nothing = np.zeros((self.shape.slots, 0), np.float32)  # no hidden state, no token before: logits decide
        self._slot_tables = nothing, np.zeros((self.shape.vocab, 0), np.float32), np.zeros(0, np.float32)

    def draft(self, states: torch.Tensor) -> torch.Tensor:
        shape, state = self.shape, states.contiguous()
        logits = torch.empty(shape.slots, whole(shape.known, OUTPUTS))
        medusa_pass.forward(
            self._kernels, state.data_ptr(), self._weights, self._scales, self._biases, shape.known, self.rounded, self._spare,
            logits.data_ptr(),
        )  # fmt: skip
        return logits

    def chain(self, logits: torch.Tensor, first: int, request: DraftRequest) -> tuple[list[int], list[float]]:
        """Tokens of the slots from `first` on, and the share of each of its softmax."""
        hidden, table, proj = self._slot_tables
        tokens, confidences = block_pass.chain(
            self._kernels[0], hidden, logits.numpy(), first, 0, table, 0, 0, proj, np.float32(0), False, self.rounded, 0,
            Request.of(request),
        )  # fmt: skip
        return tokens.tolist(), confidences.tolist()
