"""Models by name: the bundled family, pairs from the hub, and local folders, all loaded one way.

A spec is "pocket" (bundled, offline) or "target+draft", each a hub name or a folder. A pair must
share its vocabulary, token by token, and both models must have a cache that can be rolled back;
anything else is refused with an error that says what to do. No remote code, safetensors only.

On one GPU a family lies where it was put; a target that is too large for it is spread over all of them, layer by layer,
with its drafts on the first.

Knows transformers' loaders. It does not know strategies, nor how files come to be there: that is `hub`'s.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers.tokenization_utils_base import PreTrainedTokenizerBase
from transformers.tokenization_utils_tokenizers import TokenizersBackend

from ..calibration import cost, depth, exactness, number_format, recording, remembered, sense, threads, typical
from ..calibration.number_format import BFLOAT16, FLOAT32
from ..calibration.remembered import Measured
from ..calibration.typical import Typical
from ..core import memory
from ..core.costs import DrafterCosts, PassCosts
from ..core.events import LookaheadError, ModelError, SettingsError, Stopped
from ..core.numbers import count
from ..core.wording import remark
from ..model import layer_skip, llama, llama_files, small_files
from ..model.forward import Forward
from ..model.heads import files
from ..model.heads.head import CachedHead, Head
from ..model.heads.shape import KINDS
from ..model.lm import CachedLM
from . import elsewhere
from .spec import is_folder, members

BUNDLED = Path(__file__).parents[2] / "assets" / "models"
SECOND_LOOKS = 2  # at costs that cannot be
MOST_ROWS = 21  # of the passes that small machines make
Progress = Callable[[str, float], None]


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
        """Which costs `auto` decides with, by the setting of that name: "typical" or "measured". Raises `SettingsError` if the
        family does not ship typical costs."""
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
        if name in KINDS:
            mend = f'{self.spec} has no such trained head; load "{self.spec}+HEAD", or train one: python -m lookahead train --only {name}.'
            raise ModelError("head", name, mend)
        if name == layer_skip.ROLE and name not in self.drafts:
            mend = "the first layers of this architecture cannot be used alone; choose another method."
            raise ModelError("draft", name, mend)
        if name not in self.drafts:
            have = f"choose one of {', '.join(self.drafts)}" if self.drafts else f'load "{self.spec}+DRAFT" to have one'
            raise ModelError("draft", name, f"{self.spec} has no such draft model; {have}.")
        return self.drafts[name].fresh()


def _drafter(passes: Forward, target: CachedLM) -> CachedLM:
    """A draft model. One as large as its target is there to agree with it, to the last bit, not to be quick. It proposes ids
    that both models have, and reads all ids of the target."""
    vocab, exact = min(target.vocab, passes.shape.vocab), passes.size >= target.passes.size
    return CachedLM(passes, vocab, exact, target.limits if exact else None, reads_all=True)


def load(
    spec: str = "pocket",
    progress: Progress = lambda text, share: None,
    *,
    dtype: str | torch.dtype | None = None,
    folder_of: Mapping[str, Path] | None = None,
) -> Models:
    """Load a family and measure it, or check what an earlier start has measured. `progress(text, share)` is called as
    work proceeds.

    `dtype` is "bfloat16" or "float32"; None is chosen by a measurement. `folder_of` says in which folder the
    files of a hub name lie already; other names are left to transformers. Raises `ModelError` when a model cannot be
    found, cannot be rolled back, does not fit or fails in a pass, and `SettingsError` for a format that there is not.
    """
    try:
        return _loaded(spec, progress, dtype, folder_of or {})
    except (LookaheadError, Stopped):
        raise
    except Exception as error:  # a model may raise anything in its first passes
        raise _explained(places(spec)["target"], error) from error


def _loaded(spec: str, progress: Progress, dtype: str | torch.dtype | None, folder_of: Mapping[str, Path]) -> Models:
    members, folders, head_folders = _parts(spec, folder_of)
    shipped = typical.read(BUNDLED / spec) if "/" not in spec else None
    device, requested = memory.device(), number_format.requested(dtype)
    key = remembered.key([*folders.values(), *head_folders.values()], requested.name if requested else None)
    remembered.remove_leftovers()
    kept = remembered.read(key)
    form = requested or (
        number_format.FORMATS[kept.format]
        if kept
        else number_format.likely(device, llama_files.compiles(folders["target"]))
    )
    spread = len(memory.gpus()) > 1 and _too_large(folders, form.dtype)
    tokenizer, loaded = _shared_tokenizer(members, folders), {}

    def read(roles: Iterable[str]) -> None:
        for role in roles:
            progress(f"Reading {shown(members[role])}", 0.05 + 0.35 * len(loaded) / len(members))
            passes = _load(members[role], folders[role], form.dtype, device, spread and role == "target")
            loaded[role] = recording.where_quicker(passes)

    if device.type == "cpu" and llama_files.compiles(folders["target"]):
        progress("Preparing kernels for this processor", 0.03)
        llama.prepare(form.dtype)
    draft_roles = [role for role in folders if role != "target"]
    # The target last where it is to be spread: it takes what its drafts leave free.
    read([*draft_roles, "target"] if spread else ["target"])
    ratio, by_operators = kept.bfloat16_ratio if kept else None, None
    threads.use(kept.threads if kept else threads.choose(CachedLM(loaded["target"])))
    if not requested and not kept and form is BFLOAT16 and device.type == "cpu":
        progress("Choosing the number format", 0.2)
        ratio, by_operators = _bfloat16(CachedLM(loaded["target"]))
        if not by_operators:
            form = FLOAT32
            read(["target"])
            threads.use(threads.choose(CachedLM(loaded["target"])))
    if not spread:
        read(draft_roles)
    target = CachedLM(loaded["target"])
    progress("Checking exactness" if kept else "Probing exactness", 0.45)
    probe = _probed(target, kept, by_operators)
    target.limits = probe.limits
    progress("Measuring what a pass costs", 0.6)
    gc.collect()  # or Python would look through all that was loaded in the middle of a race
    lengths = cost.LENGTHS[1:2] if kept else cost.LENGTHS  # what is known needs few passes, so that a race can begin
    cost.warm(layer_skip.shallow(target), MOST_ROWS, lengths)
    drafts = {role: _drafter(loaded[role], target) for role in draft_roles}
    heads = {role: files.read(folder, target.passes, shown(members[role])) for role, folder in head_folders.items()}
    trusted = kept if kept and not kept.faults else None
    # Of a spread target the first layers lie on one GPU, its head on another: no layer skip.
    text = () if spread else _calibration_text(tokenizer, target)
    shallow = shipped.layers if shipped else None
    costs, layers = _costs(target, drafts, heads, trusted, text, shallow)
    for draft in drafts.values():
        cost.warm(draft, 4, lengths)
    for drafter in (*drafts.values(), *heads.values()):
        cost.rehearse(drafter, target)
    faults = sense.faults(costs, _sizes(target, drafts))
    for _ in range(SECOND_LOOKS):
        if not faults:
            break
        progress("Measuring again, since something disturbed it", 0.8)
        again = _costs(target, drafts, heads, None, text, shallow)
        if len(remaining := sense.faults(again[0], _sizes(target, drafts))) <= len(faults):
            (costs, layers), faults = again, remaining
    measured = Measured(form.name, probe, costs, layers, ratio, threads.now(), faults)
    remembered.keep(key, measured)
    progress("Ready", 1.0)
    names = {role: shown(place) for role, place in members.items()}
    eos = _eos(folders["target"], target, tokenizer)
    return Models(spec, names, tokenizer, target, drafts, measured, eos, heads, key, shipped)


def measured_again(models: Models) -> Models:
    """The same models with what passes cost now, and remembered so. Takes as long as at load."""
    drafts = dict(models.drafts)
    text = _calibration_text(models.tokenizer, models.target) if layer_skip.ROLE in drafts else ()
    shallow = models.typical.layers if models.typical else None
    costs, layers = _costs(models.target, drafts, models.heads, None, text, shallow)
    faults = sense.faults(costs, _sizes(models.target, drafts))
    measured = replace(models.measured, costs=costs, layers=layers, faults=faults)
    remembered.keep(models.key, measured)
    return replace(models, drafts=drafts, measured=measured)


def _calibration_text(tokenizer: PreTrainedTokenizerBase, target: CachedLM) -> list[int]:
    """Ids of the text on which `depth` compares layers. A tokenizer may have tokens that its model has no row for."""
    return [token for token in tokenizer(depth.TEXT)["input_ids"] if token < target.vocab]


def _sizes(target: CachedLM, drafts: Mapping[str, CachedLM]) -> dict[str, int]:
    """Bytes of weights by role, of those that lie in memory for themselves."""
    return {"target": target.passes.nbytes} | {
        role: draft.passes.nbytes for role, draft in drafts.items() if role != layer_skip.ROLE
    }


def _parts(spec: str, folder_of: Mapping[str, Path]) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Role -> what `spec` says; role -> folder of the language models, and of the trained heads, whose role is their kind."""
    members, folders, heads = {}, {}, {}
    for role, place in places(spec).items():
        folder = str(folder_of.get(place, place))
        config = files.config_of(folder) if role != "target" else None
        role = files.kind_of(config) if config else role
        if role in members:
            raise ModelError("models", spec, f"there are two heads of the kind {role}; give one.")
        members[role] = place
        (heads if config else folders)[role] = folder
        if not config:  # before the first weight is read
            small_files.check(folder)
            small_files.weight_files(folder)
    return members, folders, heads


