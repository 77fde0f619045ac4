"""Families in memory: bundled families, pairs from the hub, and local folders.

`load` resolves a spec to folders, reads tokenizers and weights, and measures exactness and costs. All models must have caches
that can be rolled back. A draft model with other tokens than the target drafts text. No remote code is run, and only safetensors
and GGUF files are read. A family is on one GPU; a target that is too large for one GPU is spread over all GPUs, layer by layer.
"""

from __future__ import annotations

import gc
import logging
import random
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers.tokenization_utils_base import PreTrainedTokenizerBase
from transformers.tokenization_utils_tokenizers import TokenizersBackend

from .. import kernels
from ..core import memory
from ..core.costs import DrafterCosts, PassCosts
from ..core.events import Cancelled, LookaheadError, ModelError, SettingsError
from ..core.wording import short_error
from ..model import layer_skip, llama_config, small_files
from ..model.forward import Forward
from ..model.heads import files, mtp_tensors
from ..model.heads.head import CachedHead, Head
from ..model.heads.shape import KINDS, MTP
from ..model.lm import CachedLM
from ..model.translated import TranslatedLM, Translator
from . import capture, cost, exactness, grammar, measurements, number_format, sources, threads, typical
from .measurements import Measured
from .sources import Progress, portion
from .typical import Typical

MAX_MEASUREMENTS = 3  # attempts to measure plausible costs
MAX_ROWS = 21  # rows of the largest pass that is warmed up; small machines rarely run larger ones


@dataclass(frozen=True, slots=True)
class Models:
    """A target, its draft models and trained heads by name, their tokenizer, and the measurements made at load."""

    spec: str
    names: dict[str, str]
    tokenizer: PreTrainedTokenizerBase
    target: CachedLM
    drafts: dict[str, CachedLM]
    measured: Measured
    eos: frozenset[int] = field(default=frozenset())
    heads: dict[str, Head] = field(default_factory=dict)
    key: str | None = None  # name of the file of `measured`
    typical: Typical | None = None  # costs of a typical machine, if the family ships them
    translators: Mapping[str, Translator] = field(default_factory=dict)  # of draft models with another tokenizer
    estimated: bool = False  # whether the costs are those of the typical machine, scaled to the speed of this one
    deferred: set[str] = field(default_factory=set)  # drafters that are not compiled yet

    @property
    def exactness(self) -> str:
        """ "bit-exact" or "tie-aware", as probed on this machine."""
        return self.probe.kind

    @property
    def probe(self) -> exactness.Exactness:
        """The result of the exactness probe."""
        return self.measured.exactness

    @property
    def costs(self) -> PassCosts:
        """The measured costs of the target's and the drafters' passes."""
        return self.measured.costs

    def costs_kind(self, costs: str = "auto") -> str:
        """Return "typical" or "measured", as `auto` uses. Raises `SettingsError` if `costs` are not available."""
        if costs == "typical" and not self.typical:
            raise SettingsError("costs", costs, f"{self.spec} ships no costs of a typical machine; choose measured.")
        return "typical" if self.typical and costs != "measured" else "measured"

    def policy_costs(self, costs: str = "auto") -> PassCosts:
        """Return the costs that `auto` uses."""
        kind = self.costs_kind(costs)
        return self.typical.costs if self.typical and kind == "typical" else self.costs

    def grammar(self, schema: str) -> grammar.Matcher:
        """Return a schema for a new text. Raises `SettingsError` if it is invalid."""
        return grammar.compiled(schema, self.tokenizer, self.target.vocab, self.eos)

    @property
    def dtype(self) -> str:
        """The number format: "bfloat16" or "float32"."""
        return self.measured.format

    def use_threads(self) -> None:
        """Set the measured number of threads for the calling thread."""
        threads.use(self.target.passes, self.measured.threads)

    @property
    def draft_models(self) -> list[str]:
        """Names of the loaded draft models, without the target's first layers."""
        return [name for name in self.drafts if name != layer_skip.ROLE]

    @property
    def nbytes(self) -> int:
        """Bytes of all weights and their copies."""
        loaded = [self.target, *(self.drafts[name] for name in self.draft_models)]
        copies = sum(lm.passes.copies for lm in (self.target, *self.drafts.values()))
        return sum(lm.passes.nbytes for lm in loaded) + copies + sum(head.nbytes for head in self.heads.values())

    def with_head(self, head: Head, name: str, costs: DrafterCosts) -> Models:
        """Return the same models with this head, instead of any other head of its kind."""
        kind, drafters = head.shape.kind, self.costs.drafters
        measured = replace(self.measured, costs=replace(self.costs, drafters={**drafters, kind: costs}))
        names, heads = {**self.names, kind: name}, {**self.heads, kind: head}
        return replace(self, names=names, heads=heads, measured=measured)

    def draft(self, name: str) -> CachedLM | TranslatedLM | CachedHead:
        """Return a new cache for the draft model or trained head of that name. Raises `ModelError` with the names."""
        if name in self.deferred:
            self.deferred.discard(name)
            drafters = _drafters(self.target, self.drafts, self.heads, self.translators)
            cost.warm_drafter(drafters[name], self.target.fresh())
        if name in self.heads:
            return self.heads[name].fresh(self.target.vocab)
        if name in self.translators:
            return self.translators[name].fresh(self.drafts[name], self.target.vocab)
        if name in self.drafts:
            return self.drafts[name].fresh()
        if name in KINDS:
            hint = f'{self.spec} has no such trained head; load "{self.spec}+HEAD", or train one: python -m lookahead train --only {name}.'
        elif name == layer_skip.ROLE:
            hint = "the first layers of this architecture cannot be used alone; choose another method."
        else:
            names = ", ".join(self.drafts)
            advice = f"choose one of {names}" if names else f'load "{self.spec}+DRAFT" to add one'
            hint = f"{self.spec} has no such draft model; {advice}."
        raise ModelError("head" if name in KINDS else "draft", name, hint)


