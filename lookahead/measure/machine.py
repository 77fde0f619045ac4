"""Measure this machine: the target's pass by number format and thread count, and the parts of a one-row pass.

A pass reads every weight once, so memory bandwidth bounds its speed. `compare` measures passes of several rows in each format
with several thread counts. `time_parts` times the parts of each model's one-row pass.
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
from ..family.cost import interleaved, sample
from ..family.models import Models
from ..family.number_format import name_of
from ..model.lm import CachedLM
from .progress import Progress

ROWS = (1, 2, 5, 9, 17, 33, 65)
NAIVE_ROWS, VERIFY_ROWS = 1, 9  # rows of a naive pass, and of a pass that verifies eight drafted tokens
CACHED = 63  # tokens in the cache before a pass; with 65 rows they fit in one cache block, so no pass allocates another
FORMATS = (torch.bfloat16, torch.float32)
MAX_COUNTS = 4
MAX_VISITS, MIN_VISITS, BUDGET_S = (
    15,
    3,
    14.0,
)  # maximum and minimum visits to each combination; seconds for all of them
COPY_SHARE = 0.8  # largest share of free memory for a copy of the weights
MUCH_SLOWER = 20.0  # a combination that is this many times slower than another is skipped
NOISE = 1.05  # smaller ratios of times are measurement noise
MEMORY_BOUND = 0.5  # share of memory bandwidth from which a pass counts as memory-bound
SKIPPED_SLOW, SKIPPED_MEMORY = "skipped: much slower", "skipped: no memory for a copy"
REPEATS, IN_A_ROW = 12, 3
LAYERS, ATTENTION, HEAD, OTHER = "matrix products of the layers", "attention", "head", "other"
TOTAL = "full pass"


@dataclass(frozen=True, slots=True)
class Combination:
    """A number format with a thread count, which is None on a GPU, and the times of the target's passes with them.

    `pass_s[i]` is the median seconds of a pass with `rows[i]` rows. It is empty before the first visit, and if the combination
    is skipped for the reason in `skipped`. A pass reads `weight_bytes`.
    """

    dtype: str
    threads: int | None
    in_use: bool
    weight_bytes: int
    rows: tuple[int, ...]
    pass_s: tuple[float, ...] = ()
    skipped: str = ""

    @property
    def name(self) -> str:
        return self.dtype if self.threads is None else f"{self.dtype} with {counted(self.threads, 'thread')}"

    @property
    def bytes_per_s(self) -> float:
        """Bytes of weights per second that a one-row pass reads."""
        return self.weight_bytes / self.pass_s[0]

    def seconds(self, rows: int) -> float:
        """Return the seconds of a pass, interpolated between the measured row counts."""
        return interpolate(self.rows, self.pass_s, rows)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The combinations of number format and thread count, after a number of visits to each."""

    combinations: tuple[Combination, ...]
    visits: int = 0

    @property
    def measured(self) -> tuple[Combination, ...]:
        return tuple(c for c in self.combinations if c.pass_s)

    @property
    def in_use(self) -> Combination:
        """The combination that races use."""
        return next(c for c in self.combinations if c.in_use)

    def verdict(self) -> str:
        """Return a sentence that names the fastest combination, and the reason if another is in use.

        Returns "" before all were visited a few times. The speed is that of a one-row and a nine-row pass together.
        """
        used = self.in_use
        if self.visits < MIN_VISITS or len(self.measured) < 2 or used.rows[-1] < VERIFY_ROWS:
            return ""
        both_s = {c: c.seconds(NAIVE_ROWS) + c.seconds(VERIFY_ROWS) for c in self.measured}
        best = min(both_s, key=both_s.get)
        faster = both_s[used] / both_s[best]
        if best is not used and faster < NOISE:
            return f"{used.name} is in use. No other is faster by more than measurement noise ({percent(NOISE - 1)})."
        fastest = f"{best.name} ({seconds(best.seconds(NAIVE_ROWS))} for one row, {seconds(best.seconds(VERIFY_ROWS))} for nine)"
        if best is used:
            return f"{fastest} is in use. It is the fastest here."
        if best.dtype == used.dtype:
            why = f"The app uses the lowest of equally fast thread counts, and leaves a core for the page. LOOKAHEAD_THREADS={best.threads} changes this."
        elif used.threads is None:
            why = f"On a GPU, the app uses {used.dtype} if the hardware supports it, because it makes larger models faster."
        else:
            why = "The app uses bfloat16 if its kernels compute the passes, else float32. LOOKAHEAD_DTYPE changes this."
        return f"The fastest here is {fastest}: {decimal(faster)} times as fast as {used.name}, which is in use. {why}"