def _shared_tokenizer(members: Mapping[str, str], folders: Mapping[str, str]) -> PreTrainedTokenizerBase:
    """The target's tokenizer; a `ModelError` where a draft's has another vocabulary."""
    target = _load_tokenizer(members["target"], folders["target"])
    for role, place in members.items():
        if role != "target" and role in folders:
            same_vocabulary(target, _load_tokenizer(place, folders[role]), shown(members["target"]), shown(place))
    return target


def _bfloat16(target: CachedLM) -> tuple[float | None, exactness.Exactness | None]:
    """How long its passes take in units of float32's, and what its operators allow; None where that is not to be used."""
    ratio = number_format.trial(target)
    if ratio is not None and ratio > number_format.CLEARLY:
        return ratio, None
    by_operators = exactness.of_operators(target)
    return ratio, by_operators if by_operators.whole else None


def _costs(
    target: CachedLM, drafts: dict[str, CachedLM], heads: dict[str, Head], kept: Measured | None, text: Sequence[int],
    shallow: int | None = None,
) -> tuple[PassCosts, int | None]:  # fmt: skip
    """What passes cost, and the depth of `self`, which is added to the drafts: measured, or as they were kept at today's
    speed. Without a `text` there is no `self`; `shallow` sets its depth, which is chosen by measurements otherwise."""
    most = target.passes.shape.layers
    if kept and (kept.layers or 1) > most:  # a damaged file
        kept = None
    if shallow and shallow > most:
        shallow = None
    drift = cost.drift(target, kept.costs.target) if kept else None
    if drift is not None and (shallow is None or kept.layers == shallow):
        if kept.layers:
            drafts[layer_skip.ROLE] = layer_skip.at(target, kept.layers)
        if kept.costs.drafters.keys() == drafts.keys() | heads.keys():
            return kept.costs.scaled(drift), kept.layers
    curve, layers = cost.measure(target), None
    with suppress(ModelError):  # an architecture that cannot be cut short
        if text:
            skipping = layer_skip.at(target, shallow) if shallow else depth.choose(target, curve, text)
            drafts[layer_skip.ROLE] = skipping
            layers = drafts[layer_skip.ROLE].passes.shape.layers
    costs = {role: cost.measure_drafter(draft, target, curve) for role, draft in drafts.items()}
    costs |= {role: cost.measure_head(head, target, curve) for role, head in heads.items()}
    return PassCosts(curve, costs), layers


