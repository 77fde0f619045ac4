"""This machine, measured on request: the target's pass by number format and threads, and where a one-row pass's time goes.

A pass reads every weight once, so it takes at least the time in which memory delivers them: the format decides how many
bytes that are, the threads how fast they arrive. `compare` measures passes of several rows in every format, with several
thread counts; `take_apart` times the parts of each model's one-row pass.
"""

from __future__ import annotations

import gc
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

import torch

from ..core import memory, processor
from ..core.numbers import counted, decimal, percent, seconds, size, speed
from ..core.theory import interpolate
from ..family import threads
from ..family.cost import interleaved
from ..family.models import Models
from ..model.lm import CachedLM
from .progress import Progress

ROWS = (1, 2, 5, 9, 17, 33, 65)
FEW, MANY = 1, 9  # rows of a naive pass, and of one that verifies eight drafted tokens
CACHED = 63  # tokens before a pass: with the most rows they fit in one block of the cache, which no pass then extends
FORMATS = (torch.bfloat16, torch.float32)
MOST_COUNTS = 4
VISITS, LEAST, BUDGET_S = 15, 3, 14.0  # visits to each combination, at least; seconds for all of them
COPY_SHARE = 0.8  # of free memory that a copy may take
FAR = 20.0  # times slower than another combination: left out
CLOSE = 1.05  # faster by less than this is not faster
WAITING = 0.5  # of memory's speed: from here on a pass is mostly reading
FAR_SLOWER, NO_ROOM = "skipped, far slower", "skipped, no memory for a copy"
TURNS, IN_A_ROW = 12, 3
READING, LAYERS, ATTENTION, HEAD, REST = (
    "reading at memory's speed", "layers' products", "attention", "head", "the rest",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Passes:
    """The target's passes in one number format with `threads` threads, None on a GPU.

    `pass_s[i]` is the median time of a pass of `rows[i]`; empty before the first visit, or if `left_out` has a reason.
    A pass reads `weight_bytes`.
    """

    dtype: str
    threads: int | None
    in_use: bool
    weight_bytes: int
    rows: tuple[int, ...]
    pass_s: tuple[float, ...] = ()
    left_out: str = ""

    @property
    def name(self) -> str:
        """Such as "bfloat16 with 2 threads"."""
        return self.dtype if self.threads is None else f"{self.dtype} with {counted(self.threads, 'thread')}"

    @property
    def bytes_per_s(self) -> float:
        """How fast a one-row pass reads the weights."""
        return self.weight_bytes / self.pass_s[0]

    @property
    def both_s(self) -> float:
        """A naive pass and a verifying pass together."""
        return self.seconds(FEW) + self.seconds(MANY)

    def seconds(self, rows: int) -> float:
        """Time of a pass, linear between the measured ones."""
        return interpolate(self.rows, self.pass_s, rows)


@dataclass(frozen=True, slots=True)
class Compared:
    """The result so far."""

    passes: tuple[Passes, ...]
    visits: int = 0

    @property
    def measured(self) -> tuple[Passes, ...]:
        """The combinations with times."""
        return tuple(one for one in self.passes if one.pass_s)

    @property
    def in_use(self) -> Passes:
        """The combination that races run with."""
        return next(one for one in self.passes if one.in_use)

    def verdict(self) -> str:
        """The fastest combination, whether it is in use, and if not, why; "" before a few visits to all."""
        used = self.in_use
        if self.visits < LEAST or len(self.measured) < 2 or used.rows[-1] < MANY:
            return ""
        best = min(self.measured, key=lambda one: one.both_s)
        faster = used.both_s / best.both_s
        if best is not used and faster < CLOSE:
            vary = percent(CLOSE - 1)
            return f"In use is {used.name}, and nothing here is faster by more than measurements vary ({vary})."
        took = f"{seconds(best.seconds(FEW))} for one row, {seconds(best.seconds(MANY))} for nine"
        if best is used:
            return f"Fastest here is {best.name} ({took}), and that is what is in use."
        if best.dtype == used.dtype:
            why = f"the app takes the fewest threads that are about as fast; OMP_NUM_THREADS={best.threads} would change it"
        elif used.threads is None:
            why = f"on a GPU {used.dtype} is taken if there is hardware for it, and larger models gain by it"
        else:
            why = "bfloat16 is used where our kernels compute the passes, else float32; LOOKAHEAD_DTYPE changes it"
        return f"Fastest here is {best.name} ({took}), {decimal(faster)} times as fast as {used.name}, which is in use: {why}."


def compare(
    models: Models, *, rows: Sequence[int] = ROWS, visits: int = VISITS, budget_s: float = BUDGET_S
) -> Iterator[Progress]:  # fmt: skip
    """Measure every combination; yields what is `Compared` so far, and may be closed at any point.

    `visits` to each, fewer if `budget_s` does not suffice, but at least 3. Combinations are visited in turns, so that
    noise hits all alike; the one in use comes first and is never left out. The other format is a copy for the time of the
    measurement; the thread count is changed for a visit and never while the generator waits.
    """
    began, done, visited, setups = perf_counter(), 0, 0, _setups(models, rows)
    total = visits * len(setups)

    def now(text: str) -> Progress:
        return Progress(done, total, text, Compared(tuple(one.passes for one in setups), visited))

    try:
        yield now("a copy of the weights in the other format")
        _load(models, setups)
        while visited < visits:
            for one in sorted(setups, key=lambda one: not one.passes.in_use):
                if not one.passes.left_out:
                    yield now(one.passes.name)
                    one.visit(setups)
                    done += 1
            visited += 1
            active = [one.passes for one in setups if not one.passes.left_out]
            if visited == 1:
                round_s = sum(sum(one.pass_s) + 2 * one.pass_s[0] for one in active if one.pass_s)
                visits = min(visits, max(LEAST, 1 + int((budget_s - (perf_counter() - began)) / round_s)))
            total = done + (visits - visited) * len(active)
            yield now(f"visit {visited} of {visits}")
        total = done
        yield now("done")
    finally:
        for one in setups:
            one.lm = None
        gc.collect()  # a model may hold itself
        if models.target.device.type == "cuda":
            torch.cuda.empty_cache()


def thread_counts(cores: int, used: int) -> list[int]:
    """At most four thread counts worth comparing: the one in use, all cores, 1, 4 and 2."""
    wanted = [used, *(n for n in (cores, 1, 4, 2) if n <= cores)]
    return sorted(list(dict.fromkeys(wanted))[:MOST_COUNTS])


class _Setup:
    """A combination of a number format and a thread count: its model, its cache and its times."""

    def __init__(self, dtype: torch.dtype, passes: Passes):
        self.dtype, self.passes = dtype, passes
        self.times: dict[int, list[float]] = {n: [] for n in passes.rows}
        self.doubted = False
        self.lm: CachedLM | None = None
        self.text: list[int] = []

    def visit(self, setups: Sequence[_Setup]) -> None:
        """Time a pass of every row count, after two that fetch the weights and wake the threads.

        Each visit begins with another row count, because on a busy machine passes after a change of threads are slow. A
        combination far slower than another is left out if its next visit finds the same.
        """
        rows = self.passes.rows
        first = len(self.times[rows[0]]) % len(rows)
        with threads.using(self.passes.threads):
            for _ in range(2):
                self.lm.forward(self.text[:1])
            for n in (*rows[first:], *rows[:first]):
                if not self.times[n]:
                    self.lm.forward(self.text[:n])  # kernels are compiled at first use
                self.times[n].append(_timed(self.lm, self.text[:n]))
                fastest = min((one.times[n][0] for one in setups if one is not self and one.times[n]), default=math.inf)
                if len(self.times[n]) == 1 and self.times[n][0] > FAR * fastest and not self.passes.in_use:
                    self.passes = replace(self.passes, left_out=FAR_SLOWER if self.doubted else "")
                    self.doubted, self.times = True, {n: [] for n in rows}
                    return
        self.passes = replace(self.passes, pass_s=tuple(map(statistics.median, self.times.values())))


def _setups(models: Models, rows: Sequence[int]) -> list[_Setup]:
    target, passes = models.target, models.target.passes
    used = None if target.device.type == "cuda" else models.measured.threads
    counts = [None] if used is None else thread_counts(processor.cores(), used)
    rows = tuple(n for n in rows if CACHED + n <= target.context_length) or (1,)
    numbers = passes.read_bytes // passes.dtype.itemsize
    return [
        _Setup(
            dtype,
            Passes(
                str(dtype).removeprefix("torch."), n, (dtype, n) == (passes.dtype, used), numbers * dtype.itemsize, rows
            ),
        )
        for dtype in (passes.dtype, *(dtype for dtype in FORMATS if dtype != passes.dtype))
        for n in counts
    ]


def _load(models: Models, setups: Sequence[_Setup]) -> None:
    """Give each format a cache of its own, and the other one a copy of the weights if memory allows."""
    target, passes, lms = models.target, models.target.passes, {}
    for one in setups:
        copied, longest = one.dtype != passes.dtype, one.passes.rows[-1]
        if copied and passes.size * one.dtype.itemsize > COPY_SHARE * memory.free() and one.dtype not in lms:
            one.passes = replace(one.passes, left_out=NO_ROOM)
            continue
        text = [(7 + 31 * i) % target.vocab for i in range(CACHED + longest)]
        if one.dtype not in lms:
            lms[one.dtype] = CachedLM(passes.converted(one.dtype) if copied else passes, target.vocab)
            lms[one.dtype].extend(text[: min(CACHED, target.context_length - 1)])
        one.lm, one.text = lms[one.dtype], text[-longest:]


def _timed(lm: CachedLM, tokens: Sequence[int]) -> float:
    start = perf_counter()
    lm.forward(tokens)
    return perf_counter() - start


@dataclass(frozen=True, slots=True)
class PassParts:
    """One model's one-row pass, in seconds: `layers_s`, `attention_s` and `head_s` are measured alone, None for a model
    whose passes cannot be taken apart. `bytes_per_s` is how fast a buffer of `weight_bytes`, which a pass reads, is read."""

    role: str
    weight_bytes: int
    bytes_per_s: float
    pass_s: float
    layers_s: float | None = None
    attention_s: float | None = None
    head_s: float | None = None

    @property
    def limit_s(self) -> float:
        """The pass at memory's speed."""
        return self.weight_bytes / self.bytes_per_s

    @property
    def ratio(self) -> float:
        """The pass in units of its limit."""
        return self.pass_s / self.limit_s

    @property
    def sentence(self) -> str:
        """How fast the pass reads its weights, compared with memory, and what follows."""
        share, given, reached = (
            self.limit_s / self.pass_s,
            speed(self.bytes_per_s),
            speed(self.weight_bytes / self.pass_s),
        )
        rate = f"A one-row pass reads its {size(self.weight_bytes)} of weights at {reached}, {percent(share)} of the {given} that memory gives"
        if share >= WAITING:
            return f"{rate}: it mostly waits for them, so more rows come nearly for nothing."
        took, alone = seconds(self.pass_s), seconds(self.limit_s)
        return f"{rate}: reading alone would take {alone} of the {took}; starting kernels and computing take the rest."

    @property
    def segments(self) -> dict[str, float]:
        """Seconds by name, in the order of a bar; they add up to the pass. Products count beyond their reading, the first."""
        rest = max(0.0, self.pass_s - self.limit_s)
        if self.layers_s is None:
            return {READING: self.pass_s - rest, REST: rest}
        products_s = self.layers_s + self.head_s
        beyond_s = max(0.0, products_s - self.limit_s)
        named = {LAYERS: beyond_s * self.layers_s / products_s, ATTENTION: self.attention_s}
        named[HEAD] = beyond_s - named[LAYERS]
        # Alone a part may take longer than within the pass.
        fits = min(1.0, rest / sum(named.values())) if rest else 0.0
        named = {name: fits * part_s for name, part_s in named.items()}
        return {READING: self.pass_s - rest, **named, REST: rest - sum(named.values())}


def take_apart(models: Models, turns: int = TURNS) -> Iterator[Progress]:
    """The target's pass and every drafter's; yields a tuple of the `PassParts` so far, and may be closed at any point."""
    lms = {"target": models.target, **models.drafts}
    done: tuple[PassParts, ...] = ()
    for role, lm in lms.items():
        yield Progress(len(done), len(lms), role, done)
        done = (*done, _parts_of(role, lm.fresh(), turns))
    yield Progress(len(lms), len(lms), "done", done)


@torch.inference_mode()
def _parts_of(role: str, lm: CachedLM, turns: int) -> PassParts:
    """Measure one model, whose cache is empty: of everything the fastest of all turns."""
    cached = min(CACHED + 1, lm.context_length - 1)
    lm.extend([1] * cached)
    stream = torch.ones(max(1, lm.passes.read_bytes // 4), device=lm.device)

    def read() -> None:
        stream.sum()
        lm.synchronize()

    works = [read, partial(lm.forward, [1]), *(lm.passes.parts(cached) or ())]
    # Each several times in a row, because what ran before has pushed these weights out of the cache.
    turn_s = [[interleaved([work], IN_A_ROW, min)[0] for work in works] for _ in range(turns)]
    read_s, pass_s, *parts_s = map(min, zip(*turn_s, strict=True))
    return PassParts(role, lm.passes.read_bytes, stream.nbytes / read_s, pass_s, *parts_s)
