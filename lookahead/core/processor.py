"""The CPU: its name, and the number of cores that this process may use."""

import os
import platform
from functools import lru_cache
from math import ceil, inf
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def name() -> str:
    """Return the name of the CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def cores() -> int:
    """Return the number of cores that this process may use."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(available, container(CGROUP))


@lru_cache(maxsize=1)
def container(root: Path) -> float:
    """Return the cores of a container, rounded up; infinity without a limit."""
    for names in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        try:
            quota, period = (int(number) for name in names for number in (root / name).read_text().split())
        except (OSError, ValueError):  # no such file, or "max"
            continue
        return max(1, ceil(quota / period)) if quota > 0 else inf
    return inf