def _probed(target: CachedLM, kept: Measured | None, by_operators: exactness.Exactness | None) -> exactness.Exactness:
    """How far the target is exact: as it was kept, as far as a sample agrees; where nothing is, the device's own attention."""
    if kept:
        return exactness.confirm(target, kept.exactness, exactness.AGAIN_S, random.randrange(1 << 30))
    result = exactness.find(target, by_operators)
    if result.kind == exactness.BIT_EXACT or target.device.type == "cpu" or not target.passes.use_sdpa():
        return result
    return exactness.find(target.fresh())


def places(spec: str) -> dict[str, str]:
    """Role -> folder or hub name."""
    if not isinstance(spec, str) or not spec.strip():
        raise ModelError("models", spec, 'give "pocket", or "target+draft" as hub names or folders.')
    parts = members(spec)
    bundled = BUNDLED / spec
    source = elsewhere.of(bundled) if spec in bundled_names() else None
    if source or (spec in bundled_names() and (bundled / "target" / "config.json").is_file()):
        drafts = sorted({path.parent.name for path in bundled.glob("*/config.json")} - {"target"})
        folders = {role: str(bundled / role) for role in ("target", *drafts)}
        here = source.here() if source else None
        return folders | {"target": str(here[1]) if here else source.repo} if source else folders
    if not all(parts):
        raise ModelError("models", spec, 'a name is missing around "+"; give "target+draft".')
    if len(parts) == 1 and "/" not in spec and not is_folder(spec):
        have = ", ".join(bundled_names()) or "none"
        raise ModelError("models", spec, f'no such bundled family (there is: {have}); or give "org/target+org/draft".')
    return {"target" if i == 0 else "draft" if i == 1 else f"draft{i}": part for i, part in enumerate(parts)}


