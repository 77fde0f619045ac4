"""The device, and the free memory and disk space for models."""

import gc
import shutil
from pathlib import Path

import psutil
import torch

from .processor import CGROUP

SPARE = 1.2  # memory that a model needs, as a multiple of its weights: with caches, activations and temporary copies


def device() -> torch.device:
    """Return the first GPU, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def gpus() -> list[int]:
    """Return the free bytes of every GPU."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return [torch.cuda.mem_get_info(i)[0] for i in range(count)]


def free() -> int:
    """Return the free bytes for models: of all GPUs together, else of main memory within the container's limit."""
    return sum(gpus()) or min(psutil.virtual_memory().available, _container(CGROUP))


def disk_free(folder: Path) -> int:
    """Return the free bytes on the disk of a folder, which need not exist yet."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def release() -> None:
    """Free unreachable objects. Later collections skip the remaining objects, because a full one takes 0.25 s."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _container(root: Path) -> int:
    """Return the bytes that a container may still use; 2**62 without a limit."""
    for limit, used, file_cache in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
    ):
        try:
            most, now = int((root / limit).read_text()), int((root / used).read_text())
            lines = (root / limit).with_name("memory.stat").read_text().splitlines()
        except (OSError, ValueError):  # no such file, or "max"
            continue
        reclaimable = sum(int(line.split()[1]) for line in lines if line.split()[0] == file_cache)
        return max(0, most - now + reclaimable)
    return 1 << 62