def load(
    spec: str = "pocket",
    progress: Progress = lambda *_: None,
    *,
    dtype: str | torch.dtype | None = None,
    folder_of: Mapping[str, Path] | None = None,
    first: Collection[str] | None = None,
) -> Models:
    """Load a family and measure it, or check stored measurements.

    With `first`, the first start of a bundled family on a machine takes less time: other drafters than these are compiled at their
    first use, and costs are estimated, until `finish_loading`.

    `dtype` is "bfloat16" or "float32"; None is the default format. `folder_of` maps hub names to folders with their
    files, or to GGUF files, which are converted; transformers resolves other hub names. Raises `ModelError` if a model is
    missing, cannot be rolled back, has no token of the target or fails in a pass. Raises `SettingsError` for an unknown format.
    """
    locations = sources.locations(spec)
    with _as_model_errors(sources.display_name(locations["target"])):  # the first passes may raise any type
        requested = number_format.requested(dtype)
        folders = {**(folder_of or {})}
        if files := {location: path for location, path in folders.items() if path.is_file()}:
            folders |= _converted(files, folders[locations["target"]], requested, portion(progress, 0.0, 0.5))
            progress = portion(progress, 0.5, 1.0)
        family = _resolve(spec, locations, folders)
        name = number_format.name_of(requested) if requested else None
        key = measurements.key([*family.folders.values(), *family.heads.values()], name)
        stored = measurements.read(key)
        first = None if stored or not family.shipped else first
        tokenizer, passes = _read(family, requested, stored, progress, first)
        models = _calibrate(family, tokenizer, passes, stored, key, progress, first)
        if not models.estimated:
            measurements.write(key, models.measured)
        progress("Ready", 1.0)
        return models


def _converted(
    files: Mapping[str, Path], target: Path, requested: torch.dtype | None, progress: Progress
) -> dict[str, Path]:
    """Return the folders into which GGUF files are converted, in the format of the family; `target` is its folder or file."""
    folder = sources.description(target) if target.is_file() else target
    dtype = requested or number_format.default(memory.device(), kernels.compiles(folder))
    folders = {}
    for number, (location, path) in enumerate(files.items()):
        share = portion(progress, number / len(files), (number + 1) / len(files))
        with _as_model_errors(sources.display_name(location)):
            folders[location] = sources.converted(path, dtype, share)
    return folders


