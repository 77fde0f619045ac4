"""The pass costs of a typical machine, shipped with a family. With them, `auto` makes the same passes on every machine."""

from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ..model.small_files import file_error
from .measurements import PossibleCosts

FILE = "costs.json"


@dataclass(frozen=True, slots=True)
class Typical:
    """Pass costs, and the processor on which they were measured."""

    cpu: str
    costs: PossibleCosts


_ADAPTER = TypeAdapter(Typical)


def read(family: Path) -> Typical | None:
    """Return the costs in a family's folder, None without a file. Raises `ModelError` if the file is damaged."""
    file = family / FILE
    if not file.is_file():
        return None
    try:
        return _ADAPTER.validate_json(file.read_bytes())
    except (OSError, ValidationError) as error:
        first = error.errors(include_url=False)[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise file_error(family, FILE, first) from None


def write(family: Path, typical: Typical) -> None:
    """Write the costs into a family's folder."""
    (family / FILE).write_bytes(_ADAPTER.dump_json(typical, indent=1) + b"\n")
