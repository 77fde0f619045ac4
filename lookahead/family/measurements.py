"""Measurements of families on this machine, stored on disk for the next start.

The name of a file is a hash of the conditions of the measurement: processor, instruction set, number of threads, version of
torch, weights. Files are in LOOKAHEAD_CACHE, or in the user's cache folder. An unreadable file counts as missing.
"""

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import torch
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from .. import kernels
from ..core import folders, processor
from ..core.costs import CostCurve, PassCosts
from .exactness import Exactness
from .threads import MAX_THREADS, TORCH_THREADS, requested

VERSION = 12
VARIABLE = "LOOKAHEAD_CACHE"
# Prefixes of environment variables that limit a library's instruction set.
CAPS = ("ONEDNN_MAX_CPU", "DNNL_MAX_CPU", "ATEN_CPU", "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR", "NUMBA_CPU")
MAX_S = 3600.0  # longest plausible time of a pass
MAX_EXPERTS = 1e6
SAMPLE = 1 << 16  # bytes at both ends of a file that are hashed


def _possible(costs: PassCosts) -> PassCosts:
    """Return the costs. Raises `ValueError` if a measurement cannot produce them."""
    drafters = costs.drafters.values()
    curves = [costs.target, *(drafter.curve for drafter in drafters)]
    seconds = [s for drafter in drafters for s in (drafter.choose_s, drafter.return_s, *drafter.cold_s)]
    seconds += [curve.branching_s for curve in curves]
    if not all(map(_rising, curves)) or not all(0 <= s < MAX_S for s in seconds):
        raise ValueError("no machine can have these costs")
    return costs


def _rising(curve: CostCurve) -> bool:
    """Return whether the row counts of a curve rise and each has a positive time."""
    rows, seconds = curve.rows, curve.seconds
    is_rising = 0 < len(rows) == len(seconds) and rows[0] >= 1 and [*rows] == sorted({*rows})
    is_rising &= len(curve.experts) in (0, len(rows)) and all(0 < number < MAX_EXPERTS for number in curve.experts)
    is_rising &= len(curve.context_s) in (0, len(rows)) and all(0 <= s < MAX_S for s in curve.context_s)
    return is_rising and all(0 < s < MAX_S for s in seconds)


PossibleCosts = Annotated[PassCosts, AfterValidator(_possible)]


@dataclass(frozen=True, slots=True)
class Measured:
    """The stored result of calibration: number format, exactness, pass costs, and the number of threads for passes."""

    format: Literal["bfloat16", "float32"]
    exactness: Exactness
    costs: PossibleCosts
    threads: Annotated[int, Field(ge=1, le=MAX_THREADS)] = MAX_THREADS


_ADAPTER = TypeAdapter(Measured)


def folder() -> Path:
    """Return the folder of the files."""
    path = os.environ.get(VARIABLE, "").strip()
    return Path(path).expanduser() if path else folders.cache()


def key(model_folders: Iterable[str | Path], format_name: str | None) -> str | None:
    """Return the name of the file for models in these folders and a format, None if a folder has no weights."""
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    caps = sorted(item for item in os.environ.items() if item[0].startswith(CAPS))
    threads = processor.cores(), TORCH_THREADS, requested()
    machine = (processor.name(), torch.backends.cpu.get_cpu_capability(), caps, threads, gpus)
    digest = hashlib.sha256(repr((VERSION, machine, torch.__version__, kernels.version(), format_name)).encode())
    for model_folder in model_folders:
        files = sorted(f for f in Path(model_folder).glob("*") if f.suffix in (".safetensors", ".json"))
        if not any(f.suffix == ".safetensors" for f in files):
            return None
        for file in files:
            digest.update(f"{file.name} {file.stat().st_size} ".encode())
            with file.open("rb") as data:
                digest.update(data.read(SAMPLE))
                data.seek(max(0, file.stat().st_size - SAMPLE))
                digest.update(data.read(SAMPLE))
    return digest.hexdigest()[:24]


def read(name: str | None) -> Measured | None:
    """Return the stored measurement; None if the file is missing, unreadable or has an impossible value."""
    try:
        return _ADAPTER.validate_json((folder() / f"{name}.json").read_bytes()) if name else None
    except (OSError, ValidationError):
        return None


def write(name: str | None, measured: Measured) -> None:
    """Write a measurement atomically. Does nothing without a name, or if the file cannot be written."""
    if not name:
        return
    path = folder() / f"{name}.json"
    part = path.with_suffix(".part")
    try:
        folder().mkdir(parents=True, exist_ok=True)
        part.write_bytes(_ADAPTER.dump_json(measured))
        os.replace(part, path)
    except OSError:
        with suppress(OSError):
            part.unlink()
