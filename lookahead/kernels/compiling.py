"""Compiling with numba, and keeping compiled code on disk.

numba compiles a function once for every type of its arguments, and a constant, or an address as numpy returns it, has a type of
its own. So compiled code converts both with `np.int64` for calls of large functions: each function is compiled once.

Compiled code is kept in the user's cache folder, or where NUMBA_CACHE_DIR says. Only functions of this package are: nothing of
numba is replaced or set for other code.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from numba import config, njit, types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, UserWideCacheLocator
from numba.core.ccallback import CFunc

from ..core import folders

HERE = Path(__file__).parent
INTEGER = types.int64  # a size, a flag or an address
ORDERED = {"nnan", "ninf", "nsz", "contract"}  # no other order of adding
FREE = ORDERED | {"reassoc", "arcp"}  # for sums over one row, whose order is the compiler's, once


@lru_cache(maxsize=1)
def version() -> str:
    """A name for the code of this package: numba compares a function's own file, but not what the function calls."""
    return digest(HERE)


def digest(folder: Path) -> str:
    """A hash of all sources in a folder."""
    sources = sorted(folder.glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]


def places() -> Iterator[Path]:
    """Where compiled code may be kept: the first folder that can be written."""
    if config.CACHE_DIR:
        yield Path(config.CACHE_DIR)
    with suppress(RuntimeError):  # there is no home
        yield folders.cache() / "kernels"
    if hasattr(os, "getuid"):  # a user who can write there can run code as this user
        with suppress(OSError):
            private = Path(tempfile.gettempdir()) / f"lookahead-kernels-{os.getuid()}"
            private.mkdir(mode=0o700, exist_ok=True)
            if not private.is_symlink() and private.stat().st_uid == os.getuid():
                yield private


class _Locator(UserWideCacheLocator):
    """Where numba looks for the compiled code of a function of this package."""

    def __init__(self, py_func, py_file):
        super().__init__(py_func, py_file)
        for place in places():
            self._cache_path = str(place / version())
            with suppress(OSError):
                self.ensure_cache_path()
                break


class _Implementation(CompileResultCacheImpl):
    _locator_classes = (_Locator,)


class KernelCache(FunctionCache):
    """numba's cache of a function. A damaged file counts as none and is replaced; a full disk keeps nothing."""

    _impl_class = _Implementation

    def load_overload(self, sig, target_context):
        """Return what was compiled for a signature, or None."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # pickle raises anything
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig, data):
        """Keep what was compiled for a signature, if it can be written."""
        with suppress(OSError):
            super().save_overload(sig, data)


def _keep(compiled, function: Callable) -> None:
    """Have numba keep the code of a function on disk, unless no folder can be written."""
    with suppress(RuntimeError):
        compiled._cache = KernelCache(function)


def kernel(integers: int, floats: int = 0, fastmath=ORDERED) -> Callable:
    """A decorator for a function of so many integers and then floats. The first call compiles it; each returns the kernel."""
    arguments = (*[INTEGER] * integers, *[types.float32] * floats)

    def make(function):
        @lru_cache(maxsize=1)
        def compiled():
            options = {"nopython": True, "fastmath": fastmath, "error_model": "numpy"}
            callback = CFunc(function, (arguments, types.void), {}, options)
            _keep(callback, function)
            callback.compile()
            return callback

        return compiled

    return make


def compiled(function: Callable) -> Callable:
    """A decorator for a function that is compiled for the types of its arguments, and leaves Python to other threads."""
    dispatcher = njit(nogil=True, error_model="numpy")(function)
    _keep(dispatcher, function)
    return dispatcher
