"""Where a one-row pass's time goes: how long its weights take at memory's speed, and what takes the rest.

No pass can be quicker than memory delivers its weights. How fast that is, is measured by adding up a buffer as large as
the model, which lies in the same caches as the model would. The parts of the pass are timed alone, over all layers and
in turns with the whole pass; what they leave of it is the norms and the starting of kernels.

Knows models and clocks. It does not know pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch

from ..calibration.cost import interleaved
from ..family.models import Models
from ..model.lm import CachedLM
from .progress import Progress

CACHED = 64  # tokens behind which the pass is timed
TURNS, IN_A_ROW = 12, 3
READING, LAYERS, ATTENTION, HEAD, REST = (
    "reading at memory's speed",
    "layers' products",
    "attention",
    "head",
    "the rest",
)


@dataclass(frozen=True, slots=True)
class PassParts:
    """One model's one-row pass, in seconds: `pass_s` the whole; `layers_s`, `attention_s` and `head_s` what these take
    alone, None where a model's passes cannot be taken apart. `bytes_per_s` is how fast a buffer of `weight_bytes`, which
    a pass reads, is read."""

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
    def segments(self) -> dict[str, float]:
        """Seconds by name, in the order of a bar; together they are the pass. The products' reading is in the first."""
        rest = max(0.0, self.pass_s - self.limit_s)
        if self.layers_s is None:
            return {READING: self.pass_s - rest, REST: rest}
        products_s = self.layers_s + self.head_s
        beyond_s = max(0.0, products_s - self.limit_s)
        named = {LAYERS: beyond_s * self.layers_s / products_s, ATTENTION: self.attention_s}
        named[HEAD] = beyond_s - named[LAYERS]
        # Alone a part may take longer than in its place.
        fits = min(1.0, rest / sum(named.values())) if rest else 0.0
        named = {name: fits * part_s for name, part_s in named.items()}
        return {READING: self.pass_s - rest, **named, REST: rest - sum(named.values())}


def take_apart(models: Models, turns: int = TURNS) -> Iterator[Progress]:
    """The target's pass and every drafter's; yields a tuple of the `PassParts` so far, and may be closed at any point."""
    lms = {"target": models.target, **models.drafts}
    done: tuple[PassParts, ...] = ()
    for role, lm in lms.items():
        yield Progress(len(done), len(lms), role, done)
        done = (*done, parts_of(role, lm.fresh(), turns))
    yield Progress(len(lms), len(lms), "done", done)


@torch.inference_mode()
def parts_of(role: str, lm: CachedLM, turns: int = TURNS) -> PassParts:
    """Measure one model, whose cache is empty: the quickest of all turns, of everything alike."""
    cached = min(CACHED, lm.context_length - 1)
    lm.extend([1] * cached)
    stream = torch.ones(max(1, lm.passes.read_bytes // 4), device=lm.device)

    def read() -> None:
        stream.sum()
        lm.synchronize()

    works, parts = [read, partial(lm.forward, [1])], lm.passes.parts(cached)
    works += parts or ()
    # Each several times in a row, for what ran before has pushed these weights out of the cache.
    turn_s = [[interleaved([work], IN_A_ROW, min)[0] for work in works] for _ in range(turns)]
    stream_s, pass_s, *parts_s = map(min, zip(*turn_s, strict=True))
    return PassParts(role, lm.passes.read_bytes, stream.nbytes / stream_s, pass_s, *parts_s)
