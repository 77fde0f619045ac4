"""A pair by name: may it be loaded, can it be used, and the way to it.

`look` reads the hub's metadata and small files, no weights; every check of a pair is in the `Plan`, with a `ModelError`
where it fails. `download` brings what is missing, `load` does all of it.
Safetensors only, and no code from anywhere.

A visitor of a server gives hub names and nothing else, and no more than the host allows (`limits`); whoever starts the
server may also give folders (`limits` None).

Knows pairs, tokenizers, limits and this machine's room. It does not know what a model says.
"""

from __future__ import annotations

import filecmp
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

import torch
from huggingface_hub import HfApi, scan_cache_dir
from huggingface_hub.errors import CacheNotFound

from ..calibration import number_format
from ..core import memory
from ..core.events import ModelError, Stopped
from ..core.numbers import count, size
from ..model.heads import files as head_files
from . import elsewhere, models, suggested
from .fetch import File, cache, cached, explained, fetch, settle
from .known import NAME, TOPICS, Known, gather, understand
from .spec import members
from .suggested import SUGGESTED

MOST = 4  # models that a visitor may ask for at once
EVERY_S = 0.1
LONGEST = 96  # characters of a name on the hub
FAMILY = re.compile(r"\w[\w-]{0,63}", re.ASCII)  # what a bundled family may be called
Compute = Callable[..., Any]


class Allowed(Protocol):
    """What a host lets visitors load: "all", "listed" or "none", and models of so many GB at most, 0 for any."""

    loading: str
    max_model_gb: float


