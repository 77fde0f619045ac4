"""Write a plain Llama as a GGUF file in float16, for llama.cpp.

Source: llama.cpp's conversion of LlamaForCausalLM. Its rotary embedding rotates neighbouring numbers of a head, that of
transformers the two halves, so the rows of queries and keys are reordered.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

from .. import kernels
from ..core.events import ModelError, SettingsError
from ..model import llama_config

NAMES = {"norm1": "attn_norm", "out": "attn_output", "norm2": "ffn_norm", "down": "ffn_down"}


def write(folder: str, path: Path) -> Path:
    """Write the model of a folder to a path, and return the path. Raises `SettingsError` without the package `gguf`."""
    try:
        import gguf
    except ImportError:
        raise SettingsError("llama-server", "gguf", "converting models needs it: pip install gguf.") from None
    config, llama = llama_config.plain(folder), kernels.read(folder, torch.float32)
    if config is None or llama is None:
        raise ModelError("models", folder, "only a plain Llama in a folder can be converted for llama.cpp.")
    shape, weights = llama.shape, llama.weights
    file = gguf.GGUFWriter(str(path), "llama")
    fields = {
        "context_length": shape.context_length, "embedding_length": shape.hidden, "block_count": shape.layers,
        "feed_forward_length": config["intermediate_size"], "head_count": shape.heads, "head_count_kv": shape.kv_heads,
        "key_length": shape.head_dim, "value_length": shape.head_dim, "rope_dimension_count": shape.head_dim,
        "rope_freq_base": config["rope_theta"], "layer_norm_rms_eps": weights.eps, "vocab_size": shape.vocab,
    }  # fmt: skip
    for name, value in fields.items():
        getattr(file, f"add_{name}")(value)
    file.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    _add_tokens(file, gguf.TokenType, folder, shape.vocab)

    def add(name: str, tensor: torch.Tensor) -> None:
        numbers = tensor.float().numpy()
        file.add_tensor(f"{name}.weight", numbers if numbers.ndim == 1 else numbers.astype(np.float16))

    add("token_embd", weights.embed)
    for i, layer in enumerate(weights.layers):
        q, k, v = layer.qkv.split([n * shape.head_dim for n in (shape.heads, shape.kv_heads, shape.kv_heads)])
        gate, up = layer.gate_up.chunk(2)
        parts = {name: getattr(layer, field) for field, name in NAMES.items()}
        parts |= {"attn_q": _interleaved(q, shape.heads), "attn_k": _interleaved(k, shape.kv_heads), "attn_v": v}
        for name, tensor in (parts | {"ffn_gate": gate, "ffn_up": up}).items():
            add(f"blk.{i}.{name}", tensor)
    add("output_norm", weights.norm)
    if weights.head is not None:
        add("output", weights.head)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return path


def _interleaved(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Return rows [heads x dim] with the two halves of each head interleaved."""
    return weight.view(heads, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape).contiguous()


def _add_tokens(file, kinds, folder: str, vocab: int) -> None:
    """Add the byte-level BPE of a folder's tokenizer.json."""
    tokenizer = json.loads((Path(folder) / "tokenizer.json").read_text(encoding="utf-8"))
    special = {token["id"] for token in tokenizer["added_tokens"]}
    tokens = {i: f"[unused {i}]" for i in range(vocab)}
    tokens |= {i: token for token, i in tokenizer["model"]["vocab"].items()}
    tokens |= {token["id"]: token["content"] for token in tokenizer["added_tokens"]}
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in tokenizer["model"]["merges"]]
    ends = llama_config.ends(folder)
    file.add_tokenizer_model("gpt2")
    file.add_tokenizer_pre("gpt-2")
    file.add_token_list([tokens[i] for i in range(vocab)])
    file.add_token_types([kinds.CONTROL if i in special else kinds.NORMAL for i in range(vocab)])
    file.add_token_merges(merges)
    file.add_add_bos_token(False)
    for end in [ends] if isinstance(ends, int) else (ends or [])[:1]:
        file.add_eos_token_id(end)
