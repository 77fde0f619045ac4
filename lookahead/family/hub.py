"""Families from the hub: check them, download them, load them.

`check` reads the hub's metadata and small files, and no weights. Only safetensors are read, and no code of a model is run. A
visitor of a server gives names of the hub, within the host's limits. The operator (`limits` None) may give folders too.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PureWindowsPath
from time import monotonic
from typing import Any, Protocol

import torch
from huggingface_hub import HfApi, get_hf_file_metadata, hf_hub_url
from huggingface_hub.errors import HFValidationError

from .. import kernels
from ..core import memory
from ..core.events import Cancelled, ModelError
from ..core.numbers import count, size
from ..core.wording import remark
from ..model import llama_config, small_files
from ..model.heads import files as head_files
from ..model.shape import Shape
from ..model.small_files import CONFIG, INDEX, WEIGHTS
from . import download as transfer
from . import models, number_format, sources, suggested
from .download import File, cached, explained
from .sources import Progress
from .spec import is_folder, members
from .suggested import SUGGESTED

NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
LONGEST = 96  # characters of a name on the hub
MOST = 4  # models that a visitor may ask for at once
MOST_PARTS = 1000  # layers or experts
LARGEST_SMALL = 64 << 20  # bytes of a file that is read before the weights
SMALL = (
    CONFIG, "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.json", "merges.txt", "vocab.txt", "tokenizer.model", "spiece.model", "chat_template.jinja", INDEX,
)  # fmt: skip
OTHER = (".bin", ".gguf", ".pth", ".pt", ".h5", ".msgpack", ".safetensors")  # files of weights that are not read
COUNTED = ("num_hidden_layers", "num_local_experts", "num_experts", "n_routed_experts")
HEAD_BYTES = 2  # of a number in a head's file
Compute = Callable[..., Any]


class Allowed(Protocol):
    """What a host lets visitors load: "all", "listed" or "none", and models of so many GB at most, 0 for any."""

    loading: str
    max_model_gb: float


@dataclass(slots=True)
class Check:
    """A sentence on what was checked, or an error if the family fails it."""

    topic: str
    words: str
    error: ModelError | None = None


@dataclass(slots=True)
class Known:
    """One model before its weights are read. Unknown values are 0, "" or None."""

    role: str
    place: str
    name: str
    folder: Path | None = None  # of the small files
    licence: str = ""
    gated: bool = False
    sizes: dict[str, int] = field(default_factory=dict)  # bytes of all its files
    files: list[File] = field(default_factory=list)  # that come from the hub
    bytes: int = 0  # of weights, as they are stored
    architecture: str = ""
    parameters: int = 0
    head: dict[str, Any] | None = None  # the configuration of a trained head, None for a language model
    shape: Shape | None = None  # of a language model that can be used
    faults: list[Check] = field(default_factory=list)

    @property
    def missing(self) -> int:
        """Bytes that are not downloaded yet."""
        return sum(file.size for file in self.files if not file.here)

    def memory(self, dtype: torch.dtype) -> int:
        """Bytes of its weights in this format."""
        return self.parameters * dtype.itemsize

    def attempt(self, topic: str, step: Callable[..., None], *arguments: Any) -> None:
        """Call `step(self, *arguments)`; an error becomes a fault."""
        try:
            return step(self, *arguments)
        except Cancelled:
            raise
        except ModelError as error:
            hint = error.hint
        except Exception as error:  # an architecture may raise anything
            hint = small_files.fault(self.folder or self.name, CONFIG, f"it describes no model: {remark(error)}").hint
        self.faults.append(Check(topic, "", ModelError("model", self.name, hint)))


@dataclass(slots=True)
class Plan:
    """A family's models and checks."""

    spec: str
    models: Sequence[Known]
    dtype: torch.dtype
    checks: Sequence[Check] = ()

    @property
    def refused(self) -> ModelError | None:
        return next((check.error for check in self.checks if check.error), None)

    @property
    def files(self) -> list[File]:
        """Files of all models that come from the hub, each once."""
        return list(dict.fromkeys(file for known in self.models for file in known.files))

    @property
    def missing(self) -> int:
        """Bytes that are not downloaded yet."""
        return sum(file.size for file in self.files if not file.here)

    def memory(self, dtype: torch.dtype) -> int:
        return sum(known.memory(dtype) for known in self.models)


