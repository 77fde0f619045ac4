"""A tiny random model of every causal language model in transformers' mapping."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import torch
from accelerate import init_empty_weights
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, GenerationConfig, PreTrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

KINDS = sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)

# Sizes by the name of a configuration's field. Only fields that a configuration has are set, also in its parts.
SIZES: dict[str, Any] = {
    "vocab_size": 128, "hidden_size": 64, "n_embd": 64, "d_model": 64, "intermediate_size": 96, "ffn_hidden_size": 96,
    "num_hidden_layers": 4, "num_layers": 4, "n_layer": 4, "n_layers": 4, "encoder_layers": 4, "decoder_layers": 4,
    "depth": 2,
    "num_attention_heads": 4, "num_heads": 4, "n_head": 4, "n_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96,
    "max_position_embeddings": 256, "n_positions": 256, "max_seq_len": 256, "sliding_window": 8,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False,
    "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "moe_num_experts": 4,
    "num_experts_per_tok": 2, "moe_topk": 2, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1,
    "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32, "expert_ffn_hidden_size": 32,
    "q_lora_rank": 32, "kv_lora_rank": 32, "qk_rope_head_dim": 16, "qk_nope_head_dim": 16, "qk_head_dim": 32,
    "v_head_dim": 16,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
    "mamba_n_heads": 4, "mamba_d_state": 16, "n_mamba_heads": 4, "rotary_dim": 8, "vocab_size_per_layer_input": 128,
    "mamba_num_heads": 4, "mamba_head_dim": 16, "mamba_chunk_size": 8, "chunk_size": 8, "linear_head_dim": 16,
    "linear_num_heads": 4, "n_shared_experts": 1, "moe_shared_expert_intermediate_size": 32, "zero_expert_num": 2,
    "hidden_size_per_layer_input": 16,
    "index_topk": 16, "index_head_dim": 16, "index_n_heads": 16, "attention_chunk_size": 8,
    "out_hidden_size": 64, "image_size": 32, "patch_size": 16, "mm_embed_dim": 64, "mm_posemb_size": 32, "num_blocks": 2,
    "ext_pw_out_channel": 64, "depthwise_separable_out_channel": 64, "nemo_conv_channels": 64,
    "encoder_hash_byte_group_vocab": 64, "adapter_in_dim": 64, "adapter_out_dim": 64, "adapter_input_size": 64,
}  # fmt: skip

HALF = {"layer_types": ["linear_attention", "full_attention"] * 2}
ROPE = {"rope_type": "default", "rope_theta": 1e4}
INDEXER = {
    "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 16, "indexer_budget": 16, "indexer_compress_ratio": 4,
}  # fmt: skip
SLIDING = {
    "swa_num_attention_heads": 4, "swa_num_key_value_heads": 4, "swa_q_lora_rank": 32, "swa_kv_lora_rank": 32,
    "swa_head_dim": 32, "swa_qk_nope_head_dim": 16, "swa_v_head_dim": 16,
}  # fmt: skip
WINDOWS = {"layer_types": ["sliding_attention", "full_attention"] * 2, "num_kv_shared_layers": 0}
# Fields of single architectures that must have other values.
CHANGES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("granitemoehybrid", "kimi_linear", "bailing_hybrid"), HALF),
    "bamba": {"attn_layer_indices": [1, 3]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "lfm2": {"layer_types": ["conv", "full_attention"] * 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2, "num_dense_layers": 1},
    "zamba2": {"layers_block_type": ["linear_attention", "hybrid"] * 2},
    "falcon_h1": {"mamba_d_ssm": 64},
    "mamba2": {"num_heads": 8, "n_groups": 2, "state_size": 16},
    "xlstm": {"qk_dim_factor": 1.0, "num_blocks": 4},
    "zaya": {"num_experts_per_tok": 1},
    **dict.fromkeys(("gemma3n_text", "gemma4_text", "gemma4_unified_text"), WINDOWS),
    "cohere_compass_text": {"rope_parameters": {"full_attention": {**ROPE, "mrope_section": [2, 3, 3]}}},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 1e4}, "rope_parameters": ROPE},
    "dots3_note_text": SLIDING,
    "dots3_note_vision_encoder": {"mlp_layer_types": ["dense"] * 4},
    "nemotron_h": {"n_groups": 2},
    "qwen4_exp_text": INDEXER,
    "gpt_neo": {"attention_types": [[["global", "local"], 2]]},
    "reformer": {"axial_pos_embds": False},
    "xmod": {"default_language": "en_XX"},
}
MAX_WEIGHTS = 20_000_000
PROMPT, TOKENS = (5, 6, 7, 8, 9), 40
DISTINCT = 15  # ids in a diverse text
# Standard deviations and seeds. Layers with a norm after them need small weights, others large ones.
DRAWS = (
    (0.2, 0),
    (0.1, 0),
    (0.3, 1),
    (0.1, 1),
    (0.5, 2),
    (0.06, 0),
    (0.3, 2),
    (0.06, 1),
    (0.1, 2),
    (0.02, 0),
    (1.0, 7),
    (0.4, 8),
)


def config_of(kind: str, **changes: Any) -> PreTrainedConfig:
    """Return the configuration of a tiny model of an architecture."""
    return _config(CONFIG_MAPPING[kind], **changes)


def _config(default: type[PreTrainedConfig], **changes: Any) -> PreTrainedConfig:
    names: set[str] = set()
    for base in default.__mro__:
        if "__init__" in vars(base):
            names |= set(inspect.signature(base.__init__).parameters)
        names |= set(getattr(base, "__annotations__", {}))
    sizes = {name: value for name, value in SIZES.items() if name in names or name in default.attribute_map}
    if "kv_lora_rank" in sizes:  # heads do not share compressed keys
        sizes["num_key_value_heads"] = sizes["num_attention_heads"]
    if getattr(default, "is_decoder", None) is False or "is_decoder" in names:
        sizes["is_decoder"] = True
    parts = {name: _config(_part(spec)) for name, spec in default.sub_configs_defaults.items()}
    return default(**{**sizes, **parts, **CHANGES.get(default.model_type, {}), **changes})


def _part(spec: Any) -> type[PreTrainedConfig]:
    return CONFIG_MAPPING[spec.model_type] if spec.model_type else spec.config_class


def build(
    kind: str, seed: int = 0, attention: str = "eager", noise: float = 0.0, scale: float = 0.2, **changes: Any
) -> PreTrainedModel:
    """Return a tiny random model whose weights have the standard deviation `scale`.

    `noise` is the difference of a draft model from the target with the same seed, relative to `scale`.
    """
    config = config_of(kind, **changes)
    with init_empty_weights():
        count = AutoModelForCausalLM.from_config(config).num_parameters()
    if count > MAX_WEIGHTS:
        raise ValueError(f"{kind} has {count:,} weights; add its sizes to SIZES")
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, scale)
            else:  # norms, biases and decays
                parameter += 0.1 * torch.randn_like(parameter)
        for parameter in model.parameters() if noise else ():
            parameter += noise * parameter.std(correction=0) * torch.randn_like(parameter)
    return model.eval().requires_grad_(False)


class Tiny(NamedTuple):
    """The arguments of `build` for a tiny model, and the ids that its `generate` emits."""

    scale: float
    seed: int
    ids: list[int]

    @property
    def distinct(self) -> int:
        """The number of distinct ids."""
        return len(set(self.ids))


def tiny(kind: str) -> Tiny:
    """Return a tiny model with a diverse text: the first of `DRAWS` with `DISTINCT` ids, else the most diverse one."""
    best = None
    for scale, seed in DRAWS:
        drawn = Tiny(scale, seed, generated(build(kind, seed, scale=scale)))
        best = max(best or drawn, drawn, key=lambda each: each.distinct)
        if best.distinct >= DISTINCT:
            break
    return best


def generated(model: PreTrainedModel, **options: Any) -> list[int]:
    """Return the ids that transformers' `generate` emits without Lookahead."""
    options |= {"do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    model.generation_config = GenerationConfig()  # an architecture's own may force tokens
    return model.generate(torch.tensor([PROMPT]), max_new_tokens=TOKENS, **options)[0, len(PROMPT) :].tolist()
