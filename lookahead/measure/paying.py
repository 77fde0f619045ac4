"""Up to how many texts at once does speculation pay? One sentence with its interval, from speedups at several loads.

Knows numbers. It does not know what was measured, in our loop or at a server.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import log2
from typing import NamedTuple

from ..core.events import SettingsError
from ..core.numbers import count, ratio

MOST_LEVELS = 16
PAYS = 1.03  # a speedup that is worth switching on


class Level(NamedTuple):
    """A load: texts at once, the speedup there (None: not measured), and its interval where there is one."""

    at_once: int
    speedup: float | None
    interval: tuple[float, float] | None = None


def crossing(levels: Sequence[Level]) -> float | None:
    """At how many texts at once speculation stops paying: between two loads by a straight line over their logarithms; None
    where it does not."""
    for one, other in pairwise(level for level in levels if level.speedup):
        if one.speedup >= 1 > other.speedup:
            share = (one.speedup - 1) / (one.speedup - other.speedup)
            return 2 ** (log2(one.at_once) + log2(other.at_once / one.at_once) * share)
    return None


def advice(levels: Sequence[Level]) -> str:
    """One sentence: up to how many at once it pays, how much, and from where on it does not."""
    known = [level for level in levels if level.speedup]
    if not known:
        return "Nothing was measured: no text was written by both servers."
    paying = []
    for level in known:
        low = level.interval[0] if level.interval else level.speedup
        if level.speedup < PAYS or low < 1:
            break
        paying.append(level)
    if not paying:
        return f"Off: {_shown(known[0])} for {_up_to(known[0].at_once)}."
    first, last, rest = paying[0], paying[-1], known[len(paying) :]
    sentence = f"On for {_up_to(last.at_once)}: {_shown(last)}"
    if first is not last:
        sentence += f", {_shown(first)} for {_up_to(first.at_once)}"
    if any(level.speedup < 1 for level in rest):
        sentence += f"; off from {count(round(crossing(levels) or rest[0].at_once))} on"
    elif rest:
        sentence += f"; no sure difference with {rest[0].at_once} ({_shown(rest[0])})"
    return f"{sentence}."


def _up_to(at_once: int) -> str:
    return "one text at a time" if at_once == 1 else f"up to {at_once} at once"


def _shown(level: Level) -> str:
    """A speedup with its interval."""
    text = ratio(level.speedup)
    return f"{text} [{ratio(level.interval[0])[:-1]}, {ratio(level.interval[1])[:-1]}]" if level.interval else text


def read_levels(name: str, text: str, most: int) -> list[int]:
    """Rising numbers of texts at once, from "1,4,16"; `name` is what the setting is called."""
    try:
        levels = sorted({int(part) for part in text.split(",")})
    except ValueError:
        levels = []
    if not levels or not 1 <= levels[0] <= levels[-1] <= most or len(levels) > MOST_LEVELS:
        raise SettingsError(name, text, f"give up to {MOST_LEVELS} numbers from 1 to {most}: 1,4,16.")
    return levels
