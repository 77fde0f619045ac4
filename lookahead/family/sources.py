"""Bundled families whose target comes from elsewhere: a Python package with a GGUF file, or the hub.

A file `target.json` in the family's folder names both. A GGUF file is written once as safetensors, in bfloat16, to a folder
below LOOKAHEAD_CACHE.
"""

import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from ..core.events import Cancelled, ModelError
from ..core.folders import ASSETS
from ..core.wording import remark
from ..model import small_files
from ..model.small_files import CONFIG
from . import download, remembered
from .spec import is_folder, members

BUNDLED = ASSETS / "models"
FAMILY = re.compile(r"\w[\w-]{0,63}", re.ASCII)  # names of bundled families
FILE = "target.json"
PACKAGE, HUB = "package", "hub"
Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class RemoteSource:
    """A repository of the hub, or a package with a GGUF `file` and the command that installs it."""

    family: str
    repo: str
    package: str
    file: str
    install: str
    licence: str

    @property
    def gguf(self) -> Path | None:
        """The package's file, None unless the package and a reader of such files are installed."""
        if find_spec(self.package) is None or find_spec("gguf") is None:
            return None
        folders = find_spec(self.package).submodule_search_locations or ()
        return next((path for folder in folders if (path := Path(folder) / self.file).is_file()), None)

    @property
    def converted(self) -> Path:
        """The folder for the package's file as safetensors, by the package's version."""
        try:
            number = version(self.package)
        except PackageNotFoundError:
            number = "unknown"
        return remembered.folder() / "models" / Path(self.file).stem.split(".")[0] / f"{self.package}-{number}"

    def here(self) -> tuple[str, Path] | None:
        """Return `PACKAGE` or `HUB` and the target's folder if it is ready to be read."""
        if (self.converted / CONFIG).is_file():
            return PACKAGE, self.converted
        copy = download.cached(self.repo)
        return (HUB, copy) if copy else None

    def convert(self, progress: Progress) -> None:
        """Write the package's file as safetensors. Raises `ModelError`."""
        folder, path = self.converted, self.gguf
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent, suffix=".part", ignore_cleanup_errors=True) as part:
                _write(path, Path(part), lambda share: progress(f"Writing out {path.name}, once", share))
                os.chmod(part, 0o755)
                os.replace(part, folder)
        except Cancelled:
            raise
        except OSError as error:
            if self.here() is None:  # else another process was faster
                hint = f"it cannot be written to {folder.parent} ({error.strerror or error}); make room, or set LOOKAHEAD_CACHE."
                raise ModelError("models", self.family, hint) from error
        except Exception as error:  # a damaged file may raise anything
            hint = f"{path.name} cannot be written out ({remark(error)}); install {self.package} again."
            raise ModelError("models", self.family, hint) from error


def bundled() -> list[str]:
    """Return the names of the families that come with the app."""
    return sorted(path.name for path in BUNDLED.iterdir() if path.is_dir()) if BUNDLED.is_dir() else []


def of(folder: Path) -> RemoteSource | None:
    """Return the source of the bundled family in `folder`, None if its target is in that folder.

    Raises `ModelError` if `target.json` is damaged.
    """
    source = small_files.read(folder, FILE)
    names = {field.name for field in fields(RemoteSource)} - {"family"}
    if source is not None and (source.keys() != names or not all(isinstance(text, str) for text in source.values())):
        raise small_files.fault(folder, FILE, f"it must have the texts {', '.join(sorted(names))}")
    return None if source is None else RemoteSource(folder.name, **source)


def named(spec: object) -> RemoteSource | None:
    """Return the source of the bundled family of that name, None if there is none or its target is bundled too."""
    return of(BUNDLED / spec) if isinstance(spec, str) and FAMILY.fullmatch(spec) else None


def all_sources() -> list[RemoteSource]:
    """Return the sources of all bundled families that have one."""
    return [source for name in bundled() if (source := named(name))]


def owner(folder: Path) -> RemoteSource | None:
    """Return the source whose target is in this folder."""
    return next((source for source in all_sources() if (here := source.here()) and here[1] == folder), None)


def places(spec: str) -> dict[str, str]:
    """Return role -> folder or hub name. Raises `ModelError` if the spec names nothing."""
    parts = members(spec) if isinstance(spec, str) else [""]
    if not all(parts):
        raise ModelError("models", spec, 'a name is missing; give "pocket", or "target+draft" as hub names or folders.')
    source, folder = named(spec), BUNDLED / spec
    if source or (spec in bundled() and (folder / "target" / CONFIG).is_file()):
        drafters = sorted({path.parent.name for path in folder.glob("*/config.json")} - {"target"})
        here = source.here() if source else ("", folder / "target")
        return {"target": str(here[1]) if here else source.repo} | {role: str(folder / role) for role in drafters}
    if len(parts) == 1 and "/" not in spec and not is_folder(spec):
        have = ", ".join(bundled()) or "none"
        raise ModelError("models", spec, f'no such bundled family (there is: {have}); or give "org/target+org/draft".')
    return {"target" if i == 0 else "draft" if i == 1 else f"draft{i}": part for i, part in enumerate(parts)}


def shown(place: str) -> str:
    """Return a name for people: the family's own, the last parts of a folder, or the hub name."""
    path = Path(place)
    if is_folder(place) and (source := owner(path)):
        return source.repo
    if path.is_relative_to(BUNDLED):  # trained partly on Llama 3.1 output, whose licence asks for the name
        return f"Llama-{path.parent.name} {path.name}"
    return f"{path.parent.name}/{path.name}" if is_folder(place) else place


def _write(path: Path, folder: Path, progress: Callable[[float], None]) -> None:
    """Write a GGUF file's tokenizer and weights as transformers reads them."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    progress(0.1)
    AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name, trust_remote_code=False).save_pretrained(folder)
    progress(0.4)
    whole = GgufConfig(dequantize=True)  # else the weights stay as they are stored, and cannot be saved
    model = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, quantization_config=whole, dtype=torch.bfloat16, trust_remote_code=False
    )
    progress(0.9)
    model.save_pretrained(folder)
