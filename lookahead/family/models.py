"""Families in memory: bundled ones, pairs from the hub and local folders, loaded in three steps.

`load` resolves a spec to folders, reads their tokenizers and weights, and calibrates the result: exactness and costs. A pair
must share its vocabulary, token by token, and both models must have a cache that can be rolled back. No remote code is run,
and only safetensors are read. A family is on one GPU. A target that is too large for it is spread over all, layer by layer.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers.tokenization_utils_base import PreTrainedTokenizerBase
from transformers.tokenization_utils_tokenizers import TokenizersBackend

from .. import kernels
from ..core import memory
from ..core.costs import DrafterCosts, PassCosts
from ..core.events import Cancelled, LookaheadError, ModelError, SettingsError
from ..core.numbers import count
from ..core.wording import remark
from ..model import layer_skip, llama_config, small_files
from ..model.forward import Forward
from ..model.heads import files
from ..model.heads.head import CachedHead, Head
from ..model.heads.shape import KINDS
from ..model.lm import CachedLM
from . import cost, exactness, number_format, recording, remembered, sources, threads, typical
from .remembered import Measured
from .sources import Progress
from .typical import Typical

LOOKS = 3  # measurements of costs, until they are plausible
MOST_ROWS = 21  # of the passes that small machines make


@dataclass(frozen=True, slots=True)
class Models:
    """A target, its draft models and trained heads by name, their tokenizer, and what was measured of them at load."""

    spec: str
    names: dict[str, str]
    tokenizer: PreTrainedTokenizerBase
    target: CachedLM
    drafts: dict[str, CachedLM]
    measured: Measured
    eos: frozenset[int] = field(default=frozenset())
    heads: dict[str, Head] = field(default_factory=dict)
    key: str | None = None  # under which it is remembered what was measured
    typical: Typical | None = None  # the costs of a typical machine, if the family ships them

    @property
    def exactness(self) -> str:
        """ "bit-exact" or "tie-aware", as probed on this machine."""
        return self.probe.kind

    @property
    def probe(self) -> exactness.Exactness:
        """How far passes are exact."""
        return self.measured.exactness

    @property
    def costs(self) -> PassCosts:
        """What the passes of the target and of its drafts cost."""
        return self.measured.costs

    def deciding(self, costs: str = "auto") -> str:
        """Return "typical" or "measured", the costs that `auto` decides with. Raises `SettingsError` if none are shipped."""
        if costs == "typical" and not self.typical:
            raise SettingsError("costs", costs, f"{self.spec} ships no costs of a typical machine; choose measured.")
        return "typical" if self.typical and costs != "measured" else "measured"

    def deciding_costs(self, costs: str = "auto") -> PassCosts:
        """The costs of that name."""
        return self.typical.costs if self.deciding(costs) == "typical" else self.costs

    @property
    def dtype(self) -> str:
        """The number format: "bfloat16" or "float32"."""
        return self.measured.format

    def use_threads(self) -> None:
        """Compute with as many threads as were measured to be fast, in the calling thread."""
        threads.use(self.measured.threads)

    @property
    def draft_models(self) -> list[str]:
        """Names of the draft models that were loaded; the target's own first layers are not one of them."""
        return [name for name in self.drafts if name != layer_skip.ROLE]

    @property
    def nbytes(self) -> int:
        """Memory that all their weights take, with what is copied of them."""
        loaded = [self.target, *(self.drafts[name] for name in self.draft_models)]
        copies = sum(lm.passes.copies for lm in (self.target, *self.drafts.values()))
        return sum(lm.passes.nbytes for lm in loaded) + copies + sum(head.nbytes for head in self.heads.values())

    def with_head(self, head: Head, name: str, costs: DrafterCosts) -> Models:
        """The same models with a head in the place of any other of its kind."""
        kind, drafters = head.shape.kind, self.costs.drafters
        measured = replace(self.measured, costs=replace(self.costs, drafters={**drafters, kind: costs}))
        names, heads = {**self.names, kind: name}, {**self.heads, kind: head}
        return replace(self, names=names, heads=heads, measured=measured)

    def draft(self, name: str) -> CachedLM | CachedHead:
        """A fresh cache over the draft model or trained head of that name, or a `ModelError` that lists them."""
        if name in self.heads:
            return self.heads[name].fresh(self.target.vocab)
        if name in self.drafts:
            return self.drafts[name].fresh()
        if name in KINDS:
            hint = f'{self.spec} has no such trained head; load "{self.spec}+HEAD", or train one: python -m lookahead train --only {name}.'
        elif name == layer_skip.ROLE:
            hint = "the first layers of this architecture cannot be used alone; choose another method."
        else:
            have = f"choose one of {', '.join(self.drafts)}" if self.drafts else f'load "{self.spec}+DRAFT" to have one'
            hint = f"{self.spec} has no such draft model; {have}."
        raise ModelError("head" if name in KINDS else "draft", name, hint)


