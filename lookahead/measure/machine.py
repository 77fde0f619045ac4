"""This machine, measured on request: the target's pass by rows, number format and threads, and what memory gives.

A pass reads every weight once, so the format says how many bytes that is and the threads how many hands
carry them. The combinations are visited in turns, so that a noisy moment hits all alike; a visit begins
with passes that do not count, since the model before it has pushed these weights out of the cache. What
memory gives is measured by adding up a tensor that no cache holds.

The format that is not in use is a converted copy, made for the measurement and gone after it. The thread
count is changed for the length of a visit and never while the generator waits. A format that is far
slower, as bfloat16 is on processors without instructions for it, is tried twice and left out.

Knows the target and clocks. What the numbers mean is in `formats`. It does not know pages.
"""

from __future__ import annotations

import gc
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from time import perf_counter

import torch

from ..calibration import exactness, threads
from ..core import memory, processor
from ..family.models import Models
from ..model.lm import CachedLM
from .formats import LEAST, Compared, Memory, Passes
from .progress import Progress

ROWS = (1, 2, 5, 9, 17, 33, 65)
BEHIND = 63  # cached tokens: with the most rows they stay within one block of the cache, which no pass then stretches
FORMATS = (torch.bfloat16, torch.float32)
MOST_COUNTS = 4
VISITS, BUDGET_S = 15, 14.0
COPY_SHARE = 0.8  # of free memory that a copy may take
FAR = 20.0  # times slower than the best: left out
READ_BYTES, READS = 1 << 28, 6
PROBE_PASSES, PROBE_S = 80, 4.0  # one-row passes that a probe takes, about, and how long it may
FAR_SLOWER, NO_ROOM = "skipped, far slower", "skipped, no memory for a copy"
Setup = tuple[torch.dtype, int | None]


def compare(
    models: Models,
    *,
    rows: Sequence[int] = ROWS,
    visits: int = VISITS,
    budget_s: float = BUDGET_S,
    read_bytes: int = READ_BYTES,
) -> Iterator[Progress]:
    """Measure every combination; yields what is `Compared` so far, and may be closed at any point.

    `visits` to each, fewer where `budget_s` would not do, but no fewer than 3. `read_bytes` is the size of the tensor
    that the memory test reads.
    """
    began, bench = perf_counter(), _Bench(models, rows)
    done, visit, total = 0, 0, 2 + visits * len(bench.setups)
    try:
        yield Progress(done, total, "what memory gives", bench.result)
        bench.read(read_bytes)
        yield Progress(done := done + 1, total, "a copy of the weights in the other format", bench.result)
        bench.load()
        while visit < visits:
            for at in bench.active():
                yield Progress(done, total, bench.table[at].name, bench.result)
                bench.visit(at)
                done += 1
            visit += 1
            if visit == 1:
                for at in bench.doubted():
                    yield Progress(done, total, f"{bench.table[at].name}, once more", bench.result)
                    bench.visit(at)
                left = int((budget_s - (perf_counter() - began)) / bench.lap_s())
                visits = min(visits, max(LEAST, 1 + left))
            total = done + 1 + (visits - visit) * len(bench.active())
            bench.update(visits=visit)
            yield Progress(done, total, f"visit {visit} of {visits}", bench.result)
        bench.probe()
        yield Progress(total, total, "done", bench.result)
    finally:
        bench.close()


def thread_counts(cores: int, used: int) -> list[int]:
    """At most four thread counts worth comparing: the one in use, all cores, 1, 4 and 2."""
    wanted = [used, *(n for n in (cores, 1, 4, 2) if n <= cores)]
    return sorted(list(dict.fromkeys(wanted))[:MOST_COUNTS])


