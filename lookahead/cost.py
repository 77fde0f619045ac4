"""What this machine can do: which dtype, what a pass costs, and whether rows are exact.

Measured at load, never assumed. `pick_dtype` tries bfloat16 against float32 on this processor;
`probe` runs a model over the same tokens one by one, in chunks and as trees, and compares bits;
`measure` times passes of 1, 2, 3, 5, ... rows; `warm` runs the others once, so that no race pays
for a first visit.

Knows CachedLM and clocks. It does not know strategies or text.
"""

from __future__ import annotations

import os
import platform
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch.nn.functional import linear

from .accept import rule_for
from .events import Settings
from .lm import CachedLM
from .theory import interpolate
from .tree import ancestors, children

ROWS = (1, 2, 3, 5, 9, 17, 33, 65, 129)
SMALL = 33
READ = (1, 2, 4, 8, 16, 32, 64)  # rows in which a drafter catches up with the text
REPEATS = 7
ROUND, LATER = 8, 5  # tokens of the rounds that are drafted to be timed, and from which on all take the same
VERIFIED = 5  # rows of the passes between them
ROUNDS_S = 0.2  # for as long at least, since what they take varies
BIT_EXACT, TIE_AWARE = "bit-exact", "tie-aware"


@dataclass(frozen=True, slots=True)
class CostCurve:
    """Seconds for a pass of so many rows, measured on this machine.

    `tree_s` is what a pass takes longer when its rows branch. The others are a draft model's: `choose_s` is what
    choosing a token adds to each drafted one, `after_s` what each of a round's first tokens takes longer than later
    ones, because the target's weights have pushed the draft's out of the processor's cache, and `back_s` what the
    target's next pass takes longer, because the draft's have pushed out the target's.
    """

    rows: tuple[int, ...]
    seconds: tuple[float, ...]
    tree_s: float = 0.0
    after_s: tuple[float, ...] = ()
    choose_s: float = 0.0
    back_s: float = 0.0

    def pass_s(self, rows: int, branches: int = 1) -> float:
        """Seconds for one pass, between the measured points and past them by straight lines."""
        return interpolate(self.rows, self.seconds, rows) + (self.tree_s if branches > 1 else 0.0)

    @property
    def token_s(self) -> float:
        """Seconds for a further drafted token: a one-row pass and the choice."""
        return self.seconds[0] + self.choose_s

    def turning_s(self, k: int) -> float:
        """What a round of `k` drafted tokens costs beyond their own: to get the draft into the cache and out again."""
        return sum(self.after_s[:k]) + self.back_s if k else 0.0

    def scaled(self, by: float) -> CostCurve:
        """The same on a machine that takes `by` times as long."""
        seconds, after_s = (tuple(by * s for s in many) for many in (self.seconds, self.after_s))
        return CostCurve(self.rows, seconds, by * self.tree_s, after_s, by * self.choose_s, by * self.back_s)

    def ratio(self, rows: int) -> float:
        """A pass of so many rows in units of a one-row pass."""
        return self.pass_s(rows) / self.seconds[0]


@dataclass(frozen=True, slots=True)
class Exactness:
    """What the probe saw: rows compared with one-row passes, and how many had other bits."""

    chain_rows: int
    chain_differ: int
    tree_rows: int
    tree_differ: int
    worst: float

    @property
    def kind(self) -> str:
        """ "bit-exact" if every row was identical, else "tie-aware"."""
        return BIT_EXACT if self.chain_differ + self.tree_differ == 0 else TIE_AWARE


def _fork(rows: int) -> list[int]:
    """The parents of a pass whose rows branch at the root."""
    return [-1, 0, 0, *range(2, rows - 1)][:rows]


