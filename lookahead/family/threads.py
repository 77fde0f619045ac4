"""The number of threads that compute a family's passes.

Threads wait for each other after each operator. A small model has hundreds of operators per pass, and other programs on the
same cores prolong the waits. So `choose` returns the smallest number whose passes are nearly as fast as the fastest. Our
kernels compute passes with one thread. OMP_NUM_THREADS overrides this.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch

from ..model.lm import CachedLM
from .cost import interleaved

MAX_THREADS = torch.get_num_threads()  # torch's default: the cores that this process may use, or OMP_NUM_THREADS
TOLERANCE = 1.3  # passes that take at most this multiple of the fastest time count as equally fast
ROWS = (1, 9)  # rows of the timed passes: naive, and the verification of eight drafted tokens
CONTEXT = 64  # cached tokens before a pass
TIMED_S, REPEATS = 0.8, 100  # limits of the measurement: seconds and repeats


def use(count: int) -> None:
    """Set the number of threads that compute for the calling thread."""
    if count != torch.get_num_threads():
        torch.set_num_threads(count)


@contextmanager
def using(count: int | None) -> Iterator[None]:
    """Set the number of threads within a `with` block; None changes nothing."""
    before = torch.get_num_threads()
    try:
        use(count or before)
        yield
    finally:
        use(before)


def choose(lm: CachedLM) -> int:
    """Return the smallest number of threads whose passes are nearly as fast as the fastest. Leaves `lm` empty."""
    if lm.device.type != "cpu" or "OMP_NUM_THREADS" in os.environ:
        return MAX_THREADS
    if lm.passes.batch_invariant:
        return 1
    counts = [MAX_THREADS >> halvings for halvings in range(MAX_THREADS.bit_length())]
    lm.reset()
    lm.extend([1] * min(CONTEXT, lm.context_length - max(ROWS)))
    with using(None):
        functions = [run for count in counts for run in (partial(_set_up, lm, count), partial(_pass_both, lm))]
        seconds = interleaved(functions, REPEATS, most_s=TIMED_S)[1::2]
    lm.reset()
    return min(count for count, pass_s in zip(counts, seconds, strict=True) if pass_s <= TOLERANCE * min(seconds))


def _set_up(lm: CachedLM, count: int) -> None:
    use(count)
    lm.forward([1])  # torch creates its thread pool


def _pass_both(lm: CachedLM) -> None:
    for rows in ROWS:
        lm.forward([1] * rows)
