"""What the Lab's experiments gave on the machine that the README's table was measured on, to stand beside one's own.

Knows the README's tables between their markers, which `lab` and `batch` write with `--update`. It does not know experiments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ..core.events import SettingsError
from . import batch_command
from .command import MARKS
from .decision import Level
from .tables import between

README = Path(__file__).parents[2] / "README.md"
ROW = re.compile(r"^\| (?P<title>[^|]+?) +\| [^|]* \| (?P<label>[^|]*): (?P<speedup>[\d.,]+)x +\|", re.MULTILINE)


SPEEDUP = re.compile(r"([\d.]+)x \[([\d.]+)x to ([\d.]+)x\]")


class Median(NamedTuple):
    """The median speedup, of what, and on which machine, in a few words."""

    speedup: float
    label: str
    machine: str


@cache
def published(readme: Path = README) -> Mapping[str, Median]:
    """What stands in the table, by the experiment's title; nothing where there is none."""
    table, usual = _table(readme, MARKS)
    return {
        row["title"]: Median(float(row["speedup"].replace(",", "")), row["label"], usual) for row in ROW.finditer(table)
    }


@cache
def batches(readme: Path = README) -> tuple[Mapping[str, Sequence[Level]], str]:
    """The speedups by method over texts at once, and the machine they were measured on; nothing and "" where there are none."""
    table, machine = _table(readme, batch_command.MARKS)
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("|")]
    if not lines:
        return {}, ""
    (_, _, *methods), _, *rows = lines
    return {
        method.strip("`"): [_level(size, cells[column]) for size, _, *cells in rows]
        for column, method in enumerate(methods)
    }, machine


def _level(size: str, cell: str) -> Level:
    speedup, low, high = map(float, SPEEDUP.match(cell).groups())
    return Level(int(size), speedup, (low, high))


def _table(readme: Path, marks: tuple[str, str]) -> tuple[str, str]:
    """What stands between two markers, and the machine that its last line names."""
    try:
        before, after = between(str(readme), marks)
    except SettingsError:
        return "", ""
    table = readme.read_text(encoding="utf-8")[len(before) : -len(after)]
    return table, ", ".join(table.strip().splitlines()[-1].split(", ")[:2])
