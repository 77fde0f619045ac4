"""What a measurement of this machine has found, and the words for it: the target's passes by format and threads.

Which combination is quickest, whether it is what races run with, and if not, why; and how much of what memory
gives a pass makes use of. The words follow from the numbers, and what was not measured is not said.

Knows numbers. It does not know models or clocks: those are in `machine`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..cost import BIT_EXACT, Exactness
from ..theory import interpolate

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
        return f"{self.dtype} with {self.threads} {'thread' if self.threads == 1 else 'threads'}"

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


def verdict(found: Compared) -> str:
    """One sentence: what is quickest here, whether it is in use, and if not, why. Nothing before a few visits to all."""
    if found.visits < LEAST or len(found.measured) < 2 or found.in_use.rows[-1] < MANY:
        return ""
    best, used = found.quickest, found.in_use
    took = f"{_ms(best.seconds(FEW))} for one row, {_ms(best.seconds(MANY))} for nine"
    many = min(found.measured, key=lambda one: one.seconds(MANY))
    if best is used and best.seconds(MANY) < CLOSE * many.seconds(MANY):
        return f"Quickest here is {best.name} ({took}), and that is what is in use."
    if best is used:
        return (
            f"Quickest here for one row and nine together is {best.name} ({took}), and that is what is in use; "
            f"for nine alone it is {many.name} ({_ms(many.seconds(MANY))})."
        )
    ratio = _both(used) / _both(best)
    if ratio < CLOSE:
        return f"In use is {used.name}, and nothing here is quicker by more than measurements vary ({CLOSE - 1:.0%})."
    return (
        f"Quickest here is {best.name} ({took}), {ratio:.2f} times as quick as {used.name}, which is in use: "
        f"{_why(found, best, used)}."
    )


def _why(found: Compared, best: Passes, used: Passes) -> str:
    """Why what is quickest is not in use."""
    if best.dtype == used.dtype:
        return f"the app takes the thread count that torch starts with; OMP_NUM_THREADS={best.threads} would change it"
    if used.threads is None:
        return f"on a GPU {used.dtype} is taken wherever there is hardware for it, and larger models win by it"
    if used.dtype == "bfloat16":
        return "bfloat16 was as quick in the trial at load, on weights that no cache holds, and exact"
    rule = "bfloat16 is taken only where it is quick and exact"
    if found.probed is None or found.probed.kind == BIT_EXACT:
        return f"{rule}, and the trial at load did not find it so"
    differ = found.probed.chain_differ + found.probed.tree_differ
    rows = found.probed.chain_rows + found.probed.tree_rows
    return f"{rule}, and in bfloat16 {differ} of {rows} rows come out with other bits in company than alone"


def reading(found: Compared) -> str:
    """How fast the one-row pass in use gets through its weights, beside what memory gives, and what follows."""
    used = found.in_use
    share = found.share(used)
    if share is None or found.visits < LEAST:
        return ""
    size, reached, given = f"{used.weight_bytes / 1e6:.1f} MB", _speed(used.bytes_per_s), _speed(found.given(used))
    if share > 1:
        where = "processor" if used.threads else "device"
        return (
            f"A one-row pass gets through its {size} of weights at {reached}, where memory gives {given}: "
            f"the weights fit in the {where}'s cache."
        )
    told = f"A one-row pass reads its {size} of weights at {reached}, {share:.0%} of the {given} that memory gives"
    if share >= WAITING:
        return f"{told}: it mostly waits for them, so more rows come nearly for nothing."
    took, alone = _ms(used.pass_s[0]), _ms(used.weight_bytes / found.given(used))
    return f"{told}: reading alone would take {alone} of the {took}; starting kernels and computing take the rest."


def _ms(seconds: float) -> str:
    return f"{three(1e3 * seconds)} ms"


def _speed(bytes_per_s: float) -> str:
    return f"{three(bytes_per_s / 1e9)} GB/s"


def three(x: float) -> str:
    """Three digits."""
    return f"{x:.2f}" if x < 9.995 else f"{x:.1f}" if x < 99.95 else f"{x:.0f}"