@dataclass(frozen=True, slots=True)
class Check:
    """One check: words, and an error where the pair fails it."""

    topic: str
    words: str
    error: ModelError | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A pair, what is known of it, and what was checked."""

    spec: str
    models: tuple[Known, ...]
    dtype: torch.dtype
    checks: tuple[Check, ...] = ()

    @property
    def refused(self) -> ModelError | None:
        """The error of the first check that fails."""
        return next((check.error for check in self.checks if check.error), None)

    @property
    def missing(self) -> int:
        """Bytes that are still to come."""
        return sum(file.size for file in {file for known in self.models for file in known.files} if not file.here)

    def memory(self, dtype: torch.dtype) -> int:
        """Bytes that all weights take in this format."""
        return sum(known.memory(dtype) for known in self.models)


def requested(spec: str, limits: Allowed | None) -> dict[str, str]:
    """Role -> hub name, or folder, of a spec. Raises `ModelError` for one that the limits do not allow."""
    if limits is None:
        return models.places(spec)
    if limits.loading == "none":
        raise ModelError(
            "models", spec, "the host of this server has switched loading off; use the models that are there."
        )
    parts = members(spec) if isinstance(spec, str) else [""]
    if not all(parts):
        raise ModelError("models", spec, 'a name is missing; give "organisation/target+organisation/draft".')
    if len(parts) == 1 and FAMILY.fullmatch(parts[0]) and not Path(parts[0]).exists():
        return models.places(parts[0])
    for part in parts:
        if len(part) > LONGEST or not NAME.fullmatch(part) or ".." in part or Path(part).exists():
            mend = 'give names as the hub shows them, "organisation/target+organisation/draft"; no folder is opened from the page.'
            raise ModelError("models", part, mend)
    if len(parts) > MOST:
        raise ModelError("models", spec, f"give a target and at most {MOST - 1} drafts.")
    if limits.loading == "listed" and "+".join(parts) not in {pair.spec for pair in SUGGESTED}:
        raise ModelError(
            "models", spec, "the host of this server allows the suggested pairs only; choose one of those."
        )
    return models.places("+".join(parts))


def look(
    spec: str,
    *,
    limits: Allowed | None = None,
    dtype: torch.dtype,
    progress: models.Progress = lambda text, share: None,
    compute: Compute = lambda work, *arguments: work(*arguments),
    spare_bytes: int = 0,
) -> Plan:
    """Find out about a pair, without its weights.

    What takes the processor is done through `compute(work, *arguments)`, for a server that has a thread for that;
    `spare_bytes` of memory in use would be given back to make room.
    Raises `ModelError` for a spec that the limits do not allow; everything else that is wrong is in the plan.
    """
    places = requested(spec, limits)
    if (source := _elsewhere(spec.strip())) and source.gguf and not source.here():
        compute(source.convert, progress)
        places = requested(spec, limits)
    gathered = []
    for i, (role, place) in enumerate(places.items()):
        progress(f"Asking about {models.shown(place)}", i / (len(places) + 1))
        gathered.append(gather(role, place, limits is None))
    progress("Comparing the tokenizers", len(places) / (len(places) + 1))
    plan = compute(_checked, "+".join(members(spec)), gathered, dtype, limits, spare_bytes)
    if not any(check.topic == "vocabulary" and check.error for check in plan.checks):
        return plan
    fit = fitting(plan.models[0], {one.place for one in plan.models}, limits is not None)
    return replace(plan, checks=tuple(_with_fitting(check, fit) for check in plan.checks)) if fit else plan


def download(plan: Plan, progress: models.Progress = lambda text, share: None) -> dict[str, Path]:
    """Bring what is missing; returns the folder of every hub name of the plan.

    What `progress` raises ends it (`Stopped` is meant for that); a later call goes on from there. Raises `ModelError`, which
    says how else a bundled family's target is to be had.
    """
    try:
        return _download(plan, progress)
    except ModelError as error:
        if source := _elsewhere(plan.spec):
            mend = f"{source.repo}: {error.mend} Or get it by: {source.install}"
            raise ModelError("family", plan.spec, mend) from error
        raise


def _download(plan: Plan, progress: models.Progress) -> dict[str, Path]:
    if plan.refused:
        raise plan.refused
    total, start, reported_at = plan.missing, monotonic(), 0.0
    present: dict[File, int] = {}
    earlier: dict[File, int] = {}  # what was here of a file already: not in the speed

    def report(file: File, bytes_: int) -> None:
        nonlocal reported_at
        earlier.setdefault(file, bytes_)
        present[file], now = bytes_, monotonic()
        if now - reported_at > EVERY_S or bytes_ == file.size:
            reported_at, done = now, sum(present.values())
            rate = (done - sum(earlier.values())) / max(0.1, now - start)
            progress(f"Downloading: {size(done)} of {size(total)}, {size(rate)} a second", done / max(1, total))

    for known in plan.models:
        for file in known.files:
            try:
                if not file.here:
                    fetch(file, lambda bytes_, file=file: report(file, bytes_))
            except Stopped:
                raise
            except Exception as error:  # the client raises a dozen kinds
                raise explained(known.place, error) from error
        if known.files:
            settle(known.place, known.files[0].commit)
    return {known.place: known.folder for known in plan.models if known.folder}


def load(
    spec: str = "pocket", progress: models.Progress = lambda text, share: None, *, dtype: str | None = None
) -> models.Models:
    """Load a family and measure it: the bundled one, a pair of hub names, or of folders.

    `dtype` is "bfloat16" or "float32"; None leaves it to LOOKAHEAD_DTYPE, or to a measurement.

    Names are looked up and refused before anything large is downloaded. `progress(text, share)` is called as work
    proceeds. Raises `ModelError` when a model cannot be found, does not fit, or cannot be used for speculation.
    """
    if _elsewhere(spec):
        bring(spec, lambda text, share: progress(text, 0.4 * share))
        return models.load(spec, lambda text, share: progress(text, 0.4 + 0.6 * share), dtype=dtype)
    places = models.places(spec)
    if all(Path(place).is_relative_to(models.BUNDLED) for place in places.values()):
        return models.load(spec, progress, dtype=dtype)
    progress("Choosing the number format", 0.0)
    form = number_format.requested(dtype) or number_format.likely(memory.device())
    plan = look(spec, dtype=form.dtype, progress=lambda text, share: progress(text, 0.02 * share))
    ready, percent = 0.6 if plan.missing else 0.02, -1

    def report(text: str, share: float) -> None:  # once a percent: a terminal prints a line each time
        nonlocal percent
        if int(100 * share) > percent:
            percent = int(100 * share)
            progress(text, 0.02 + (ready - 0.02) * share)

    folders = download(plan, report)
    return models.load(
        plan.spec, lambda text, share: progress(text, ready + (1 - ready) * share), dtype=dtype, folder_of=folders
    )


def bring(spec: str, progress: models.Progress = lambda text, share: None) -> tuple[str, Path]:
    """Get the target of a bundled family ready whose target lies elsewhere: "package" or "hub", and its folder.

    An interrupted download goes on where it broke off. Raises `ModelError` where it can be had from nowhere.
    """
    source = _elsewhere(spec)
    if source is None:
        have = ", ".join(path.parent.name for path in sorted(models.BUNDLED.glob(f"*/{elsewhere.SOURCE}")))
        raise ModelError("family", spec, f"nothing is to be brought for it; choose one of {have}.")
    if not source.here():
        if source.gguf:
            source.convert(progress)
        else:
            form = number_format.likely(memory.device())
            plan = look(spec, dtype=form.dtype, progress=lambda text, share: progress(text, 0.1 * share))
            download(plan, lambda text, share: progress(text, 0.1 + 0.9 * share))
    here = source.here()
    assert here, "what was brought is here"
    progress("Ready", 1.0)
    return here


def _elsewhere(spec: str) -> elsewhere.Elsewhere | None:
    """Where the target of a bundled family comes from that does not lie here."""
    return elsewhere.of(models.BUNDLED / spec) if isinstance(spec, str) and FAMILY.fullmatch(spec) else None


# ---------------------------------------------------------------- what follows from it


def _checked(spec: str, gathered: list[Known], dtype: torch.dtype, limits: Allowed | None, spare_bytes: int) -> Plan:
    """The plan with every check. Takes a second or two of the processor for a large vocabulary."""
    known = [understand(one) for one in gathered]
    plan = Plan(spec, tuple(known), dtype)
    whose = "Both are" if len(known) == 2 else "All are" if len(known) > 2 else "It is"
    free, disk, need = memory.free() + spare_bytes, memory.disk_free(cache()), memory.SPARE * plan.memory(dtype)
    most, needed = 1e9 * limits.max_model_gb if limits else 0.0, plan.memory(dtype)
    allowed = None
    if most and needed > most:
        mend = f"its weights take {size(needed)} in memory, and the host of this server allows {size(most)}; choose a smaller one."
        allowed = ModelError("models", spec, mend)
    checks = [
        *_of_each(
            known, "hub", f"{whose} there" + (", and open to this server." if any(k.files for k in known) else ".")
        ),
        *_of_each(known, "weights", f"{whose} in safetensors."),
        *_of_each(known, "code", "Nothing but transformers' own code is needed."),
        *_of_each(known, "cache", "Every layer can be rolled back when a draft is rejected."),
        *_vocabulary([one for one in known if not one.head]),
        *_heads(known),
    ]
    if plan.memory(dtype):
        beside = " beside the models in use" if limits else ""
        words = f"About {size(need)} with room to work; {size(free)} are free{beside}."
        mend = f"it needs about {size(need)} of memory and {size(free)} are free; choose a smaller one."
        checks.append(Check("memory", words, ModelError("models", spec, mend) if need > free else None))
        words = f"{size(plan.missing)} to download, {size(disk)} free." if plan.missing else "Nothing to download."
        mend = f"{size(plan.missing)} are to be downloaded and {size(disk)} of the disk are free; choose a smaller one."
        checks.append(Check("disk", words, ModelError("models", spec, mend) if plan.missing > 0.98 * disk else None))
        words = f"Allowed here: up to {size(most)} of weights." if most else "Allowed here."
        checks.append(Check("host", words, allowed))
    return replace(plan, checks=tuple(checks))


def _of_each(known: list[Known], topic: str, words: str) -> list[Check]:
    """The faults of that kind, or the words when there is none and every model has come so far."""
    faults = [error for one in known for kind, error in one.faults if kind == topic]
    if faults:
        return [Check(topic, str(error), error) for error in dict.fromkeys(faults)]
    earlier = TOPICS[: TOPICS.index(topic)]
    reached = all(kind not in earlier for one in known for kind, _ in one.faults)
    return [Check(topic, words)] if reached else []


def _heads(known: list[Known]) -> list[Check]:
    """Whether trained heads are made for the target: its hidden states, its vocabulary and its layers."""
    target, heads = known[0], [one for one in known if one.head]
    if not heads:
        return []
    if target.head:
        mend = "it is a trained head, which drafts for a target; give the target's name first."
        return [Check("head", mend, ModelError("models", target.name, mend))]
    shape, checks = target.shape, []
    if shape is None:
        return []
    for one in heads:
        try:
            read = head_files.shape_of(one.head, shape, one.name)
        except ModelError as error:
            checks.append(Check("head", str(error), error))
        else:
            layers = ", ".join(map(str, read.taps))
            checks.append(
                Check("head", f"Made for this target: it reads hidden states behind layers {layers} of {shape.layers}.")
            )
    return checks


def _vocabulary(known: list[Known]) -> list[Check]:
    """Whether the drafts' tokens are the target's, token by token."""
    if any(one.folder is None for one in known):
        return []
    readers, checks = [], []
    for one in known:
        try:
            readers.append(models.load_tokenizer(one.folder))
        except ModelError as error:
            fault = ModelError("model", one.name, error.mend)
            return [Check("vocabulary", str(fault), fault)]
    for one, reader in zip(known[1:], readers[1:], strict=True):
        try:
            models.same_vocabulary(readers[0], reader, known[0].name, one.name)
        except ModelError as error:
            checks.append(Check("vocabulary", str(error), error))
    same = {1: "", 2: ", the same in both"}.get(len(known), ", the same in all")
    return checks or [Check("vocabulary", f"{count(len(readers[0].get_vocab()))} tokens{same}.")]


# ---------------------------------------------------------------- what would fit instead


def _with_fitting(check: Check, fit: list[str]) -> Check:
    if check.topic != "vocabulary" or check.error is None:
        return check
    mend = f"{check.error.mend} Drafts that would fit: {', '.join(fit)}."
    error = ModelError(check.error.field, check.error.value, mend)
    return Check(check.topic, str(error), error)


def fitting(target: Known, but: Iterable[str] = (), visitor: bool = True) -> list[str]:
    """Drafts with the target's tokenizer: of its family, of other suggestions, of what this server has a copy of.

    For a visitor, copies that the hub does not show to everybody are left out.
    """
    of = suggested.family(target.place)
    family = suggested.drafts(of) if of else ()
    names = [name for name in family if suggested.billions(name) < suggested.billions(target.place)]
    tokenizer = target.folder / "tokenizer.json" if target.folder else None
    if tokenizer and tokenizer.is_file():
        fingerprint = tokenizer.resolve().name  # a file's name in the cache is the hub's fingerprint of it
        names += [name for name in suggested.drafts() if name not in names and fingerprint in _prints(name)]
        smaller = [(name, copy) for name, size_, copy in _copies() if size_ < target.bytes]
        copies = [name for name, copy in smaller if filecmp.cmp(tokenizer, copy, False)]
        names += [name for name in copies if not visitor or _prints(name)]
    return [name for name in dict.fromkeys(names) if name not in {*but, target.place}]


def _prints(name: str) -> list[str]:
    """The hub's fingerprints of the tokenizer file of a model that everybody may see."""
    try:
        info = HfApi().model_info(name, files_metadata=True, timeout=5, token=False)
    except Exception:  # then there are none
        return []
    files = [one for one in info.siblings or () if one.rfilename == "tokenizer.json"]
    return [one.lfs.sha256 if one.lfs else one.blob_id for one in files]


def _copies() -> list[tuple[str, int, Path]]:
    """(name, bytes of weights, tokenizer file) of every model in the cache."""
    try:
        repos = scan_cache_dir(cache()).repos
    except (CacheNotFound, ValueError):
        return []
    copies = []
    for repo in sorted(repos, key=lambda repo: repo.repo_id):
        folder = cached(repo.repo_id) if repo.repo_type == "model" else None
        weights = sum(path.stat().st_size for path in folder.glob("model*.safetensors")) if folder else 0
        if weights and (folder / "tokenizer.json").is_file():
            copies.append((repo.repo_id, weights, folder / "tokenizer.json"))
    return copies
