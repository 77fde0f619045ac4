"""Compile all functions at the first start on a processor, in several processes, or when a container is built.

numba compiles one function at a time per process, and stores its code on disk. So further processes compile other
functions at the same time, and this process then reads their code. A file in the cache marks complete compilation.
"""

import gc
import os
import subprocess
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import torch

from ..core import processor
from . import (
    compiling,
    heads,  # noqa: F401 -- imports the modules of all passes, which register their functions
    prebuilt,
    product,
    tiles,
)
from .vectors import BF16_AMX, BF16_DOT, CPU, FEATURES, HAS_BF16_DOT, HAS_VNNI, INT8_BY_4

MAX_PROCESSES = 4
# Functions of a module share parts that numba compiles once per process, so one process compiles a whole module. The slowest
# come first, but `draft` contains `forward`, which another process has stored by then.
ORDER = (
    "llama_pass.forward",
    "attend",
    "recursive_pass",
    "llama_pass.layer",
    "draft",
    "block_pass",
    "product",
    "elementwise",
)


def units(dtype: torch.dtype) -> list[str]:
    """Return the names of all functions for models in a number format and for eight-bit weights.

    A string has the functions that one process compiles, separated by spaces.
    """
    used = {product.MULTIPLY[product.storage_format(dtype, int8)] for int8 in (False, True)}
    unused, groups = {*product.MULTIPLY.values()} - used, defaultdict(list)
    for name, function in compiling.FUNCTIONS.items():
        if function not in unused:
            module = name.partition(".")[0]
            groups[name if name in ORDER else module].append(name)
    keys = sorted(groups, key=lambda key: ORDER.index(key) if key in ORDER else len(ORDER))
    return [" ".join(groups[key]) for key in keys]


def compile_all(dtype: torch.dtype, report: Callable[[int, int], None] = lambda done, count: None) -> None:
    """Compile the functions that models in a number format need, unless this was done before, or when the container was built.

    `report` gets the number of compiled functions and that of all. Does nothing with one core or without a cache.
    """
    processes, mark = min(processor.cores(), MAX_PROCESSES), _mark(dtype)
    if processes == 1 or compiling.PREBUILT or mark is None or mark.exists():
        return
    waiting = deque(units(dtype))
    count, done = sum(len(unit.split()) for unit in waiting), 0

    def finished(unit: str) -> None:
        nonlocal done
        done += len(unit.split())
        report(done, count)

    with _without_collector(), ThreadPoolExecutor(processes - 1) as pool:
        others = [pool.submit(_compile_elsewhere, waiting, finished) for _ in range(processes - 1)]
        for unit in _taken(waiting):
            _compile(unit)
            finished(unit)
    if all(other.result() for other in others):
        with suppress(OSError):
            mark.touch()


def prebuild(path: str) -> None:
    """Compile all functions for each of `prebuilt.KINDS`, and store the code in a folder. Raises `CalledProcessError`.

    The code does not run, so any processor can compile it.
    """
    command = [sys.executable, "-c", f"from {__name__} import compile_supported; compile_supported()"]
    for name, features in prebuilt.KINDS.items():
        variables = {"NUMBA_CACHE_DIR": path, "NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features}
        subprocess.run(command, env={**os.environ, **variables}, check=True)


def compile_supported() -> None:
    """Compile all functions that the processor of numba's variables supports."""
    supported = {BF16_DOT: HAS_BF16_DOT, INT8_BY_4: HAS_VNNI, BF16_AMX: tiles.IN_CODE}
    left_out = {product.MULTIPLY[storage] for storage, is_supported in supported.items() if not is_supported}
    for function in compiling.FUNCTIONS.values():
        if function not in left_out:
            function()


def _mark(dtype: torch.dtype) -> Path | None:
    """Return the path of the file that marks complete compilation; None if no folder can be written."""
    digest = sha256(f"{CPU} {FEATURES} {dtype}".encode()).hexdigest()[:16]
    for folder in compiling.cache_folders():
        with suppress(OSError):
            path = folder / compiling.version()
            path.mkdir(parents=True, exist_ok=True)
            if os.access(path, os.W_OK):
                return path / f"complete-{digest}"
    return None


@contextmanager
def _without_collector() -> Iterator[None]:
    """Disable Python's garbage collector, which takes a seventh of the time of compilation."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _compile(unit: str) -> None:
    for name in unit.split():
        compiling.FUNCTIONS[name]()


def _taken(waiting: deque[str]) -> Iterator[str]:
    """Yield units until none is left. Several threads may take from the same deque."""
    with suppress(IndexError):
        while True:
            yield waiting.popleft()


def _compile_elsewhere(waiting: deque[str], finished: Callable[[str], None]) -> bool:
    """Compile functions in another process; return False if it ended early.

    Functions that it missed are compiled at their first call.
    """
    command, pipe = [sys.executable, "-m", __name__], subprocess.PIPE
    with suppress(OSError), subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as process:
        assert process.stdin
        assert process.stdout
        for unit in _taken(waiting):
            process.stdin.write(f"{unit}\n".encode())
            process.stdin.flush()
            if process.stdout.readline().decode().strip() != unit:
                return False
            finished(unit)
        return True
    return False


def main(lines: Iterable[str] = sys.stdin) -> None:
    """Compile the units that are read, one per line, and print each unit afterwards."""
    with _without_collector():
        for line in lines:
            _compile(line.strip())
            print(line.strip(), flush=True)


if __name__ == "__main__":
    main()
