"""The server's log on stderr: an entry for its start, every run's end, what was refused, and every fault.

Lines for people, or one JSON object a line. An entry is a name and fields. What a visitor typed, what a model wrote and
where a visitor is are never in it: fields that may hold the first of these are `private`, and written only where the
host asks for them. A fault's traceback names files and lines; its message may quote a prompt, so it is private too.

Libraries log, warn and print as well, and quote requests. From `serving` on, an entry of theirs has the place in their
code and the kind of error, in one line; their words are private.

Knows the standard library's logging. It does not know what the entries mean.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

LOGGER = logging.getLogger("lookahead")
WITHHELD = "(not logged; LOOKAHEAD_LOG_PROMPTS=1)"


class EntryFormatter(logging.Formatter):
    """An entry as a line: for people, or as JSON. `prompts`: whether private fields are written; `serving`: whether there
    are visitors, whom the entries of libraries may quote."""

    def __init__(self, as_json: bool = False, prompts: bool = False):
        super().__init__()
        self._json, self._prompts, self.serving = as_json, prompts, False

    def format(self, record: logging.LogRecord) -> str:
        """The line; a traceback for people takes lines of its own."""
        withheld = self.serving and not self._prompts and record.name.partition(".")[0] != LOGGER.name
        other = _place(record) if withheld else {"message": record.getMessage(), "logger": record.name}
        fields = dict(getattr(record, "fields", other))
        if self._prompts:
            fields |= {name: value for name, value in getattr(record, "private", {}).items() if value}
        trace = "" if withheld else self._trace(record)
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
    """Write entries to stderr from now on, and those of libraries in the same form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(EntryFormatter(as_json, prompts))
    LOGGER.handlers[:], LOGGER.propagate = [handler], False
    LOGGER.setLevel(logging.INFO)
    logging.getLogger().handlers[:] = [handler]
    logging.captureWarnings(True)
    threading.excepthook = lambda raised: fault_of(raised.exc_value)


def serving() -> None:
    """Log no message of a library from now on. Libraries' own handlers are removed."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, EntryFormatter):
            handler.formatter.serving = True
    for logger in logging.Logger.manager.loggerDict.values():
        if isinstance(logger, logging.Logger) and logger is not LOGGER:
            logger.handlers.clear()
            logger.propagate = True


def event(name: str, /, private: Mapping[str, Any] | None = None, **fields: Any) -> None:
    """An entry. `private` fields are written only where the host asks for them."""
    LOGGER.info(name, extra={"fields": fields, "private": dict(private or {})})


def fault(prompt: str = "", **fields: Any) -> None:
    """An entry for the exception that is being handled, with its traceback."""
    LOGGER.error("fault", exc_info=True, extra={"fields": fields, "private": {"prompt": prompt}})


def fault_of(error: BaseException | None) -> None:
    """The same for an exception that ended a thread."""
    LOGGER.error("fault", exc_info=error, extra={"fields": {"kind": "thread"}})


def failed(what: str) -> None:
    """Log one line for the exception that a request caused: its class, without its message."""
    kind, error, _ = sys.exc_info()
    LOGGER.warning("failed", extra={"fields": {"what": what, "error": _name(kind)}, "private": {"words": str(error)}})


def _place(record: logging.LogRecord) -> dict[str, str]:
    """Return the place in a library's code that logged, and the class of the error."""
    place = {"logger": record.name, "at": f"{record.filename}:{record.lineno}"}
    return {**place, "error": _name(record.exc_info[0])} if record.exc_info else place


def _name(kind: type[BaseException] | None) -> str:
    return kind.__name__ if kind else ""


def _plain(value: Any) -> str:
    text = "+".join(map(str, value)) if isinstance(value, list) else str(value)
    return json.dumps(text) if any(c.isspace() or not c.isprintable() for c in text) else text
