"""The passes of the MTP module in a target's own checkpoint (`mtp_tensors`), through transformers' modules.

The module has a decoder layer of the target's class, such as one with experts or with compressed keys, which transformers builds and
converts (`MtpModel`). Masks and the cache are ours, so that drafts can be trees and are rolled back as the target's rows are.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import convert_and_load_state_dict_in_model
from transformers.modeling_layers import MtpModel
from transformers.modeling_utils import LoadStateDictConfig

from ...core.events import ModelError
from ...core.tree import depths
from ...core.wording import short_error
from ..forward import Forward
from ..modules import ATTENTION, ModulesCache, distances
from .head import Head
from .mtp_tensors import MtpTensors
from .shape import MTP, HeadShape, default_taps


def read(folder: Path, tensors: MtpTensors, target: Forward, name: str) -> Head:
    """Read the module from a target's folder. Raises `ModelError` if it does not fit the target or is incomplete."""
    try:
        module = _module(folder, tensors, target.model)
    except ModelError:
        raise
    except Exception as error:  # the architecture may differ in any way
        raise ModelError("head", name, f"its MTP module cannot be read ({short_error(error)}).") from error
    config = module.config
    shape = HeadShape(
        MTP, config.hidden_size, target.shape.vocab, default_taps(MTP, target.shape.layers), output_normed=True
    )
    weights = list(module.layers.parameters())
    numbers, nbytes = sum(weight.numel() for weight in weights), sum(weight.nbytes for weight in weights)
    return Head(shape, TargetMtp(shape, module), None, numbers, nbytes)


def _module(folder: Path, tensors: MtpTensors, model: PreTrainedModel) -> MtpModel:
    """Return transformers' module with the weights of the checkpoint."""
    config = model.config.get_text_config()
    config.num_mtp_layers, config.mtp_hidden_states_first = 1, tensors.style.state_first
    if getattr(config, "layer_types", None):
        config.mtp_layer_types = (getattr(config, "mtp_layer_types", None) or ["full_attention"])[:1]
    if getattr(config, "mlp_layer_types", None):
        config.mtp_mlp_layer_types = config.mlp_layer_types[-1:]
    with ExitStack() as stack:
        for context in MtpModel.get_init_context(model.dtype, False, False, None):
            stack.enter_context(context)
        module = MtpModel(model, 1)
    stored = {f"layers.0.{name}": tensor for name, tensor in tensors.read(folder).items()}
    mapping = getattr(model, "_weight_conversions", None) or get_model_conversion_mapping(model)
    options = LoadStateDictConfig(weight_mapping=mapping, device_map={"": model.device}, dtype=model.dtype)
    report, _ = convert_and_load_state_dict_in_model(module, stored, options)
    module._adjust_missing_and_unexpected_keys(report)
    if faults := sorted(report.missing_keys | report.unexpected_keys | {entry[0] for entry in report.mismatched_keys}):
        raise ValueError(f"tensors are missing, unknown or of another size: {', '.join(faults[:3])}")
    module.tie_with_main_model(model)
    return module.eval().requires_grad_(False)


class TargetMtp(torch.nn.Module):
    """The passes of a target's module, with the methods of `RecursiveNetwork`."""

    def __init__(self, shape: HeadShape, module: MtpModel):
        super().__init__()
        self.shape, self.module = shape, module

    def new_cache(self) -> ModulesCache:
        """Return an empty cache."""
        return ModulesCache(self.module.config)

    def read(
        self, states: torch.Tensor, ids: Sequence[int], start: int, cache: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See `RecursiveNetwork.read`."""
        features = self._rows(states, ids, range(-1, len(ids) - 1), 0, start, cache)[-1:]
        return features, self.module._project_to_logits(features)

    def draft(
        self, ids: Sequence[int], parents: Sequence[int], features: torch.Tensor, first: int, start: int, cache: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See `RecursiveNetwork.draft`."""
        features = self._rows(features, ids[first:], parents, first, start, cache)
        return features, self.module._project_to_logits(features)

    @torch.inference_mode()
    def _rows(self, features, ids, parents, first: int, start: int, cache: ModulesCache) -> torch.Tensor:
        """Compute the rows from `first` on of a tree after `start` tokens; return their features [rows, hidden]."""
        module, device = self.module, features.device
        cache.rewind(start + first)
        mask = distances(parents, start, first, device)
        if module.config._attn_implementation != ATTENTION:
            lowest = torch.finfo(features.dtype).min
            mask = torch.zeros(mask.shape, dtype=features.dtype, device=device).masked_fill(mask < 0, lowest)
        positions = torch.tensor([depths(parents)[first:]], device=device) + (start - 1)
        embedded = module.embed_tokens(torch.tensor([ids], device=device))
        rotated = None
        if module.rotary_emb is not None:
            kinds = {"layer_type": module.config.layer_types[0]} if module.has_per_layer_rope else {}
            rotated = module.rotary_emb(embedded, position_ids=positions, **kinds)
        with cache.computing(len(ids)):
            out = module.layers[0](
                embedded, features[None], position_embeddings=rotated, attention_mask=mask, position_ids=positions,
                past_key_values=cache.dynamic,
            )  # fmt: skip
        return out[0]
