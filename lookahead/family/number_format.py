"""Which number format a family runs in: one answer for one machine.

bfloat16 reads half as much, and where a processor has instructions for it, further rows cost next to nothing; but
without them it is slow, or rounds a row differently in every company. So on a processor it is taken where it is exact
and not clearly slower than float32 in the model's own passes, else float32. What was found is remembered (`remembered`),
and `dtype`, `--dtype` or LOOKAHEAD_DTYPE overrule it.

Knows models and clocks. It does not know how exactness is found.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache, partial

import torch
from torch.nn.functional import linear

from ..core import memory
from ..core.events import SettingsError
from ..model.forward import Forward
from ..model.layer_skip import CANNOT
from ..model.lm import CachedLM
from . import operators, threads
from .cost import interleaved

VARIABLE = "LOOKAHEAD_DTYPE"
CLEARLY = 1.3  # times float32's passes: slower than that is clearly slower
HOPELESS = 3.0  # the same for a single product, where passes need not be tried
ROWS = (1, 9)  # of the passes that are compared: naive's, and one that verifies eight drafted tokens
LAYERS, BEHIND, TRIALS = 2, 64, 9
SPARE = 3  # times the copy in float32 that memory must have free


@dataclass(frozen=True, slots=True)
class Format:
    """A number format: its name, and its weights' type."""

    name: str
    dtype: torch.dtype


BFLOAT16 = Format("bfloat16", torch.bfloat16)
FLOAT32 = Format("float32", torch.float32)
FORMATS = {one.name: one for one in (BFLOAT16, FLOAT32)}


def requested(name: str | torch.dtype | None = None) -> Format | None:
    """The format that a caller or the environment names; None leaves it to a measurement. Raises `SettingsError`."""
    name = name or os.environ.get(VARIABLE, "").strip() or None
    if isinstance(name, torch.dtype):
        name = str(name).removeprefix("torch.")
    if name in (None, "auto"):
        return None
    if not isinstance(name, str) or name not in FORMATS:
        raise SettingsError("dtype", name, f"choose one of auto, {', '.join(FORMATS)}.")
    return FORMATS[name]


@lru_cache(maxsize=4)
@torch.inference_mode()
def likely(device: torch.device, batch_invariant: bool = False) -> Format:
    """The format that will probably be chosen: memory is planned before a model is loaded.

    bfloat16 if passes are `batch_invariant`, for they need no instructions of its own; else one product is timed.
    """
    if device.type == "cuda":
        return BFLOAT16 if torch.cuda.is_bf16_supported() else FLOAT32
    if batch_invariant:
        return BFLOAT16
    x, weight = torch.randn(8, 512), torch.randn(1024, 512)
    products = [partial(linear, x.to(form.dtype), weight.to(form.dtype)) for form in (BFLOAT16, FLOAT32)]
    bfloat16_s, float32_s = interleaved(products, TRIALS, min)
    if bfloat16_s > HOPELESS * float32_s:
        return FLOAT32
    return BFLOAT16 if operators.reach(operators.a_product(torch.bfloat16)).most > 1 else FLOAT32


def trial(target: CachedLM) -> float | None:
    """How long a bfloat16 model's passes take in units of the same passes in float32: its first layers', in turns.

    None where its layers cannot be used alone, or memory has no room for them in float32.
    """
    try:
        short = _first(target)
    except CANNOT:
        return None
    if SPARE * FLOAT32.dtype.itemsize * short.size > memory.free():
        return None
    lms = [_converted(short, form, target) for form in (BFLOAT16, FLOAT32)]
    passes, totals = [partial(lm.forward, [1] * rows) for lm in lms for rows in ROWS], []
    counts = {threads.now()} if short.batch_invariant else {threads.now(), threads.MOST}
    for count in counts:  # each format with as many threads as suit it
        with threads.using(count):
            pass_s = interleaved(passes, TRIALS, min)
        totals.append((sum(pass_s[: len(ROWS)]), sum(pass_s[len(ROWS) :])))
    bfloat16_s, float32_s = map(min, zip(*totals, strict=True))
    return bfloat16_s / float32_s


def _first(target: CachedLM) -> Forward:
    """Its first layers. Raises one of `CANNOT` for an architecture that cannot be cut."""
    return target.passes.first(min(LAYERS, target.passes.shape.layers))


def _converted(passes: Forward, form: Format, target: CachedLM) -> CachedLM:
    """The passes in a number format, behind a short text."""
    lm = CachedLM(passes.converted(form.dtype), target.vocab)
    lm.extend([1] * min(BEHIND, target.context_length - max(ROWS)))
    return lm
