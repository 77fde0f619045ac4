"""Passes of trained heads in compiled calls (`block_pass`, `recursive_pass`), with 8-bit weights.

They run on a CPU, with a target whose passes are compiled too. The target verifies the drafts, so a head's results may
be rounded differently from those of its network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from ..core.lm import DraftRequest, DraftTree
from ..model.heads.eagle import EagleNetwork
from ..model.heads.layers import Layer
from ..model.heads.mtp import MtpNetwork
from ..model.heads.recursive import RecursiveNetwork
from ..model.heads.shape import BLOCK, EAGLE, MEDUSA, MTP, NONE
from ..model.heads.slots import BlockNetwork, MedusaNetwork
from . import attend, block_pass, llama_pass, recursive_pass
from .cache import CompiledCache
from .draft import CompiledRequest
from .product import Product, addresses
from .records import Caches, Columns, PackedWeights, Rows, Sizes
from .rotary import SPARE_POSITIONS, RotaryTables
from .vectors import BLOCK as OUTPUTS
from .vectors import round_up, supports

if TYPE_CHECKING:
    from .llama import Llama


def passes(network: nn.Module, target: Llama) -> CompiledBlock | CompiledRecursive | CompiledMedusa | None:
    """Return the compiled passes of a head of this target; None if they are not compiled."""
    shape = network.shape
    simple = supports(shape) and not shape.biased and (shape.window == 0 or shape.window >= target.shape.context_length)
    compiled_class, supported = {
        MEDUSA: (CompiledMedusa, shape.layers == 1 and not shape.draft_vocab),
        MTP: (CompiledMtp, simple),
        EAGLE: (CompiledEagle, simple and shape.fed_norm == NONE and shape.layers == 1),
        BLOCK: (CompiledBlock, simple),
    }[shape.kind]
    return compiled_class(network, target) if supported and shape.hidden == target.shape.hidden else None


class _PackedNetwork:
    """The weights and sizes of a network's layers, for compiled passes."""

    def __init__(
        self, network: BlockNetwork | RecursiveNetwork, target: Llama, norms: Sequence[nn.Module], fc: nn.Linear
    ):
        shape = network.shape
        self.target, self.dtype = target, target.dtype
        self._products = [_products(layer, target.dtype) for layer in network.layers]
        head = Product(network.head.to(self.dtype), int8=True) if shape.draft_vocab else target.drafting_head
        self._last = other_products = [Product(fc.weight.to(self.dtype), int8=True), head]
        attentions = [layer.self_attn for layer in network.layers] if shape.head_norms else []
        head_norms = [norm for attention in attentions for norm in (attention.q_norm, attention.k_norm)]
        self.weights = PackedWeights(
            target.weights.embed.data_ptr(),
            self._stack_norms(norms, shape.hidden),
            self._stack_norms(head_norms, shape.head_dim).reshape(shape.layers, -1, shape.head_dim),
            *addresses([*self._products, [*other_products, *other_products]]),
            np.zeros((shape.layers + 1, 4), np.int64),
            np.zeros((shape.layers, 2), np.int64),
        )
        max_inputs = max(shape.input_width, shape.inner, 2 * shape.hidden, shape.heads * shape.head_dim)
        storage = attend.kv_storage(shape, self.dtype)
        self.sizes = Sizes.from_shape(
            shape, shape.inner, shape.output_vocab, max_inputs, self.dtype, storage, shape.eps
        )
        max_positions = target.shape.context_length + SPARE_POSITIONS + shape.rows
        self.rotary = RotaryTables(network.rotary.inv_freq, self.dtype, max_positions)
        self.kernels = llama_pass.addresses(other_products[0].storage)

    def _stack_norms(self, norms: Sequence[nn.Module], width: int) -> np.ndarray:
        """Return the weights of norms [norms, width], rounded to the target's number format."""
        return np.array([norm.weight.to(self.dtype).float().numpy() for norm in norms], np.float32).reshape(-1, width)

    def reserve(self, cache: CompiledCache, rows: int, ends: int = 1) -> Caches:
        """Return the caches for a pass that computes `ends` rows, with `rows` further columns."""
        shape = self.shape
        addresses = cache.reserve(rows, shape.kv_heads, shape.head_dim, self.dtype)[None]
        return Caches(addresses, np.array([cache.capacity]), np.array([ends]))

    def new_cache(self) -> CompiledCache:
        """Return an empty cache."""
        return CompiledCache(len(self._products), self.sizes.kv_storage)


def _products(layer: Layer, dtype: torch.dtype) -> list[Product]:
    attention, mlp = layer.self_attn, layer.mlp
    qkv = torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight])
    gate_up = torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight])
    weights = qkv, attention.o_proj.weight, gate_up, mlp.down_proj.weight
    return [Product(weight.to(dtype), int8=True) for weight in weights]


