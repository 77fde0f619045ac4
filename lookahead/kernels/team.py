"""The team: threads that compute the products and the attention of one pass together.

The calling thread divides a job into units, for example blocks of outputs. It computes some of them, and the helpers
compute the others. The bits of a unit do not depend on the thread, so the number of threads changes only the time.

Helpers run in compiled code, without the interpreter's lock. The team's memory has one job at a time. A job is published
by its ticket: the number of the job, its number of threads, and the number of units that no thread has taken. A thread takes
several units in one atomic exchange. The shares get smaller, so all threads end at about the same time. A helper without
work polls the ticket for about a millisecond, which is longer than the time between two passes. Then it sleeps until it
can read a byte from its pipe.

If two threads compute passes at the same time, one of them finds the team busy and computes its job alone.
"""

import os
import platform
import threading

import numpy as np
from llvmlite import ir
from numba import types

from .compiling import INTEGER, compiled, internal, intrinsic
from .vectors import call

POSIX = os.name == "posix"  # other systems have no pipes that compiled code can read, so they have no helpers
usleep = types.ExternalFunction("usleep", types.int32(types.uint32))
read = types.ExternalFunction("read", types.intp(types.int32, INTEGER, types.uintp))
write = types.ExternalFunction("write", types.intp(types.int32, INTEGER, types.uintp))
WORD = ir.IntType(64)
MAX_THREADS = 64
# The team's memory, in bytes. Words that different threads write are in different cache lines. `THREADS` is set for the
# process. From `ASLEEP` on, each helper has a line: 1 if it sleeps, and the file that wakes it.
LINE = 64
TICKET, DONE, BUSY, THREADS, FUNCTION, JOB, ASLEEP = (LINE * i for i in range(7))
# Bits of a ticket: below `COUNT_BIT` units, below `JOB_BIT` threads. A thread without memory in a job must not take its units, so
# the number of threads changes together with the units.
COUNT_BIT, JOB_BIT = 24, 32
POLLS, SLEEP_US = 20_000, 50  # polls without work until a thread sleeps


def _pointer(builder, address):
    return builder.inttoptr(address, WORD.as_pointer())


@intrinsic
def store(typing_context, address, word):
    """Set the word at this address. Its readers then see everything that was stored before."""

    def code(context, builder, signature, arguments):
        builder.store_atomic(arguments[1], _pointer(builder, arguments[0]), "release", 8)
        return context.get_dummy_value()

    return types.void(INTEGER, INTEGER), code


@intrinsic
def load(typing_context, address):
    """Return the word at this address."""

    def code(context, builder, signature, arguments):
        return builder.load_atomic(_pointer(builder, arguments[0]), "acquire", 8)

    return INTEGER(INTEGER), code


@intrinsic
def add(typing_context, address, number):
    """Add a number to the word at this address; return the word before."""

    def code(context, builder, signature, arguments):
        return builder.atomic_rmw("add", _pointer(builder, arguments[0]), arguments[1], "acq_rel")

    return INTEGER(INTEGER, INTEGER), code


@intrinsic
def exchange(typing_context, address, expected, word):
    """Replace the word at this address if it is the expected one; return whether it was."""

    def code(context, builder, signature, arguments):
        address, expected, word = arguments
        pair = builder.cmpxchg(_pointer(builder, address), expected, word, "acq_rel", "acquire")
        return builder.extract_value(pair, 1)

    return types.boolean(INTEGER, INTEGER, INTEGER), code


@intrinsic
def pause(typing_context):
    """Free the resources of the core for the other thread that may share it."""

    def code(context, builder, signature, arguments):
        if platform.machine().lower() in ("x86_64", "amd64"):
            builder.call(
                builder.module.declare_intrinsic("llvm.x86.sse2.pause", (), ir.FunctionType(ir.VoidType(), ())), ()
            )
        return context.get_dummy_value()

    return types.void(), code


@internal()
def wait(address, least):
    """Wait until the word at this address is at least `least`."""
    polls = 0
    while load(address) < least:
        pause()
        polls += 1
        if POSIX and polls > POLLS:
            usleep(np.uint32(SLEEP_US))


@internal()
def threads(kernels):
    """Return the number of threads that compute a pass, including the calling one."""
    return kernels.threads or load(kernels.team + THREADS)


@internal()
def share(team, count, function, job, units, large):
    """Compute the units of a job, with `count` threads if it is `large` and the team is free.

    `function` is the address of a kernel with four arguments: the address `job`, the number of the thread, and the first and
    the last unit to compute.
    """
    if not large or count == 1 or not exchange(team + BUSY, 0, 1):
        call(function, (job, np.int64(0), np.int64(0), units))
        return
    store(team + FUNCTION, function)
    store(team + JOB, job)
    store(team + DONE, 0)
    store(team + TICKET, (((load(team + TICKET) >> JOB_BIT) + 1) << JOB_BIT) + (count << COUNT_BIT) + units)
    for helper in range(1, count):
        line = team + ASLEEP + LINE * helper
        if exchange(line, 1, 0) and POSIX:
            write(np.int32(load(line + 8)), team, np.uintp(1))
    _take_units(team, np.int64(0))
    wait(team + DONE, units)
    store(team + BUSY, 0)


@internal()
def _take_units(team, thread):
    """Compute units of the current job until none is left. Return whether this thread computed one."""
    took = False
    while True:
        ticket = load(team + TICKET)
        left, count = ticket & ((1 << COUNT_BIT) - 1), (ticket >> COUNT_BIT) & ((1 << (JOB_BIT - COUNT_BIT)) - 1)
        if left == 0 or thread >= count:
            return took
        share = max(left // (count + 1), 1)
        if exchange(team + TICKET, ticket, ticket - share):
            # The job cannot change until this share is done.
            call(load(team + FUNCTION), (load(team + JOB), thread, left - share, left))
            add(team + DONE, share)
            took = True


@compiled(INTEGER, INTEGER, INTEGER)
def _help(team, thread, pipe):
    """Compute units of all jobs. Does not return. `pipe` is the file from which a byte wakes this helper."""
    polls, line = 0, team + ASLEEP + LINE * thread
    while True:
        if _take_units(team, thread):
            polls = 0
        polls += 1
        pause()
        if polls > POLLS:
            store(line, 1)
            read(np.int32(pipe), line + 16, np.uintp(1))
            polls = 0


class Team:
    """The memory and the helpers of this process. Helpers start when they are first needed, and end with the process."""

    def __init__(self):
        self._memory = np.zeros((ASLEEP + LINE * MAX_THREADS) // 8, np.int64)
        self._lock, self._helpers = threading.Lock(), 0
        self.address = self._memory.ctypes.data
        self.use(1)

    @property
    def threads(self) -> int:
        """The number of threads that compute a pass."""
        return int(self._memory[THREADS // 8])

    def use(self, count: int) -> None:
        """Set the number of threads that compute a pass."""
        self._memory[THREADS // 8] = self.hire(count)

    def hire(self, count: int) -> int:
        """Start the helpers of a pass with `count` threads; return the number of threads that this system can use."""
        count = min(count, MAX_THREADS) if POSIX else 1
        with self._lock:
            while self._helpers < count - 1:
                self._helpers += 1
                reading, writing = os.pipe()
                line = (ASLEEP + LINE * self._helpers) // 8
                self._memory[line : line + 2] = 0, writing
                arguments = self.address, self._helpers, reading
                threading.Thread(target=_help, args=arguments, name="helper", daemon=True).start()
        return count


TEAM = Team()