def compare(models: Models, *, rows: Sequence[int] = ROWS, visits: int = MAX_VISITS) -> Iterator[Progress]:
    """Measure every combination; yields the `Comparison` so far, None until each was visited once.

    Combinations are visited in rotation, so that noise affects all equally: `visits` times, or fewer (at least 3) after 14
    seconds. The combination in use comes first and is never skipped. Another format needs a temporary copy of the weights.
    The thread count has its normal value whenever the generator yields.
    """
    stop, combinations = perf_counter() + BUDGET_S, _combinations(models, rows)
    order = sorted(range(len(combinations)), key=lambda i: not combinations[i].in_use)
    times: list[list[list[float]]] = [[] for _ in combinations]
    lms: dict[str, CachedLM | None] = {}
    comparison = None
    try:
        yield Progress(0, visits, "copying the weights to the other format", comparison)
        for visit in range(1, visits + 1):
            for i in order:
                c = combinations[i]
                if c.dtype not in lms:
                    lms[c.dtype] = _cached(models, c)
                if lms[c.dtype] is None:
                    combinations[i] = c = replace(c, skipped=SKIPPED_MEMORY)
                if c.skipped:
                    continue
                yield Progress(visit - 1, visits, c.name, comparison)
                fastest_s = min((other.pass_s[0] for other in combinations if other.pass_s), default=math.inf)
                seconds = _visit(lms[c.dtype], c, math.inf if c.in_use or c.pass_s else MUCH_SLOWER * fastest_s)
                if seconds is None:
                    combinations[i] = replace(c, skipped=SKIPPED_SLOW)
                    continue
                times[i].append(seconds)
                combinations[i] = replace(c, pass_s=tuple(map(statistics.median, zip(*times[i], strict=True))))
            comparison, enough = Comparison(tuple(combinations), visit), visit >= MIN_VISITS and perf_counter() > stop
            yield Progress(visit, visit if enough else visits, f"visit {visit}", comparison)
            if enough:
                break
    finally:
        lms.clear()
        gc.collect()  # a model may contain reference cycles
        if models.target.device.type == "cuda":
            torch.cuda.empty_cache()


def thread_counts(cores: int, used: int) -> list[int]:
    """Return up to four thread counts to compare, by priority: the count in use, all cores, 1, 4 and 2."""
    candidates = [used, *(n for n in (cores, 1, 4, 2) if n <= cores)]
    return sorted(list(dict.fromkeys(candidates))[:MAX_COUNTS])


def _combinations(models: Models, rows: Sequence[int]) -> list[Combination]:
    target, passes = models.target, models.target.passes
    used = None if target.device.type == "cuda" else models.measured.threads
    counts = [None] if used is None else thread_counts(processor.cores(), used)
    rows = tuple(n for n in rows if CACHED + n <= target.context_length) or (1,)
    weights = passes.read_bytes // passes.dtype.itemsize
    return [
        Combination(name_of(dtype), n, (dtype, n) == (passes.dtype, used), weights * dtype.itemsize, rows)
        for dtype in dict.fromkeys((passes.dtype, *FORMATS))
        for n in counts
    ]


def _cached(models: Models, combination: Combination) -> CachedLM | None:
    """Return the target in a format, with a new cache; None if there is no memory for a copy of the weights."""
    target, passes, dtype = models.target, models.target.passes, getattr(torch, combination.dtype)
    if dtype != passes.dtype:
        if passes.size * dtype.itemsize > COPY_SHARE * memory.free():
            return None
        passes = passes.converted(dtype)
    lm = CachedLM(passes, target.vocab)
    lm.extend([1] * min(CACHED, target.context_length - 1))
    return lm


