"""What the Lab's experiments gave on the machine that the README's table was measured on, to stand beside one's own.

A line that was measured elsewhere than the others says so: "64 texts at once, on an Intel Xeon: 0.51x".

Knows the README's table between its markers, which `lab all --update README.md` writes. It does not know experiments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ..core.events import SettingsError
from .command import MARKS
from .tables import between

README = Path(__file__).parents[2] / "README.md"
ROW = re.compile(r"^\| (?P<title>[^|]+?) +\| [^|]* \| (?P<label>[^|]*): (?P<speedup>[\d.,]+)x +\|", re.MULTILINE)
ELSEWHERE = re.compile(r", on (an? .*)$")


class Median(NamedTuple):
    """The median speedup, of what, and on which machine, in a few words."""

    speedup: float
    label: str
    machine: str


@cache
def published(readme: Path = README) -> Mapping[str, Median]:
    """What stands in the table, by the experiment's title; nothing where there is none."""
    try:
        before, after = between(str(readme), MARKS)
    except SettingsError:
        return {}
    table = readme.read_text(encoding="utf-8")[len(before) : -len(after)]
    usual = ", ".join(table.strip().splitlines()[-1].split(", ")[:2])
    return {row["title"]: _median(row["label"], row["speedup"], usual) for row in ROW.finditer(table)}


def _median(label: str, speedup: str, usual: str) -> Median:
    elsewhere = ELSEWHERE.search(label)
    return Median(float(speedup.replace(",", "")), label, elsewhere[1] if elsewhere else usual)
