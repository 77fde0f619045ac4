"""The number of threads that compute a family's passes.

`choose` returns the smallest number whose passes are nearly as fast as the fastest. PyTorch's threads wait for each other
after each operator, and other programs on the same cores prolong the waits. The threads of our kernels
(`kernels.team`) share the products of a pass. They leave a core for the page, so with fewer than four cores one thread
computes a pass. LOOKAHEAD_THREADS overrides the choice.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch

from .. import kernels
from ..core import processor
from ..core.events import SettingsError
from ..model.forward import Forward
from ..model.lm import CachedLM
from .cost import interleaved

VARIABLE = "LOOKAHEAD_THREADS"
TORCH_THREADS = torch.get_num_threads()  # torch's default: the cores that this process may use, or OMP_NUM_THREADS
MAX_THREADS = max(TORCH_THREADS, processor.cores())
SHARING_CORES = 4  # with fewer cores, our kernels use one thread
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # thread counts to try with our kernels
TORCH_TOLERANCE, TOLERANCE = (
    1.3,
    1.1,
)  # passes that take at most this multiple of the fastest time count as equally fast
ROWS = (1, 9)  # rows of the timed passes: naive, and the verification of eight drafted tokens
CONTEXT = 64  # cached tokens before a pass
TIMED_S, REPEATS = 0.8, 100  # limits of the measurement: seconds and repeats


def requested() -> int | None:
    """Return the number of threads in LOOKAHEAD_THREADS, None if it is not set. Raises `SettingsError`."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return None
    if not (text.isdecimal() and 1 <= int(text) <= MAX_THREADS):
        raise SettingsError(VARIABLE, text, f"give a number of threads from 1 to {MAX_THREADS}.")
    return int(text)


def reason(passes: Forward) -> str:
    """Return why passes use fewer threads than there are cores."""
    if requested():
        return f"{VARIABLE} is set"
    if passes.batch_invariant and processor.cores() < SHARING_CORES:
        return "one core is left for the page"
    return "more threads are not clearly faster"


def current(passes: Forward) -> int:
    """Return the number of threads that compute these passes."""
    return kernels.TEAM.threads if passes.batch_invariant else torch.get_num_threads()


def use(passes: Forward, count: int) -> None:
    """Set the number of threads that compute these passes. With our kernels, torch uses one thread for the rest."""
    compiled = passes.batch_invariant
    kernels.TEAM.use(count if compiled else 1)
    _use_torch(1 if compiled else count)


def _use_torch(count: int) -> None:
    if count != torch.get_num_threads():
        torch.set_num_threads(count)


@contextmanager
def using(passes: Forward, count: int | None) -> Iterator[None]:
    """Set the number of threads within a `with` block; None changes nothing."""
    before = torch.get_num_threads(), kernels.TEAM.threads
    try:
        if count:
            use(passes, count)
        yield
    finally:
        _use_torch(before[0])
        kernels.TEAM.use(before[1])


def choose(lm: CachedLM) -> int:
    """Return the smallest number of threads whose passes are nearly as fast as the fastest. Leaves `lm` empty."""
    if lm.device.type != "cpu":
        return TORCH_THREADS
    if count := requested():
        return count
    if lm.passes.batch_invariant:
        cores = processor.cores()
        counts = [n for n in COUNTS if n < cores] if cores >= SHARING_CORES else [1]
        tolerance = TOLERANCE
    else:
        counts = [TORCH_THREADS >> halvings for halvings in range(TORCH_THREADS.bit_length())]
        tolerance = TORCH_TOLERANCE
    if len(counts) == 1:
        return counts[0]
    lm.reset()
    lm.extend([1] * min(CONTEXT, lm.context_length - max(ROWS)))
    with using(lm.passes, None):
        functions = [run for count in counts for run in (partial(_set_up, lm, count), partial(_pass_both, lm))]
        seconds = interleaved(functions, REPEATS, most_s=TIMED_S)[1::2]
    lm.reset()
    return min(count for count, pass_s in zip(counts, seconds, strict=True) if pass_s <= tolerance * min(seconds))


def _set_up(lm: CachedLM, count: int) -> None:
    use(lm.passes, count)
    lm.forward([1])  # the threads start, or wake up


def _pass_both(lm: CachedLM) -> None:
    for rows in ROWS:
        lm.forward([1] * rows)