def load(
    spec: str = "pocket",
    progress: Progress = lambda text, share: None,
    *,
    dtype: str | torch.dtype | None = None,
    folder_of: Mapping[str, Path] | None = None,
) -> Models:
    """Load a family and measure it, or check what an earlier start has measured.

    `dtype` is "bfloat16" or "float32"; None is the usual format. `folder_of` maps hub names to folders with their files;
    transformers looks for the others. Raises `ModelError` if a model cannot be found, cannot be rolled back, does not fit or
    fails in a pass, and `SettingsError` for an unknown format.
    """
    places = sources.places(spec)
    with _explained(sources.shown(places["target"])):  # a model may raise anything in its first passes
        family = _resolve(spec, places, folder_of or {})
        requested = number_format.requested(dtype)
        name = number_format.name_of(requested) if requested else None
        key = remembered.key([*family.folders.values(), *family.heads.values()], name)
        kept = remembered.read(key)
        tokenizer, passes = _read(family, requested, kept, progress)
        models = _calibrate(family, tokenizer, passes, kept, key, progress)
        remembered.keep(key, models.measured)
        progress("Ready", 1.0)
        return models


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Raise any error of another library as a `ModelError` that names the model."""
    try:
        yield
    except (LookaheadError, Cancelled):
        raise
    except Exception as error:
        hint = f"it could not be loaded ({remark(error)}); check the name, the network, or give a local folder."
        raise ModelError("model", name, hint) from error


@dataclass(frozen=True, slots=True)
class _Files:
    """A family's files by role, which for a trained head is its kind; `names` are shown, `shipped` are typical costs."""

    spec: str
    shipped: Typical | None
    names: dict[str, str] = field(default_factory=dict)
    folders: dict[str, str] = field(default_factory=dict)
    heads: dict[str, str] = field(default_factory=dict)


def _resolve(spec: str, places: Mapping[str, str], folder_of: Mapping[str, Path]) -> _Files:
    """Find the files of a family. Raises `ModelError` before a weight is read if one is missing or damaged."""
    family = _Files(spec, typical.read(sources.BUNDLED / spec) if "/" not in spec else None)
    for role, place in places.items():
        folder = str(folder_of.get(place, place))
        config = files.config_of(folder) if role != "target" else None
        role = files.kind_of(config) if config else role
        if role in family.names:
            raise ModelError("models", spec, f"there are two heads of the kind {role}; give one.")
        family.names[role] = sources.shown(place)
        (family.heads if config else family.folders)[role] = folder
        if not config:
            small_files.check(folder)
            small_files.weight_files(folder)
    return family


