"""The pass costs of a typical machine, shipped with a family.

`auto` weighs tokens against pass costs. With costs measured on each machine, the same race would draft other tokens on
another machine. With the shipped costs a race, a recording and a lesson have the same passes everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ..core.costs import PassCosts
from .remembered import possible_costs

FILE = "costs.json"


@dataclass(frozen=True, slots=True)
class Typical:
    """The costs, the processor on which they were measured, and how many of the target's layers the `self` drafter has."""

    cpu: str
    costs: PassCosts
    layers: int | None = None


_ADAPTER = TypeAdapter(Typical)


def read(family: Path) -> Typical | None:
    """The costs that the family in this folder ships; None if there are none, or if the file is damaged."""
    try:
        typical = _ADAPTER.validate_json((family / FILE).read_bytes())
    except (OSError, ValidationError):
        return None
    return typical if possible_costs(typical.costs) and (typical.layers is None or typical.layers >= 1) else None


def write(family: Path, typical: Typical) -> None:
    """Ship these costs with the family in this folder."""
    (family / FILE).write_bytes(_ADAPTER.dump_json(typical, indent=1) + b"\n")
