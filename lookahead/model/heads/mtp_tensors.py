"""The MTP module in a target's own checkpoint: its tensors by name, for `target_mtp`.

transformers drops these tensors when it reads the target, or reports them as unexpected. Checkpoints have three styles of names:
DeepSeek-V3 and GLM-4.5 append the module as a further layer, Qwen3.5 and Qwen3-Next have `mtp`, and MiMo has `mtp_layers`. If a
checkpoint has several modules, only the first one is used. It drafts all tokens, because it continues from its own output.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import safe_open

from .. import small_files

# Names in transformers' `MtpLayer`. All other tensors of a module are those of its decoder layer.
EMBEDDING_NORM, STATE_NORM, PROJECTION, LAST_NORM, LAYER = "enorm", "hnorm", "eh_proj", "post_norm", "mtp_block"
MODULES = re.compile(r"mtp\.|model\.mtp_layers\.|model\.(?:language_model\.)?layers\.\d+\.")  # also of further modules
SHARED = ("embed_tokens.", "shared_head.head.", "lm_head.")  # copies of the target's tables


class Style(NamedTuple):
    """A style of names: those before the module's tensors, and those of norms and projection.

    `{layers}` is the number of the target's layers. MiMo's projection reads the hidden state before the embedding.
    """

    prefix: str
    names: dict[str, str]
    state_first: bool = False


STYLES = (
    Style(
        r"model\.(?:language_model\.)?layers\.{layers}\.",
        {"enorm": EMBEDDING_NORM, "hnorm": STATE_NORM, "eh_proj": PROJECTION, "shared_head.norm": LAST_NORM},
    ),
    Style(
        r"mtp\.(?:layers\.0\.)?",
        {"pre_fc_norm_embedding": EMBEDDING_NORM, "pre_fc_norm_hidden": STATE_NORM, "fc": PROJECTION, "norm": LAST_NORM},
    ),
    Style(
        r"model\.mtp_layers\.0\.",
        {
            "token_layernorm": EMBEDDING_NORM, "hidden_layernorm": STATE_NORM, "input_proj": PROJECTION,
            "final_layernorm": LAST_NORM,
        },
        state_first=True,
    ),
)  # fmt: skip


class MtpTensors(NamedTuple):
    """The tensors of a module: (file, name in the file) by the name in transformers' `MtpLayer`."""

    style: Style
    places: dict[str, tuple[str, str]]

    def read(self, folder: Path) -> dict[str, torch.Tensor]:
        """Return the tensors in a checkpoint's folder, by the name in transformers' `MtpLayer`."""
        stored = {}
        for file in sorted({file for file, _ in self.places.values()}):
            with safe_open(folder / file, "pt") as opened:
                stored |= {name: opened.get_tensor(old) for name, (other, old) in self.places.items() if other == file}
        return stored


def find(files: Mapping[str, str], layers: int) -> MtpTensors | None:
    """Return the module in a checkpoint, None without one. `files` has the file of each tensor of a target with `layers` layers."""
    for style in STYLES:
        prefix = re.compile(style.prefix.replace("{layers}", str(layers)))
        inner = {name: name[match.end() :] for name in files if (match := prefix.match(name))}
        if {f"{name}.weight" for name in style.names} <= {*inner.values()}:
            kept = {name: part for name, part in inner.items() if not part.startswith(SHARED)}
            return MtpTensors(style, {_renamed(part, style): (files[name], name) for name, part in kept.items()})
    return None


def _renamed(name: str, style: Style) -> str:
    stem, _, end = name.rpartition(".")
    return f"{style.names[stem]}.{end}" if stem in style.names else f"{LAYER}.{name}"


def without(report: Mapping[str, Any], layers: int) -> dict[str, Any]:
    """Return transformers' loading report without the tensors of MTP modules, which are not the target's."""
    names = report["unexpected_keys"]
    has_module = find(dict.fromkeys(names, ""), layers) is not None
    return {**report, "unexpected_keys": {name for name in names if not (has_module and MODULES.match(name))}}


def tensor_files(folder: str | Path) -> dict[str, str]:
    """Return the file of each tensor in a folder."""
    weights, index = Path(folder) / small_files.WEIGHTS, small_files.read(folder, small_files.INDEX)
    if not weights.is_file():
        return index["weight_map"] if index else {}
    with safe_open(weights, "pt") as file:
        return dict.fromkeys(file.keys(), small_files.WEIGHTS)
