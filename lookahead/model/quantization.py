"""Quantized weights in safetensors: the methods that run with torch alone, and the errors of all others.

Most of these methods are dequantized as the files are read, so that a pass computes with plain weights. Kernels for packed weights
are never used: transformers downloads them from the hub, and code from a repository is not run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..core.events import ModelError
from ..core.wording import short_error
from . import small_files

if TYPE_CHECKING:
    from transformers import PreTrainedModel

METHODS = ("fp8", "mxfp8", "mxfp4", "bitnet", "gemma")
FIELDS = ("quantization_config", "compression_config")  # the second one was used before transformers 4.45
LONGEST = 40  # characters of a method's name in messages
OTHER = f"choose a copy without quantization, a GGUF file, or one of {', '.join(METHODS)}."


def settings(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the quantization settings in a model's configuration or in its text part; None without quantization."""
    parts = (config, config.get("text_config") or {})
    return next((part[name] for part in parts for name in FIELDS if part.get(name) is not None), None)


def method(config: Mapping[str, Any]) -> str:
    """Return the name of the method with which a model's weights are quantized, "" without quantization."""
    values = settings(config)
    if values is None:
        return ""
    bits = next((bits for bits in ("4bit", "8bit") if values.get(f"load_in_{bits}")), "")
    return f"bitsandbytes_{bits}" if bits else str(values.get("quant_method") or "")[:LONGEST]


def options(folder: str | Path) -> dict[str, Any]:
    """Return the arguments with which transformers reads a folder's weights; none if they are not quantized.

    Raises `ModelError` with the method's name if they cannot be read, or need further packages or a GPU.
    """
    config = small_files.read(folder, small_files.CONFIG) or {}
    values, name = settings(config), method(config)
    if values is None:
        return {}

    def refused(reason: str) -> ModelError:
        return ModelError("model", "/".join(Path(folder).parts[-2:]), f"{reason}; {OTHER}")

    if not name:
        raise refused("its weights are quantized, but its configuration names no method (quant_method), as for MLX")
    from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING, AutoHfQuantizer, AutoQuantizationConfig

    if name not in AUTO_QUANTIZATION_CONFIG_MAPPING:
        raise refused(f"its weights are quantized with {name}, which this version of transformers does not support")
    try:
        quantized = AutoQuantizationConfig.from_dict(dict(values))
        dequantizes = hasattr(quantized, "dequantize")
        if dequantizes:
            quantized.dequantize = True
        AutoHfQuantizer.from_config(quantized, pre_quantized=True).validate_environment(device_map=None)
    except Exception as error:  # each method raises its own types
        cannot = "whose settings cannot be read" if name in METHODS else "which needs more than torch"
        raise refused(f"its weights are quantized with {name}, {cannot} ({short_error(error)})") from error
    if name not in METHODS:
        raise refused(f"its weights are quantized with {name}, which needs more than torch")
    torch.compiler.set_stance("force_eager")  # BitNet's layers are compiled otherwise, which needs a C++ compiler
    return {"quantization_config": quantized} if dequantizes else {}


def convert_others(model: PreTrainedModel, dtype: torch.dtype) -> None:
    """Convert the weights that are not quantized, because transformers leaves them in the format of the files.

    Weights in a format of one byte, and those that the architecture keeps in float32, stay.
    """
    kept = model._get_dtype_plan(dtype)
    for name, weight in model.named_parameters():
        if weight.is_floating_point() and weight.itemsize > 1 and not any(part in name for part in kept):
            weight.data = weight.data.to(dtype)
