"""The number of threads with which a family's passes are computed.

Threads wait for each other after each operator, of which a small model has hundreds per pass, and another program on the same
cores makes them wait longer. So the smallest number is chosen whose passes take little longer than the fastest. Our kernels
compute passes with one thread. OMP_NUM_THREADS overrules this.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch

from ..model.lm import CachedLM
from .cost import interleaved

MOST = torch.get_num_threads()  # torch's default: the cores that this process may use, or OMP_NUM_THREADS
ABOUT = 1.3  # times the fastest number's passes: what takes no longer is about as fast
ROWS = (1, 9)  # of the timed passes: naive's, and one that verifies eight drafted tokens
CONTEXT = 64  # cached tokens before a pass
TIMED_S, REPEATS = 0.8, 100


def use(count: int) -> None:
    """Compute with so many threads from now on, in the calling thread."""
    if count != torch.get_num_threads():
        torch.set_num_threads(count)


@contextmanager
def using(count: int | None) -> Iterator[None]:
    """Compute with so many threads for a while, then with as many as before; None changes nothing."""
    before = torch.get_num_threads()
    try:
        use(count or before)
        yield
    finally:
        use(before)


def choose(lm: CachedLM) -> int:
    """Return the smallest number of threads whose passes take about as long as the fastest. Leaves `lm` empty."""
    if lm.device.type != "cpu" or "OMP_NUM_THREADS" in os.environ:
        return MOST
    if lm.passes.batch_invariant:
        return 1
    counts = [MOST >> halvings for halvings in range(MOST.bit_length())]
    lm.reset()
    lm.extend([1] * min(CONTEXT, lm.context_length - max(ROWS)))
    with using(None):
        works = [work for count in counts for work in (partial(_set_up, lm, count), partial(_pass_both, lm))]
        seconds = interleaved(works, REPEATS, most_s=TIMED_S)[1::2]
    lm.reset()
    return min(count for count, took in zip(counts, seconds, strict=True) if took <= ABOUT * min(seconds))


def _set_up(lm: CachedLM, count: int) -> None:
    use(count)
    lm.forward([1])  # torch makes the team of threads


def _pass_both(lm: CachedLM) -> None:
    for rows in ROWS:
        lm.forward([1] * rows)
