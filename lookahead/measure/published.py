"""The tables of the README, which `lab` and `batch` write, as measurements of another machine."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from ..core.events import SettingsError
from .decision import Level
from .tables import split

README = Path(__file__).parents[2] / "README.md"
ARM = re.compile(r"(.*): ([\d.,]+)x")


@cache
def published(readme: Path = README) -> tuple[Mapping[str, tuple[float, str]], str]:
    """Return the experiments' median speedups and measured arms by title, and the machine; nothing and "" without a table."""
    rows, machine = _table(readme, "lab")
    arms = {row[0]: ARM.fullmatch(row[2]) for row in rows}
    return {title: (float(arm[2].replace(",", "")), arm[1]) for title, arm in arms.items() if arm}, machine


@cache
def batches(readme: Path = README) -> tuple[Mapping[str, Sequence[Level]], str]:
    """Return the speedups by method over texts at once, and the machine; nothing and "" without a table."""
    rows, machine = _table(readme, "batch")
    if not rows:
        return {}, ""
    (_, _, *methods), _, *lines = rows
    levels = {}
    for column, method in enumerate(methods, start=2):
        cells = [(line[0], map(float, re.findall(r"[\d.]+", line[column]))) for line in lines]
        levels[method.strip("`")] = [Level(int(size), speedup, (low, high)) for size, (speedup, low, high) in cells]
    return levels, machine


def _table(readme: Path, name: str) -> tuple[list[list[str]], str]:
    """Return the rows of cells between the markers of that name, and the machine of the last line."""
    try:
        _, text, _ = split(readme, name)
    except SettingsError:
        return [], ""
    *_, last = lines = text.strip().splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    return rows, ", ".join(last.split(", ")[:2])