def requested(spec: str, limits: Allowed | None) -> dict[str, str]:
    """Return role -> hub name or folder. Raises `ModelError` if the limits do not allow the spec."""
    if limits is None:
        return sources.places(spec)
    if limits.loading == "none":
        raise ModelError("models", spec, "the host of this server has switched loading off; use the loaded models.")
    parts = members(spec) if isinstance(spec, str) else [""]
    if not all(parts):
        raise ModelError("models", spec, 'a name is missing; give "organisation/target+organisation/draft".')
    if len(parts) == 1 and sources.FAMILY.fullmatch(parts[0]) and not Path(parts[0]).exists():
        return sources.places(parts[0])
    for part in parts:
        if len(part) > LONGEST or not NAME.fullmatch(part) or ".." in part or Path(part).exists():
            hint = 'give names as the hub shows them, "organisation/target+organisation/draft"; no folder is opened from the page.'
            raise ModelError("models", part, hint)
    if len(parts) > MOST:
        raise ModelError("models", spec, f"give a target and at most {MOST - 1} drafts.")
    if limits.loading == "listed" and "+".join(parts) not in {pair.spec for pair in SUGGESTED}:
        raise ModelError("models", spec, "the host of this server allows the suggested pairs only; choose one.")
    return sources.places("+".join(parts))


def check(
    spec: str,
    *,
    limits: Allowed | None = None,
    dtype: torch.dtype | None = None,
    progress: Progress = lambda text, share: None,
    compute: Compute = lambda work, *arguments: work(*arguments),
    spare_bytes: int = 0,
) -> Plan:
    """Return the plan of a family without reading weights.

    `dtype` None is the format that `load` uses. `compute(work, *arguments)` returns `work(*arguments)` from a server's thread
    for computing. `spare_bytes` is memory that could be freed. Raises `ModelError` if the limits do not allow the spec; other
    faults are in the plan.
    """
    places = requested(spec, limits)
    if (source := sources.named(spec.strip())) and source.gguf and not source.here():
        compute(source.convert, _part(progress, 0, 0.9))
        progress, places = _part(progress, 0.9, 1), requested(spec, limits)
    known = [Known(role, place, place) for role, place in places.items()]
    for i, one in enumerate(known):
        tell = partial(progress, f"Asking about {sources.shown(one.place)}", i / (len(known) + 1))
        tell()
        one.attempt("hub", _find, limits is None, lambda _, tell=tell: tell())
        if one.folder:
            one.attempt("weights", _weigh)
    progress("Comparing the tokenizers", len(known) / (len(known) + 1))
    compiled = False
    with suppress(ModelError):  # of a damaged file, which is a fault of the plan
        compiled = bool(known[0].folder) and kernels.compiles(known[0].folder)
    dtype = number_format.requested(dtype) or number_format.usual(memory.device(), compiled)
    plan = Plan("+".join(members(spec)), known, dtype)
    plan.checks = compute(_checks, plan, limits, spare_bytes)
    for one in (one for one in plan.checks if one.topic == "vocabulary" and one.error):
        if fit := fitting(known[0], {one.place for one in known}, limits is not None):
            hint = f"{one.error.hint} Drafts that would fit: {', '.join(fit)}."
            one.error = ModelError(one.error.field, one.error.value, hint)
    return plan