@contextmanager
def _as_model_errors(name: str) -> Iterator[None]:
    """Raise errors of other libraries as a `ModelError` with the model's name."""
    try:
        yield
    except (LookaheadError, Cancelled):
        raise
    except Exception as error:
        hint = f"it could not be loaded ({short_error(error)}); check the name and the network, or give a local folder."
        raise ModelError("model", name, hint) from error


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of a family by role. The role of a trained head is its kind. `names` are for display."""

    spec: str
    shipped: Typical | None
    names: dict[str, str] = field(default_factory=dict)
    folders: dict[str, str] = field(default_factory=dict)
    heads: dict[str, str] = field(default_factory=dict)
    unshared: dict[str, frozenset[int]] = field(default_factory=dict)  # ids that drafts must not propose
    translators: dict[str, Translator] = field(default_factory=dict)


def _resolve(spec: str, locations: Mapping[str, str], folder_of: Mapping[str, Path]) -> _Files:
    """Return the files of a family, before any weights are read. Raises `ModelError` if a file is missing or damaged."""
    family = _Files(spec, typical.read(sources.BUNDLED / spec) if "/" not in spec else None)
    for role, location in locations.items():
        folder = str(folder_of.get(location, location))
        config = files.config_of(folder) if role != "target" else None
        role = files.kind_of(config) if config else role
        if role in family.names:
            raise ModelError("models", spec, f"there are two heads of the kind {role}; give only one.")
        family.names[role] = sources.display_name(location)
        (family.heads if config else family.folders)[role] = folder
        if not config:
            small_files.check(folder)
            small_files.weight_files(folder)
    return family


def _read(
    family: _Files,
    requested: torch.dtype | None,
    stored: Measured | None,
    progress: Progress,
    first: Collection[str] | None,
) -> tuple[PreTrainedTokenizerBase, dict[str, Forward]]:
    """Return the tokenizer, and the passes of all language models by role, in the requested or the default format."""
    device, compiles = memory.device(), kernels.compiles(family.folders["target"])
    dtype = requested or number_format.default(device, compiles)
    spread = len(memory.gpus()) > 1 and _too_large(family.folders, dtype)
    tokenizer = _read_tokenizers(family)
    if device.type == "cpu" and compiles:
        progress("Preparing kernels for this processor", 0.03)
        text = "Compiling kernels for this processor, {} of {}"
        kernels.prepare(dtype, lambda done, count: progress(text.format(done, count), 0.03), first)
    drafts = [role for role in family.folders if role != "target"]
    passes: dict[str, Forward] = {}
    # A spread target is read last, into the memory that its drafts leave free.
    for role in [*drafts, "target"] if spread else ["target", *drafts]:
        progress(f"Reading {family.names[role]}", 0.05 + 0.35 * len(passes) / len(family.names))
        with _as_model_errors(family.names[role]):
            passes[role] = _load(family.folders[role], dtype, device, spread and role == "target")
        if role == "target":
            threads.use(passes[role], stored.threads if stored else threads.choose(CachedLM(passes[role])))
    return tokenizer, passes


def _calibrate(
    family: _Files, tokenizer: PreTrainedTokenizerBase, passes: Mapping[str, Forward], stored: Measured | None,
    key: str | None, progress: Progress, first: Collection[str] | None,
) -> Models:  # fmt: skip
    """Return the family with its exactness and costs, which are measured, or stored and checked."""
    target = CachedLM(passes["target"])
    progress("Probing exactness", 0.45)
    probe = exactness.probe(target, exactness.AGAIN_S if stored else exactness.BUDGET_S, random.randrange(1 << 30))
    progress("Measuring pass costs", 0.6)
    gc.collect()  # otherwise Python would collect during a race
    lengths = cost.LENGTHS[1:2] if stored else cost.LENGTHS  # with known costs a few passes suffice
    cost.warm(layer_skip.shallow(target), MAX_ROWS, lengths)
    drafts = {role: _drafter(family, role, passes[role], target) for role in passes if role != "target"}
    heads = {role: files.read(folder, target.passes, family.names[role]) for role, folder in family.heads.items()}
    # A spread target has no drafters that share its weights, because its first layers and its head are on different GPUs.
    if len(target.passes.devices) == 1:
        if MTP not in heads and (module := _mtp_of_checkpoint(family, target.passes)):
            heads[MTP] = module
        with suppress(ModelError):  # the first layers of this architecture cannot be used alone
            drafts[layer_skip.ROLE] = layer_skip.drafter(target)
    drafters = _drafters(target, drafts, heads, family.translators)
    deferred = set() if first is None else {*drafters} - {*first}
    if first is not None and family.shipped:
        costs = cost.estimated(target, family.shipped.costs, [*drafters])
    else:
        costs = _costs(target, drafters, stored)
    for draft in drafts.values():
        cost.warm(draft, 4, lengths)
    for drafter in (drafters[role] for role in drafters if role not in deferred):
        cost.warm_drafter(drafter, target)
    dtype: Any = number_format.name_of(target.passes.dtype)
    measured = Measured(dtype, probe, costs, threads.current(target.passes))
    eos = _eos(family.folders["target"], target, tokenizer)
    return Models(
        family.spec, family.names, tokenizer, target, drafts, measured, eos, heads, key, family.shipped, family.translators,
        first is not None,
        deferred,
    )  # fmt: skip


def _drafter(family: _Files, role: str, passes: Forward, target: CachedLM) -> CachedLM:
    """Return a draft model. It proposes ids that both models have, unless it has a translator.

    A draft model as large as the target keeps full precision.
    """
    exact = passes.size >= target.passes.size
    if role in family.translators:
        return CachedLM(passes, exact=exact)
    vocab = min(target.vocab, passes.shape.vocab)
    return CachedLM(passes, vocab, exact, reads_all=True, unshared=family.unshared[role])


def _mtp_of_checkpoint(family: _Files, target: Forward) -> Head | None:
    """Return the MTP module in the target's own checkpoint, None without one, or if it is not supported."""
    folder = sources.local_folder(family.folders["target"])
    if not (folder and (tensors := mtp_tensors.find(mtp_tensors.tensor_files(folder), target.shape.layers))):
        return None
    from ..model.heads import target_mtp  # imports transformers' models

    name = f"{family.names['target']}, MTP module"
    try:
        head = target_mtp.read(folder, tensors, target, name)
    except ModelError as error:
        logging.getLogger(__name__).warning("%s", error)
        return None
    family.names[MTP] = name
    return head