def _read(
    family: _Files, requested: torch.dtype | None, kept: Measured | None, progress: Progress
) -> tuple[PreTrainedTokenizerBase, dict[str, Forward]]:
    """Read the tokenizer and all language models, in the requested format or the usual one."""
    device, compiles = memory.device(), kernels.compiles(family.folders["target"])
    dtype = requested or number_format.usual(device, compiles)
    spread = len(memory.gpus()) > 1 and _too_large(family.folders, dtype)
    tokenizer = _shared_tokenizer(family)
    if device.type == "cpu" and compiles:
        progress("Preparing kernels for this processor", 0.03)
        kernels.prepare(dtype)
    drafts = [role for role in family.folders if role != "target"]
    passes: dict[str, Forward] = {}
    # A spread target comes last: it takes what its drafts leave free.
    for role in [*drafts, "target"] if spread else ["target", *drafts]:
        progress(f"Reading {family.names[role]}", 0.05 + 0.35 * len(passes) / len(family.names))
        with _explained(family.names[role]):
            passes[role] = _load(family.folders[role], dtype, device, spread and role == "target")
        if role == "target":
            threads.use(kept.threads if kept else threads.choose(CachedLM(passes[role])))
    return tokenizer, passes


def _calibrate(
    family: _Files, tokenizer: PreTrainedTokenizerBase, passes: Mapping[str, Forward], kept: Measured | None,
    key: str | None, progress: Progress,
) -> Models:  # fmt: skip
    """Measure exactness and costs, or check those that are `kept`."""
    target = CachedLM(passes["target"])
    progress("Probing exactness", 0.45)
    probe = exactness.probe(target, exactness.AGAIN_S if kept else exactness.BUDGET_S, random.randrange(1 << 30))
    progress("Measuring what a pass costs", 0.6)
    gc.collect()  # or Python would look through all that was loaded in the middle of a race
    lengths = cost.LENGTHS[1:2] if kept else cost.LENGTHS  # with known costs a few passes suffice
    cost.warm(layer_skip.shallow(target), MOST_ROWS, lengths)
    drafts = {role: _drafter(passes[role], target) for role in passes if role != "target"}
    heads = {role: files.read(folder, target.passes, family.names[role]) for role, folder in family.heads.items()}
    # The first layers of a spread target are on one GPU and its head on another: no layer skip.
    if len(target.passes.devices) == 1:
        with suppress(ModelError):  # an architecture that cannot be cut short
            drafts[layer_skip.ROLE] = layer_skip.drafter(target)
    costs = _costs(target, drafts, heads, kept)
    for draft in drafts.values():
        cost.warm(draft, 4, lengths)
    for drafter in (*drafts.values(), *heads.values()):
        cost.rehearse(drafter, target)
    measured = Measured(number_format.name_of(target.passes.dtype), probe, costs, torch.get_num_threads())
    eos = _eos(family.folders["target"], target, tokenizer)
    return Models(family.spec, family.names, tokenizer, target, drafts, measured, eos, heads, key, family.shipped)


def _drafter(passes: Forward, target: CachedLM) -> CachedLM:
    """A draft model, which proposes ids that both models have. One as large as its target agrees to the last bit."""
    vocab, exact = min(target.vocab, passes.shape.vocab), passes.size >= target.passes.size
    return CachedLM(passes, vocab, exact, reads_all=True)


def measured_again(models: Models) -> Models:
    """The same models with what passes cost now, and remembered so. Takes as long as at load."""
    measured = replace(models.measured, costs=_costs(models.target, models.drafts, models.heads))
    remembered.keep(models.key, measured)
    return replace(models, measured=measured)


def _shared_tokenizer(family: _Files) -> PreTrainedTokenizerBase:
    """The target's tokenizer. Raises `ModelError` if a draft has another vocabulary."""
    tokenizers = {role: _load_tokenizer(family.names[role], folder) for role, folder in family.folders.items()}
    for role, tokenizer in tokenizers.items():
        same_vocabulary(tokenizers["target"], tokenizer, family.names["target"], family.names[role])
    return tokenizers["target"]


def _costs(
    target: CachedLM, drafts: Mapping[str, CachedLM], heads: Mapping[str, Head], kept: Measured | None = None
) -> PassCosts:
    """The kept costs at today's speed, else measured ones, again if other programs disturbed the measurement."""
    small = [role for role, draft in drafts.items() if draft.passes.size <= target.passes.size]
    drafters = {**drafts, **heads}
    usable = kept and kept.costs.drafters.keys() == drafters.keys() and cost.plausible(kept.costs, small)
    if usable and (drift := cost.drift(target, kept.costs.target)):
        return kept.costs.scaled(drift)
    for _ in range(LOOKS):
        curve = cost.measure(target)
        costs = PassCosts(curve, {role: cost.measure_drafter(one, target, curve) for role, one in drafters.items()})
        if cost.plausible(costs, small):
            break
    return costs


