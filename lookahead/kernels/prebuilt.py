"""Compiled code for several kinds of processors, made when a container is built.

A container starts without stored code, and compilation takes seconds. `build` compiles all functions for each of `KINDS`. The
code does not run, so any processor can do this. A process whose variable LOOKAHEAD_KERNELS names the folder uses the code of the
first kind that its processor supports. The folder may be read-only.
"""

import os
import subprocess
import sys
from pathlib import Path

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
    path = folder()
    if path and not config.CPU_NAME and (name := kind(get_host_cpu_name(), get_host_cpu_features())):
        config.CPU_NAME, config.CPU_FEATURES = name, KINDS[name]
        return path
    return None


def compile_functions() -> None:
    """Compile all functions that the kind of numba's variables supports."""
    from . import compiling, product, vectors
    from . import heads as _  # noqa: F401 -- imports the modules of all passes

    supported = {
        vectors.BF16_DOT: vectors.HAS_BF16_DOT, vectors.INT8_BY_4: vectors.HAS_VNNI,
        vectors.BF16_AMX: "+amx-bf16" in vectors.FEATURES,
    }  # fmt: skip
    left_out = {product.MULTIPLY[storage] for storage, is_supported in supported.items() if not is_supported}
    for function in compiling.FUNCTIONS.values():
        if function not in left_out:
            function()


def build(path: str) -> None:
    """Compile for every kind, each in a child process, and store the code in a folder. Raises `CalledProcessError`."""
    command = [sys.executable, "-c", f"from {__name__} import compile_functions; compile_functions()"]
    for name, features in KINDS.items():
        variables = {"NUMBA_CACHE_DIR": path, "NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features}
        subprocess.run(command, env={**os.environ, **variables}, check=True)
