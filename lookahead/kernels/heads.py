"""Passes of heads in compiled calls (`block_pass`, `eagle_pass`, `medusa_pass`), with weights in eight bits: on a processor,
beside a target whose passes are compiled too.

What a head drafts is verified, so its numbers may be rounded otherwise than its network's.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from . import block_pass, eagle_pass, medusa_pass, whole_pass
from .cache import CompiledCache
from .chain import Request
from .columns import Columns, fits
from .product import Product
from .records import Caches, PackedWeights, Rows, Sizes
from .rotary import SPARE_POSITIONS, RotaryTables
from .vectors import BLOCK as OUTPUTS
from .vectors import whole

if TYPE_CHECKING:
    from .llama import Llama


def passes(network: nn.Module, target: Llama) -> CompiledBlock | CompiledEagle | CompiledMedusa | None:
    """The compiled passes of a head of this target; None if they are not compiled."""
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
    """What compiled passes take of a network's layers."""

    def __init__(self, network: BlockNetwork | EagleNetwork, target: Llama, norms: Sequence[nn.Module], fc: nn.Linear):
        shape = network.shape
        self.target, self.dtype = target, target.dtype
        self._products = [
            [Product(weight.to(self.dtype), int8=True) for weight in _weights(layer)] for layer in network.layers
        ]
        head = Product(network.head.to(self.dtype), int8=True) if shape.draft_vocab else target.drafting_head
        last = [Product(fc.weight.to(self.dtype), int8=True), head]
        rows = [*self._products, [*last, *last]]
        self._last = last
        pairs = [
            [norm.weight.to(self.dtype).float() for norm in (layer.self_attn.q_norm, layer.self_attn.k_norm)]
            if shape.head_norms
            else []
            for layer in network.layers
        ]
        head_norms = np.array([[norm.numpy() for norm in pair] for pair in pairs], np.float32)
        self.weights = PackedWeights(
            target.weights.embed.data_ptr(),
            torch.stack([norm.weight.to(self.dtype) for norm in norms]).float().numpy(),
            head_norms.reshape(shape.layers, -1, shape.head_dim),
            np.array([[product.blocks.ctypes.data for product in row] for row in rows]),
            np.array([[product.scales.ctypes.data for product in row] for row in rows]),
        )
        widest = max(shape.fed, shape.inner, 2 * shape.hidden, shape.heads * shape.head_dim)
        self.sizes = _sizes(shape, target, widest)
        most = target.shape.context_length + SPARE_POSITIONS + shape.rows
        self.rotary = RotaryTables(network.rotary.inv_freq, self.dtype, most)
        self.kernels = whole_pass.addresses(last[0].stored)

    def room(self, cache: CompiledCache, rows: int, ends: int = 1) -> Caches:
        """The cache with room for so many further rows, the first `ends` of which a pass computes."""
        shape = self.shape
        addresses = cache.make_room(rows, shape.kv_heads, shape.head_dim, self.dtype)[None]
        return Caches(addresses, np.array([cache.room]), np.array([ends]))

    def new_cache(self) -> CompiledCache:
        """An empty cache."""
        return CompiledCache(len(self._products))

    @property
    def nbytes(self) -> int:
        """Bytes that they take, but for an output head that is the target's."""
        last = self._last if self.shape.draft_vocab else self._last[:1]
        return sum(product.nbytes for row in (*self._products, last) for product in row)


