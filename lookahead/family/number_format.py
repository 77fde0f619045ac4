"""Which number format a family runs in.

bfloat16 takes half the memory of float32, and a pass reads half as much. Our kernels and GPUs compute it fast. torch's kernels
on a processor are slow without instructions for it, and its logits tie often, so that a draft may change the text: there it
is float32. `dtype`, `--dtype` or LOOKAHEAD_DTYPE overrule this.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch

from ..core.events import SettingsError

VARIABLE = "LOOKAHEAD_DTYPE"


@dataclass(frozen=True, slots=True)
class Format:
    """A number format: its name, and its weights' type."""

    name: str
    dtype: torch.dtype


BFLOAT16 = Format("bfloat16", torch.bfloat16)
FLOAT32 = Format("float32", torch.float32)
FORMATS = {one.name: one for one in (BFLOAT16, FLOAT32)}


def requested(name: str | torch.dtype | None = None) -> Format | None:
    """The format that a caller or the environment names; None if neither does. Raises `SettingsError`."""
    name = name or os.environ.get(VARIABLE, "").strip() or None
    if isinstance(name, torch.dtype):
        name = str(name).removeprefix("torch.")
    if name in (None, "auto"):
        return None
    if not isinstance(name, str) or name not in FORMATS:
        raise SettingsError("dtype", name, f"choose one of auto, {', '.join(FORMATS)}.")
    return FORMATS[name]


def usual(device: torch.device, compiled: bool = False) -> Format:
    """The format of models on a device, for passes that our kernels compute (`compiled`) or torch's."""
    if device.type == "cuda":
        return BFLOAT16 if torch.cuda.is_bf16_supported() else FLOAT32
    return BFLOAT16 if compiled else FLOAT32