class _Bench:
    """The combinations, their models and their times. The one in use is always visited first, and never left out."""

    def __init__(self, models: Models, rows: Sequence[int]):
        target = models.target
        self.target, self.used = target, target.passes.dtype
        self.gpu = target.device.type == "cuda"
        self.formats = (self.used, *(dtype for dtype in FORMATS if dtype != self.used))
        now = None if self.gpu else models.measured.threads
        self.counts = [None] if self.gpu else thread_counts(processor.cores(), now)
        self.rows = tuple(n for n in rows if BEHIND + n <= target.context_length) or (1,)
        self.text = [(7 + 31 * i) % target.vocab for i in range(BEHIND + self.rows[-1])]
        read = target.passes.read_bytes // self.used.itemsize
        self.table = {
            (dtype, n): Passes(
                str(dtype).removeprefix("torch."), n, (dtype, n) == (self.used, now), read * dtype.itemsize, self.rows
            )
            for dtype in self.formats
            for n in self.counts
        }
        self.setups: list[Setup] = sorted(self.table, key=lambda at: not self.table[at].in_use)
        self.times: dict[Setup, dict[int, list[float]]] = {at: {n: [] for n in self.rows} for at in self.setups}
        self.doubts: list[Setup] = []
        self.lms: dict[torch.dtype, CachedLM] = {}
        self.result = Compared(tuple(self.table.values()))

    def update(self, **known) -> None:
        """Bring `result` up to date."""
        self.result = replace(self.result, passes=tuple(self.table.values()), **known)

    def active(self) -> list[Setup]:
        """The combinations that are not left out."""
        return [at for at in self.setups if not self.table[at].left_out]

    @torch.inference_mode()
    def read(self, size: int) -> None:
        """The fastest of several sums of a large tensor at each thread count."""
        block = torch.ones(size // 4, device=self.target.device)
        best = dict.fromkeys(self.counts, math.inf)
        for _ in range(READS):
            for count in self.counts:
                with threads.using(count):
                    self.target.synchronize()
                    start = perf_counter()
                    block.sum()
                    self.target.synchronize()
                    best[count] = min(best[count], perf_counter() - start)
        self.update(memory=tuple(Memory(count, block.nbytes / seconds) for count, seconds in best.items()))

    def load(self) -> None:
        """A cache of its own over the target, and one over a copy in the other format where there is room for it."""
        for dtype in self.formats:
            passes, copied = self.target.passes, dtype != self.used
            if copied and passes.size * dtype.itemsize > COPY_SHARE * memory.free():
                for at in self.setups:
                    if at[0] == dtype:
                        self._leave_out(at, NO_ROOM)
                continue
            self.lms[dtype] = CachedLM(passes.converted(dtype) if copied else passes, self.target.vocab)
            self.lms[dtype].extend(self.text[: min(BEHIND, self.lms[dtype].context_length - 1)])

    def visit(self, at: Setup) -> None:
        """A pass of every row count, after two that fetch the weights and wake the threads.

        Each visit begins with another row count, for on a busy machine the passes after a change of threads are slow.
        """
        lm, tokens = self.lms[at[0]], self.text[-self.rows[-1] :]
        first = len(self.times[at][self.rows[0]]) % len(self.rows)
        with threads.using(at[1]):
            for _ in range(2):
                lm.forward(tokens[:1])
            for n in (*self.rows[first:], *self.rows[:first]):
                times = self.times[at][n]
                if not times:
                    lm.forward(tokens[:n])  # kernels are made at first use
                times.append(_timed(lm, tokens[:n]))
                if len(times) == 1 and times[0] > self._limit(at, n):
                    return self._doubt(at)
        median = tuple(statistics.median(times) for times in self.times[at].values())
        self.table[at] = replace(self.table[at], pass_s=median)
        return self.update()

    def _limit(self, at: Setup, rows: int) -> float:
        """Seconds from which on a pass is far slower than another combination's."""
        others = [times[rows][0] for other, times in self.times.items() if other != at and times[rows]]
        return math.inf if self.table[at].in_use else FAR * min(others, default=math.inf)

    def _doubt(self, at: Setup) -> None:
        """Begin anew with a combination that was far slower: anything may disturb a visit. The second time leave it out."""
        self.times[at] = {n: [] for n in self.rows}
        self.table[at] = replace(self.table[at], pass_s=())
        if at in self.doubts:
            self._leave_out(at, FAR_SLOWER)
        self.doubts.append(at)

    def doubted(self) -> list[Setup]:
        """After the first visits: combinations far slower than another, perhaps than one that came later."""
        for at in self.active():
            if any(times and times[0] > self._limit(at, n) for n, times in self.times[at].items()):
                self._doubt(at)
        return list(self.doubts)

    def _leave_out(self, at: Setup, why: str) -> None:
        self.table[at] = replace(self.table[at], pass_s=(), left_out=why)
        self.update()

    def lap_s(self) -> float:
        """Seconds that a visit to each takes."""
        return sum(sum(one.pass_s) + 2 * one.pass_s[0] for one in self.table.values() if one.pass_s)

    def probe(self) -> None:
        """Whether the format that is not in use would be exact, where that is soon found out."""
        for dtype in self.formats[1:]:
            took = [one.pass_s[0] for at, one in self.table.items() if at[0] == dtype and one.pass_s]
            if took and PROBE_PASSES * max(took) < PROBE_S:
                self.update(probed=exactness.of_operators(self.lms[dtype]))

    def close(self) -> None:
        """Let go of the copy."""
        self.lms.clear()
        gc.collect()  # a model may hold itself
        if self.gpu:
            torch.cuda.empty_cache()


def _timed(lm: CachedLM, tokens: Sequence[int]) -> float:
    start = perf_counter()
    lm.forward(tokens)
    return perf_counter() - start