def _drafters(
    target: CachedLM, drafts: Mapping[str, CachedLM], heads: Mapping[str, Head], translators: Mapping[str, Translator]
) -> dict[str, CachedLM | TranslatedLM | Head]:
    """Return the drafters by name, as lanes use them."""
    translated = {role: translator.fresh(drafts[role], target.vocab) for role, translator in translators.items()}
    return {**drafts, **translated, **heads}


def measured_again(models: Models) -> Models:
    """Measure costs again, store them, and return the models with them. Takes as long as the measurement at load."""
    costs = _costs(models.target, _drafters(models.target, models.drafts, models.heads, models.translators))
    measured = replace(models.measured, costs=costs)
    measurements.write(models.key, measured)
    return replace(models, measured=measured, estimated=False, deferred=set())


def finish_loading(models: Models) -> Iterator[Models | None]:
    """Compile and measure the drafters that `load` has deferred. Yield None between the steps, then the complete models."""
    if isinstance(models.target.passes, kernels.Llama):
        yield from kernels.prepare_deferred(models.target.passes.dtype)
    yield measured_again(models)


def _read_tokenizers(family: _Files) -> PreTrainedTokenizerBase:
    """Return the target's tokenizer; set `unshared` and `translators`. Raises `ModelError` if a draft has no token of the target."""
    tokenizers: dict[str, PreTrainedTokenizerBase] = {}
    for role, folder in family.folders.items():
        with _as_model_errors(name := family.names[role]):
            try:
                tokenizers[role] = load_tokenizer(folder)
            except ModelError as error:
                raise ModelError("model", name, error.hint) from error
        compared = compared_tokenizers(tokenizers["target"], tokenizers[role], name)
        if isinstance(compared, Translator):
            family.translators[role] = compared
        else:
            family.unshared[role] = compared
    return tokenizers["target"]