class _CompiledSlots:
    """Drafting from the slots of a pass. `_markov` has the Markov and confidence heads."""

    def slot(self, hidden: torch.Tensor, logits: torch.Tensor, previous: int) -> tuple[torch.Tensor, float | None]:
        """See `model.heads.slots`."""
        out = torch.empty(1, len(logits))
        confidence, _ = block_pass.slot(self._markov, hidden.numpy(), logits.numpy(), previous, out.numpy())
        return out, confidence if self.shape.confident else None

    def chain(
        self, hidden: torch.Tensor, logits: torch.Tensor, first: int, previous: int, request: DraftRequest
    ) -> tuple[list[int], list[float]]:
        """Return the tokens of the slots from `first` on, after the token `previous`, and their confidences."""
        compiled = CompiledRequest.from_request(request)
        tokens, confidences = block_pass.chain(self._markov, hidden.numpy(), logits.numpy(), first, previous, compiled)
        return tokens.tolist(), confidences.tolist()

    def tree(self, logits: torch.Tensor, previous: int, request: DraftRequest, branches: int, rows: int) -> DraftTree:
        """Return a tree of the slots' most probable tokens after a token. Confidences are softmax probabilities."""
        compiled = CompiledRequest.from_request(request)
        *arrays, _ = block_pass.tree(self._markov, logits.numpy(), previous, branches, rows, compiled)
        return DraftTree(*(array.tolist() for array in arrays))

    def bias(self, tokens: Sequence[int]) -> torch.Tensor | float:
        """See `model.heads.slots`."""
        return self._bias(torch.from_numpy(self._markov.table[list(tokens)])) if self.shape.rank else 0.0


class CompiledBlock(_CompiledSlots, _PackedNetwork):
    """The passes of a block head; see `model.heads.slots.BlockNetwork`."""

    @torch.inference_mode()
    def __init__(self, network: BlockNetwork, target: Llama):
        self.shape = network.shape
        norms = [norm for layer in network.layers for norm in (layer.input_layernorm, layer.post_attention_layernorm)]
        super().__init__(network, target, [network.hidden_norm, *norms, network.norm], network.fc)
        self._ids = np.full(self.shape.rows, self.shape.mask)
        table, bias = np.zeros((self.shape.vocab, 0), np.float32), (0, 0)
        if network.markov_head:
            table = network.markov_head.markov_w1.weight.float().numpy().copy()
            self._bias = Product(network.markov_head.markov_w2.weight.to(self.dtype), int8=True)
            bias = self._bias.blocks.ctypes.data, self._bias.scales.ctypes.data
        proj, proj_bias = np.zeros(self.shape.hidden + self.shape.rank, np.float32), 0.0
        if network.confidence_head:
            proj, proj_bias = (weight.float().numpy()[0].copy() for weight in network.confidence_head.proj.parameters())
        multiply, confident, rounded = self.kernels.multiply, int(self.shape.confident), self.sizes.rounded
        self._markov = block_pass.Markov(multiply, table, *bias, proj, np.float32(proj_bias), confident, rounded)

    def draft(self, states, anchor, start, cache):
        shape, n = self.shape, len(states)
        total = n + shape.rows
        cache.rewind(start)
        cache.ensure_capacity(start + total)
        caches = self.reserve(cache, total, shape.rows)
        ids = self._ids.copy()  # several texts may draft at the same time
        ids[0] = anchor
        rows = Rows(ids, *(table[start : start + total] for table in self.rotary.up_to(start + total)))
        hidden, logits = (
            torch.empty(shape.rows, shape.hidden),
            torch.empty(shape.rows, round_up(shape.output_vocab, OUTPUTS)),
        )
        states = states.contiguous()
        block_pass.forward(
            self.kernels, self.sizes, self.weights, caches, rows, start, int(shape.causal), states.data_ptr(), shape.input_width,
            hidden.data_ptr(), logits.data_ptr(),
        )  # fmt: skip
        first = shape.rows - shape.slots
        return hidden[first:], logits[first:]


