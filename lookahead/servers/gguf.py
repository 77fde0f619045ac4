"""Write a plain Llama as a GGUF file in float16, for llama.cpp. `model/gguf.py` reads such files.

Source: llama.cpp's conversion of LlamaForCausalLM. llama.cpp's rotary embedding rotates neighboring numbers of a head, and
transformers' rotates its two halves. So the rows of queries and keys are reordered.
"""

import json
from pathlib import Path

import gguf
import numpy as np
from safetensors.torch import load_file

from ..core.events import ModelError
from ..model import llama_config
from ..model.shape import Shape


def write(folder: str, path: Path) -> Path:
    """Write the model in a folder to `path`, and return `path`.

    Raises `ModelError` if the model is not a plain Llama.
    """
    config, weights = llama_config.plain(folder), {}
    for file in Path(folder).glob("*.safetensors"):
        weights |= load_file(file)
    if config is None or not weights:
        raise ModelError("models", folder, "only a plain Llama in a folder can be converted for llama.cpp.")
    shape, writer = Shape.from_fields(config.get), gguf.GGUFWriter(str(path), "llama")
    fields = {
        "context_length": shape.context_length, "embedding_length": shape.hidden, "block_count": shape.layers,
        "feed_forward_length": config["intermediate_size"], "head_count": shape.heads, "head_count_kv": shape.kv_heads,
        "key_length": shape.head_dim, "value_length": shape.head_dim, "rope_dimension_count": shape.head_dim,
        "rope_freq_base": config["rope_theta"], "layer_norm_rms_eps": config.get("rms_norm_eps", 1e-6),
        "vocab_size": shape.vocab,
    }  # fmt: skip
    for name, value in fields.items():
        getattr(writer, f"add_{name}")(value)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    _add_tokens(writer, gguf.TokenType, folder, shape.vocab)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, shape.layers)
    for name, tensor in weights.items():
        if "q_proj" in name or "k_proj" in name:  # interleave the two halves of each head
            heads = shape.heads if "q_proj" in name else shape.kv_heads
            tensor = tensor.view(heads, 2, -1, shape.hidden).transpose(1, 2).reshape(tensor.shape).contiguous()
        numbers = tensor.float().numpy()
        gguf_name = names.get_name(name, try_suffixes=(".weight",))
        writer.add_tensor(gguf_name, numbers if numbers.ndim == 1 else numbers.astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tokens(writer, kinds, folder: str, vocab: int) -> None:
    tokenizer = json.loads((Path(folder) / "tokenizer.json").read_text(encoding="utf-8"))
    special = {token["id"] for token in tokenizer["added_tokens"]}
    tokens = {i: f"[unused {i}]" for i in range(vocab)}
    tokens |= {i: token for token, i in tokenizer["model"]["vocab"].items()}
    tokens |= {token["id"]: token["content"] for token in tokenizer["added_tokens"]}
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in tokenizer["model"]["merges"]]
    ends = llama_config.eos_token_ids(folder)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([tokens[i] for i in range(vocab)])
    writer.add_token_types([kinds.CONTROL if i in special else kinds.NORMAL for i in range(vocab)])
    writer.add_token_merges(merges)
    writer.add_add_bos_token(False)
    for end in [ends] if isinstance(ends, int) else (ends or [])[:1]:
        writer.add_eos_token_id(end)