def _costs(
    target: CachedLM, drafters: Mapping[str, CachedLM | TranslatedLM | Head], stored: Measured | None = None
) -> PassCosts:
    """Return the stored costs scaled to the current speed, or measured costs. Disturbed measurements are repeated."""
    lms = {role: drafter for role, drafter in drafters.items() if isinstance(drafter, CachedLM)}
    small = [role for role, draft in lms.items() if draft.passes.size <= target.passes.size]
    if stored and stored.costs.drafters.keys() == drafters.keys() and cost.plausible(stored.costs, small):
        drift = cost.drift(target, stored.costs.target)
        if drift:
            return stored.costs.scaled(drift)
    attempts = 0
    while True:
        curve = cost.measure(target)
        measured = {role: cost.measure_drafter(drafter, target, curve) for role, drafter in drafters.items()}
        costs = PassCosts(curve, measured)
        attempts += 1
        if cost.plausible(costs, small) or attempts == MAX_MEASUREMENTS:
            return costs


def _too_large(folders: Mapping[str, str], dtype: torch.dtype) -> bool:
    """Return whether a family is too large for the first GPU."""
    from ..model import loading

    try:
        numbers = sum(loading.meta_model(folder).num_parameters() for folder in folders.values())
    except Exception:  # raised with a message when the model is loaded
        return False
    return memory.SPARE * dtype.itemsize * numbers > memory.gpus()[0]


def load_tokenizer(folder: str | Path) -> PreTrainedTokenizerBase:
    """Return the tokenizer in a folder or of a hub name.

    Raises `ModelError` with the name of an unusable file in a folder. For a hub name, errors of transformers are raised.
    """
    for name in small_files.TOKENIZER:
        small_files.read(folder, name)
    config = small_files.read(folder, small_files.TOKENIZER_CONFIG) or {}
    try:
        if config.get("tokenizer_class") == "TokenizersBackend" and "auto_map" not in config:
            return TokenizersBackend.from_pretrained(folder, trust_remote_code=False)
        # AutoTokenizer imports the configurations of all models, which takes seconds.
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # transformers raises many types
        if not Path(folder).is_dir():
            raise
        raise _tokenizer_fault(folder, error) from error


def _tokenizer_fault(folder: str | Path, error: Exception) -> ModelError:
    """Return an error with the name of the tokenizer's unusable file: tokenizer.json if it cannot be read."""
    path, reason = Path(folder) / "tokenizer.json", short_error(error)
    if not path.is_file():
        return small_files.file_error(folder, path.name, f"there is none, and no other tokenizer works: {reason}")
    try:
        Tokenizer.from_file(str(path))
    except Exception as file_error:  # the library defines no error class
        return small_files.file_error(folder, path.name, short_error(file_error))
    others = [name for name in (*small_files.TOKENIZER, "chat_template.jinja") if (Path(folder) / name).is_file()]
    return small_files.file_error(folder, " or ".join(others) or path.name, reason)


def _load(folder: str, dtype: torch.dtype, device: torch.device, spread: bool) -> Forward:
    """Return a model's passes: compiled kernels for a plain Llama on a CPU, else transformers' modules."""
    if device.type == "cpu" and (passes := kernels.read(folder, dtype)) is not None:
        return passes
    from ..model import loading

    return capture.capture_if_faster(loading.load(folder, dtype, device, spread))


def compared_tokenizers(
    target: PreTrainedTokenizerBase, draft: PreTrainedTokenizerBase, name: str
) -> frozenset[int] | Translator:
    """Return the ids of added tokens that only one of the models has, or a translator if ordinary tokens differ.

    Added tokens are, for example, those of a chat template. Raises `ModelError` with the `name` of the draft model if the
    models have no token in common.
    """
    target_ids, draft_ids = target.get_vocab(), draft.get_vocab()
    differing = target_ids.items() ^ draft_ids.items()
    tokenizers: tuple[Any, ...] = target, draft
    added = {token for tokenizer in tokenizers for token in tokenizer.get_added_vocab()}
    if {token for token, _ in differing} <= added:
        return frozenset(number for _, number in differing)
    translator = Translator(target, draft)
    if not translator.shared:
        raise ModelError("draft", name, "none of its tokens is a token of the target; choose another draft model.")
    return translator


def _eos(folder: str, target: CachedLM, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Return all ids that end a text."""
    is_plain = llama_config.plain(folder)
    ids: Any = llama_config.eos_token_ids(folder) if is_plain else target.model.generation_config.eos_token_id
    ids = [*(ids if isinstance(ids, (list, tuple)) else [ids]), tokenizer.eos_token_id]
    return frozenset(i for i in ids if i is not None)