def download(plan: Plan, progress: Progress = lambda text, share: None) -> dict[str, Path]:
    """Download the missing files; returns the folder of every hub name of the plan.

    An exception of `progress` (`Cancelled`) ends the download. The next one continues with the first file that is missing.
    Raises `ModelError`, with another way to a bundled family's target if there is one.
    """
    missing, begun = plan.missing, monotonic()

    def report(bytes_: int) -> None:
        done = min(bytes_, missing)
        rate = size(done / max(0.1, monotonic() - begun))
        progress(f"Downloading: {size(done)} of {size(missing)}, {rate} a second", done / max(1, missing))

    try:
        if plan.refused:
            raise plan.refused
        transfer.download(plan.files, report, main=True)
    except ModelError as error:
        if source := sources.named(plan.spec):
            hint = f"{source.repo}: {error.hint} Or get it by: {source.install}"
            raise ModelError("family", plan.spec, hint) from error
        raise
    return {known.place: known.folder for known in plan.models if known.folder}


def load(
    spec: str = "pocket", progress: Progress = lambda text, share: None, *, dtype: str | None = None
) -> models.Models:
    """Load a family and measure it: a bundled one, a pair of hub names, or of folders.

    `dtype` is "bfloat16" or "float32"; None is LOOKAHEAD_DTYPE or the usual format. Names are checked before a download.
    Raises `ModelError` if a model cannot be found, does not fit, or cannot be used for speculation.
    """
    places, source = sources.places(spec), sources.named(spec)
    if (source and source.here()) or all(Path(place).is_relative_to(sources.BUNDLED) for place in places.values()):
        return models.load(spec, progress, dtype=dtype)
    plan = check(spec, dtype=number_format.requested(dtype), progress=_part(progress, 0, 0.02))
    ready = 0.6 if plan.missing else 0.02
    folders = download(plan, _part(progress, 0.02, ready))
    return models.load(plan.spec, _part(progress, ready, 1), dtype=dtype, folder_of=folders)


def fetch(spec: str, progress: Progress = lambda text, share: None) -> tuple[str, Path]:
    """Download the target of a bundled family; returns "package" or "hub", and its folder. Raises `ModelError`."""
    source = sources.named(spec)
    if source is None:
        have = ", ".join(source.family for source in sources.all_sources())
        raise ModelError("family", spec, f"nothing is to be brought for it; choose one of {have}.")
    if not source.here():
        download(check(spec, progress=_part(progress, 0, 0.1)), _part(progress, 0.1, 1))
    progress("Ready", 1.0)
    return source.here()


def _part(progress: Progress, start: float, stop: float) -> Progress:
    return lambda text, share: progress(text, start + (stop - start) * share)


def _find(known: Known, trusted: bool, waiting: Callable[[int], None]) -> None:
    """Find a model's entry on the hub and its small files, or its folder.

    `waiting` is called during the request. With `trusted` the place may be a folder, and the server's token is used.
    """
    place = known.place
    if Path(place).is_relative_to(sources.BUNDLED) or sources.owner(Path(place)) or (trusted and is_folder(place)):
        return _open(known, Path(place))
    if not NAME.fullmatch(place):
        hint = 'there is no such folder, and the hub has no such names; give "organisation/model".'
        raise ModelError("model", place, hint)
    try:
        info = HfApi().model_info(place, files_metadata=True, timeout=10, token=None if trusted else False)
    except Exception as error:  # the client raises a dozen kinds
        status = getattr(getattr(error, "response", None), "status_code", 0)
        answered = isinstance(error, HFValidationError) or (400 <= status < 500 and status != 429)
        if not answered and (copy := cached(place)):
            return _open(known, copy)
        names = [name for pair in SUGGESTED for name in (pair.target, pair.draft)]
        raise explained(place, error, difflib.get_close_matches(place, names, 1)) from error
    card = info.card_data or {}
    licence = card.get("license_name") or card.get("license") or ""
    known.licence = ", ".join(licence) if isinstance(licence, list) else str(licence)
    known.gated = bool(info.gated)
    known.sizes = {one.rfilename: one.size or 0 for one in info.siblings or ()}
    small = [File(place, info.sha, name, known.sizes[name]) for name in SMALL if name in known.sizes]
    if CONFIG not in known.sizes:
        hint = "it has no config.json, so it is not a whole model; choose the model itself."
        raise ModelError("model", place, hint)
    if large := [file.name for file in small if file.size > LARGEST_SMALL]:
        raise ModelError("model", place, f"its {large[0]} is implausibly large; choose another model.")
    transfer.download(small, waiting)
    known.files, known.folder = small, small[0].here.parent


