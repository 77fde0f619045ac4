"""Exactness: whether a row of the target's pass has the same bits with other rows as alone.

Our kernels sum every row in a fixed order, so their passes are bit-exact. Libraries such as torch choose a kernel by the
number of rows and keys, and the last bits of a row depend on the kernel. Their passes are tie-aware: two tokens with nearly
equal logits may swap. `probe` compares sampled rows in both cases.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

import torch

from ..core.events import BIT_EXACT, TIE_AWARE, ModelError
from ..core.numbers import count, significant
from ..core.tree import ancestors, is_chain
from ..model.lm import CachedLM

# Lengths of text in tokens, near multiples of the cache's block length.
LENGTHS = (24, 126, 250, 384, 509, 700, 1000, 1021, 1400, 1900)
ROWS = 64  # rows per pass
PATH = 6  # most rows of a pass that are compared
BUDGET_S, AGAIN_S = 0.4, 0.2  # of a probe: at the first start with a model, and at later starts
SHORT = 128  # tokens: passes after texts of at most this length are compared first
WRONG = {torch.float32: 0.01}  # relative to the largest logit: a difference too large for rounding
WRONG_16_BITS = 0.1


@dataclass(frozen=True, slots=True)
class Exactness:
    """The result of a probe. Of `compared` rows, `differ` had other bits; `worst` is the largest difference of a logit."""

    kind: str  # "bit-exact" or "tie-aware"
    compared: int = 0
    differ: int = 0
    worst: float = 0.0

    @property
    def sentence(self) -> str:
        """The result as a sentence."""
        compared = f"{count(self.compared)} compared rows"
        if self.kind == BIT_EXACT:
            return f"A row of a pass has the same bits as alone: all {compared} are identical."
        rows = f"{count(self.differ)} of {compared} differ"
        apart = f", by at most {significant(self.worst)} logits" if self.differ else ""
        return f"The last bits of a row can change with the number of rows in its pass: {rows}{apart}."


@torch.inference_mode()
def probe(lm: CachedLM, budget_s: float = BUDGET_S, seed: int = 0) -> Exactness:
    """Compare rows of chains and trees with rows computed one at a time, for about `budget_s` seconds. Leaves `lm` empty.

    Raises `ModelError` if rows of a tree differ by more than rounding. The model's attention then ignores the tree.
    """
    draws, begin = random.Random(seed), perf_counter()
    most = lm.context_length - PATH - 1
    lengths = [n for n in LENGTHS if n <= most] or [most]
    draws.shuffle(lengths)
    lengths.sort(key=lambda n: n > SHORT)  # a slow model is compared only after short texts
    compared = differ = trees = wrong = 0
    worst, tolerance = 0.0, WRONG.get(lm.passes.dtype, WRONG_16_BITS)
    for chain, same, apart, largest in (row for length in lengths for row in _compared(lm, length, draws)):
        compared, differ, worst = compared + 1, differ + (not same), max(worst, apart)
        trees, wrong = trees + (not chain), wrong + (not chain and apart > tolerance * largest)
        if perf_counter() - begin > budget_s and compared >= 2 * PATH:
            break
    lm.reset()
    if 4 * wrong > trees:
        hint = "its attention does not follow the branches of a draft; choose a plain decoder, such as Llama or Qwen."
        raise ModelError("model", lm.passes.shape.kind, hint)
    exact = lm.passes.batch_invariant and not differ
    return Exactness(BIT_EXACT if exact else TIE_AWARE, compared, differ, worst)


def _compared(lm: CachedLM, length: int, draws: random.Random) -> Iterator[tuple[bool, bool, float, float]]:
    """Yield per row: whether its pass is a chain, whether its bits are equal, the largest difference and logit."""
    text = [draws.randrange(lm.vocab) for _ in range(length + PATH)]
    lm.reset()
    lm.extend(text[:length])
    alone, following = [], text[length:]
    for token in following:
        logits = lm.forward([token])[0].clone()
        alone.append((logits, _newest(lm, 0)))
        lm.keep([0])
    for shape in _shapes(draws):
        if length + len(shape) > lm.context_length:
            continue
        lm.sync(text[: length + 1])
        path = ancestors(shape, max(range(len(shape)), key=lambda row: (len(ancestors(shape, row)), row)))[:PATH]
        rows = [draws.randrange(lm.vocab) for _ in shape]
        for row, token in zip(path, following, strict=False):
            rows[row] = token
        out = lm.forward(rows, shape)
        for row, (logits, stored) in zip(path, alone, strict=False):
            same = torch.equal(out[row], logits) and all(map(torch.equal, _newest(lm, row), stored))
            apart = float((out[row].float() - logits.float()).abs().max())
            yield is_chain(shape), same, apart, float(logits.float().abs().max())


def _newest(lm: CachedLM, row: int) -> list[torch.Tensor]:
    """Return the keys and values of a pending row in every layer."""
    column = len(lm.tokens) + row
    return lm.cache.columns(column, column + 1)


def _shapes(draws: random.Random) -> Sequence[list[int]]:
    """Return the parents of three trees and a chain."""
    bushy = [-1, 0, 0, 0, *(1 + i % 3 for i in range(ROWS - 4))]
    deep = [-1, 0, 0, *range(1, ROWS - 2)]
    drawn = [-1, *(draws.randrange(max(0, i - 4), i) for i in range(1, ROWS))]
    return deep, bushy, drawn, [*range(-1, ROWS - 1)]
