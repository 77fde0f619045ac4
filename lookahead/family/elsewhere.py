"""Bundled families whose target is somebody else's: its weights are brought, only its drafters lie here.

A file `target.json` in the family's folder says where the target comes from: a Python package that carries it as a GGUF
file, where that is installed, or else the hub. A GGUF file is written out once as safetensors, in bfloat16, beside what was
measured (LOOKAHEAD_CACHE), whole or not at all.

Knows packages, files and the hub's cache. It does not know drafters.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from ..calibration import remembered
from ..core.events import ModelError
from ..core.wording import remark
from ..model import small_files
from ..model.small_files import CONFIG, INDEX, WHOLE
from . import fetch

SOURCE = "target.json"
PACKAGE, HUB = "package", "hub"
Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Where a family's target comes from: a repository of the hub, and a package with the same model as a GGUF `file`.
    `install` are the words to bring the package by."""

    family: str
    repo: str
    package: str
    file: str
    install: str
    licence: str

    @property
    def gguf(self) -> Path | None:
        """The package's file, where the package is installed, and with it what reads such files."""
        if find_spec(self.package) is None or find_spec("gguf") is None:
            return None
        places = find_spec(self.package).submodule_search_locations or ()
        return next((path for place in places if (path := Path(place) / self.file).is_file()), None)

    @property
    def converted(self) -> Path:
        """Where the package's file is written out to, by its version."""
        try:
            number = version(self.package)
        except PackageNotFoundError:
            number = "unknown"
        return remembered.folder() / "models" / Path(self.file).stem.split(".")[0] / f"{self.package}-{number}"

    def here(self) -> tuple[str, Path] | None:
        """Where it came from and its folder, if it is ready to be read."""
        for source, folder in ((PACKAGE, self.converted), (HUB, fetch.cached(self.repo))):
            if folder and any((folder / name).is_file() for name in (WHOLE, INDEX)) and (folder / CONFIG).is_file():
                return source, folder
        return None

    def convert(self, progress: Progress) -> Path:
        """Write the package's file out as safetensors; returns the folder. Raises `ModelError`."""
        folder, path = self.converted, self.gguf
        progress(f"Writing out {path.name}, once", 0.1)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            part = Path(tempfile.mkdtemp(dir=folder.parent, suffix=".part"))
        except OSError as error:
            mend = f"{folder.parent} cannot be written ({error.strerror}); set LOOKAHEAD_CACHE to a folder that can."
            raise ModelError("models", self.family, mend) from error
        try:
            _write_out(path, part, progress)
            part.chmod(0o755)
            part.replace(folder)
        except OSError as error:
            if self.here() is None:  # else another process was quicker
                mend = f"it cannot be written to {folder.parent} ({error.strerror or error}); make room, or set LOOKAHEAD_CACHE."
                raise ModelError("models", self.family, mend) from error
        except Exception as error:  # a damaged file may raise anything
            mend = f"{path.name} cannot be written out ({remark(error)}); install {self.package} again."
            raise ModelError("models", self.family, mend) from error
        finally:
            shutil.rmtree(part, ignore_errors=True)
        return folder


def of(folder: Path) -> Elsewhere | None:
    """Where the target of the bundled family in a folder comes from, None where it lies there.

    Raises `ModelError` if the file that says so is damaged.
    """
    source = small_files.read(folder, SOURCE)
    names = {field.name for field in fields(Elsewhere)} - {"family"}
    if source is not None and (source.keys() != names or not all(isinstance(text, str) for text in source.values())):
        raise small_files.fault(folder, SOURCE, f"it must have the texts {', '.join(sorted(names))}")
    return None if source is None else Elsewhere(folder.name, **source)


def owner(folder: Path, families: Path) -> Elsewhere | None:
    """The bundled family whose target lies in this folder, of those in the folder of families; None for any other folder."""
    sources = (of(path.parent) for path in sorted(families.glob(f"*/{SOURCE}")))
    return next((source for source in sources if (here := source.here()) and here[1] == folder), None)


def _write_out(path: Path, folder: Path, progress: Progress) -> None:
    """A GGUF file's tokenizer and weights, in bfloat16, as transformers reads them."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name, trust_remote_code=False).save_pretrained(folder)
    progress(f"Writing out {path.name}, once", 0.4)
    whole = GgufConfig(dequantize=True)  # else the weights stay as they are stored, and cannot be saved
    model = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, quantization_config=whole, dtype=torch.bfloat16, trust_remote_code=False
    )
    progress(f"Writing out {path.name}, once", 0.9)
    model.save_pretrained(folder)