def _open(known: Known, folder: Path) -> None:
    """Find a model in its folder, or in the snapshot in the cache when the hub is out of reach."""
    known.folder, known.name, source = folder, sources.shown(known.place), sources.owner(folder)
    if source or folder.is_relative_to(sources.BUNDLED):
        known.licence = source.licence if source else "Built with Llama; see its card"
    known.sizes = {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}


def _weigh(known: Known) -> None:
    """Find the weights' files, the way transformers chooses them."""
    if CONFIG not in known.sizes:
        hint = "there is no config.json in that folder; give a folder with a whole model."
        raise ModelError("model", known.name, hint)
    names = [WEIGHTS] if WEIGHTS in known.sizes else small_files.shards(known.folder)
    if not names:
        other = sorted(name for name in known.sizes if name.endswith(OTHER))
        has = f"its weights are not in model.safetensors but in {other[0]}" if other else "it has no weights"
        hint = f"{has}; only safetensors are read here: choose a repository that has them."
        raise ModelError("model", known.name, hint)
    usable = {n for n in known.sizes if n.endswith(".safetensors") and n == PureWindowsPath(n).name}
    if unusable := [name for name in names if name not in usable]:
        hint = f"{unusable[0]} of its weights is not there; choose another copy of this model."
        raise ModelError("model", known.name, hint)
    known.bytes = sum(known.sizes[name] for name in names)
    if known.files:
        repo, commit = known.files[0].repo, known.files[0].commit
        known.files += [File(repo, commit, name, known.sizes[name]) for name in names]


def _describe(known: Known) -> None:
    """Find the architecture, the parameters and the shape that the configuration describes."""
    small_files.check(known.folder)
    if head := head_files.config_of(known.folder):
        known.role, known.head, known.parameters = head_files.kind_of(head), head, known.bytes // HEAD_BYTES
        known.architecture = f"{known.role} head"
        return
    from transformers import CONFIG_MAPPING  # takes a second to import

    raw = small_files.read(known.folder, CONFIG)
    kind = known.architecture = raw.get("model_type") or ""
    if kind not in CONFIG_MAPPING:
        hint = "it needs code of its own (auto_map), which is never run here" if "auto_map" in raw else (
            f"this version of transformers does not know its architecture ({kind or 'none given'})")  # fmt: skip
        raise ModelError("model", known.name, f"{hint}; choose a model that transformers knows.")
    if raw.get("quantization_config"):
        raise ModelError("model", known.name, "its weights are quantised; choose the repository with the plain ones.")
    if (plain := llama_config.plain(known.folder)) and plain["num_hidden_layers"] <= MOST_PARTS:
        known.parameters, known.shape = llama_config.parameters(plain), Shape.from_fields(plain.get)
        return
    from ..model import loading

    config = loading.configuration(known.folder)
    most = max(getattr(config.get_text_config(), name, None) or 0 for name in COUNTED)
    if most > MOST_PARTS:  # to make them takes too long
        hint = f"it claims {count(most)} layers or experts; choose a model that is real."
        raise ModelError("model", known.name, hint)
    model = loading.empty(known.folder)
    known.parameters, known.shape = model.num_parameters(), Shape.from_config(config)
    known.attempt("cache", lambda _: loading.check(model))


