"""How far a row of the target's pass has the same bits in company as alone, and the badge that follows.

Speculation leaves the text unchanged only as far as a row's logits do not depend on the rows that are computed beside
it. Whether they do is a property of the processor, the number format, the model's shapes and the number of rows and
keys, since libraries choose another kernel for each. Our own kernels add in one order by construction; of others `find` looks at every operator of a pass at every
row count and on both sides of the buffers' lengths (`operators`). In any case it then lets the model itself compute chains, bushy, deep and
random trees behind texts of several lengths and compares logits, keys and values with those of rows fed one by one.

Of a GPU's passes nothing is promised for trees: a branch leaves a gap between the keys that a row sees, and the kernels'
sums are grouped by columns. (Measured on an H200: chains gave naive's text 60 times of 60, trees 33 times of 36.) Where
chains of different row counts differ too, it tries passes that are all filled up to one row count.

What it finds is a number of rows, and `CachedLM` stays inside: a wider pass is computed as several, a narrower one than
`least` is filled up with rows nobody looks at. Where nothing holds, ties between two logits may fall either way, and the
page says so.

Knows models and CachedLM. It does not know strategies or text, nor where results are kept.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from time import perf_counter

import torch

from ..core.events import BIT_EXACT, TIE_AWARE
from ..core.numbers import count
from ..core.tree import Limits, ancestors
from ..model.attention import WIDEST
from ..model.cache import BLOCK
from ..model.lm import CachedLM
from . import operators

LENGTHS = (24, 126, 250, 384, 509, 700, 1000, 1021, 1400, 1900)  # of text, at both sides of the cache's blocks
FEWEST = 8  # rows that a pass must be able to have for the word to be worth anything
SOON, SOON_AGAIN = 512, 128  # tokens of text: the passes behind them come first; at a start that remembers
WRITTEN = 6  # rows that are fed one by one behind each length
BUDGET_S = 1.2  # for the passes of the model itself
SAMPLE_S = 0.4  # the same where they are exact by construction
AGAIN_S = 0.2  # the same at a start that remembers
GPU_S, LEAST_ON_GPU = 3.0, 200  # the same on a GPU, whose first passes are slow, and rows to compare in any case
COUNTS = (2, 4, 8, 16, 32, 64)  # rows of the chains that are compared there: its kernels depend on the row count
FIXED = 16  # rows of every pass, where passes of different row counts differ


@dataclass(frozen=True, slots=True)
class Exactness:
    """What was found: rows up to which a chain and a tree have the bits of lone rows; 1 is none.

    `reach` is the longest text for which that holds, None for the whole context. `limits` is how passes are kept within
    it. `compared` rows of real passes were compared, `differ` had other bits, by `worst` at most in a logit. `reaches`
    are the operators one by one.
    """

    chain_rows: int
    tree_rows: int
    reach: int | None
    limits: Limits
    compared: int = 0
    differ: int = 0
    worst: float = 0.0
    reaches: tuple[operators.Reach, ...] = ()

    @property
    def kind(self) -> str:
        """ "bit-exact" or "tie-aware"."""
        return BIT_EXACT if self.chain_rows > 1 else TIE_AWARE

    @property
    def whole(self) -> bool:
        """Whether it holds for trees too, and to the end of the context."""
        return self.kind == BIT_EXACT and self.tree_rows > 1 and self.reach is None

    def kind_for(self, tokens: int) -> str:
        """The same for a text that may grow to so many tokens."""
        return self.kind if self.reach is None or tokens <= self.reach else TIE_AWARE

    @property
    def sentence(self) -> str:
        """How far it holds, in words."""
        if self.kind == TIE_AWARE:
            culprit = next((r.name for r in self.reaches if r.most == 1), None)
            why = f": the operator {culprit} rounds a row differently with the number of rows" if culprit else ""
            return f"A row's last bits depend on the rows beside it{why}."
        ends = "" if self.reach is None else f", in texts of up to {count(self.reach)} tokens"
        trees = f"trees up to {self.tree_rows}" if self.tree_rows > 1 else "not for trees"
        return f"Bit-exact for chains up to {self.chain_rows} rows, {trees}{ends}. Wider passes are computed in several parts."


def find(lm: CachedLM, by_operators: Exactness | None = None) -> Exactness:
    """Look at the operators, unless that has been done (`by_operators`), then at the model.

    Leaves `lm` empty, keeping to the limits of the result.
    """
    if _on_gpu(lm):
        return _of_gpu(lm)
    by_operators = by_operators or of_operators(lm)
    budget_s = SAMPLE_S if lm.passes.batch_invariant else BUDGET_S
    return confirm(lm, by_operators, budget_s if by_operators.kind == BIT_EXACT else AGAIN_S)


def _on_gpu(lm: CachedLM) -> bool:
    """Whether its passes are computed by something else than a processor."""
    return lm.device.type != "cpu"


def _of_gpu(lm: CachedLM) -> Exactness:
    """What passes of a GPU allow: of any row count, or of a fixed one, or none."""
    for least, most in ((1, WIDEST), (FIXED, FIXED)):
        result = confirm(lm, Exactness(most, 1, None, Limits(least, most, most)), GPU_S)
        if result.kind == BIT_EXACT:
            break
    return result


def of_operators(lm: CachedLM) -> Exactness:
    """What the operators one by one allow, or how they are made."""
    if lm.passes.batch_invariant:
        return Exactness(WIDEST, WIDEST, None, Limits(1, WIDEST, WIDEST))
    kernels = operators.Kernels.of(lm.passes)
    reaches = tuple(operators.reach(operator) for operator in operators.of(lm.passes, kernels))
    rows, least = min(r.most for r in reaches), max(r.least for r in reaches)
    columns = min((r.columns for r in reaches if r.keys and r.columns < r.asked), default=None)
    if rows < FEWEST or columns == 0:
        return Exactness(1, 1, None, Limits(), reaches=reaches)
    tile = operators.tile(lm.passes.shape, kernels) if lm.passes.by_branch else None
    limits = Limits(least, rows, rows if tile else 1, tile or 1, columns)
    return Exactness(rows, limits.tree_rows, None if columns is None else columns - BLOCK, limits, reaches=reaches)


@torch.inference_mode()
def confirm(lm: CachedLM, result: Exactness, budget_s: float, seed: int = 0) -> Exactness:
    """Compare passes of the model itself with rows fed one by one, for about `budget_s` seconds, and count them.

    Where one differs nothing is promised any more, and passes need not keep to anything.
    """
    draws, begin = random.Random(seed), perf_counter()
    lm.limits = result.limits
    most = min(result.reach or lm.context_length, lm.context_length) - WRITTEN - 1
    lengths = [n for n in LENGTHS if n <= most] or [most]
    draws.shuffle(lengths)
    soon = SOON if budget_s > AGAIN_S else SOON_AGAIN
    lengths.sort(key=lambda n: n > soon)  # of a slow model only the short ones are reached
    apart: list[float | None] = []  # None where all bits are the same
    chains, trees, least = [max(2, result.chain_rows)], max(2, result.tree_rows), WRITTEN
    if _on_gpu(lm):
        chains, least = [n for n in COUNTS if n <= chains[0]], LEAST_ON_GPU
    for same, difference in chain.from_iterable(_compared(lm, behind, chains, trees, draws) for behind in lengths):
        apart.append(None if same else difference)
        if perf_counter() - begin > budget_s and len(apart) > least:
            break
    lm.reset()
    differ = [difference for difference in apart if difference is not None]
    result = replace(
        result,
        compared=result.compared + len(apart),
        differ=result.differ + len(differ),
        worst=max([result.worst, *differ]),
    )
    if differ:
        result = replace(result, chain_rows=1, tree_rows=1, reach=None, limits=Limits())
    lm.limits = result.limits
    return result


def _compared(
    lm: CachedLM, behind: int, chains: Sequence[int], tree_rows: int, draws: random.Random
) -> Iterator[tuple[bool, float]]:
    """Rows of several shapes behind so many tokens: whether all has the bits of lone rows, and how far logits differ."""
    text = [draws.randrange(lm.vocab) for _ in range(behind + WRITTEN)]
    lm.reset()
    lm.extend(text[:behind])
    alone, ahead = [], text[behind:]
    for token in ahead:
        logits = lm.forward([token])[0].clone()
        alone.append((logits, _newest(lm, 0)))
        lm.keep([0])
    for shape in _shapes(chains, tree_rows, draws):
        if behind + len(shape) > lm.context_length:
            continue
        lm.sync(text[: behind + 1])
        path = ancestors(shape, max(range(len(shape)), key=lambda row: (len(ancestors(shape, row)), row)))[:WRITTEN]
        rows = [draws.randrange(lm.vocab) for _ in shape]
        for row, token in zip(path, ahead, strict=False):
            rows[row] = token
        out = lm.forward(rows, shape)
        for row, (logits, stored) in zip(path, alone, strict=False):
            same = torch.equal(out[row], logits) and all(map(torch.equal, _newest(lm, row), stored))
            yield same, float((out[row].float() - logits.float()).abs().max())


def _newest(lm: CachedLM, row: int) -> list[torch.Tensor]:
    """Keys and values of a pending row, of every layer."""
    at = len(lm.tokens) + row
    return lm.cache.columns(at, at + 1)


def _shapes(chains: Sequence[int], tree_rows: int, draws: random.Random) -> list[list[int]]:
    """The parents of chains of so many rows, and of trees: three branches that end in many leaves, two long ones, and any."""
    bushy = [-1, 0, 0, 0, *(1 + i % 3 for i in range(tree_rows - 4))][:tree_rows]
    deep = [-1, 0, 0, *range(1, tree_rows - 2)][:tree_rows]
    drawn = [-1, *(draws.randrange(max(0, i - 4), i) for i in range(1, tree_rows))]
    return [*([*range(-1, rows - 1)] for rows in chains), bushy, deep, drawn]