def bundled_names() -> list[str]:
    """The families that come with the app."""
    return sorted(path.name for path in BUNDLED.iterdir() if path.is_dir()) if BUNDLED.is_dir() else []


def shown(place: str) -> str:
    """A name for people: the family's own, the last parts of a folder, or the hub name."""
    path = Path(place)
    if is_folder(place) and (source := elsewhere.owner(path, BUNDLED)):
        return source.repo
    if path.is_relative_to(BUNDLED):  # trained partly on Llama 3.1 output, whose licence asks for the name
        return f"Llama-{path.parent.name} {path.name}"
    return f"{path.parent.name}/{path.name}" if is_folder(place) else place


def _explained(place: str, error: Exception) -> ModelError:
    mend = f"it could not be loaded ({type(error).__name__}: {' '.join(str(error).split())[:200]}); check the name, the network, or give a local folder."
    return ModelError("model", shown(place), mend)


def _too_large(folders: Mapping[str, str], dtype: torch.dtype) -> bool:
    """Whether a family does not fit the first GPU. One that does is quicker on it alone."""
    from ..model import loading

    try:
        numbers = sum(loading.empty(folder).num_parameters() for folder in folders.values())
    except Exception:  # loading it will say what is wrong
        return False
    return memory.SPARE * dtype.itemsize * numbers > memory.gpus()[0]


def load_tokenizer(folder: str | Path) -> PreTrainedTokenizerBase:
    """The tokenizer in a folder or of a hub name. Raises `ModelError` with the name of the file that cannot be used, and for
    a hub name everything that transformers raises."""
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
    """An error that names the tokenizer's file that cannot be used. A damaged tokenizer.json cannot be read alone either."""
    whole, reason = "tokenizer.json", remark(error)
    try:
        if small_files.read(folder, whole) is None:
            return small_files.fault(folder, whole, f"there is none, and no other tokenizer works: {reason}")
        Tokenizer.from_file(str(Path(folder) / whole))
    except ModelError as fault:
        return fault
    except Exception as alone:  # the library has no class of its own for errors
        return small_files.fault(folder, whole, remark(alone))
    others = [name for name in (*small_files.TOKENIZER, "chat_template.jinja") if (Path(folder) / name).is_file()]
    return small_files.fault(folder, " or ".join(others) or whole, reason)


def _load_tokenizer(place: str, folder: str) -> PreTrainedTokenizerBase:
    try:
        return load_tokenizer(folder)
    except ModelError as error:
        raise ModelError("model", shown(place), error.mend) from error
    except Exception as error:  # transformers raises a dozen kinds here
        raise _explained(place, error) from error


def _load(place: str, folder: str, dtype: torch.dtype, device: torch.device, spread: bool) -> Forward:
    """A model's passes: of a plain Llama on a processor read without transformers' models, else through them."""
    try:
        if device.type == "cpu" and (passes := llama_files.read(folder, dtype)) is not None:
            return passes
        from ..model import loading

        return loading.load(folder, dtype, device, spread)
    except ModelError:
        raise
    except Exception as error:  # as above
        raise _explained(place, error) from error


def same_vocabulary(
    target: PreTrainedTokenizerBase, draft: PreTrainedTokenizerBase, target_name: str, draft_name: str
) -> None:
    """Same token for every id, or a `ModelError` that shows a difference."""
    target_ids, draft_ids = target.get_vocab(), draft.get_vocab()
    if target_ids == draft_ids:
        return
    differing = sorted({token for token, _ in target_ids.items() ^ draft_ids.items()})
    example = f"{differing[0]!r} is {target_ids.get(differing[0], 'absent')} in the target and {draft_ids.get(differing[0], 'absent')} in the draft"
    mend = (
        f"its vocabulary differs from {target_name}'s in {count(len(differing))} tokens ({example}); "
        "choose a draft that was trained with the target's tokenizer."
    )
    raise ModelError("draft", draft_name, mend)


def _eos(folder: str, target: CachedLM, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Every id that ends a text."""
    ids = llama_files.ends(folder) if llama_files.plain(folder) else target.model.generation_config.eos_token_id
    ids = ids if isinstance(ids, (list, tuple)) else [ids]
    return frozenset(i for i in (*ids, tokenizer.eos_token_id) if i is not None)
