"""One model before its weights are here: its entry on the hub, or its folder, and what its configuration means.

The hub gives sizes and the licence; the small files (configuration, tokenizer, index) are brought to look into, the
weights are not. Faults of the model are kept beside what is known of it, so that all can be shown at once.

Knows the hub, transformers' configurations and the cache's demands. It does not know pairs, hosts or this machine.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import HfApi, ModelInfo
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from ..core.events import ModelError
from ..core.numbers import count
from ..core.wording import remark
from ..model import llama_files, small_files
from ..model.heads import files as head_files
from ..model.shape import Shape
from ..model.small_files import CONFIG, INDEX, WHOLE
from . import elsewhere, models
from .fetch import File, cached, explained, fetch
from .spec import is_folder
from .suggested import SUGGESTED

SMALL = (
    CONFIG, "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.json", "merges.txt", "vocab.txt", "tokenizer.model", "spiece.model", "chat_template.jinja", INDEX,
)  # fmt: skip
OTHER = (".bin", ".gguf", ".pth", ".pt", ".h5", ".msgpack", ".safetensors")  # what weights come in elsewhere
LARGEST_SMALL = 64 << 20  # bytes that are brought to look into
NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
COUNTED = ("num_hidden_layers", "num_local_experts", "num_experts", "n_routed_experts")
MOST_PARTS = 1000
BYTES = 2  # of a number in a head's file
TOPICS = ("hub", "weights", "code", "cache")  # kinds of faults of one model, in the order of looking


@dataclass(frozen=True, slots=True)
class Known:
    """One model before its weights are here. `faults` are (topic, error); 0 and "" are what could not be found out."""

    role: str
    place: str
    name: str
    folder: Path | None = None  # where the small files lie
    licence: str = ""
    gated: bool = False
    files: tuple[File, ...] = ()  # of the hub, weights and small ones
    bytes: int = 0  # of weights, as they are stored
    architecture: str = ""
    parameters: int = 0
    faults: tuple[tuple[str, ModelError], ...] = ()
    head: dict[str, Any] | None = None  # the configuration of a trained head, None for a language model
    shape: Shape | None = None  # of a language model that can be used

    @property
    def missing(self) -> int:
        """Bytes that are still to come."""
        return sum(file.size for file in self.files if not file.here)

    def memory(self, dtype: torch.dtype) -> int:
        """Bytes that its weights take in this format."""
        return self.parameters * dtype.itemsize


def gather(role: str, place: str, folders: bool) -> Known:
    """What there is to know of one model without computing anything.

    `folders` is for whoever starts the server: the place may be a folder, and the hub is read with the server's token.
    For a visitor it is read without one.
    """
    bundled = Path(place).is_relative_to(models.BUNDLED) or elsewhere.owner(Path(place), models.BUNDLED)
    if bundled or (folders and is_folder(place)):
        return _of_folder(role, place, Path(place))
    known = Known(role, place, place)
    if not NAME.fullmatch(place):
        error = ModelError(
            "model", place, 'there is no such folder, and the hub has no such names; give "organisation/model".'
        )
        return replace(known, faults=(("hub", error),))
    try:
        info = HfApi().model_info(place, files_metadata=True, timeout=10, token=None if folders else False)
    except Exception as error:  # the client raises a dozen kinds
        status = error.response.status_code if isinstance(error, HfHubHTTPError) else 0
        answered = isinstance(error, HFValidationError) or (400 <= status < 500 and status != 429)
        copy = None if answered else cached(place)  # where the hub is out of reach
        if copy and not (cached_copy := _of_folder(role, place, copy)).faults:
            return cached_copy
        near = difflib.get_close_matches(place, [name for pair in SUGGESTED for name in (pair.target, pair.draft)], 1)
        return replace(known, faults=(("hub", explained(place, error, near)),))
    sizes = {one.rfilename: one.size or 0 for one in info.siblings or ()}
    known = replace(known, licence=_licence(info), gated=bool(info.gated))
    files = {name: File(place, info.sha, name, size) for name, size in sizes.items()}
    try:
        if CONFIG not in files:
            raise ModelError(
                "model", place, "it has no config.json, so it is not a whole model; choose the model itself."
            )
        small = [files[name] for name in SMALL if name in files]
        if large := [file.name for file in small if file.size > LARGEST_SMALL]:
            raise ModelError("model", place, f"its {large[0]} is implausibly large; choose another model.")
        brought = [fetch(file) for file in small]
        folder = brought[0].parent
        known = replace(known, folder=folder)
        weights = [files[name] for name in _weights(place, files, folder)]
    except ModelError as error:
        return replace(known, faults=(("weights" if known.folder else "hub", error),))
    except Exception as error:
        return replace(known, faults=(("hub", explained(place, error)),))
    return replace(known, files=(*small, *weights), bytes=sum(file.size for file in weights))


def _of_folder(role: str, place: str, folder: Path) -> Known:
    """The same of a folder, or of a copy in the cache when the hub is out of reach."""
    source, licence = elsewhere.owner(folder, models.BUNDLED), ""
    if source or folder.is_relative_to(models.BUNDLED):
        licence = source.licence if source else "Built with Llama; see its card"
    known = Known(role, place, models.shown(place), folder, licence)
    try:
        if not (folder / CONFIG).is_file():
            raise ModelError(
                "model", known.name, "there is no config.json in that folder; give a folder with a whole model."
            )
        weights = _weights(known.name, [path.name for path in folder.iterdir()], folder)
    except (ModelError, OSError) as error:
        return replace(known, faults=(("weights", explained(known.name, error)),))
    return replace(known, bytes=sum((folder / name).stat().st_size for name in weights))


def _weights(name: str, files: Iterable[str], folder: Path) -> list[str]:
    """The names of the files that hold the weights, the way transformers chooses them."""
    files = set(files)
    if WHOLE in files:
        return [WHOLE]
    if INDEX in files:
        try:
            shards = small_files.shards(folder)
        except ModelError as error:
            raise ModelError("model", name, error.mend) from None
        if unusable := [shard for shard in shards if shard not in files or not shard.endswith(".safetensors")]:
            raise ModelError(
                "model", name, f"{unusable[0]} of its weights is not there; choose another copy of this model."
            )
        return shards
    other = sorted(file for file in files if file.endswith(OTHER))
    has = f"its weights are not in model.safetensors but in {other[0]}" if other else "it has no weights"
    raise ModelError("model", name, f"{has}; only safetensors are read here: choose a repository that has them.")


def _licence(info: ModelInfo) -> str:
    """The licence's name as the model's card gives it."""
    name = getattr(info.card_data, "license", None)
    if name in (None, "other"):
        name = getattr(info.card_data, "license_name", None) or name
    return ", ".join(name) if isinstance(name, list) else str(name or "")


def understand(known: Known) -> Known:
    """With architecture and parameters, and the faults that the configuration alone shows."""
    if known.folder is None or not (known.folder / CONFIG).is_file():
        return known
    try:
        small_files.check(known.folder)
        head = head_files.config_of(known.folder)
    except ModelError as error:
        return replace(known, faults=(*known.faults, ("code", ModelError("model", known.name, error.mend))))
    if head:
        kind = head_files.kind_of(head)
        return replace(known, role=kind, architecture=f"{kind} head", parameters=known.bytes // BYTES, head=head)
    from transformers import CONFIG_MAPPING  # all that it knows of models: a second to import

    try:
        raw = small_files.read(known.folder, CONFIG)
        kind = raw.get("model_type") or ""
        known = replace(known, architecture=kind)
        if kind not in CONFIG_MAPPING:
            mend = "it needs code of its own (auto_map), which is never run here" if "auto_map" in raw else (
                f"this version of transformers does not know its architecture ({kind or 'none given'})")  # fmt: skip
            raise ModelError("model", known.name, f"{mend}; choose a model that transformers knows.")
        if raw.get("quantization_config"):
            raise ModelError(
                "model", known.name, "its weights are quantised; choose the repository with the plain ones."
            )
    except ModelError as error:
        return replace(known, faults=(*known.faults, ("code", error)))
    if (plain := llama_files.plain(known.folder)) and plain["num_hidden_layers"] <= MOST_PARTS:
        return replace(known, parameters=llama_files.parameters(plain), shape=Shape.of(plain.get))
    from ..model import loading

    topic = "code"
    try:
        config = loading.configuration(known.folder)
        parts = [getattr(config.get_text_config(), name, None) or 0 for name in COUNTED]
        if max(parts) > MOST_PARTS:  # to make that many would keep everybody waiting
            raise ModelError(
                "model", known.name, f"it claims {count(max(parts))} layers or experts; choose a model that is real."
            )
        model = loading.empty(known.folder)
        known, topic = replace(known, parameters=model.num_parameters(), shape=Shape.of_model(config)), "cache"
        loading.check(model)
    except Exception as error:  # an architecture may raise anything
        reason = f"it describes no model: {remark(error)}"
        fault = error if isinstance(error, ModelError) else small_files.fault(known.folder, CONFIG, reason)
        return replace(known, faults=(*known.faults, (topic, ModelError("model", known.name, fault.mend))))
    return known