def _checks(plan: Plan, limits: Allowed | None, spare_bytes: int) -> list[Check]:
    """Check what can be checked without the network."""
    known, spec = plan.models, plan.spec
    for one in known:
        if one.folder and CONFIG in one.sizes:
            one.attempt("code", _describe)
    checks, reached = [], True
    for topic, words in (
        ("hub", "Found, and open to this server." if plan.files else "Found."),
        ("weights", "In safetensors."),
        ("code", "Nothing but transformers' own code is needed."),
        ("cache", "Every layer can be rolled back when a draft is rejected."),
    ):
        faults = [fault for one in known for fault in one.faults if fault.topic == topic]
        checks += faults or ([Check(topic, words)] if reached else [])
        reached = reached and not faults
    checks += [*_vocabulary([one for one in known if not one.head]), *_heads(known)]
    if weights := plan.memory(plan.dtype):
        free, disk, need = memory.free() + spare_bytes, memory.disk_free(transfer.cache()), memory.SPARE * weights
        most = 1e9 * limits.max_model_gb if limits else 0.0
        beside = " beside the models in use" if limits else ""
        for topic, words, fails, hint in (
            ("memory", f"About {size(need)} with room to work; {size(free)} are free{beside}.",
             need > free, f"it needs about {size(need)} of memory and {size(free)} are free"),
            ("disk", f"{size(plan.missing)} to download, {size(disk)} free." if plan.missing else "Nothing to download.",
             plan.missing > 0.98 * disk, f"{size(plan.missing)} are to be downloaded and {size(disk)} of the disk are free"),
            ("host", f"Allowed here: up to {size(most)} of weights." if most else "Allowed here.",
             0 < most < weights, f"its weights take {size(weights)} in memory, and the host of this server allows {size(most)}"),
        ):  # fmt: skip
            error = ModelError("models", spec, f"{hint}; choose a smaller one.") if fails else None
            checks.append(Check(topic, words, error))
    return checks


def _heads(known: Sequence[Known]) -> list[Check]:
    """Whether trained heads are made for the target."""
    target, heads, checks = known[0], [one for one in known if one.head], []
    if target.head:
        hint = "it is a trained head, which drafts for a target; give the target's name first."
        return [Check("head", "", ModelError("models", target.name, hint))]
    for head in heads if target.shape else ():
        try:
            layers = ", ".join(map(str, head_files.shape_of(head.head, target.shape, head.name).taps))
            words = f"Made for this target: it reads hidden states after layers {layers} of {target.shape.layers}."
            checks.append(Check("head", words))
        except ModelError as error:
            checks.append(Check("head", "", error))
    return checks


def _vocabulary(known: list[Known]) -> list[Check]:
    """Whether the drafts' tokens are the target's, token by token."""
    if not known or any(one.folder is None for one in known):
        return []
    tokenizers, checks = [], []
    for one in known:
        try:
            tokenizers.append(models.load_tokenizer(one.folder))
            models.same_vocabulary(tokenizers[0], tokenizers[-1], known[0].name, one.name)
        except ModelError as error:
            if error.field != "draft":  # it cannot be read
                return [Check("vocabulary", "", ModelError("model", one.name, error.hint))]
            checks.append(Check("vocabulary", "", error))
    same = ", the same in all models" if len(known) > 1 else ""
    return checks or [Check("vocabulary", f"{count(len(tokenizers[0].get_vocab()))} tokens{same}.")]


def fitting(target: Known, but: Iterable[str] = (), visitor: bool = True) -> list[str]:
    """Return drafts with the target's tokenizer: suggested ones, and copies on this server (for a visitor, if public)."""
    names, tokenizer = suggested.fitting(target.place), target.folder and target.folder / "tokenizer.json"
    if tokenizer and tokenizer.is_symlink():  # to a file of the cache, whose name is the hub's fingerprint of it
        copies = [name for name in transfer.repositories() if 0 < transfer.bytes_of_weights(name) < target.bytes]
        others = [name for name in (*suggested.DRAFTS, *copies) if name not in names]
        names += [name for name in others if _fingerprint(name, visitor) == tokenizer.readlink().name]
    return [name for name in dict.fromkeys(names) if name not in {*but, target.place}]


def _fingerprint(name: str, visitor: bool) -> str | None:
    """The hub's fingerprint of a model's tokenizer file; None if the hub does not answer, or not to a visitor."""
    with suppress(Exception):
        url = hf_hub_url(name, "tokenizer.json")
        return get_hf_file_metadata(url, timeout=5, token=False if visitor else None).etag
    return None
