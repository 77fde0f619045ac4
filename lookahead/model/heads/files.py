"""Read and write the files of trained heads.

Formats that are read: `speculators` (eagle3, mtp, dflash, dspark), DFlash's authors (z-lab), DeepSpec (dspark), EAGLE-3's authors, and
vLLM's Medusa. Formats that are written: `speculators`, and vLLM's for Medusa. A configuration is compared with the target before
weights are read.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from ...core.events import ModelError
from ...core.wording import short_error
from .. import small_files
from ..forward import Forward
from ..shape import Shape
from ..small_files import CONFIG, WEIGHTS
from .head import NETWORKS, Head
from .shape import ALL_TAPS, BLOCK, EAGLE, MEDUSA, MTP, NONE, PER_TAP, HeadShape, default_taps

LARGEST_FILE = 9_000_000  # bytes, because the hosting service rejects files of more than ten million
LARGEST = 1 << 20  # largest valid size in a configuration
READ, NOT_READ = ("eagle3", "mtp", "dflash", "dspark"), ("peagle", "dflash2")  # kinds of `speculators`
# Tensors in files that are not loaded, because they are the target's or are computed from the configuration.
IGNORED = ("embed_tokens.weight", "lm_head.weight", "d2t", "t2d", "verifier_", "rotary_emb.")


def config_of(folder: str | Path) -> dict[str, Any] | None:
    """Return the configuration in a folder if it is a trained head's, else None. Raises `ModelError` if the file is damaged."""
    config = small_files.read(folder, CONFIG) or {}
    named = {"speculators_model_type", "dflash_config", "markov_rank", "medusa_num_heads"} & config.keys()
    reduced = "draft_vocab_size" in config and "eagle" in " ".join(config.get("architectures") or ()).lower()
    return config if named or reduced or config.get("model_type") == MEDUSA else None


def kind_of(config: Mapping[str, Any]) -> str:
    """Return the kind of head that a configuration describes."""
    if config.get("model_type") == MEDUSA or "medusa_num_heads" in config:
        return MEDUSA
    if config.get("speculators_model_type") == MTP:
        return MTP
    block = config.get("speculators_model_type", "").startswith("d") or {"dflash_config", "markov_rank"} & config.keys()
    return BLOCK if block else EAGLE


class _Unsupported(Exception):
    """A configuration describes a head that is not supported."""


def shape_of(config: Mapping[str, Any], target: Shape, name: str) -> HeadShape:
    """Return the shape that a configuration describes. Raises `ModelError` if it is damaged or not for this target."""
    try:
        shape = _shape(config, target)
    except _Unsupported as error:
        raise ModelError("head", name, str(error)) from None
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        raise _unreadable(name, short_error(error)) from error
    for size in ("hidden", "vocab", "slots", "heads", "kv_heads", "head_dim", "inner", "layers"):
        if not isinstance(value := getattr(shape, size), int) or not 0 < value <= LARGEST:
            raise _unreadable(name, f"{size} is {value!r}")
    if not (isinstance(shape.mask, int) and 0 <= shape.mask < shape.vocab and 0 <= shape.rank <= LARGEST):
        raise _unreadable(name, f"mask_token_id is {shape.mask!r}, markov_rank {shape.rank!r}")
    widths = {shape.hidden, config.get("target_hidden_size") or shape.hidden} - {target.hidden}
    reason = None
    if widths:
        reason = f"it is made for hidden states of {max(widths)} numbers, and the target's have {target.hidden}"
    elif shape.vocab != target.vocab or shape.output_vocab > target.vocab:
        reason = f"it is made for a vocabulary of {shape.vocab} tokens, and the target's has {target.vocab}"
    elif not shape.taps or not all(0 <= tap <= target.layers for tap in shape.taps):
        reason = f"it reads the target after layers {', '.join(map(str, shape.taps))}, and there are {target.layers}"
    if reason:
        raise ModelError("head", name, f"{reason}; choose a head that was trained with this target.")
    return shape


def _unreadable(name: str, reason: str) -> ModelError:
    return ModelError("head", name, f"its configuration in {CONFIG} cannot be read ({reason}).")


