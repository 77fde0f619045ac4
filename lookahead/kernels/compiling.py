"""Compilation with numba, and a cache of compiled code on disk.

numba compiles a function once per combination of argument types. Constants, and addresses that numpy returns, have
separate types. So callers convert both with `np.int64` before they call a large function, and each function is compiled
once.

Compiled code is stored in the user's cache folder, or in the folder NUMBA_CACHE_DIR. This affects only functions of
this package: numba itself is not patched or configured.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from numba import config, extending, njit, types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, UserWideCacheLocator
from numba.core.ccallback import CFunc

from ..core import folders
from . import prebuilt

PREBUILT = prebuilt.select()  # a folder with the code of all functions, or None
INTEGER = types.int64  # a size, a flag or an address
ORDERED = {"nnan", "ninf", "nsz", "contract"}  # the order of additions is kept
intrinsic: Callable[[Callable], Callable[..., Any]] = extending.intrinsic  # with a type: the first parameter is hidden
FUNCTIONS: dict[
    str, Callable[[], object]
] = {}  # every function of this package by name, such as "attend.attend": compiles it
REASSOCIATED = ORDERED | {"reassoc", "arcp"}  # for sums over one row: the compiler chooses the order at compilation


@lru_cache(maxsize=1)
def version() -> str:
    """Return an identifier of this package's code. numba compares a function's file, but not those that it calls."""
    return digest(Path(__file__).parent)


def digest(folder: Path) -> str:
    """Return a hash of all sources in a folder."""
    sources = sorted(folder.glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]


def cache_folders() -> Iterator[Path]:
    """Yield the folders that may store compiled code, in order of preference. The first that can be written is used."""
    if config.CACHE_DIR:
        yield Path(config.CACHE_DIR)
    with suppress(RuntimeError):  # there is no home folder
        yield folders.cache() / "kernels"
    if hasattr(os, "getuid"):  # a user who can write to a cache can run code as its owner
        with suppress(OSError):
            private = Path(tempfile.gettempdir()) / f"lookahead-kernels-{os.getuid()}"
            private.mkdir(mode=0o700, exist_ok=True)
            if not private.is_symlink() and private.stat().st_uid == os.getuid():
                yield private


class _Locator(UserWideCacheLocator):
    """The location of the compiled code of a function of this package, for numba."""

    def __init__(self, py_func, py_file):
        super().__init__(py_func, py_file)
        for folder in [PREBUILT] if PREBUILT else cache_folders():
            self._cache_path = str(folder / version())
            with suppress(OSError):
                self.ensure_cache_path()
                break

    def ensure_cache_path(self):
        """Raise `OSError` if the folder cannot be written, except that of prebuilt code."""
        if not PREBUILT:
            super().ensure_cache_path()


class _Implementation(CompileResultCacheImpl):
    _locator_classes = (_Locator,)


class KernelCache(FunctionCache):
    """numba's cache of a function. A damaged file is ignored and replaced. If the disk is full, nothing is stored."""

    _impl_class = _Implementation

    def load_overload(self, sig, target_context):
        """Return the compiled code for a signature, or None."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # pickle may raise any exception
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig, data):
        """Store the compiled code for a signature, if the folder can be written."""
        with suppress(OSError):
            super().save_overload(sig, data)


def _cache_on_disk(compiled, function: Callable) -> None:
    """Let numba store the code of a function on disk, unless no folder can be written."""
    with suppress(RuntimeError):
        compiled._cache = KernelCache(function)


def kernel(integers: int, floats: int = 0, fastmath=ORDERED) -> Callable:
    """Return a decorator for functions of integers, then floats. It makes a function that compiles the kernel once."""
    arguments = (*[INTEGER] * integers, *[types.float32] * floats)

    def decorate(function):
        @lru_cache(maxsize=1)
        def compiled():
            options = {"nopython": True, "fastmath": fastmath, "error_model": "numpy"}
            callback = CFunc(function, (arguments, types.void), {}, options)
            _cache_on_disk(callback, function)
            callback.compile()
            return callback

        FUNCTIONS[_name(function)] = compiled
        return compiled

    return decorate


def internal(fastmath: bool | set[str] = False) -> Callable:
    """Return a decorator for functions that only compiled code calls. They need no conversion of Python's objects."""
    return njit(error_model="numpy", fastmath=fastmath, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def compiled(*arguments: types.Type) -> Callable:
    """Return a decorator for functions with arguments of these types. It compiles a function at the first call. The function
    releases the GIL."""

    def decorate(function):
        dispatcher = njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True)(function)
        _cache_on_disk(dispatcher, function)
        FUNCTIONS[_name(function)] = lambda: dispatcher.compile(arguments)
        return dispatcher

    return decorate


def _name(function: Callable) -> str:
    return f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
