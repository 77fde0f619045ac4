"""Read the tables in docs/benchmarks.md that `lab --update` and `batch --update` wrote: results from another machine."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from ..core.events import SettingsError
from ..core.folders import ASSETS
from .decision import Level
from .tables import split

_PACKAGED = ASSETS / "benchmarks.md"
BENCHMARKS = _PACKAGED if _PACKAGED.is_file() else ASSETS.parent / "docs" / "benchmarks.md"
ARM = re.compile(r"(.*): ([\d.,]+)x")


@cache
def published(page: Path = BENCHMARKS) -> tuple[Mapping[str, tuple[float, str]], str]:
    """Return the median speedup and the arm of each experiment by title, and the machine; ({}, "") if there is no table."""
    rows, machine = _table(page, "lab")
    arms = {row[0]: ARM.fullmatch(row[2]) for row in rows}
    return {title: (float(arm[2].replace(",", "")), arm[1]) for title, arm in arms.items() if arm}, machine


@cache
def batches(page: Path = BENCHMARKS) -> tuple[Mapping[str, Sequence[Level]], str]:
    """Return the speedups of each method by number of texts at once, and the machine; ({}, "") if there is no table."""
    rows, machine = _table(page, "batch")
    if not rows:
        return {}, ""
    (_, _, *methods), _, *lines = rows
    levels = {}
    for column, method in enumerate(methods, start=2):
        cells = [(line[0], map(float, re.findall(r"[\d.]+", line[column]))) for line in lines]
        levels[method.strip("`")] = [Level(int(size), speedup, (low, high)) for size, (speedup, low, high) in cells]
    return levels, machine


def _table(page: Path, name: str) -> tuple[list[list[str]], str]:
    """Return the rows of cells between the markers of that name, and the machine in the last line."""
    try:
        _, text, _ = split(page, name)
    except SettingsError:
        return [], ""
    *_, last = lines = text.strip().splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    return rows, ", ".join(last.split(", ")[:2])
