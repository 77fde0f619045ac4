"""What a reader exports from a race: a table of its passes, and one page that plays it again.

The page is a single file that loads nothing. All text of a trace, perhaps a stranger's, is in base64 or escaped.
"""

import base64
import gzip
import html
import json
import unicodedata
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from ..core.text_files import csv_text
from ..core.tree import ancestors
from ..core.version import VERSION
from . import assets, wire
from .schema import DraftRecord, LaneRecord, RaceRecord

COLUMNS = (
    "lane", "method", "pass", "kind", "rows", "drafted", "draft", "accepted", "tokens", "text", "origins",
    "propose_ms", "verify_ms", "other_ms", "clock_ms", "finish",
)  # fmt: skip
BRANCH = " | "

TITLE, CAPTION = 60, 300  # characters
SECONDS, OTHER = 6, 4  # decimals


def to_csv(trace: RaceRecord) -> str:
    """One row per pass of every lane, as CSV text (RFC 4180); `csv_file` makes a file of it.

    `lane` counts from 0, `pass` from 1, prefill is pass 0. `rows` are those of the target's pass, with the last token's
    own; `drafted` of them can be tested, `draft` is their text (paths of a tree separated by " | "), `accepted` were
    emitted. An opaque lane leaves unknown cells empty. `clock_ms` is the lane's clock after the pass.
    """
    return csv_text(COLUMNS, (row for number, lane in enumerate(trace.lanes) for row in _passes(number, lane)))


def _passes(number: int, lane: LaneRecord) -> Iterator[list[Any]]:
    clock, count = 0.0, 0
    for step in lane.steps:
        verify = step.kind == "verify"
        count, clock = count + verify, clock + (step.seconds if verify else 0.0)
        drafts = verify and not lane.opaque
        yield [
            number, lane.method, count if verify else 0, step.kind,
            1 + len(step.draft.tokens) if drafts else None, step.tested if drafts else None, _paths(step.draft),
            step.accepted, len(step.emitted), "".join(step.pieces), " ".join(step.origins),
            *(round(s * 1e3, 4) for s in (step.propose_s, step.verify_s, step.other_s, clock)), step.finish,
        ]  # fmt: skip


def _paths(draft: DraftRecord) -> str:
    """The text of a draft: its root-to-leaf paths, without the rows that only look further ahead."""
    parents = draft.parents[: len(draft.tokens) - draft.window]
    leaves = [row for row in range(len(parents)) if row not in parents]
    return BRANCH.join("".join(draft.pieces[row] for row in ancestors(parents, leaf)) for leaf in leaves)


def replay_html(trace: RaceRecord, caption: str | None = None, home: str = "") -> str:
    """One self-contained page that plays the race; write it as UTF-8.

    Times are rounded to the microsecond, other numbers to four places. `caption` is the line above the race, by default
    where and when it was recorded; `home` is the address of the app that the page links to.
    """
    caption = _plain(caption or f"A recording from {trace.machine.cpu}, {trace.created[:10]}.", CAPTION)
    return assets.document(
        "replay",
        f"{_plain(trace.prompt.shown, TITLE) or 'A race'} - Lookahead",
        log=_log(trace, caption),
        brand=f'<a href="{html.escape(home)}">Lookahead</a>' if _is_address(home) else "Lookahead",
        lanes=html.escape(_plain(", ".join(lane.method for lane in trace.lanes), CAPTION)),
        origin=html.escape(_plain(_origin(trace), 4 * CAPTION)),
    )


def _is_address(text: str) -> bool:
    """Whether a text is one that a page may link to."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and len(text) < 500


def _origin(trace: RaceRecord) -> str:
    machine, models = trace.machine, trace.models
    drafts = ", ".join(models.drafts.values())
    recorded = "" if trace.version == VERSION else f" by version {trace.version}"
    device = machine.cpu if machine.device == "cpu" else f"{machine.device} beside {machine.cpu}"
    return (
        f"Recorded{recorded} on {trace.created[:10]} on {device}, {machine.cores} cores, {machine.dtype}, "
        f"{trace.exactness}. Target: {models.target}{f'; drafts: {drafts}' if drafts else ''}. Times are that machine's."
    )


def _plain(text: str, most: int) -> str:
    """At most so many characters of one line, without control or format characters and stacked combining marks."""
    out: list[str] = []
    marks = 0
    for character in text:
        kind = unicodedata.category(character)
        marks = marks + 1 if kind[0] == "M" else 0
        if kind[0] in "CZ":
            character = " " if kind[0] == "Z" or kind == "Cc" else ""
        if marks <= 2 and not (character == " " and out[-1:] in ([" "], [])):
            out.append(character)
        if len(out) > most:
            return "".join(out[: most - 3]).rstrip() + "..."
    return "".join(out).strip()


def _log(trace: RaceRecord, caption: str) -> str:
    """The log as JSON, gzip and base64, for `replay.js`: no text of a trace can end its element."""
    events = [rounded(event.plain()) for event in wire.events(trace, caption)]
    batch = {"run": "replay", "i0": 0, "ev": events, "end": True}
    data = json.dumps(batch, allow_nan=False, separators=(",", ":")).encode()
    return base64.b64encode(gzip.compress(data, mtime=0)).decode()


def rounded(value: Any, decimals: int = OTHER) -> Any:
    """Plain data with fewer decimals: seconds ("..._s" and costs) to the microsecond, all else to four places."""
    if isinstance(value, float):
        return round(value, decimals)
    if isinstance(value, dict):
        places = {name: SECONDS if name.endswith("_s") or name == "seconds" else decimals for name in value}
        return {name: rounded(item, places[name]) for name, item in value.items()}
    return [rounded(item, decimals) for item in value] if isinstance(value, (list, tuple)) else value