class CompiledRecursive(_PackedNetwork):
    """The passes of an EAGLE head or an MTP module; see `model.heads.recursive`."""

    def __init__(self, network: RecursiveNetwork, target: Llama, norms: Sequence[nn.Module], fc: nn.Linear):
        self.shape = shape = network.shape
        super().__init__(network, target, norms, fc)
        flags = shape.kind == MTP, shape.residual_normed, shape.output_normed
        self._form = recursive_pass.Form(*map(int, flags))

    def read(self, states, ids, start, cache):
        n = len(ids)
        cache.rewind(start)
        columns, positions = Columns.from_parents(range(-1, n - 1), start), slice(start, start + n)
        features, logits = self._pass(
            states.contiguous(), self.shape.input_width, ids, columns, positions, n - 1, cache
        )
        return features[-1:], logits

    def draft(self, ids, parents, features, first, start, cache):
        cache.rewind(start + first)
        columns = Columns.from_parents(parents, start, first)
        return self._pass(features.contiguous(), 0, ids[first:], columns, columns.positions, 0, cache)

    def chain(
        self, feature: torch.Tensor, logits: torch.Tensor, start: int, cache: CompiledCache, request: DraftRequest
    ) -> tuple[list[int], list[float], torch.Tensor]:
        """Draft after a text of `start` tokens, whose last token has this `feature` [1, hidden] and these `logits`.

        Returns tokens, their confidences, and the features [rows, hidden] of all but the last.
        """
        tokens, _, confidences, features = self._tree(feature, logits, start, cache, request, 1, request.max_tokens)
        return tokens.tolist(), confidences.tolist(), torch.from_numpy(features)

    def tree(
        self, feature: torch.Tensor, logits: torch.Tensor, start: int, cache: CompiledCache, request: DraftRequest, branches: int,
        rows: int,
    ) -> DraftTree:  # fmt: skip
        """Draft a tree after the same text. Confidences are softmax probabilities."""
        *arrays, _ = self._tree(feature, logits, start, cache, request, branches, rows)
        return DraftTree(*(array.tolist() for array in arrays))

    def _tree(self, feature, logits, start, cache, request, branches, rows) -> list[np.ndarray]:
        """Return the tokens, parents, confidences and features that `recursive_pass.tree` returns."""
        cache.rewind(start)
        cache.ensure_capacity(start + rows)
        caches, rotations = self.reserve(cache, rows), self.rotary.up_to(start + rows)
        network, text = (self.kernels, self.sizes, self._form, self.weights, caches), (feature.numpy(), logits.numpy())
        compiled = CompiledRequest.from_request(request)
        *arrays, _ = recursive_pass.tree(*network, *text, start, rotations, branches, rows, compiled)
        return arrays

    def _pass(self, inputs, state_width, ids, columns, positions, first, cache):
        shape, n = self.shape, len(ids)
        cache.ensure_capacity(int(columns.new[-1]) + 1)
        caches = self.reserve(cache, n, n)
        stop = positions.stop if isinstance(positions, slice) else int(positions.max()) + 1
        rows = Rows(np.array(ids), *(table[positions] for table in self.rotary.up_to(stop)))
        features, logits = torch.empty(n, shape.hidden), torch.empty(n - first, round_up(shape.output_vocab, OUTPUTS))
        recursive_pass.forward(
            self.kernels, self.sizes, self._form, self.weights, caches, rows, columns, inputs.data_ptr(), state_width,
            features.data_ptr(), first, logits.data_ptr(),
        )  # fmt: skip
        return features, logits[:, : shape.output_vocab]


class CompiledEagle(CompiledRecursive):
    """The passes of an EAGLE head; see `model.heads.eagle.EagleNetwork`."""

    @torch.inference_mode()
    def __init__(self, network: EagleNetwork, target: Llama):
        layer = network.layers[0]
        norms = [layer.input_layernorm, layer.hidden_norm, layer.post_attention_layernorm, network.norm]
        super().__init__(network, target, norms, network.fc)


class CompiledMtp(CompiledRecursive):
    """The passes of an MTP module; see `model.heads.mtp.MtpNetwork`."""

    @torch.inference_mode()
    def __init__(self, network: MtpNetwork, target: Llama):
        layer = network.layers[0]
        before = layer.token_layernorm, layer.hidden_layernorm
        norms = [*before, layer.post_attention_layernorm, layer.final_layernorm, layer.input_layernorm]
        super().__init__(network, target, norms, layer.input_proj)


class CompiledMedusa(_CompiledSlots):
    """The passes of Medusa heads; see `model.heads.slots.MedusaNetwork`."""

    @torch.inference_mode()
    def __init__(self, network: MedusaNetwork, target: Llama):
        self.shape = shape = network.shape
        storage, dtype = attend.kv_storage(shape, target.dtype), target.dtype
        self._sizes = Sizes.from_shape(shape, shape.inner, shape.output_vocab, shape.hidden, dtype, storage, shape.eps)
        layers = [block.layers[0] for block in network.blocks]
        joined = torch.cat([layer.weight for layer in layers]).to(target.dtype)
        self._products = [Product(joined, int8=True), target.drafting_head]
        self._packed = [pointers[0] for pointers in addresses([self._products])]
        self._biases = np.zeros((shape.slots, shape.hidden), np.float32)
        if shape.biased:
            self._biases = torch.stack([layer.bias.float() for layer in layers]).numpy().copy()
        self._kernels = llama_pass.addresses(self._products[0].storage)
        self._hidden = torch.zeros(shape.slots, 0)  # drafting needs only logits
        table, proj, zero = np.zeros((shape.vocab, 0), np.float32), np.zeros(0, np.float32), np.float32(0)
        self._markov = block_pass.Markov(self._kernels.multiply, table, 0, 0, proj, zero, 0, self._sizes.rounded)

    def draft(self, states):
        state, logits = states.contiguous(), torch.empty(self.shape.slots, round_up(self.shape.output_vocab, OUTPUTS))
        block_pass.medusa(self._kernels, self._sizes, state.data_ptr(), *self._packed, self._biases, logits.data_ptr())
        return self._hidden, logits
