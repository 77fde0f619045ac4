"""Why do bits differ? The first operator of a pass whose result for a row changes with the company of that row.

Every operator of the target's pass is looked at (`operators`), with the kernels in use and, where these are our own, with
torch's: up to how many rows a row keeps the bits that it has alone, and by how many units in the last place it differs
in the first pass where it does not.

Knows operators. It does not know pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from ..core.numbers import count, counted
from ..family import operators
from ..family.models import Models
from ..family.operators import Kernels
from ..model.attention import WIDEST
from ..model.forward import plain
from .progress import Progress

BY_TORCH = {"bfloat16": torch.bfloat16, "float32": torch.float32}


@dataclass(frozen=True, slots=True)
class Changed:
    """An operator in one number format: rows up to which it keeps a row's bits (`most`; 1: none), from how many rows on it
    does not (`rows`, None where it always does), and by how many units in the last place then."""

    format: str
    name: str
    keys: int
    most: int
    rows: int | None
    units: int | None


@dataclass(frozen=True, slots=True)
class Examined:
    """What has been looked at so far, in the order of a pass; `in_use` names the format that races run in."""

    in_use: str
    operators: tuple[Changed, ...] = ()

    @property
    def sentence(self) -> str:
        """The answer, about the format in use."""
        changed = [one for one in self.operators if one.rows]
        first = next((one for one in changed if one.format == self.in_use), None)
        if first is None:
            answer = (
                f"In {self.in_use} no operator changes a row in passes of up to {WIDEST} rows: no bit differs here."
            )
            return f"{answer} Of torch's the first that would is the {_named(changed[0])}." if changed else answer
        by = "by less than shows in ordinary numbers"
        if first.units:
            by = f"by up to {counted(first.units, 'unit')} in the last place"
        exact = f"; up to {first.most} rows all bits are those of a row alone" if first.most > 1 else ""
        return f"In {self.in_use} the first to change a row is the {_named(first)}, {by}{exact}."


def _named(one: Changed) -> str:
    """Which operator it is, and from where on it changes a row."""
    where = f" behind {count(one.keys)} keys" if one.keys else ""
    return f"{one.name}{where}, from {one.rows} rows on"


def examine(models: Models) -> Iterator[Progress]:
    """Look at every operator; yields what is `Examined` so far, and may be closed at any point."""
    target = models.target
    formats = {models.dtype: Kernels.of(target.passes)}
    if target.passes.batch_invariant:
        formats |= {f"{name} by torch": Kernels(dtype, plain) for name, dtype in BY_TORCH.items()}
    examined, done = Examined(models.dtype), 0
    total = sum(1 for kernels in formats.values() for _ in operators.of(target.passes, kernels))
    for name, kernels in formats.items():
        ordinary = operators.of(target.passes, replace(kernels, natural=True))
        for operator in operators.of(target.passes, kernels):
            yield Progress(done, total, f"{operator.name}, {name}", examined)
            one = _changed(name, operator, next(ordinary))
            examined, done = replace(examined, operators=(*examined.operators, one)), done + 1
    yield Progress(total, total, "done", examined)


def _changed(name: str, operator: operators.Operator, ordinary: operators.Operator) -> Changed:
    most, rows = operators.reach(operator).most, None
    if most < WIDEST:
        rows = 2 if most == 1 else next(n for n in operator.rows if n > most)
    units = operators.units(ordinary, rows) if rows else None
    return Changed(name, operator.name, operator.keys, most, rows, units)
