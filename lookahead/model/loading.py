"""Read a transformers model from a folder, and check it before and after its weights are read.

Before: the model is built without weights and runs passes on shapes only. It is rejected if its cache cannot be rolled
back, or if a pass raises. If it ignores the mask of a tree, its trees are computed as chains. After: its tensors must match those
of the files exactly.
"""

import copy
import inspect
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from accelerate import init_empty_weights
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig, PreTrainedConfig, PreTrainedModel

from ..core import memory
from ..core.events import ModelError
from ..core.wording import short_error
from . import mimo, quantization, small_files  # noqa: F401 (registers MiMo)
from .forward import Forward
from .heads import mtp_tensors
from .lm import CachedLM
from .modules import ATTENTION, CACHES, OTHER, TRIAL, Modules, forward_for, rollback_of
from .shape import Shape

MIN_CONTEXT = 128  # tokens; the measurements at load need less
DECODERS = ("gpt_neox",)  # decoders although their configuration has is_decoder false
SHOWN = 3  # names of tensors in a message
# Parts of torch's messages when a pass on shapes only needs the value of a tensor.
NEEDS_VALUES = ("meta tensor", "aten::_local_scalar_dense", "nonzero", "data-dependent", "Meta")


def load(folder: str, dtype: torch.dtype, device: torch.device, spread: bool) -> Forward:
    """Return the passes of the model in a folder, or of a hub name.

    `spread` distributes the layers over all GPUs. Raises `ModelError` if the model does not fit, is not supported, or is
    incomplete, and any error of transformers.
    """
    model = meta_model(folder)
    attention = supported_attention(model)
    # sdpa has no soft cap, and no window for the rows of a tree.
    fused = (
        model._supports_sdpa
        and not getattr(model.config, "attn_logit_softcapping", None)
        and not rollback_of(model).windows
    )
    if device.type == "cuda" and attention == ATTENTION and fused:
        attention = "sdpa"  # torch's fused attention is the fastest on a GPU
    small_files.weight_files(folder)
    generation(folder)
    options = {"dtype": dtype, "use_safetensors": True, "trust_remote_code": False, **quantization.options(folder)}
    if spread:  # only over GPUs, with memory left for keys and values on each
        most = {i: int(free / memory.SPARE) for i, free in enumerate(memory.gpus())}
        options |= {"device_map": "auto", "max_memory": most}
    model, report = AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation=attention, output_loading_info=True,
        ignore_mismatched_sizes=True, **options,
    )  # fmt: skip
    require_complete(folder, mtp_tensors.without(report, model.config.get_text_config().num_hidden_layers))
    quantization.convert_others(model, dtype)
    if not spread:
        return forward_for(model.to(device).eval())
    if {"cpu", "disk"} & {str(layer_device) for layer_device in model.hf_device_map.values()}:
        raise ModelError("model", folder, "it does not fit this machine's GPUs; choose a smaller one.")
    return forward_for(model.eval())


def require_complete(name: str, report: Mapping[str, Any]) -> None:
    """Raise `ModelError` if transformers' loading report names missing, unexpected or mismatched tensors."""
    faults = [
        ("lack", report["missing_keys"]),
        ("have another size for", [entry if isinstance(entry, str) else entry[0] for entry in report["mismatched_keys"]]),
        ("have unexpected tensors:", report["unexpected_keys"]),
    ]  # fmt: skip
    if reasons := "; ".join(f"they {fault} {_names(names)}" for fault, names in faults if names):
        hint = f"its weights do not match its configuration: {reasons}; choose a complete copy of this model."
        raise ModelError("model", name, hint)


def _names(names: Iterable[str]) -> str:
    """Return the first names, and the number of further ones."""
    ordered = sorted(names)
    more = f" and {len(ordered) - SHOWN} more" if len(ordered) > SHOWN else ""
    return ", ".join(ordered[:SHOWN]) + more


def meta_model(folder: str | Path) -> PreTrainedModel:
    """Return the model of a folder's configuration, with shapes only. Raises `ModelError` if it describes no model."""
    small_files.check(folder)
    config = configuration(folder)
    try:
        with suppress(ValueError, KeyError):  # architectures that do not support other attention
            return _built(config, ATTENTION)
        return _built(configuration(folder), "eager")
    except Exception as error:  # a wrong configuration can raise any error
        raise small_files.file_error(
            folder, small_files.CONFIG, f"it describes no model: {short_error(error)}"
        ) from error


