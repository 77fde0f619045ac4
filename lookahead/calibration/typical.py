"""The pass costs of a typical machine, shipped with a family.

`auto` weighs tokens against pass costs. With costs measured on each machine, the same race would draft other tokens on
another machine. With the shipped costs a race, a recording and a lesson have the same passes everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ..core.costs import PassCosts
from ..model.small_files import fault
from .remembered import possible_costs

FILE = "costs.json"
MOST_LAYERS = 1000


@dataclass(frozen=True, slots=True)
class Typical:
    """The costs, the processor on which they were measured, and how many of the target's layers the `self` drafter has."""

    cpu: str
    costs: PassCosts
    layers: int | None = None


_ADAPTER = TypeAdapter(Typical)


def read(family: Path) -> Typical | None:
    """The costs that the family in this folder ships, or None. Raises `ModelError` if the file is damaged."""
    file = family / FILE
    if not file.is_file():
        return None
    try:
        shipped = _ADAPTER.validate_json(file.read_bytes())
    except (OSError, ValidationError) as error:
        first = error.errors(include_url=False)[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise fault(family, FILE, first) from None
    if not possible_costs(shipped.costs) or not (shipped.layers is None or 1 <= shipped.layers <= MOST_LAYERS):
        raise fault(family, FILE, "no machine can have its costs")
    return shipped


def write(family: Path, typical: Typical) -> None:
    """Ship these costs with the family in this folder."""
    (family / FILE).write_bytes(_ADAPTER.dump_json(typical, indent=1) + b"\n")
