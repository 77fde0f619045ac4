"""How many threads a family's passes are computed with: as few as are about as quick as any number of them.

Threads wait for each other after every operator, and a small model has hundreds of short ones in a pass. Where one
thread takes little longer, the others mostly wait, and all stand still whenever something else takes one of them away:
beside a browser on the same two cores the bundled target wrote, through torch's operators, 9 tokens/s with two threads and
31 with one, where alone two are a fifth quicker. So at load the target's own passes are timed with all threads, half of
them, and so on down to one. Our own kernels compute with one, but for the reading of a prompt
(`kernels.whole_pass`). What OMP_NUM_THREADS says is kept to.

Knows passes, clocks and torch's setting. It does not know what the passes are good for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from time import perf_counter

import torch

from ..model.lm import CachedLM

MOST = torch.get_num_threads()  # as torch starts out: the cores this process may use, or what OMP_NUM_THREADS says
ABOUT = 1.3  # times the quickest count's passes: no longer than that is about as quick
ROWS = (1, 9)  # of the passes that are timed: naive's, and one that verifies eight drafted tokens
BEHIND = 64  # tokens behind which they are
TIMED_S, LEAST = 0.8, 3  # laps over all counts are timed for so long, and so many at least


def now() -> int:
    """How many torch computes with."""
    return torch.get_num_threads()


def use(count: int) -> None:
    """Compute with so many from now on, in the calling thread."""
    if count != torch.get_num_threads():
        torch.set_num_threads(count)


@contextmanager
def using(count: int | None) -> Iterator[None]:
    """So many for a while, then as many as before; None changes nothing."""
    before = now()
    try:
        use(count or before)
        yield
    finally:
        use(before)


def choose(lm: CachedLM) -> int:
    """The fewest threads whose passes take about as long as the quickest count's. Leaves `lm` empty."""
    if lm.device.type != "cpu" or "OMP_NUM_THREADS" in os.environ:
        return MOST
    if lm.passes.batch_invariant:  # our kernels, which compute with one, whatever torch is set to
        return 1
    counts = _counts(MOST)
    lm.reset()
    lm.extend([1] * min(BEHIND, lm.context_length - max(ROWS)))
    laps: dict[int, list[float]] = {count: [] for count in counts}
    stop = perf_counter() + TIMED_S
    while len(laps[MOST]) < LEAST or perf_counter() < stop:
        for count in counts:  # in turns: what disturbs the machine for a while then disturbs all alike
            with using(count):
                lm.forward([1])  # sets up the team
                laps[count].append(sum(_timed(lm, rows) for rows in ROWS))
    lm.reset()
    took = {count: median(seconds) for count, seconds in laps.items()}
    return min(count for count in counts if took[count] <= ABOUT * min(took.values()))


def _counts(most: int) -> list[int]:
    """`most`, half of it, and so on, down to 1."""
    return [most, *_counts(most // 2)] if most > 1 else [1]


def _timed(lm: CachedLM, rows: int) -> float:
    start = perf_counter()
    lm.forward([1] * rows)
    return perf_counter() - start