def _shape(config: Mapping[str, Any], target: Shape) -> HeadShape:
    kind, listed = kind_of(config), config.get("speculators_model_type")
    if listed and listed not in READ:
        known = "read" if listed in NOT_READ else "known"
        raise _Unsupported(f"heads of the kind {listed} are not {known}; choose one of the kinds {', '.join(READ)}.")
    layer = config["transformer_layer_config"] if listed else config
    if kind == MEDUSA:
        slots = config.get("num_heads") or config["medusa_num_heads"]
        layers, biased = config.get("num_hidden_layers", 1), config.get("medusa_fc_bias", False)
        sizes = config["hidden_size"], config["vocab_size"], default_taps(MEDUSA, target.layers)
        return HeadShape(MEDUSA, *sizes, slots=slots, layers=layers, biased=biased)
    if kind == MTP:
        if (model := layer.get("model_type")) != "qwen3":
            raise _Unsupported(f"a layer of the kind {model} is not supported; only the kind qwen3 is.")
        sizes = _sizes(config, {**layer, "num_hidden_layers": 1})  # the file has the number of the target's layers
        return HeadShape(MTP, taps=default_taps(MTP, target.layers), **sizes, output_normed=True)
    if kind == EAGLE:
        return _eagle(config, layer, target, residual_normed=bool(listed))
    if listed:
        causal = not config.get("sliding_window_non_causal", True)
        return _block(config, layer, config["aux_hidden_state_layer_ids"], listed == "dspark", causal)
    inner = config.get("dflash_config") or config
    taps = [tap + 1 for tap in inner["target_layer_ids"]]
    mask = {"mask_token_id": inner.get("mask_token_id", config.get("mask_token_id"))}
    return _block({**config, **mask}, layer, taps, "markov_rank" in config, bool(inner.get("causal")))


