"""Locations of models: a folder, a hub name, or a GGUF file in a folder or on the hub ("org/repo/file.gguf").

The target of a bundled family may come from a Python package with a GGUF file, or from the hub. The file `target.json` in the
family's folder names both. A GGUF file is converted once to safetensors, in a folder below LOOKAHEAD_CACHE.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import torch

from ..core.events import Cancelled, ModelError
from ..core.folders import ASSETS
from ..core.wording import short_error
from ..model import gguf, small_files
from ..model.small_files import CONFIG
from . import download, measurements
from .number_format import name_of
from .spec import is_local, members

BUNDLED = ASSETS / "models"
FAMILY = re.compile(r"\w[\w-]{0,63}", re.ASCII)  # names of bundled families
FILE = "target.json"
PACKAGE, HUB = "package", "hub"
Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class RemoteSource:
    """A repository of the hub, and a package with a GGUF `file` and the command that installs the package."""

    family: str
    repo: str
    package: str
    file: str
    install: str
    license: str

    @property
    def gguf(self) -> Path | None:
        """The path of the package's file, None if the package is not installed."""
        if find_spec(self.package) is None:
            return None
        folders = find_spec(self.package).submodule_search_locations or ()
        return next((path for folder in folders if (path := Path(folder) / self.file).is_file()), None)

    @property
    def converted(self) -> Path:
        """The folder of the converted file. It depends on the package's version."""
        try:
            number = version(self.package)
        except PackageNotFoundError:
            number = "unknown"
        return _models() / Path(self.file).stem.split(".")[0] / f"{self.package}-{number}"

    def local_copy(self) -> tuple[str, Path] | None:
        """Return `PACKAGE` or `HUB` and the target's folder, None if no copy can be loaded."""
        if (self.converted / CONFIG).is_file():
            return PACKAGE, self.converted
        copy = download.cached(self.repo)
        return (HUB, copy) if copy else None

    def convert(self, progress: Progress) -> None:
        """Convert the package's file to safetensors. Raises `ModelError`."""
        folder, path = self.converted, self.gguf
        try:
            gguf.convert(path, folder, torch.bfloat16, lambda share: progress(f"Converting {path.name}", share))
        except Cancelled:
            raise
        except OSError as error:
            hint = f"it cannot be written to {folder.parent} ({error.strerror or error}); free some space, or set LOOKAHEAD_CACHE."
            raise ModelError("models", self.family, hint) from error
        except Exception as error:  # libraries raise many types for a damaged file
            hint = f"{path.name} cannot be converted ({short_error(error)}); install {self.package} again."
            raise ModelError("models", self.family, hint) from error


def portion(progress: Progress, start: float, stop: float) -> Progress:
    """Return the progress of a part of the work, from the share `start` to `stop` of the whole."""
    return lambda text, share: progress(text, start + (stop - start) * share)


def bundled() -> list[str]:
    """Return the names of the bundled families."""
    return sorted(path.name for path in BUNDLED.iterdir() if path.is_dir()) if BUNDLED.is_dir() else []


def read_source(folder: Path) -> RemoteSource | None:
    """Return the source of a family's target, None if the folder names none. Raises `ModelError` if it is damaged."""
    source = small_files.read(folder, FILE)
    names = {field.name for field in fields(RemoteSource)} - {"family"}
    if source is not None and (source.keys() != names or not all(isinstance(text, str) for text in source.values())):
        raise small_files.file_error(folder, FILE, f"it must have the strings {', '.join(sorted(names))}")
    return None if source is None else RemoteSource(folder.name, **source)


def named(spec: object) -> RemoteSource | None:
    """Return the source of the bundled family of that name, None if there is no such family or its target is bundled."""
    return read_source(BUNDLED / spec) if isinstance(spec, str) and FAMILY.fullmatch(spec) else None


def all_sources() -> list[RemoteSource]:
    """Return the sources of all bundled families that have one."""
    return [source for name in bundled() if (source := named(name))]


def source_of(folder: Path) -> RemoteSource | None:
    """Return the source whose target is in this folder, or None."""
    return next((source for source in all_sources() if (copy := source.local_copy()) and copy[1] == folder), None)


def locations(spec: str) -> dict[str, str]:
    """Return role -> location. Raises `ModelError` if the spec has an empty name or names no bundled family."""
    parts = members(spec) if isinstance(spec, str) else [""]
    if not all(parts):
        raise ModelError("models", spec, 'a name is missing; give "pocket", or "target+draft" as hub names or folders.')
    source, folder = named(spec), BUNDLED / spec
    if source or (spec in bundled() and (folder / "target" / CONFIG).is_file()):
        drafters = sorted({path.parent.name for path in folder.glob("*/config.json")} - {"target"})
        copy = source.local_copy() if source else ("", folder / "target")
        return {"target": str(copy[1]) if copy else source.repo} | {role: str(folder / role) for role in drafters}
    if len(parts) == 1 and "/" not in spec and not is_local(spec):
        have = ", ".join(bundled()) or "none"
        raise ModelError("models", spec, f'no such bundled family (available: {have}); or give "org/target+org/draft".')
    return {"target" if i == 0 else "draft" if i == 1 else f"draft{i}": part for i, part in enumerate(parts)}


def local_folder(location: str) -> Path | None:
    """Return the folder with the files of a location; None if a hub name is not in the cache."""
    return Path(location) if is_local(location) else download.cached(location)


def display_name(location: str) -> str:
    """Return a name for display: a hub name, the name of a bundled model, or the last two parts of a folder."""
    path = Path(location)
    if is_local(location) and (source := source_of(path)):
        return source.repo
    if path.is_relative_to(BUNDLED):  # trained partly on output of Llama 3.1, whose license requires this name
        return f"Llama-{path.parent.name} {path.name}"
    return f"{path.parent.name}/{path.name}" if is_local(location) else location


def _models() -> Path:
    """Return the folder of converted models."""
    return measurements.folder() / "models"


def description(file: Path) -> Path:
    """Return the folder for the configuration and the tokenizer of a GGUF file, which may not be downloaded yet."""
    identity = str(file)  # in the hub's cache, the path contains the commit
    if not file.is_relative_to(download.cache()):
        status = file.stat()
        identity = f"{file.resolve()} {status.st_size} {status.st_mtime_ns}"
    return _models() / "gguf" / hashlib.sha256(identity.encode()).hexdigest()[:24]


def conversion(file: Path, dtype: torch.dtype) -> Path:
    """Return the folder for a GGUF file's model with weights in this format."""
    folder = description(file)
    return folder.with_name(f"{folder.name}-{name_of(dtype)}")


def converted(file: Path, dtype: torch.dtype, progress: Progress) -> Path:
    """Convert a GGUF file if necessary, and return the folder. Raises `ModelError`, and any error of transformers."""
    folder = conversion(file, dtype)
    if not (folder / CONFIG).is_file():
        gguf.convert(file, folder, dtype, lambda share: progress(f"Converting {file.name}", share))
    return folder
