"""Compiled code for several kinds of processors, made when a container is built.

A container starts without stored code, and compilation takes seconds. `first_start.prebuild` compiles all functions for each of
`KINDS`. A process whose variable LOOKAHEAD_KERNELS names the folder uses the code of the first kind that its processor supports.
The folder may be read-only.
"""

import os
from pathlib import Path
from typing import Any, cast

from llvmlite.binding import get_host_cpu_name
from numba import config
from numba.core.codegen import get_host_cpu_features

VARIABLE = "LOOKAHEAD_KERNELS"
AVX2 = "+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+popcnt"
AVX512 = f"{AVX2},+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl,+avx512vnni"
BF16 = (
    f"{AVX512},+avx512bf16,+avx512bitalg,+avx512ifma,+avx512vbmi,+avx512vbmi2,+avx512vpopcntdq,+gfni,+vaes,+vpclmulqdq"
)
# LLVM's names of processors, and the features of each that compiled code may use. The newest come first.
KINDS = {
    "sapphirerapids": f"{BF16},+amx-bf16,+amx-int8,+amx-tile,+avx512fp16,+avxvnni",
    "znver4": BF16,
    "cascadelake": AVX512,
    "haswell": AVX2,
}


def folder() -> Path | None:
    """Return the folder with the code, None if there is none."""
    path = os.environ.get(VARIABLE, "").strip()
    return Path(path) if path and Path(path).is_dir() else None


def kind(cpu: str, features: str) -> str | None:
    """Return the first kind that a processor supports, None if it supports none.

    AMD's and Intel's processors have other fast instructions, so a `znver` kind is for AMD's only.
    """
    available = {*features.split(",")}
    for name, needed in KINDS.items():
        if {*needed.split(",")} <= available and (cpu.startswith("znver") or not name.startswith("znver")):
            return name
    return None


def select() -> Path | None:
    """Let numba use the code for this processor's kind, unless its variables name another kind. Return the folder of the code.

    Returns None, and changes nothing, if there is no such code.
    """
    path, settings = folder(), cast(Any, config)
    if path and not settings.CPU_NAME and (name := kind(get_host_cpu_name(), get_host_cpu_features())):
        settings.CPU_NAME, settings.CPU_FEATURES = name, KINDS[name]
        return path
    return None