def pick_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 where small passes take no longer in it and a row has the same bits in any company, else float32.

    A processor without bfloat16 instructions may be quick at it and still round a row differently with every row
    count; float32 does so too, but 65,000 times more finely, and its text does not change.
    """
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    with torch.inference_mode():
        # Weights that no cache holds, as in a model: reading them is what a pass pays for.
        weights = {d: [torch.randn(1024, 512).to(d) for _ in range(24)] for d in (torch.bfloat16, torch.float32)}
        inputs = {d: [torch.randn(rows, 512).to(d) for rows in (1, 4, 8)] for d in weights}
        work = {
            (d, len(x)): lambda x=x, ws=ws: [linear(x, w) for w in ws] for d, ws in weights.items() for x in inputs[d]
        }
        quickest = _in_turns(work, 9, min)  # in turns: a busy machine must not decide
        many = inputs[torch.bfloat16][-1]
        exact = all(
            torch.equal(linear(many, w), torch.cat([linear(row[None], w) for row in many]))
            for w in weights[torch.bfloat16]
        )
    seconds = {d: sum(s for (of, _), s in quickest.items() if of == d) for d in weights}
    return torch.bfloat16 if exact and seconds[torch.bfloat16] <= seconds[torch.float32] else torch.float32


def _timed(work: Callable[[], object]) -> float:
    """Seconds of one run."""
    start = perf_counter()
    work()
    return perf_counter() - start


def quickest_s(lm: CachedLM) -> float:
    """Seconds of the quickest of a few one-row passes behind what is cached."""
    return _in_turns({1: lambda: lm.forward([0])}, LATER + REPEATS, min)[1]


def warm(lm: CachedLM, most_rows: int) -> None:
    """Pass through every row count once, and those in which text is read, behind two lengths of text.

    Kernels are compiled at first use.
    """
    for cached in (32, 160):
        tokens = [1] * (cached + max(most_rows, READ[-1]))
        if len(tokens) > lm.context_length:
            break
        lm.reset()
        lm.extend(tokens[:cached])
        for rows in range(1, most_rows + 1):
            lm.forward(tokens[:rows])
            if rows > 2:
                lm.forward(tokens[:rows], _fork(rows))
        for rows in READ:
            lm.forward(tokens[:rows], only=slice(1))
    lm.reset()


def measure(
    lm: CachedLM,
    rows: Sequence[int] = ROWS,
    repeats: int = REPEATS,
    after: CachedLM | None = None,
    costs: CostCurve | None = None,
) -> CostCurve:
    """Median seconds of a pass of each row count behind a short cached text. Leaves `lm` empty.

    A draft also drafts a few chains, each `after` a pass of its target, as it does in a race; what the target's
    passes then cost is compared with those after passes of its own. Where the target's `costs` were measured while
    the machine was quicker or slower than now, by these passes, the draft's are given as they would have been then.
    """
    draws = random.Random(0)
    tokens = [draws.randrange(lm.vocab) for _ in range(64 + max(rows))]
    rows = [n for n in rows if 64 + n <= lm.context_length] or [1]
    lm.reset()
    lm.extend(tokens[: min(64, lm.context_length - max(rows))])

    fork = min(9, max(rows))
    passes = {n: lambda n=n: lm.forward(tokens[64 : 64 + n]) for n in rows}
    passes["fork"] = lambda: lm.forward(tokens[64 : 64 + fork], _fork(fork))
    # Large passes stretch the cache's buffers, so they are timed after the others.
    median = _in_turns({n: work for n, work in passes.items() if n == "fork" or n <= SMALL}, repeats)
    median |= _in_turns({n: work for n, work in passes.items() if n not in median}, repeats)
    seconds = [median[n] for n in rows]
    tree_s = max(0.0, median["fork"] - interpolate(rows, seconds, fork))
    if not after:
        lm.reset()
        return CostCurve(tuple(rows), tuple(seconds), tree_s)
    places, plain_s, back_s = _drafted(lm, after, repeats)
    lm.reset()
    token_s = max(seconds[0], statistics.median(places[LATER:]))
    after_s = tuple(max(0.0, place_s - token_s) for place_s in places[:LATER])
    curve = CostCurve(tuple(rows), tuple(seconds), tree_s, after_s, token_s - seconds[0], max(0.0, back_s))
    return curve.scaled(costs.pass_s(VERIFIED) / plain_s) if costs else curve


def _drafted(lm: CachedLM, target: CachedLM, repeats: int) -> tuple[list[float], float, float]:
    """Median seconds of a round's first, second, ... drafted token, of a target's pass, and what one takes longer after it."""
    rule = rule_for(Settings())
    held = lm.tokens[: min(62, lm.context_length - ROUND - 1, target.context_length - ROUND)]
    places, plain, longer = [[] for _ in range(ROUND)], [], []
    target.reset()
    target.extend(held)

    def verify() -> object:
        return target.forward(held[:VERIFIED])

    stop = perf_counter() + ROUNDS_S
    while len(longer) <= repeats or perf_counter() < stop:
        turn = len(longer) % lm.vocab
        target.forward([turn])
        plain.append(_timed(verify))
        text = [*held, turn]  # what the target has written since
        feed, start = lm.sync(text), perf_counter()
        for took in places:
            text.append(rule.choose(lm.extend(feed)[0], text).token)
            feed, now = text[-1:], perf_counter()
            took.append(now - start)
            start = now
        longer.append(_timed(verify) - plain[-1])
    target.reset()
    *places, plain_s, longer_s = (
        statistics.median(took[1:]) for took in (*places, plain, longer)
    )  # the first do not count
    return places, plain_s, longer_s


def _in_turns(
    passes: Mapping[Any, Callable[[], object]], repeats: int, of: Callable[[list[float]], float] = statistics.median
) -> dict[Any, float]:
    """Seconds of each (the median, or another `of` them), run in turns: what disturbs the machine for a while then disturbs all alike."""
    times: dict[Any, list[float]] = {name: [] for name in passes}
    for _ in range(repeats + 1):
        for name, work in passes.items():
            times[name].append(_timed(work))
    return {name: of(found[1:]) for name, found in times.items()}


def probe(lm: CachedLM, tokens: int = 48) -> Exactness:
    """Compare chunked and tree-shaped passes with one-row passes, bit by bit. Leaves `lm` empty."""
    draws = random.Random(1)
    tokens = min(tokens, lm.context_length - 1)
    text = [draws.randrange(lm.vocab) for _ in range(tokens)]
    lm.reset()
    alone = [lm.extend([token])[0].clone() for token in text]

    lm.reset()
    chained = []
    while len(lm.tokens) < tokens:
        chunk = text[len(lm.tokens) : len(lm.tokens) + draws.randint(2, 9)]
        chained += list(lm.forward(chunk))
        lm.keep(range(len(chunk)))

    lm.reset()
    lm.extend(text[:1])
    treed: list[tuple[int, torch.Tensor]] = []
    while len(lm.tokens) < tokens - 4:
        start = len(lm.tokens)
        path, guesses, parents = _random_tree(draws, text[start : start + 4], lm.vocab)
        logits = lm.forward(guesses, parents)
        treed += [(start + i, logits[row]) for i, row in enumerate(path)]
        lm.keep(path)
    pairs = [(alone[i], row) for i, row in enumerate(chained)], [(alone[i], row) for i, row in treed]
    lm.reset()
    differ = [sum(not torch.equal(a, b) for a, b in part) for part in pairs]
    worst = max((float((a.float() - b.float()).abs().max()) for part in pairs for a, b in part), default=0.0)
    return Exactness(len(pairs[0]), differ[0], len(pairs[1]), differ[1], worst)


def _random_tree(draws: random.Random, true: Sequence[int], vocab: int) -> tuple[list[int], list[int], list[int]]:
    """A random tree of 10 rows below one root row, with part of the true text hidden on one path."""
    parents = [-1, *(draws.randrange(i) for i in range(1, 10))]
    rows = [draws.randrange(vocab) for _ in parents]
    below = children(parents)
    node = 0
    while below[node + 1] and len(ancestors(parents, node)) < len(true):
        node = draws.choice(below[node + 1])
    path = ancestors(parents, node)
    for row, token in zip(path, true, strict=False):
        rows[row] = token
    return path, rows, parents


def threads() -> int:
    """How many threads torch computes with."""
    return torch.get_num_threads()


def processor() -> str:
    """The processor's name, as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def cores() -> int:
    """Processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
