"""The target's passes measured on this machine by format and threads, and the words for the numbers.

Which combination is quickest, whether it is what races run with, and if not, why; and how much of what memory
gives a pass makes use of. The words follow from the numbers, and what was not measured is not said.

Knows numbers. It does not know models or clocks: those are in `machine`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..calibration.exactness import Exactness
from ..core.events import BIT_EXACT
from ..core.numbers import counted, decimal, percent, seconds, size, speed
from ..core.theory import interpolate

CLOSE = 1.05  # quicker by less than this is not quicker
FEW, MANY = 1, 9  # rows of a naive pass, and of one that verifies eight drafted tokens
LEAST = 3  # visits before anything is said
WAITING = 0.5  # of memory's speed: from here on a pass is mostly reading


@dataclass(frozen=True, slots=True)
class Passes:
    """The target's passes in one number format with so many threads, None on a GPU.

    `pass_s[i]` is the median of a pass of `rows[i]`, in seconds; there are none before the first visit, nor where
    `left_out` says why. `weight_bytes` is what a pass reads of the weights.
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
        if self.threads is None:
            return self.dtype
        return f"{self.dtype} with {counted(self.threads, 'thread')}"

    @property
    def bytes_per_s(self) -> float:
        """How fast a one-row pass gets through the weights."""
        return self.weight_bytes / self.pass_s[0]

    def seconds(self, rows: int) -> float:
        """Of a pass of so many rows, by straight lines between the measured ones."""
        return interpolate(self.rows, self.pass_s, rows)


@dataclass(frozen=True, slots=True)
class Memory:
    """How fast so many threads, None on a GPU, read what no cache holds."""

    threads: int | None
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Compared:
    """What is known so far: every combination, what memory gives, and how many visits each has had.

    `probed` is the exactness of the format that is not in use, None where it has not been probed.
    """

    passes: tuple[Passes, ...]
    memory: tuple[Memory, ...] = ()
    visits: int = 0
    probed: Exactness | None = None

    @property
    def measured(self) -> tuple[Passes, ...]:
        """The combinations with numbers."""
        return tuple(one for one in self.passes if one.pass_s)

    @property
    def in_use(self) -> Passes:
        """What races run with."""
        return next(one for one in self.passes if one.in_use)

    @property
    def quickest(self) -> Passes:
        """By a one-row and a nine-row pass together: naive decoding lives on the one, drafting on the other."""
        return min(self.measured, key=_both)

    def given(self, one: Passes) -> float:
        """What memory gives as many threads, in bytes per second; 0 before it was measured."""
        return next((m.bytes_per_s for m in self.memory if m.threads == one.threads), 0.0)

    def share(self, one: Passes) -> float | None:
        """The speed at which a one-row pass gets through its weights, as a share of what memory gives."""
        return one.bytes_per_s / self.given(one) if one.pass_s and self.given(one) else None


def _both(one: Passes) -> float:
    return one.seconds(FEW) + one.seconds(MANY)


def verdict(compared: Compared) -> str:
    """One sentence: what is quickest here, whether it is in use, and if not, why. Nothing before a few visits to all."""
    if compared.visits < LEAST or len(compared.measured) < 2 or compared.in_use.rows[-1] < MANY:
        return ""
    best, used = compared.quickest, compared.in_use
    took = f"{seconds(best.seconds(FEW))} for one row, {seconds(best.seconds(MANY))} for nine"
    many = min(compared.measured, key=lambda one: one.seconds(MANY))
    if best is used and best.seconds(MANY) < CLOSE * many.seconds(MANY):
        return f"Quickest here is {best.name} ({took}), and that is what is in use."
    if best is used:
        return (
            f"Quickest here for one row and nine together is {best.name} ({took}), and that is what is in use; "
            f"for nine alone it is {many.name} ({seconds(many.seconds(MANY))})."
        )
    ratio = _both(used) / _both(best)
    if ratio < CLOSE:
        return (
            f"In use is {used.name}, and nothing here is quicker by more than measurements vary ({percent(CLOSE - 1)})."
        )
    return (
        f"Quickest here is {best.name} ({took}), {decimal(ratio)} times as quick as {used.name}, which is in use: "
        f"{_why(compared, best, used)}."
    )


def _why(compared: Compared, best: Passes, used: Passes) -> str:
    """Why what is quickest is not in use."""
    if best.dtype == used.dtype:
        return f"the app takes the thread count that torch starts with; OMP_NUM_THREADS={best.threads} would change it"
    if used.threads is None:
        return f"on a GPU {used.dtype} is taken wherever there is hardware for it, and larger models win by it"
    if used.dtype == "bfloat16":
        return "bfloat16 was not clearly slower in the trial at load, passes of 1 and 9 rows together, and is exact"
    rule = "bfloat16 is taken only where it is quick and exact"
    if compared.probed is None or compared.probed.kind == BIT_EXACT:
        return f"{rule}, and the trial at load did not find it so"
    return f"{rule}, and in bfloat16 a row comes out with other bits in company than alone"


def reading(compared: Compared) -> str:
    """How fast the one-row pass in use gets through its weights, beside what memory gives, and what follows."""
    used = compared.in_use
    share = compared.share(used)
    if share is None or compared.visits < LEAST:
        return ""
    weights, reached, given = size(used.weight_bytes), speed(used.bytes_per_s), speed(compared.given(used))
    if share > 1:
        where = "processor" if used.threads else "device"
        return (
            f"A one-row pass gets through its {weights} of weights at {reached}, where memory gives {given}: "
            f"the weights fit in the {where}'s cache."
        )
    rate = (
        f"A one-row pass reads its {weights} of weights at {reached}, {percent(share)} of the {given} that memory gives"
    )
    if share >= WAITING:
        return f"{rate}: it mostly waits for them, so more rows come nearly for nothing."
    took, alone = seconds(used.pass_s[0]), seconds(used.weight_bytes / compared.given(used))
    return f"{rate}: reading alone would take {alone} of the {took}; starting kernels and computing take the rest."
