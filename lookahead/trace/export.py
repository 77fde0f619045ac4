"""Export a race as a CSV table of its passes, or as a single-file page with its text in base64 or escaped."""

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
    "propose_ms", "verify_ms", "mask_ms", "other_ms", "clock_ms", "finish",
)  # fmt: skip
TITLE, CAPTION = 60, 300  # maximum lengths in characters
SECONDS, OTHER = 6, 4  # decimal places of seconds, and of other numbers


def to_csv(trace: RaceRecord) -> str:
    """Return one row per pass of every lane as CSV text (RFC 4180). `csv_file` encodes it as a file.

    `lane` counts from 0, `pass` from 1; prefill is pass 0. `rows` counts the rows of the target's pass, with the root.
    `drafted` counts testable rows, and `draft` is their text; " | " separates the paths of a tree. `accepted` counts
    emitted ones. Unknown cells of an opaque lane are empty. `clock_ms` is the lane's clock after the pass.
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
            *(round(s * 1e3, 4) for s in (step.propose_s, step.verify_s, step.mask_s, step.other_s, clock)), step.finish,
        ]  # fmt: skip


def _paths(draft: DraftRecord) -> str:
    """Return the text of a draft's root-to-leaf paths, without window rows."""
    parents = draft.parents[: len(draft.tokens) - draft.window]
    leaves = [row for row in range(len(parents)) if row not in parents]
    return " | ".join("".join(draft.pieces[row] for row in ancestors(parents, leaf)) for leaf in leaves)


def replay_html(trace: RaceRecord, caption: str | None = None, app_url: str = "") -> str:
    """Return a self-contained HTML page that plays the race, to be saved as UTF-8.

    Times are rounded to the microsecond, other numbers to four decimals. `caption` is the line above the race; by default
    it names the machine and the date. The page links to the app at `app_url`.
    """
    caption = _one_line(caption or f"A recording from {trace.machine.cpu}, {trace.created[:10]}.", CAPTION)
    return assets.document(
        "replay",
        f"{_one_line(trace.prompt.shown, TITLE) or 'A race'} - Lookahead",
        log=_log(trace, caption),
        brand=f'<a href="{html.escape(app_url)}">Lookahead</a>' if _is_address(app_url) else "Lookahead",
        lanes=html.escape(_one_line(", ".join(lane.method for lane in trace.lanes), CAPTION)),
        origin=html.escape(_one_line(_origin(trace), 4 * CAPTION)),
    )


def _is_address(text: str) -> bool:
    """Return whether a page may link to this text."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and len(text) < 500


def _origin(trace: RaceRecord) -> str:
    machine, models = trace.machine, trace.models
    drafts = ", ".join(models.drafts.values())
    recorded = "" if trace.version == VERSION else f" by version {trace.version}"
    device = machine.cpu if machine.device == "cpu" else f"{machine.device} with {machine.cpu}"
    return (
        f"Recorded{recorded} on {trace.created[:10]} on {device}, {machine.cores} cores, {machine.dtype}, "
        f"{trace.exactness}. Target: {models.target}{f'; drafts: {drafts}' if drafts else ''}. Times were measured there."
    )


def _one_line(text: str, limit: int) -> str:
    """Return at most `limit` characters as one line, without control characters and stacked combining marks."""
    out: list[str] = []
    marks = 0
    for character in text:
        kind = unicodedata.category(character)
        marks = marks + 1 if kind[0] == "M" else 0
        if kind[0] in "CZ":
            character = " " if kind[0] == "Z" or kind == "Cc" else ""
        if marks <= 2 and not (character == " " and out[-1:] in ([" "], [])):
            out.append(character)
        if len(out) > limit:
            return "".join(out[: limit - 3]).rstrip() + "..."
    return "".join(out).strip()


def _log(trace: RaceRecord, caption: str) -> str:
    """Return the log as JSON, gzip and base64 for `replay.js`. No text of a trace can close its element."""
    events = [round_floats(event.to_dict()) for event in wire.events(trace, caption)]
    batch = {"run": "replay", "i0": 0, "ev": events, "end": True}
    data = json.dumps(batch, allow_nan=False, separators=(",", ":")).encode()
    return base64.b64encode(gzip.compress(data, mtime=0)).decode()


def round_floats(value: Any, decimals: int = OTHER) -> Any:
    """Round the floats in plain data: seconds ("..._s" and costs) to microseconds, others to `decimals` places."""
    if isinstance(value, float):
        return round(value, decimals)
    if isinstance(value, dict):
        places_of = {name: SECONDS if name.endswith("_s") or name == "seconds" else decimals for name in value}
        return {name: round_floats(item, places_of[name]) for name, item in value.items()}
    return [round_floats(item, decimals) for item in value] if isinstance(value, (list, tuple)) else value
