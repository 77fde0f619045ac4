"""The event log: a race as the page receives it, one event after another.

`begin` carries everything but the steps, each `step` a lane's record and clock, `end` the
statistics, the verdict and whether the texts agree. A live race and a recording give the same
log, so the page has one way to show both.

Knows traces. It does not know how events travel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..drafting import level_rows
from . import trust
from .schema import RaceRecord, StepRecord


def begin(
    trace: RaceRecord, *, live: bool, caption: str | None = None, link: str | None = None, at: int | None = None
) -> dict[str, Any]:
    """The first event: the trace without its steps.

    `link` is the query that brings this race back; `at` the pass of the last lane where a link wants the playhead. `modelled`
    are the sources of drafts that a draft model or a trained head computes.
    """
    place = {"live": live, "caption": caption, "link": link, "pass": at}
    return {"kind": "begin", **place, "modelled": list(level_rows({})), "trace": trace.header()}


def status(text: str, fraction: float | None = None) -> dict[str, Any]:
    """What the server is doing before the first step."""
    return {"kind": "status", "text": text, "fraction": fraction}


def step(lane: int, clock_s: float, record: StepRecord) -> dict[str, Any]:
    """One lane's step; `clock_s` is that lane's clock at its end, prefill excluded."""
    return {"kind": "step", "lane": lane, "clock_s": round(clock_s, 7), "step": record.model_dump(mode="json")}


def end(trace: RaceRecord | None, reason: str, message: str | None = None) -> dict[str, Any]:
    """The last event. `reason`: finished, stopped or error; `trace` is None when nothing ran. `drafted` has what servers tell
    at the end of what they drafted in each pass."""
    lanes = range(len(trace.lanes)) if trace else ()
    counts = [[step.drafted for step in lane.steps] for lane in trace.lanes] if trace else []
    return {
        "kind": "end",
        "reason": reason,
        "message": message,
        "stats": [trace.stats(i) for i in lanes],
        "agreement": [trace.agreement(i) for i in lanes],
        "verdict": trace.verdict() if lanes else None,
        "trust": trust.of(trace) if lanes else None,
        "drafted": counts if any(any(of) for of in counts) else None,
    }


def requested(message: str, chips: Sequence[str]) -> dict[str, Any]:
    """The only event of a race that somebody has asked for and nobody has run: what it would be, in words."""
    return {
        "kind": "end",
        "reason": "asked",
        "message": message,
        "chips": list(chips),
        "stats": [],
        "agreement": [],
        "verdict": None,
    }


def events(
    trace: RaceRecord, caption: str | None = None, link: str | None = None, at: int | None = None
) -> list[dict[str, Any]]:
    """A recording's whole log: steps in the order in which the lanes' clocks reached them."""
    laps = []
    for i, lane in enumerate(trace.lanes):
        clock = 0.0
        for record in lane.steps:
            start = clock
            clock += record.seconds if record.kind == "verify" else 0.0
            laps.append((record.kind != "prefill", start, i, clock, record))
    laps.sort(key=lambda lap: lap[:3])
    steps = [step(i, clock, record) for _, _, i, clock, record in laps]
    return [begin(trace, live=False, caption=caption, link=link, at=at), *steps, end(trace, "finished")]