def _sizes(shape: HeadShape, target: Llama, widest: int) -> Sizes:
    return Sizes(
        shape.hidden, shape.heads, shape.kv_heads, shape.head_dim, shape.inner, shape.vocab, shape.known, widest,
        int(target.dtype == torch.bfloat16), np.float32(shape.eps), np.float32(shape.head_dim**-0.5),
    )  # fmt: skip


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
        table, bias = np.zeros((self.shape.vocab, 0), np.float32), (0, 0)
        if network.markov_head:
            table = network.markov_head.markov_w1.weight.float().numpy().copy()
            self._bias = Product(network.markov_head.markov_w2.weight.to(self.dtype), int8=True)
            bias = self._bias.blocks.ctypes.data, self._bias.scales.ctypes.data
        proj, proj_bias = np.zeros(self.shape.hidden + self.shape.rank, np.float32), 0.0
        if network.confidence_head:
            proj, proj_bias = (weight.float().numpy()[0].copy() for weight in network.confidence_head.proj.parameters())
        self._markov = block_pass.Markov(
            self.kernels.multiply,
            table,
            *bias,
            proj,
            np.float32(proj_bias),
            int(self.shape.confident),
            self.sizes.rounded,
        )

    def draft(
        self, states: torch.Tensor, anchor: int, start: int, cache: CompiledCache
    ) -> tuple[torch.Tensor, torch.Tensor]:
        shape, n = self.shape, len(states)
        both = n + shape.rows
        cache.rewind(start)
        cache.lay_out(start + both)
        caches = self.room(cache, both, shape.rows)
        self._ids[0] = anchor
        rows = Rows(self._ids, *(table[start : start + both] for table in self.rotary.up_to(start + both)))
        hidden, logits = torch.empty(shape.rows, shape.hidden), torch.empty(shape.rows, whole(shape.known, OUTPUTS))
        states = states.contiguous()
        block_pass.forward(
            self.kernels, self.sizes, self.weights, caches, rows, start, int(shape.causal), states.data_ptr(), shape.fed,
            hidden.data_ptr(), logits.data_ptr(),
        )  # fmt: skip
        first = shape.rows - shape.slots
        return hidden[first:], logits[first:]

    def slot(self, hidden: torch.Tensor, logits: torch.Tensor, before: int) -> tuple[torch.Tensor, float | None]:
        out = torch.empty(1, len(logits))
        chance, _ = block_pass.slot(self._markov, hidden.numpy(), logits.numpy(), before, out.numpy()[0])
        return out, chance if self.shape.confident else None

    def chain(
        self, hidden: torch.Tensor, logits: torch.Tensor, first: int, before: int, request: DraftRequest
    ) -> tuple[list[int], list[float]]:
        """Tokens of the slots from `first` on, and how likely each is accepted."""
        tokens, confidences = block_pass.chain(
            self._markov, hidden.numpy(), logits.numpy(), first, before, Request.of(request)
        )
        return tokens.tolist(), confidences.tolist()

    def tree(self, logits: torch.Tensor, before: int, request: DraftRequest, branches: int, rows: int) -> DraftTree:
        """A tree of the slots' favourites after a token: tokens, parents, and the share of each of its softmax."""
        *grown, _ = block_pass.tree(self._markov, logits.numpy(), before, branches, rows, Request.of(request))
        return DraftTree(*(part.tolist() for part in grown))

    def bias(self, tokens: Sequence[int]) -> torch.Tensor | float:
        return self._bias(torch.from_numpy(self._markov.table[list(tokens)])) if self.shape.rank else 0.0


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
        """Draft after a text of `start` tokens whose last has this feature [1, hidden] and these logits [known]: tokens, how
        sure of each, and features [rows, hidden] of all but the last."""
        tokens, confidences, features, _ = eagle_pass.chain(
            *self._behind(feature, logits, start, cache, request.most), Request.of(request)
        )
        return tokens.tolist(), confidences.tolist(), torch.from_numpy(features)

    def tree(
        self, feature: torch.Tensor, logits: torch.Tensor, start: int, cache: CompiledCache, request: DraftRequest, branches: int,
        rows: int,
    ) -> DraftTree:  # fmt: skip
        """A tree after the same text: tokens, parents, and the share of each of its softmax."""
        *grown, _ = eagle_pass.tree(
            *self._behind(feature, logits, start, cache, rows), branches, rows, Request.of(request)
        )
        return DraftTree(*(part.tolist() for part in grown))

    def _behind(self, feature, logits, start, cache, drafted) -> tuple:
        """What `eagle_pass`'s calls take to draft so many tokens after a text of `start` tokens."""
        cache.rewind(start)
        cache.lay_out(start + drafted)
        caches, rotations = self.room(cache, drafted), self.rotary.up_to(start + drafted)
        normed = int(self.shape.residual_normed)
        return (
            self.kernels, self.sizes, self.weights, caches, feature.numpy(), logits.numpy(), start, rotations, normed
        )  # fmt: skip

    def _pass(self, given, fed, ids, columns, places, first, cache):
        shape, n = self.shape, len(ids)
        cache.lay_out(int(columns.new[-1]) + 1)
        caches = self.room(cache, n, n)
        end = places.stop if isinstance(places, slice) else int(places.max()) + 1
        rows = Rows(np.array(ids), *(table[places] for table in self.rotary.up_to(end)))
        features, logits = torch.empty(n, shape.hidden), torch.empty(n - first, whole(shape.known, OUTPUTS))
        eagle_pass.forward(
            self.kernels, self.sizes, self.weights, caches, rows, columns, given.data_ptr(), fed, int(shape.residual_normed),
            features.data_ptr(), first, logits.data_ptr(),
        )  # fmt: skip
        return features, logits[:, : shape.known]


class CompiledMedusa:
    """Medusa heads' passes; see `model.heads.plain.PlainMedusa`."""

    drafts_chains = True

    @torch.inference_mode()
    def __init__(self, network: MedusaNetwork, target: Llama):
        self.shape = network.shape
        self._sizes = _sizes(self.shape, target, self.shape.hidden)
        layers = [block.layers[0] for block in network.blocks]
        self._products = [
            Product(torch.cat([layer.weight for layer in layers]).to(target.dtype), int8=True), target.drafting_head
        ]  # fmt: skip
        self._weights, self._scales = (
            np.array([getattr(product, part).ctypes.data for product in self._products])
            for part in ("blocks", "scales")
        )
        self._biases = np.zeros((self.shape.slots, self.shape.hidden), np.float32)
        if self.shape.biased:
            self._biases = torch.stack([layer.bias.float() for layer in layers]).numpy().copy()
        self._kernels = whole_pass.addresses(self._products[0].stored)
        # No hidden state and no token before a slot: logits decide.
        self._hidden = np.zeros((self.shape.slots, 0), np.float32)
        table, proj = np.zeros((self.shape.vocab, 0), np.float32), np.zeros(0, np.float32)
        self._markov = block_pass.Markov(
            self._kernels.multiply, table, 0, 0, proj, np.float32(0), 0, self._sizes.rounded
        )

    def draft(self, states: torch.Tensor) -> torch.Tensor:
        shape, state = self.shape, states.contiguous()
        logits = torch.empty(shape.slots, whole(shape.known, OUTPUTS))
        medusa_pass.forward(
            self._kernels, self._sizes, state.data_ptr(), self._weights, self._scales, self._biases, logits.data_ptr()
        )
        return logits

    def chain(self, logits: torch.Tensor, first: int, request: DraftRequest) -> tuple[list[int], list[float]]:
        """Tokens of the slots from `first` on, and the share of each of its softmax."""
        tokens, confidences = block_pass.chain(
            self._markov, self._hidden, logits.numpy(), first, 0, Request.of(request)
        )
        return tokens.tolist(), confidences.tolist()