def _visit(lm: CachedLM, combination: Combination, most_s: float) -> list[float] | None:
    """Return the seconds of a pass for each row count; None if two one-row passes each take longer than `most_s`."""
    with threads.using(lm.passes, combination.threads):
        if min(_timed(lm, [1]) for _ in range(2)) > most_s:
            return None
        tokens = sample(lm.vocab, combination.rows[-1])
        return interleaved([partial(lm.forward, tokens[:n]) for n in combination.rows], 1)


def _timed(lm: CachedLM, tokens: Sequence[int]) -> float:
    start = perf_counter()
    lm.forward(tokens)
    return perf_counter() - start


@dataclass(frozen=True, slots=True)
class PassParts:
    """The times of one model's one-row pass and of its parts.

    `layers_s`, `attention_s` and `head_s` are timed separately, None if the model does not support it. `weight_bytes` is the
    number of bytes of weights that a pass reads. `bytes_per_s` is the measured speed of reading a buffer of that size.
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
        """Seconds to read the weights at the measured memory bandwidth, a lower bound of `pass_s`."""
        return self.weight_bytes / self.bytes_per_s

    @property
    def ratio(self) -> float:
        return self.pass_s / self.limit_s

    @property
    def attention_share(self) -> float | None:
        """The share of the pass that reads keys and values; None if parts are not timed."""
        return None if self.attention_s is None else min(1.0, self.attention_s / self.pass_s)

    @property
    def sentence(self) -> str:
        share, reached = self.limit_s / self.pass_s, speed(self.weight_bytes / self.pass_s)
        rate = (
            f"A one-row pass reads its {size(self.weight_bytes)} of weights at {reached}, {percent(share)} of the memory "
            f"bandwidth ({speed(self.bytes_per_s)})."
        )
        if share >= MEMORY_BOUND:
            return f"{rate} The pass is memory-bound, so more rows cost little."
        return (
            f"{rate} Reading alone would take {seconds(self.limit_s)} of its {seconds(self.pass_s)}. The rest is for "
            "kernel launches and computing."
        )

    @property
    def segments(self) -> dict[str, float]:
        """Seconds of each part by name. A part that is timed separately may take longer than within the pass."""
        if self.layers_s is None:
            return {TOTAL: self.pass_s}
        parts = {LAYERS: self.layers_s, ATTENTION: self.attention_s, HEAD: self.head_s}
        return {**parts, OTHER: max(0.0, self.pass_s - sum(parts.values()))}


def time_parts(models: Models, repeats: int = REPEATS) -> Iterator[Progress]:
    """Time the parts of the target's pass and of each draft model's; yields a tuple of the `PassParts` so far."""
    lms = {"target": models.target, **models.drafts}
    done: tuple[PassParts, ...] = ()
    for role, lm in lms.items():
        yield Progress(len(done), len(lms), role, done)
        done = (*done, parts_of(role, lm.fresh(), repeats))
    yield Progress(len(lms), len(lms), "done", done)


@torch.inference_mode()
def parts_of(role: str, lm: CachedLM, repeats: int, cached: int = CACHED + 1) -> PassParts:
    """Measure a model whose cache is empty, after `cached` tokens. The result has the fastest repetition of each part."""
    cached = min(cached, lm.context_length - 1)
    lm.extend([1] * cached)
    stream = torch.ones(max(1, lm.passes.read_bytes // 4), device=lm.device)

    def read() -> None:
        stream.sum()
        lm.synchronize()

    works = [read, partial(lm.forward, [1]), *(lm.passes.parts(cached) or ())]
    # Each runs several times in a row, because the previous part has evicted its weights from the processor's cache.
    times_s = [[interleaved([work], IN_A_ROW, min)[0] for work in works] for _ in range(repeats)]
    read_s, pass_s, *parts_s = map(min, zip(*times_s, strict=True))
    return PassParts(role, lm.passes.read_bytes, stream.nbytes / read_s, pass_s, *parts_s)
