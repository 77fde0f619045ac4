"""The server's log on stderr: an entry for its start, every run's end, what was refused, and every fault.

Lines for people, or one JSON object a line. An entry is a name and fields. What a visitor typed, what a model wrote and
where a visitor is are never in it: fields that may hold the first of these are `private`, and written only where the
host asks for them. A fault's traceback names files and lines; its message may quote a prompt, so it is private too.

Knows the standard library's logging. It does not know what the entries mean.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

LOGGER = logging.getLogger("lookahead")
WITHHELD = "(not logged; LOOKAHEAD_LOG_PROMPTS=1)"
WEB_SERVER = ("uvicorn", "uvicorn.error", "uvicorn.asgi")  # they write lines of their own, unless told not to


class EntryFormatter(logging.Formatter):
    """An entry as a line: for people, or as JSON. `prompts`: whether private fields are written."""

    def __init__(self, as_json: bool = False, prompts: bool = False):
        super().__init__()
        self._json, self._prompts = as_json, prompts

    def format(self, record: logging.LogRecord) -> str:
        """The line; a traceback for people takes lines of its own."""
        fields = dict(getattr(record, "fields", None) or {"message": record.getMessage(), "logger": record.name})
        if self._prompts:
            fields |= {name: value for name, value in getattr(record, "private", {}).items() if value}
        trace = self._trace(record)
        name = record.msg if hasattr(record, "fields") else "note"
        when = datetime.fromtimestamp(record.created, UTC)
        if self._json:
            head = {"time": when.isoformat(timespec="milliseconds"), "level": record.levelname.lower(), "event": name}
            tail = {"traceback": trace} if trace else {}
            return json.dumps({**head, **fields, **tail}, ensure_ascii=True, default=str)
        shown = " ".join(f"{name}={_plain(value)}" for name, value in fields.items() if value not in ("", [], None))
        return f"{when:%H:%M:%S} {record.levelname.lower()} {name} {shown}" + (f"\n{trace}" if trace else "")

    def _trace(self, record: logging.LogRecord) -> str:
        if not record.exc_info or record.exc_info[0] is None:
            return ""
        kind, error, where = record.exc_info
        frames = "".join(traceback.format_tb(where))
        return f"{frames}{kind.__name__}: {error if self._prompts else WITHHELD}"


def configure(as_json: bool = False, prompts: bool = False) -> None:
    """Write entries to stderr from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(EntryFormatter(as_json, prompts))
    LOGGER.handlers[:], LOGGER.propagate = [handler], False
    LOGGER.setLevel(logging.INFO)
    if as_json:
        logging.getLogger().handlers[:] = [handler]
        logging.captureWarnings(True)


def adopt_web_server() -> None:
    """Have what the web server logs written in the same form. It sets its own up when it starts, so this comes after."""
    for name in WEB_SERVER:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True


def event(name: str, /, private: Mapping[str, Any] | None = None, **fields: Any) -> None:
    """An entry. `private` fields are written only where the host asks for them."""
    LOGGER.info(name, extra={"fields": fields, "private": dict(private or {})})


def fault(prompt: str = "", **fields: Any) -> None:
    """An entry for the exception that is being handled, with its traceback."""
    LOGGER.error("fault", exc_info=True, extra={"fields": fields, "private": {"prompt": prompt}})


def _plain(value: Any) -> str:
    text = "+".join(map(str, value)) if isinstance(value, list) else str(value)
    return json.dumps(text) if any(c.isspace() or not c.isprintable() for c in text) else text
