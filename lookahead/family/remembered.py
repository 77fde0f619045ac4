"""What was measured of a family on this machine, kept on disk for the next start.

A file a family, machine and setting: what is measured holds for one processor, instruction set, number of threads,
version of torch and set of weights, and all of these are in its name. It lies under LOOKAHEAD_CACHE, else with other
programs' caches. A file that cannot be read, or is of another version, counts as none; one that cannot be written is
done without. Whoever reads one checks a sample of it before it is believed.

Knows files and names. What the numbers mean is `models`' business.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from pydantic import TypeAdapter, ValidationError

from .. import kernels
from ..core import folders, processor
from ..core.costs import CostCurve, PassCosts
from . import threads
from .exactness import Exactness

VERSION = 9
VARIABLE = "LOOKAHEAD_CACHE"
CAPS = (
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "ATEN_CPU_CAPABILITY",
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_CBWR",
    "NUMBA_CPU_NAME",
    "NUMBA_CPU_FEATURES",
)
MOST_S = 3600.0  # that a pass may take
LEFTOVERS, LEFTOVER_S = "tmp????????.part", 3600.0  # files of unfinished writes, and their age
SAMPLE = 1 << 16  # bytes at both ends of a file that stand for it


@dataclass(frozen=True, slots=True)
class Measured:
    """What `models.load` measures. `threads` is the number of threads that passes use. With `faults` the costs are measured
    again at the next start."""

    format: str
    exactness: Exactness
    costs: PassCosts
    threads: int = threads.MOST
    faults: tuple[str, ...] = ()  # what of it cannot be, as `sense` finds


_ADAPTER = TypeAdapter(Measured)


def folder() -> Path:
    """Where the files lie."""
    given = os.environ.get(VARIABLE, "").strip()
    return Path(given).expanduser() if given else folders.cache()


def key(places: Iterable[str | Path], format_name: str | None) -> str | None:
    """The name for a family whose files lie in these folders, in a format; None if they do not."""
    digest = hashlib.sha256(repr((VERSION, _machine(), format_name)).encode())
    for place in places:
        files = sorted(f for f in Path(place).glob("*") if f.suffix in (".safetensors", ".json"))
        if not any(f.suffix == ".safetensors" for f in files):
            return None
        for file in files:
            digest.update(f"{file.name} {file.stat().st_size} ".encode())
            with file.open("rb") as data:
                digest.update(data.read(SAMPLE))
                data.seek(max(0, file.stat().st_size - SAMPLE))
                digest.update(data.read(SAMPLE))
    return digest.hexdigest()[:24]


def _machine() -> tuple[object, ...]:
    """What kernels are chosen by, and what ours are."""
    caps = tuple(os.environ.get(name, "") for name in CAPS)
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return (
        processor.name(),
        torch.backends.cpu.get_cpu_capability(),
        caps,
        threads.MOST,
        torch.__version__,
        gpus,
        kernels.version(),
    )


def read(name: str | None) -> Measured | None:
    """Return what was kept under a name; None if the file is missing, unreadable or holds an impossible value."""
    try:
        kept = _ADAPTER.validate_json((folder() / f"{name}.json").read_bytes()) if name else None
    except (OSError, ValidationError):
        return None
    return kept if kept and _possible(kept) else None


def _possible(kept: Measured) -> bool:
    """Whether every value is one that this machine can produce."""
    return kept.format in ("bfloat16", "float32") and 1 <= kept.threads <= threads.MOST and possible_costs(kept.costs)


def possible_costs(costs: PassCosts) -> bool:
    """Whether every value of a cost model is one that a measurement can produce."""
    drafters = costs.drafters.values()
    seconds = [s for one in drafters for s in (one.choose_s, one.return_s, one.curve.branching_s, *one.cold_s)]
    return all(_rising(curve) for curve in (costs.target, *(one.curve for one in drafters))) and all(
        0 <= s < MOST_S for s in (*seconds, costs.target.branching_s)
    )


def _rising(curve: CostCurve) -> bool:
    """Whether a curve has a time for each row count, with rising counts and positive times."""
    return (
        0 < len(curve.rows) == len(curve.seconds)
        and curve.rows[0] >= 1
        and all(a < b for a, b in pairwise(curve.rows))
        and all(0 < seconds < MOST_S for seconds in curve.seconds)
    )


def remove_leftovers() -> None:
    """Remove old files of writes that did not finish, which earlier versions left in the folder."""
    oldest = time.time() - LEFTOVER_S
    with suppress(OSError):
        for path in folder().glob(LEFTOVERS):
            with suppress(OSError):
                if path.lstat().st_mtime < oldest:
                    path.unlink()


def keep(name: str | None, measured: Measured) -> None:
    """Write a measurement as a whole. A failed write leaves no file."""
    if not name:
        return
    path = None
    try:
        folder().mkdir(parents=True, exist_ok=True)
        handle, path = tempfile.mkstemp(dir=folder(), suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(_ADAPTER.dump_json(measured))
        os.replace(path, folder() / f"{name}.json")
    except OSError:
        if path:
            with suppress(OSError):
                os.unlink(path)
