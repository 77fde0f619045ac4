"""Compile all functions at the first start on a processor, in several processes, or when a container is built.

numba compiles one function at a time per process, and stores its code on disk. So further processes (`compilers`) compile other
functions at the same time, and this process then reads their code. A file in the cache marks complete compilation.
"""

import gc
import os
import subprocess
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import torch

from ..core import compilers
from ..model.heads.shape import BLOCK, EAGLE, MEDUSA, MTP
from . import (
    compiling,
    heads,  # noqa: F401 -- imports the modules of all passes, which register their functions
    prebuilt,
    product,
    tiles,
)
from .vectors import BF16_AMX, BF16_DOT, CPU, FEATURES, HAS_BF16_DOT, HAS_VNNI, INT8_BY_4

# Functions of a module share parts that numba compiles once per process, so one process compiles a whole module. The slowest
# come first.
ORDER = ("attend", "llama_pass.forward", "llama_pass.layer", "product", "elementwise")
# The modules of drafters share parts too, and are compiled last.
HEADS = {EAGLE: "recursive_pass", MTP: "recursive_pass", BLOCK: "block_pass", MEDUSA: "block_pass"}
MODELS = "draft"  # the module of draft models

STEP_S = 0.2
Report = Callable[[int, int], None]


def units(dtype: torch.dtype, drafters: Collection[str] | None = None) -> list[str]:
    """Return the names of the functions for models in a number format, for eight-bit weights, and for these drafters (None: all).

    A string has the functions that one process compiles, separated by spaces. The last one has those of drafters.
    """
    used = {product.MULTIPLY[product.storage_format(dtype, int8)] for int8 in (False, True)}
    unused, groups = {*product.MULTIPLY.values()} - used, defaultdict(list)
    modules = {MODELS, *HEADS.values()} if drafters is None else {HEADS.get(name, MODELS) for name in drafters}
    for name, function in compiling.FUNCTIONS.items():
        if function not in unused:
            module = name.partition(".")[0]
            groups[MODELS if module in HEADS.values() else name if name in ORDER else module].append(name)
    of_drafters = [name for name in groups.pop(MODELS) if name.partition(".")[0] in modules]
    keys = sorted(groups, key=lambda key: ORDER.index(key) if key in ORDER else len(ORDER))
    return [*(" ".join(groups[key]) for key in keys), " ".join(of_drafters)]


class Compilation:
    """The compilation of the functions for models in a number format and for some drafters (None: all).

    Other processes begin at once. It compiles nothing if this was done before, or when the container was built, with one core, or
    without a cache.
    """

    def __init__(self, dtype: torch.dtype, drafters: Collection[str] | None):
        self._mark, self._complete = _mark(dtype), drafters is None
        processes = 0 if _is_compiled(self._mark) else compilers.further()
        self._waiting = deque(units(dtype, drafters) if processes else [])
        self._waiting.rotate(1)  # the functions of drafters take longest
        self._names, self._compiled, self._failed = " ".join(self._waiting).split(), [], False
        self._report: Report = lambda done, count: None
        # Threads that end with this process, so that an error is reported at once.
        self._threads = [threading.Thread(target=self._compile_elsewhere, daemon=True) for _ in range(processes)]
        for thread in self._threads:
            thread.start()

    def finish(self, report: Report) -> None:
        """Compile functions in this process too, until none is left. `report` gets the number of compiled functions and of all."""
        self._report = report
        with _without_collector():
            for unit in _taken(self._waiting):
                _compile(unit)
                self._finished(unit)
            for thread in self._threads:
                thread.join()
        if self._names:
            report(len(self._names), len(self._names))
        compilers.stop()
        if self._names and self._complete and not self._failed:
            _set(self._mark)

    def _compile_elsewhere(self) -> None:
        self._failed |= not _compile_elsewhere(self._waiting, self._finished)

    def _finished(self, unit: str) -> None:
        self._compiled += unit.split()
        self._report(len(self._compiled), len(self._names))


_begun: dict[torch.dtype, Compilation] = {}


def begin(dtype: torch.dtype, drafters: Collection[str]) -> None:
    """Begin a `Compilation` in other processes, which `compile_all` finishes."""
    _begun[dtype] = Compilation(dtype, drafters)


def compile_all(
    dtype: torch.dtype, report: Report = lambda done, count: None, drafters: Collection[str] | None = None
) -> None:
    """Compile the functions for models in a number format and for some drafters; see `Compilation`."""
    if begun := _begun.pop(dtype, None):
        begun.finish(report)
    if not begun or drafters is None:
        Compilation(dtype, drafters).finish(report)


def compile_deferred(dtype: torch.dtype) -> Iterator[None]:
    """Compile the functions of all drafters in another process. Yields every `STEP_S`, and suspends that process meanwhile."""
    mark = _mark(dtype)
    if _is_compiled(mark):
        return
    try:
        process = compilers.take()
    except OSError:  # they are compiled at their first use
        return
    results: list[bool] = []
    unit = deque(units(dtype)[-1:])
    thread = threading.Thread(target=lambda: results.append(_compile_in(process, unit, lambda unit: None)), daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(STEP_S)
            compilers.suspend(process)
            yield
            compilers.resume(process)
    finally:
        compilers.resume(process)
        process.kill()
        process.wait()
    if results == [True]:
        _set(mark)


def _is_compiled(mark: Path | None) -> bool:
    return bool(compiling.PREBUILT) or mark is None or mark.exists()


def _set(mark: Path | None) -> None:
    with suppress(OSError):
        if mark:
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
                return path / f"{compilers.MARK}{digest}"
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
    with suppress(OSError), compilers.take() as process:
        return _compile_in(process, waiting, finished)
    return False


def _compile_in(process: subprocess.Popen[bytes], waiting: deque[str], finished: Callable[[str], None]) -> bool:
    """Do the same in this process. Raises `OSError` if it has ended."""
    assert process.stdin
    assert process.stdout
    for unit in _taken(waiting):
        process.stdin.write(f"{unit}\n".encode())
        process.stdin.flush()
        if process.stdout.readline().decode().strip() != unit:
            return False
        finished(unit)
    return True


def main(lines: Iterable[str] = sys.stdin) -> None:
    """Compile the units that are read, one per line, and print each unit afterwards."""
    with _without_collector():
        for line in lines:
            _compile(line.strip())
            print(line.strip(), flush=True)


if __name__ == "__main__":
    main()
    os._exit(0)  # without the destructors of all objects, which take a second
