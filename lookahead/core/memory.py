"""Devices, and what is free on them: memory for weights, on GPUs or with the processor, and disk for downloads."""

import gc
import shutil
from pathlib import Path

import psutil
import torch

from .processor import CGROUP

SPARE = 1.2  # times the weights: keys and values, a pass's own tensors, what loading holds for a moment


def device() -> torch.device:
    """The first GPU, else the processor."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def gpus() -> list[int]:
    """Free bytes of every GPU."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return [torch.cuda.mem_get_info(i)[0] for i in range(count)]


def free() -> int:
    """Free bytes for models: of all GPUs together, else of the processor's memory, within the container's limit."""
    return sum(gpus()) or min(psutil.virtual_memory().available, _container(CGROUP))


def disk_free(folder: Path) -> int:
    """Free bytes on the disk of a folder, which need not exist yet."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def release() -> None:
    """Free unreachable objects, and exclude the others from later collections, which would stop a race for 0.25 s."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _container(root: Path) -> int:
    """Bytes that a container may still take; more than any machine has if it is not limited."""
    for limit, used, file_cache in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
    ):
        try:
            most, now = int((root / limit).read_text()), int((root / used).read_text())
            lines = (root / limit).with_name("memory.stat").read_text().splitlines()
        except (OSError, ValueError):  # no such file, or "max"
            continue
        kept = sum(int(line.split()[1]) for line in lines if line.split()[0] == file_cache)  # given back when asked for
        return max(0, most - now + kept)
    return 1 << 62