def _sizes(config: Mapping[str, Any], layer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sizes in the configuration of a head's layers."""
    rope = layer.get("rope_parameters") or layer.get("rope_scaling") or {}
    if rope.get("rope_type", rope.get("type", "default")) != "default":
        raise _Unsupported("it has scaled rotary positions, which are not supported; choose another head.")
    heads, hidden, vocab = layer["num_attention_heads"], layer["hidden_size"], layer["vocab_size"]
    sliding, known = "sliding_attention" in (layer.get("layer_types") or ()), config.get("draft_vocab_size") or vocab
    return {
        "hidden": hidden, "vocab": vocab, "draft_vocab": known if known != vocab else 0, "heads": heads,
        "kv_heads": layer.get("num_key_value_heads") or heads, "head_dim": layer.get("head_dim") or hidden // heads,
        "inner": layer["intermediate_size"], "layers": layer.get("num_hidden_layers", 1),
        "theta": float(rope.get("rope_theta") or layer.get("rope_theta") or 10_000.0), "eps": layer.get("rms_norm_eps") or 1e-6,
        "head_norms": layer.get("model_type") == "qwen3", "biased": bool(layer.get("attention_bias")),
        "window": int(layer.get("sliding_window") or 0) if sliding else 0,
    }  # fmt: skip


def _eagle(config, layer, target: Shape, residual_normed: bool) -> HeadShape:
    inner = config.get("eagle_config") or {}
    taps = config.get("eagle_aux_hidden_state_layer_ids") or inner.get("eagle_aux_hidden_state_layer_ids")
    flags = {name: config.get(name, inner.get(name, False)) for name in ("norm_before_fc", "fc_norm", "norm_output")}
    if flags["norm_before_fc"] and flags["fc_norm"]:
        raise _Unsupported("norm_before_fc and fc_norm exclude each other.")
    return HeadShape(
        EAGLE, taps=tuple(taps or default_taps(EAGLE, target.layers)), **_sizes(config, layer),
        fed_norm=ALL_TAPS if flags["norm_before_fc"] else PER_TAP if flags["fc_norm"] else NONE,
        output_normed=flags["norm_output"], residual_normed=config.get("norm_before_residual", residual_normed),
    )  # fmt: skip


def _block(config, layer, taps, anchored: bool, causal: bool) -> HeadShape:
    sizes = _sizes(config, {**layer, "model_type": "qwen3"})
    rank, confident = config.get("markov_rank") or 0, bool(config.get("enable_confidence_head", anchored))
    if rank and (head := config.get("markov_head_type", "vanilla")) != "vanilla":
        raise _Unsupported(f"a Markov head of the kind {head} is not supported; only the kind vanilla is.")
    if confident and not (rank and config.get("confidence_head_with_markov", True)):
        raise _Unsupported("a confidence head without the Markov head's input is not supported.")
    from_anchor = config.get("sample_from_anchor", anchored)
    return HeadShape(
        BLOCK, taps=tuple(taps), **sizes, slots=config["block_size"] - (not from_anchor), mask=config["mask_token_id"],
        causal=causal and bool(sizes["window"]), from_anchor=from_anchor, rank=rank, confident=confident,
    )  # fmt: skip


def read(folder: str | Path, target: Forward, name: str) -> Head:
    """Read the head in a folder for a target. Raises `ModelError` if they do not match."""
    embed, head = (table.to(target.device) for table in target.tables)
    net, ids = network(folder, target.shape, embed, head, name)
    return Head.from_network(net.to(target.device, target.dtype).eval().requires_grad_(False), target, ids)


def network(
    folder: str | Path, target: Shape, embed: torch.Tensor, head: torch.Tensor, name: str
) -> tuple[Any, torch.Tensor | None]:
    """Read the network in a folder; return it with the ids of the tokens that it can draft, None for all.

    `embed` and `head` are the target's embedding and output head. Raises `ModelError` if the head does not match the target.
    """
    try:
        config, files = config_of(folder), small_files.weight_files(folder) or [WEIGHTS]
    except ModelError as error:
        raise ModelError("head", name, error.hint) from None
    if config is None:
        raise ModelError("head", name, "there is no trained head's configuration.")
    shape = shape_of(config, target, name)
    try:
        stored = {key: tensor for file in files for key, tensor in load_file(Path(folder, file)).items()}
    except FileNotFoundError as error:
        raise ModelError("head", name, f"there are no weights in {Path(error.filename or WEIGHTS).name}.") from error
    except (OSError, SafetensorError) as error:
        raise ModelError("head", name, f"its weights cannot be read ({short_error(error)}).") from error
    tensors = {key.removeprefix("model.").replace("midlayer.", "layers.0."): tensor for key, tensor in stored.items()}
    _check_sizes({key: tuple(tensor.shape) for key, tensor in tensors.items()}, shape, name)
    ids = None
    if shape.draft_vocab:
        ids = torch.arange(shape.draft_vocab) + tensors["d2t"]
        if int(ids.min()) < 0 or int(ids.max()) >= target.vocab:
            raise ModelError("head", name, "its table d2t names tokens that the target does not have.")
        ids, head = ids.to(head.device), head[ids.to(head.device)]
    if shape.kind == EAGLE:  # these files may contain other tables than the target's
        embed, head = tensors.get("embed_tokens.weight", embed), tensors.get("lm_head.weight", head)
    net = NETWORKS[shape.kind](shape, embed, head)
    wanted = net.state_dict().keys()
    if unknown := sorted(key for key in tensors if key not in wanted and not key.startswith(IGNORED)):
        hint = f"it has weights that its configuration does not name ({', '.join(unknown[:3])}); choose another copy."
        raise ModelError("head", name, hint)
    try:
        net.load_state_dict({key: tensor for key, tensor in tensors.items() if key in wanted})
    except RuntimeError as error:
        first = " ".join(str(error).split())[:200]
        raise ModelError("head", name, f"its weights are not those that its configuration names ({first}).") from error
    return net, ids


def _check_sizes(sizes: Mapping[str, tuple[int, ...]], shape: HeadShape, name: str) -> None:
    """Raise `ModelError` if tensors of these sizes do not match the target."""
    wanted = {
        "d2t": (shape.draft_vocab,), "t2d": (shape.vocab,), "embed_tokens.weight": (shape.vocab, shape.hidden),
        "lm_head.weight": (shape.output_vocab, shape.hidden), "fc.weight": (shape.hidden, shape.input_width),
        "markov_head.markov_w1.weight": (shape.vocab, shape.rank),
    }  # fmt: skip
    if shape.draft_vocab and "d2t" not in sizes:
        raise ModelError("head", name, f"it drafts {shape.draft_vocab} tokens, and there is no table d2t of their ids.")
    for key, size in wanted.items():
        if key in sizes and sizes[key] != size and (shape.draft_vocab or key not in ("d2t", "t2d")):
            raise ModelError("head", name, f"its {key} has the size {sizes[key]}; for this target it must be {size}.")


def write(
    network: Any, folder: str | Path, verifier: str, architectures: list[str], ids: torch.Tensor | None = None
) -> Path:
    """Write a trained network in bfloat16, in the format of `speculators`, or of vLLM for Medusa; return the folder.

    `ids` are the tokens that it can draft, None for all. Weight files have at most `LARGEST_FILE` bytes.
    """
    from huggingface_hub import save_torch_state_dict

    folder, shape = Path(folder), network.shape
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: weight.to(torch.bfloat16).cpu() for name, weight in network.state_dict().items()}
    if ids is not None:
        known = torch.zeros(shape.vocab, dtype=torch.bool)
        known[ids] = True
        weights |= {"d2t": ids - torch.arange(len(ids)), "t2d": known}
    save_torch_state_dict(weights, folder, max_shard_size=LARGEST_FILE)
    config = _config(shape, verifier, architectures)
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    return folder