def configuration(folder: str | Path) -> PreTrainedConfig:
    """Return a folder's configuration. Raises `ModelError` if transformers cannot read it."""
    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # transformers raises many kinds of errors here
        if not (Path(folder) / small_files.CONFIG).is_file():
            raise
        raise small_files.file_error(folder, small_files.CONFIG, short_error(error)) from error


def generation(folder: str | Path) -> GenerationConfig | None:
    """Return a folder's generation settings, None without a file. Raises `ModelError` if transformers cannot read it."""
    if not (Path(folder) / small_files.GENERATION).is_file():
        return None
    try:
        return GenerationConfig.from_pretrained(folder)
    except Exception as error:  # as above
        raise small_files.file_error(folder, small_files.GENERATION, short_error(error)) from error


def _built(config: PreTrainedConfig, attention: str) -> PreTrainedModel:
    with init_empty_weights(include_buffers=True):
        return _for_shapes(
            AutoModelForCausalLM.from_config(config, trust_remote_code=False, attn_implementation=attention)
        )


def _for_shapes(model: PreTrainedModel) -> PreTrainedModel:
    """Prepare a model without weights for passes."""
    model.tie_weights()
    if hasattr(model, "set_experts_implementation"):  # the default implementation needs values
        with suppress(ValueError):
            model.set_experts_implementation("batched_mm")
    return model.eval()


def _with_attention(model: PreTrainedModel, attention: str) -> PreTrainedModel:
    """Return the same model with other attention. Its configuration may be a text part that has no architecture."""
    with init_empty_weights(include_buffers=True):
        return _for_shapes(type(model)._from_config(copy.deepcopy(model.config), attn_implementation=attention))


def supported_attention(model: PreTrainedModel) -> str:
    """Return the name of the attention to compute a model with: `ATTENTION`, or "eager", the model's own.

    Its own attention computes chains only. `model` has no weights (`empty`). Raises `ModelError` if it is not supported.
    """
    config, name = model.config, model.config.model_type
    rollback = rollback_of(model)
    accepted = inspect.signature(model.forward).parameters.keys()
    if not (CACHES & accepted or rollback.recurrent) or config.is_encoder_decoder:
        raise ModelError("model", name, f"a pass of this architecture does not accept a cache; {OTHER}")
    if getattr(config, "is_decoder", None) is False and not name.startswith(DECODERS):
        raise ModelError("model", name, f"its configuration describes an encoder (is_decoder is false); {OTHER}")
    if (length := Shape.from_config(config).context_length) < MIN_CONTEXT:
        hint = f"its context holds {length} tokens; choose a model with at least {MIN_CONTEXT}."
        raise ModelError("model", name, hint)
    if not rollback.by_paths and _failure(model) is None and (not rollback.keys or _follows_trees(model)):
        return config._attn_implementation or ATTENTION
    if isinstance(error := _failure(_with_attention(model, "eager")), ModelError):
        raise error
    if error:
        reasons = " ".join(str(error).split())[:160]
        hint = (
            f"its passes cannot compute several rows after cached tokens ({type(error).__name__}: {reasons}); {OTHER}"
        )
        raise ModelError("model", name, hint) from error
    return "eager"


@torch.inference_mode()
def _failure(model: PreTrainedModel) -> Exception | None:
    """Run passes over a chain and a tree on shapes only; return the error of a pass, or None."""
    try:
        lm = CachedLM(Modules(model))
        lm.extend([0, 0, 0])
        lm.forward([0, 0, 0], [-1, 0, 0])
        lm.keep([0, 2])
        lm.forward([0])
    except Exception as error:  # an architecture can raise any error
        return None if any(message in str(error) for message in NEEDS_VALUES) else error
    return None


@torch.inference_mode()
def _follows_trees(model: PreTrainedModel) -> bool:
    """Return whether every layer with keys attends to the rows that the mask of a tree names. `model` has shapes only.

    The layers must use our attention and not change the mask. Those with a window in the cache must pass it, and no others.
    """
    trial = _with_attention(model, TRIAL)
    lm: Any = CachedLM(Modules(trial))
    try:
        lm.forward([0, 0, 0], [-1, 0, 0])
    except Exception as error:  # an architecture can raise any error
        if not any(message in str(error) for message in NEEDS_VALUES):
            return False
    trials = [each for module in trial.modules() for each in getattr(module, "trials", ())]
    layers, windows = lm.cache.written()  # not all layers, if the pass needed values
    passed = sum(window is not None for _, window in trials)
    uses_attend = len(trials) >= max(layers, 1)
    return uses_attend and all(unchanged for unchanged, _ in trials) and (passed >= windows if windows else not passed)
