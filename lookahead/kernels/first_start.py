"""Compile all functions at the first start on a processor, in several processes.

numba compiles one function at a time per process, and stores its code on disk. So further processes compile other
functions meanwhile, and this process then reads their code. A file in the cache marks that all are compiled.
"""

import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import torch

from ..core import processor
from . import (
    compiling,
    heads,  # noqa: F401 -- imports the modules of all passes, which register their functions
    product,
)
from .vectors import CPU, FEATURES

MAX_PROCESSES = 4
# The functions that take longest to compile, in this order. If the last function to start is a long one, all others wait.
SLOWEST = (
    "attend.attend",
    "llama_pass.layer",
    "chain.tree",
    "llama_pass.forward",
    "recursive_pass.tree",
    "block_pass.forward",
)


def names(dtype: torch.dtype) -> list[str]:
    """Return the names of all functions for models in a number format and for eight-bit weights, the slowest first."""
    used = {product.MULTIPLY[product.storage_format(dtype, int8)] for int8 in (False, True)}
    unused = {*product.MULTIPLY.values()} - used
    needed = [name for name, function in compiling.FUNCTIONS.items() if function not in unused]
    return sorted(needed, key=lambda name: SLOWEST.index(name) if name in SLOWEST else len(SLOWEST))


def compile_all(dtype: torch.dtype, report: Callable[[int, int], None] = lambda done, count: None) -> None:
    """Compile the functions that models in a number format need, unless this was done before.

    `report` gets the number of compiled functions and that of all. Does nothing with one core or without a cache.
    """
    processes, mark = min(processor.cores(), MAX_PROCESSES), _mark(dtype)
    if processes == 1 or mark is None or mark.exists():
        return
    todo = names(dtype)
    waiting, count, done = deque(todo), len(todo), 0

    def finished(name: str) -> None:
        nonlocal done
        done += 1
        report(done, count)

    with ThreadPoolExecutor(processes - 1) as pool:
        others = [pool.submit(_compile_elsewhere, waiting, finished) for _ in range(processes - 1)]
        for name in _taken(waiting):
            compiling.FUNCTIONS[name]()
            finished(name)
    if all(other.result() for other in others):
        with suppress(OSError):
            mark.touch()


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


def _taken(waiting: deque[str]) -> Iterator[str]:
    """Yield names until none is left. Several threads may take from the same deque."""
    with suppress(IndexError):
        while True:
            yield waiting.popleft()


def _compile_elsewhere(waiting: deque[str], finished: Callable[[str], None]) -> bool:
    """Compile functions in another process; return False if it ended early.

    A function that it missed is compiled at its first call.
    """
    command, pipe = [sys.executable, "-m", __name__], subprocess.PIPE
    with suppress(OSError), subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as process:
        assert process.stdin
        assert process.stdout
        for name in _taken(waiting):
            process.stdin.write(f"{name}\n".encode())
            process.stdin.flush()
            if process.stdout.readline().decode().strip() != name:
                return False
            finished(name)
        return True
    return False


def main(lines: Iterable[str] = sys.stdin) -> None:
    """Compile the functions whose names are read, one per line, and print each name afterwards."""
    for line in lines:
        compiling.FUNCTIONS[line.strip()]()
        print(line.strip(), flush=True)


if __name__ == "__main__":
    main()
