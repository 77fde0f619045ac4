"""Compiling kernels for this processor by numba, and keeping what was compiled.

numba compiles a function once for every type of its arguments, and takes a constant, or an address as numpy gives it, for a
type of its own. So compiled code calls what is large with `np.int64` of either: each function is compiled once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from numba import cfunc, config, types
from numba.core import ccallback, dispatcher
from numba.core.caching import FunctionCache

HERE = Path(__file__).parent
INTEGER = types.int64  # a size, a flag or an address
ORDERED = {"nnan", "ninf", "nsz", "contract"}  # no other order of adding
FREE = ORDERED | {"reassoc", "arcp"}  # for sums over one row, whose order is the compiler's, once


def version() -> str:
    """A name for the code of this package: numba compares a function's own file, but not what the function calls."""
    return _digest(HERE)


def _digest(folder: Path) -> str:
    sources = sorted(folder.glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]


config.CACHE_DIR = config.CACHE_DIR or str(HERE / "__pycache__" / version())


class SparingCache(FunctionCache):
    """numba's cache of a function. A damaged file counts as none and is replaced; a full disk keeps nothing."""

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


ccallback.FunctionCache = dispatcher.FunctionCache = SparingCache


def kernel(integers: int, floats: int = 0, fastmath=ORDERED) -> Callable:
    """Makes a function of so many integers and then floats something that is compiled when it is first asked for."""
    signature = types.void(*[INTEGER] * integers, *[types.float32] * floats)

    def make(function):
        return lru_cache(maxsize=1)(
            lambda: kept(cfunc, signature, nopython=True, fastmath=fastmath, error_model="numpy")(function)
        )

    return make


def kept(compiler: Callable, *arguments, **options) -> Callable:
    """The compiler, keeping what it makes beside this file or in the user's cache, where one of them can be written."""

    def compiled(function):
        try:
            return compiler(*arguments, cache=True, **options)(function)
        except RuntimeError:  # neither can
            return compiler(*arguments, **options)(function)

    return compiled