def _config(shape: HeadShape, verifier: str, architectures: list[str]) -> dict[str, Any]:
    if shape.kind == MEDUSA:
        return {
            "model_type": MEDUSA, "architectures": ["MedusaModel"], "hidden_size": shape.hidden, "vocab_size": shape.vocab,
            "num_heads": shape.slots, "num_hidden_layers": shape.layers, "medusa_fc_bias": shape.biased,
            "original_lm_head": True, "truncated_vocab_size": shape.vocab,
        }  # fmt: skip
    architecture, algorithm = {
        EAGLE: ("Eagle3Speculator", "eagle3"), MTP: ("MTPDraftModel", MTP), BLOCK: ("DSparkSpeculator", "dspark"),
    }[shape.kind]  # fmt: skip
    layer = {
        "model_type": "qwen3" if shape.kind == BLOCK or shape.head_norms else "llama", "hidden_size": shape.hidden,
        "num_attention_heads": shape.heads, "num_key_value_heads": shape.kv_heads, "head_dim": shape.head_dim,
        "intermediate_size": shape.inner, "num_hidden_layers": shape.taps[0] if shape.kind == MTP else shape.layers, "vocab_size": shape.vocab,
        "rms_norm_eps": shape.eps, "rope_theta": shape.theta, "hidden_act": "silu", "attention_bias": shape.biased,
        "max_position_embeddings": shape.window or 2048, "tie_word_embeddings": False,
    }  # fmt: skip
    if shape.window:
        layer |= {
            "layer_types": ["sliding_attention"] * shape.layers, "use_sliding_window": True, "sliding_window": shape.window,
            "max_window_layers": 0,
        }  # fmt: skip
    proposal = {"proposal_type": "greedy", "speculative_tokens": shape.slots if shape.kind == BLOCK else 4}
    config = {
        "architectures": [architecture],
        "speculators_model_type": algorithm,
        "speculators_config": {
            "algorithm": algorithm, "default_proposal_method": "greedy", "proposal_methods": [proposal],
            "verifier": {"name_or_path": verifier, "architectures": architectures},
        },
        "transformer_layer_config": layer,
    }  # fmt: skip
    if shape.kind == MTP:
        return config | {"num_nextn_predict_layers": 1}
    config |= {"draft_vocab_size": shape.output_vocab, "target_hidden_size": shape.hidden}
    if shape.kind == EAGLE:
        return config | {
            "eagle_aux_hidden_state_layer_ids": list(shape.taps), "norm_before_residual": shape.residual_normed,
            "norm_before_fc": shape.fed_norm == ALL_TAPS, "fc_norm": shape.fed_norm == PER_TAP, "norm_output": shape.output_normed,
        }  # fmt: skip
    return config | {
        "aux_hidden_state_layer_ids": list(shape.taps), "block_size": shape.rows, "mask_token_id": shape.mask,
        "sample_from_anchor": shape.from_anchor, "sliding_window_non_causal": not shape.causal, "markov_rank": shape.rank,
        "markov_head_type": "vanilla", "enable_confidence_head": shape.confident, "confidence_head_with_markov": True,
    }  # fmt: skip
