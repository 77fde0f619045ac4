"""Parts of a text read on several cores at the same time, each in a compiled call of its own that keeps step with the part
before: a layer's keys of everything before a row must lie in the cache before the row attends to them.
"""

from __future__ import annotations

import os

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from .compiling import INTEGER

POSIX = os.name == "posix"  # else there is no such function, and numba leaves out the call
usleep = types.ExternalFunction("usleep", types.int32(types.uint32))
PATIENCE, SLEEP_US = 5_000, 50  # looks at a counter; then the core is left to others: the call before may have none


@intrinsic
def publish(typing_context, counter, count):
    """Set the counter at that address; whoever reads it sees all that was stored before."""

    def code(context, builder, signature, arguments):
        place = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        builder.store_atomic(arguments[1], place, "release", 8)
        return context.get_dummy_value()

    return types.void(INTEGER, INTEGER), code


@intrinsic
def _published(typing_context, counter):
    def code(context, builder, signature, arguments):
        place = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.load_atomic(place, "acquire", 8)

    return INTEGER(INTEGER), code


@njit(error_model="numpy")
def wait(counter, count):
    """Until the counter at that address has reached so much."""
    looks = 0
    while _published(counter) < count:
        looks += 1
        if POSIX and looks > PATIENCE:
            usleep(SLEEP_US)
