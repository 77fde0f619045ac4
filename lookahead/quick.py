"""A drafter's Llama pass with weights of eight bits: the same model, rounded otherwise, in less than half the time.

Only the target's rounding decides what is written; a draft is checked, however it came about. So a drafter's one-row
passes, which on a CPU are mostly reading weights and starting kernels, read half as much (torch's own kernel for
8-bit weights, a scale a row) and start fewer kernels. More rows than `FEW` go through the model's own weights.

Used where it was found quicker on this processor, for bfloat16 Llamas whose shapes the kernel takes and where memory
has room for the copy; everything else keeps to `llama`. Knows tensors. It does not know who drafts what.
"""

from __future__ import annotations

from functools import lru_cache
from time import perf_counter

import torch
from torch.nn.functional import linear
from transformers import PreTrainedModel

from . import room
from .attention import Layout, attend
from .llama import FusedLlama, Layer, fused

FEW = 4  # rows; beyond, the kernel takes longer than a product of 16 bits
BLOCK = 32  # the kernel reads whole blocks, also past the end of a row
ELEMENTS = 200_000  # keys that a row may look at, in numbers: beyond, a product is quicker than a sum of products
SPARE = 4  # times the copy that memory must have free
TINY = 1e-6


class Eight:
    """A weight [out, in] in eight bits beside its own."""

    def __init__(self, weight: torch.Tensor):
        self.full = weight
        wide = weight.float()
        scale = (wide.abs().amax(1) / 127).clamp_min(1e-12).to(weight.dtype)
        self.bits = (wide / scale.float()[:, None]).round().clamp(-127, 127).to(torch.int8)
        self.scale = scale

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """x [rows, in] times the weight: [rows, out]."""
        return torch._weight_int8pack_mm(x, self.bits, self.scale) if len(x) <= FEW else linear(x, self.full)


class QuickLlama(FusedLlama):
    """`FusedLlama` with other roundings."""

    @torch.inference_mode()
    def __init__(self, model: PreTrainedModel):
        super().__init__(model)
        root = self.embed.shape[1] ** 0.5  # a root of mean squares is a length over this
        self.norm, self.head = self.norm * root, Eight(self.head)
        self.layers = [
            Layer(
                layer.norm1 * root, Eight(layer.qkv), Eight(layer.out),
                layer.norm2 * root, Eight(layer.gate_up), Eight(layer.down),
            )
            for layer in self.layers
        ]  # fmt: skip

    @property
    def nbytes(self) -> int:
        """What the copy in eight bits holds."""
        return sum(weight.bits.nbytes for weight in _weights(self))

    def _normed(self, x, weight):
        return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp_min(TINY) * weight

    def _product(self, x, weight):
        return weight(x)

    def _attended(self, query, keys, values, rows: Layout):
        heads, n, dim = query.shape[1:]
        seen = rows.past + n
        if n > 1 or rows.ancestors is not None or heads * seen * dim > ELEMENTS:
            return attend(query, keys, values, self.scaling, None, rows)
        keys, values = keys[0, :, None, :seen], values[0, :, None, :seen]
        grouped = query.view(len(keys), -1, 1, dim) * self.scaling
        weights = (keys * grouped).sum(-1).softmax(-1)
        return (weights[..., None] * values).sum(-2)


def quick(model: PreTrainedModel) -> FusedLlama | None:
    """The quickest written-out pass for a drafter, made once; None where there is none."""
    plain = fused(model)
    if plain is None:
        return None
    held = getattr(model, "_lookahead_quick", None)
    if held is None:
        held = model._lookahead_quick = QuickLlama(model) if _applies(plain) else plain
    return held


def _weights(llama: FusedLlama) -> list:
    return [llama.head, *(w for layer in llama.layers for w in (layer.qkv, layer.out, layer.gate_up, layer.down))]


def _applies(plain: FusedLlama) -> bool:
    weights = _weights(plain)
    fit = all(w.dtype == torch.bfloat16 and not (w.shape[0] % BLOCK or w.shape[1] % BLOCK) for w in weights)
    return fit and pays() and SPARE * sum(w.numel() for w in weights) <= room.memory()


@lru_cache(maxsize=1)
@torch.inference_mode()
def pays() -> bool:
    """Whether this processor multiplies a row with 8-bit weights quicker than with bfloat16."""
    if not hasattr(torch, "_weight_int8pack_mm"):
        return False
    row, weights = torch.ones(1, 512).bfloat16(), [Eight(torch.ones(1024, 512).bfloat16()) for _ in range(8)]
    took = {True: [], False: []}
    for _ in range(9):  # in turns: a busy machine must not decide
        for eight, times in took.items():
            start = perf_counter()
            for weight in weights:
                weight(row) if eight else linear(row, weight.full)
            times.append(perf_counter() - start)
    return min(took[True]) < min(took[False])
