"""The small JSON files of a model's folder, checked before anything is computed from them.

Some loaders ignore a damaged file; texts then never end, or end too early. Other loaders fail long after reading it. This module
raises a `ModelError` with the name of the file.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..core.events import ModelError

CONFIG, GENERATION = "config.json", "generation_config.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
TOKENIZER = (TOKENIZER_CONFIG, "special_tokens_map.json", "added_tokens.json")
MAX_NUMBER = 1e38  # the configuration of a tokenizer without a limit has 1e30
NESTED = ("text_config", "rope_parameters", "rope_scaling", "transformer_layer_config", "dflash_config", "eagle_config")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_size(value: Any) -> bool:
    return _is_whole(value) and value > 0


def _is_number(value: Any) -> bool:
    return (_is_whole(value) or isinstance(value, float)) and -MAX_NUMBER < value < MAX_NUMBER


def _is_list(value: Any, is_valid: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(is_valid, value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


# A test of a value, its description for messages, and the fields it applies to. Null is always valid; a field may be absent.
KINDS: tuple[tuple[Callable[[Any], bool], str, tuple[str, ...]], ...] = (
    (_is_size, "a positive whole number", (
        "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
        "max_position_embeddings", "n_embd", "n_layer", "n_head", "n_positions", "draft_vocab_size", "target_hidden_size",
        "block_size", "medusa_num_heads",
    )),
    (lambda value: _is_size(value) or _is_list(value, _is_size), "a positive whole number, or a list of them", (
        "intermediate_size",
    )),
    (lambda value: _is_number(value) and value > 0, "a positive number", (
        "rope_theta", "rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "factor",
    )),
    (_is_number, "a number", ("model_max_length",)),
    (_is_whole, "a whole number", ("mask_token_id", "markov_rank", "sliding_window")),
    (lambda value: _is_list(value, _is_whole), "a list of whole numbers", (
        "eagle_aux_hidden_state_layer_ids", "aux_hidden_state_layer_ids", "target_layer_ids",
    )),
    (lambda value: _is_whole(value) or _is_list(value, _is_whole), "a token id, or a flat list of them", ("eos_token_id",)),
    (_is_whole, "a token id", ("bos_token_id", "pad_token_id")),
    (lambda value: isinstance(value, bool), "true or false", (
        "tie_word_embeddings", "attention_bias", "mlp_bias", "is_decoder", "is_encoder_decoder", "norm_before_fc", "fc_norm",
        "norm_output", "norm_before_residual", "sample_from_anchor", "sliding_window_non_causal", "enable_confidence_head",
        "confidence_head_with_markov", "medusa_fc_bias",
    )),
    (_is_text, "text", (
        "model_type", "rope_type", "hidden_act", "activation_function", "speculators_model_type", "dtype", "torch_dtype",
    )),
    (lambda value: _is_list(value, _is_text), "a list of texts", ("architectures",)),
    (lambda value: isinstance(value, Mapping), "an object", (*NESTED, "quantization_config")),
)  # fmt: skip
FIELDS = {name: (is_valid, must) for is_valid, must, names in KINDS for name in names}


def read(folder: str | Path, name: str) -> dict[str, Any] | None:
    """Return the JSON object in a file of a model's folder, None if there is no such file.

    Raises `ModelError` if the file is not a JSON object, or if one of its known fields has a wrong type or range.
    """
    path = Path(folder) / name
    try:
        if not path.is_file():
            return None
        text = path.read_text(encoding="utf-8")
        data = json.loads(text)
    except OSError as error:
        raise file_error(folder, name, error.strerror or type(error).__name__) from None
    except UnicodeDecodeError:
        raise file_error(folder, name, "it is not UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        raise file_error(folder, name, f"it is not JSON: {error}" if text.strip() else "it is empty") from None
    if not isinstance(data, dict):
        raise file_error(folder, name, "it is not a JSON object")
    for field, value, must in _wrong(data):
        raise file_error(folder, name, f"{field} is {json.dumps(value)[:60]} and must be {must}")
    return data


def _wrong(data: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """Yield each field with a wrong value, the value, and a description of valid values."""
    for field, value in data.items():
        is_valid, must = FIELDS.get(field, (None, ""))
        if value is not None and is_valid and not is_valid(value):
            yield field, value, must
        elif field in NESTED and value:
            yield from _wrong(value)


def check(folder: str | Path) -> None:
    """Raise `ModelError` if config.json or generation_config.json is damaged."""
    for name in (CONFIG, GENERATION):
        read(folder, name)


def weight_files(folder: str | Path) -> list[str]:
    """Return the names of a folder's weight files. Raises `ModelError` if their index is damaged or one is missing."""
    if (Path(folder) / WEIGHTS).is_file():
        return [WEIGHTS]
    names = shards(folder)
    for name in names:
        if name != Path(name).name or not (Path(folder) / name).is_file():
            raise file_error(folder, INDEX, f"it names {name}, which is missing")
    return names


def shards(folder: str | Path) -> list[str]:
    """Return the file names in the index of a folder's weights, if it exists. Raises `ModelError` if it is damaged."""
    index = read(folder, INDEX)
    if index is None:
        return []
    names = index.get("weight_map")
    if not isinstance(index.get("metadata", {}), dict):
        raise file_error(folder, INDEX, "metadata is not an object")
    if not isinstance(names, dict) or not names or not all(map(_is_text, names.values())):
        raise file_error(folder, INDEX, "weight_map does not map tensors to files")
    return sorted(set(names.values()))


def file_error(folder: str | Path, name: str, reason: str) -> ModelError:
    """Return the error for a file in a model's folder that cannot be read; `reason` explains why."""
    shown = "/".join(Path(folder).parts[-2:])
    hint = f"its configuration cannot be used: {name} cannot be read ({reason}); choose another copy of this model."
    return ModelError("model", shown, hint)