def _too_large(folders: Mapping[str, str], dtype: torch.dtype) -> bool:
    """Whether a family does not fit the first GPU."""
    from ..model import loading

    try:
        numbers = sum(loading.empty(folder).num_parameters() for folder in folders.values())
    except Exception:  # loading it will say what is wrong
        return False
    return memory.SPARE * dtype.itemsize * numbers > memory.gpus()[0]


def load_tokenizer(folder: str | Path) -> PreTrainedTokenizerBase:
    """The tokenizer in a folder (raises `ModelError` with the unusable file) or of a hub name (raises as transformers does)."""
    for name in small_files.TOKENIZER:
        small_files.read(folder, name)
    config = small_files.read(folder, small_files.TOKENIZER_CONFIG) or {}
    try:
        if config.get("tokenizer_class") == "TokenizersBackend" and "auto_map" not in config:
            return TokenizersBackend.from_pretrained(folder, trust_remote_code=False)
        # Looking for a class takes every model's configuration, and those seconds to import.
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # transformers raises a dozen kinds here
        if not Path(folder).is_dir():
            raise
        raise _tokenizer_fault(folder, error) from error


def _tokenizer_fault(folder: str | Path, error: Exception) -> ModelError:
    """An error that names the tokenizer's unusable file: tokenizer.json if it cannot be read alone either."""
    whole, reason = Path(folder) / "tokenizer.json", remark(error)
    if not whole.is_file():
        return small_files.fault(folder, whole.name, f"there is none, and no other tokenizer works: {reason}")
    try:
        Tokenizer.from_file(str(whole))
    except Exception as alone:  # the library has no class of its own for errors
        return small_files.fault(folder, whole.name, remark(alone))
    others = [name for name in (*small_files.TOKENIZER, "chat_template.jinja") if (Path(folder) / name).is_file()]
    return small_files.fault(folder, " or ".join(others) or whole.name, reason)


def _load_tokenizer(name: str, folder: str) -> PreTrainedTokenizerBase:
    with _explained(name):
        try:
            return load_tokenizer(folder)
        except ModelError as error:
            raise ModelError("model", name, error.hint) from error


def _load(folder: str, dtype: torch.dtype, device: torch.device, spread: bool) -> Forward:
    """A model's passes: by kernels for a plain Llama on a processor, else through transformers' models."""
    if device.type == "cpu" and (passes := kernels.read(folder, dtype)) is not None:
        return passes
    from ..model import loading

    return recording.where_quicker(loading.load(folder, dtype, device, spread))


def same_vocabulary(
    target: PreTrainedTokenizerBase, draft: PreTrainedTokenizerBase, target_name: str, draft_name: str
) -> None:
    """Raise `ModelError` unless both have the same token for every id."""
    target_ids, draft_ids = target.get_vocab(), draft.get_vocab()
    if target_ids == draft_ids:
        return
    differing = sorted({token for token, _ in target_ids.items() ^ draft_ids.items()})
    example = f"{differing[0]!r} is {target_ids.get(differing[0], 'absent')} in the target and {draft_ids.get(differing[0], 'absent')} in the draft"
    differs = f"its vocabulary differs from {target_name}'s in {count(len(differing))} tokens ({example})"
    raise ModelError("draft", draft_name, f"{differs}; choose a draft that was trained with the target's tokenizer.")


def _eos(folder: str, target: CachedLM, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Every id that ends a text."""
    ids = (
        llama_config.eos_token_ids(folder)
        if llama_config.plain(folder)
        else target.model.generation_config.eos_token_id
    )
    ids = ids if isinstance(ids, (list, tuple)) else [ids]
    return frozenset(i for i in (*ids, tokenizer.eos_token_id) if i is not None)
