"""The number format of a family's weights.

The format is bfloat16 for our kernels and for GPUs. Both compute it fast, and it takes half the memory of float32.
torch's kernels use float32 on a CPU, because bfloat16 can be slow there and logits often tie. `dtype`, `--dtype` and
LOOKAHEAD_DTYPE override this.
"""

import os

import torch

from ..core.events import SettingsError

VARIABLE = "LOOKAHEAD_DTYPE"
FORMATS = {"bfloat16": torch.bfloat16, "float32": torch.float32}


def name_of(dtype: torch.dtype) -> str:
    """Return a format's name, such as "bfloat16"."""
    return str(dtype).removeprefix("torch.")


def requested(name: str | torch.dtype | None = None) -> torch.dtype | None:
    """Return the format that the caller or the environment selects, None for "auto". Raises `SettingsError`."""
    name = name or os.environ.get(VARIABLE, "").strip() or "auto"
    if isinstance(name, torch.dtype):
        name = name_of(name)
    if name == "auto":
        return None
    if not isinstance(name, str) or name not in FORMATS:
        raise SettingsError("dtype", name, f"choose one of auto, {', '.join(FORMATS)}.")
    return FORMATS[name]


def default(device: torch.device, compiled: bool = False) -> torch.dtype:
    """Return the default format on a device. `compiled` passes are computed by our kernels, others by torch."""
    fast = torch.cuda.is_bf16_supported() if device.type == "cuda" else compiled
    return torch.bfloat16 if fast else torch.float32
