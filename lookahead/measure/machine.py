"""Measure this machine: the target's pass by number format and threads, and where a one-row pass's time goes.

A pass reads every weight once, so memory bounds its speed. `compare` measures passes of several rows in every format, with
several thread counts; `take_apart` times the parts of each model's one-row pass.
"""

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
VISITS, LEAST, BUDGET_S = 15, 3, 14.0  # most and fewest visits to each combination; seconds for all of them
COPY_SHARE = 0.8  # of free memory that a copy may take
FAR = 20.0  # times slower than another combination: left out
CLOSE = 1.05  # faster by less than this is not faster
WAITING = 0.5  # of memory's speed: from here on a pass is mostly reading
FAR_SLOWER, NO_ROOM = "skipped, far slower", "skipped, no memory for a copy"
TURNS, IN_A_ROW = 12, 3
LAYERS, ATTENTION, HEAD, REST, WHOLE = "layers' products", "attention", "head", "the rest", "the whole pass"


@dataclass(frozen=True, slots=True)
class Passes:
    """The target's passes in one number format with `threads` threads, None on a GPU.

    `pass_s[i]` is the median time of a pass of `rows[i]`; it is empty before the first visit and if `left_out` has a reason.
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
        return self.dtype if self.threads is None else f"{self.dtype} with {counted(self.threads, 'thread')}"

    @property
    def bytes_per_s(self) -> float:
        """How fast a one-row pass reads the weights."""
        return self.weight_bytes / self.pass_s[0]

    def seconds(self, rows: int) -> float:
        """Return the time of a pass, interpolated between the measured ones."""
        return interpolate(self.rows, self.pass_s, rows)


@dataclass(frozen=True, slots=True)
class Compared:
    """The result so far."""

    passes: tuple[Passes, ...]
    visits: int = 0

    @property
    def measured(self) -> tuple[Passes, ...]:
        return tuple(one for one in self.passes if one.pass_s)

    @property
    def in_use(self) -> Passes:
        """The combination that races run with."""
        return next(one for one in self.passes if one.in_use)

    def verdict(self) -> str:
        """Return a sentence on the fastest combination and, if another is in use, why; "" before a few visits to all."""
        used = self.in_use
        if self.visits < LEAST or len(self.measured) < 2 or used.rows[-1] < MANY:
            return ""
        both_s = {one: one.seconds(FEW) + one.seconds(MANY) for one in self.measured}
        best = min(both_s, key=both_s.get)
        faster = both_s[used] / both_s[best]
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


def compare(models: Models, *, rows: Sequence[int] = ROWS, visits: int = VISITS) -> Iterator[Progress]:
    """Measure every combination; yields what was `Compared` so far, None before the first visit to all.

    Combinations are visited in turns, so that noise affects all alike: `visits` times, or at least 3 times if that takes
    longer than 14 seconds. The one in use comes first and is never left out. The other format is a temporary copy of the
    weights. The thread count is never changed while the generator waits.
    """
    stop, passes = perf_counter() + BUDGET_S, _combinations(models, rows)
    order = sorted(range(len(passes)), key=lambda i: not passes[i].in_use)
    times: list[list[list[float]]] = [[] for _ in passes]
    lms: dict[str, CachedLM | None] = {}
    compared = None
    try:
        yield Progress(0, visits, "a copy of the weights in the other format", compared)
        for visit in range(1, visits + 1):
            for i in order:
                one = passes[i]
                if one.dtype not in lms:
                    lms[one.dtype] = _cached(models, one)
                if lms[one.dtype] is None:
                    passes[i] = one = replace(one, left_out=NO_ROOM)
                if one.left_out:
                    continue
                yield Progress(visit - 1, visits, one.name, compared)
                fastest_s = min((other.pass_s[0] for other in passes if other.pass_s), default=math.inf)
                seconds = _visit(lms[one.dtype], one, math.inf if one.in_use or one.pass_s else FAR * fastest_s)
                if seconds is None:
                    passes[i] = replace(one, left_out=FAR_SLOWER)
                    continue
                times[i].append(seconds)
                passes[i] = replace(one, pass_s=tuple(map(statistics.median, zip(*times[i], strict=True))))
            compared, enough = Compared(tuple(passes), visit), visit >= LEAST and perf_counter() > stop
            yield Progress(visit, visit if enough else visits, f"visit {visit}", compared)
            if enough:
                break
    finally:
        lms.clear()
        gc.collect()  # a model may hold itself
        if models.target.device.type == "cuda":
            torch.cuda.empty_cache()


def thread_counts(cores: int, used: int) -> list[int]:
    """Return at most four thread counts to compare: the one in use, all cores, 1, 4 and 2."""
    wanted = [used, *(n for n in (cores, 1, 4, 2) if n <= cores)]
    return sorted(list(dict.fromkeys(wanted))[:MOST_COUNTS])


def _combinations(models: Models, rows: Sequence[int]) -> list[Passes]:
    target, passes = models.target, models.target.passes
    used = None if target.device.type == "cuda" else models.measured.threads
    counts = [None] if used is None else thread_counts(processor.cores(), used)
    rows = tuple(n for n in rows if CACHED + n <= target.context_length) or (1,)
    weights = passes.read_bytes // passes.dtype.itemsize
    return [
        Passes(str(dtype).removeprefix("torch."), n, (dtype, n) == (passes.dtype, used), weights * dtype.itemsize, rows)
        for dtype in dict.fromkeys((passes.dtype, *FORMATS))
        for n in counts
    ]


def _cached(models: Models, one: Passes) -> CachedLM | None:
    """Return the target in a format, with its own cache; None without memory for a copy of the weights."""
    target, passes, dtype = models.target, models.target.passes, getattr(torch, one.dtype)
    if dtype != passes.dtype:
        if passes.size * dtype.itemsize > COPY_SHARE * memory.free():
            return None
        passes = passes.converted(dtype)
    lm = CachedLM(passes, target.vocab)
    lm.extend([1] * min(CACHED, target.context_length - 1))
    return lm


def _visit(lm: CachedLM, one: Passes, most_s: float) -> list[float] | None:
    """Return the seconds of a pass of each row count; None if one row takes longer than `most_s` twice."""
    with threads.using(one.threads):
        if min(_timed(lm, [1]) for _ in range(2)) > most_s:
            return None
        return interleaved([partial(lm.forward, [1] * n) for n in one.rows], 1)


def _timed(lm: CachedLM, tokens: Sequence[int]) -> float:
    start = perf_counter()
    lm.forward(tokens)
    return perf_counter() - start


@dataclass(frozen=True, slots=True)
class PassParts:
    """One model's one-row pass, in seconds.

    `layers_s`, `attention_s` and `head_s` are measured alone, None for a model whose passes cannot be taken apart.
    `bytes_per_s` is the speed at which a buffer of `weight_bytes`, which a pass reads, is read.
    """

    role: str
    weight_bytes: int
    bytes_per_s: float
    pass_s: float
    layers_s: float | None = None
    attention_s: float | None = None
    head_s: float | None = None

    @property
    def limit_s(self) -> float:
        """Seconds of the pass at memory's speed."""
        return self.weight_bytes / self.bytes_per_s

    @property
    def ratio(self) -> float:
        return self.pass_s / self.limit_s

    @property
    def sentence(self) -> str:
        share, reached = self.limit_s / self.pass_s, speed(self.weight_bytes / self.pass_s)
        rate = (
            f"A one-row pass reads its {size(self.weight_bytes)} of weights at {reached}, {percent(share)} of the "
            f"{speed(self.bytes_per_s)} that memory gives"
        )
        if share >= WAITING:
            return f"{rate}: it mostly waits for them, so more rows come nearly for nothing."
        return (
            f"{rate}: reading alone would take {seconds(self.limit_s)} of the {seconds(self.pass_s)}; starting kernels and "
            "computing take the rest."
        )

    @property
    def segments(self) -> dict[str, float]:
        """Seconds by name, in the order of a bar; a part may take longer alone than within the pass."""
        if self.layers_s is None:
            return {WHOLE: self.pass_s}
        parts = {LAYERS: self.layers_s, ATTENTION: self.attention_s, HEAD: self.head_s}
        return {**parts, REST: max(0.0, self.pass_s - sum(parts.values()))}


def take_apart(models: Models, turns: int = TURNS) -> Iterator[Progress]:
    """Time the parts of the target's pass and of every drafter's; yields a tuple of the `PassParts` so far."""
    lms = {"target": models.target, **models.drafts}
    done: tuple[PassParts, ...] = ()
    for role, lm in lms.items():
        yield Progress(len(done), len(lms), role, done)
        done = (*done, _parts_of(role, lm.fresh(), turns))
    yield Progress(len(lms), len(lms), "done", done)


@torch.inference_mode()
def _parts_of(role: str, lm: CachedLM, turns: int) -> PassParts:
    """Measure one model, whose cache is empty; of each part the fastest turn counts."""
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
