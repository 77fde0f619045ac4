"""The server's log on stderr: entries of its start, of the end or refusal of each run, and of unexpected errors.

An entry is a name and fields, as a line or as JSON. It never contains text of a model or a visitor's address. Fields that may
quote a visitor are `private`: they are written only if the host requests it. The message of an error is private too.

Library messages may quote requests. After `serving`, an entry of a library is one line: the position in its code and
the class of the error.
"""

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
    """Format an entry as a line. With `prompts`, private fields are written; while `serving`, messages of libraries are not."""

    def __init__(self, as_json: bool = False, prompts: bool = False):
        super().__init__()
        self._json, self._prompts, self.serving = as_json, prompts, False

    def format(self, record: logging.LogRecord) -> str:
        withheld = self.serving and not self._prompts and record.name.partition(".")[0] != LOGGER.name
        error = {"error": record.exc_info[0].__name__} if record.exc_info and record.exc_info[0] else {}
        position = {"logger": record.name, "at": f"{record.filename}:{record.lineno}", **error}
        other = position if withheld else {"message": record.getMessage(), "logger": record.name}
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
        shown = " ".join(f"{name}={_quoted(value)}" for name, value in fields.items() if value not in ("", [], None))
        return f"{when:%H:%M:%S} {record.levelname.lower()} {name} {shown}" + (f"\n{trace}" if trace else "")

    def _trace(self, record: logging.LogRecord) -> str:
        if not record.exc_info or record.exc_info[0] is None:
            return ""
        kind, error, stack = record.exc_info
        frames = "".join(traceback.format_tb(stack))
        return f"{frames}{kind.__name__}: {error if self._prompts else WITHHELD}"


def configure(as_json: bool = False, prompts: bool = False) -> None:
    """Write all entries to stderr from now on, including those of libraries."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(EntryFormatter(as_json, prompts))
    LOGGER.handlers[:], LOGGER.propagate = [handler], False
    LOGGER.setLevel(logging.INFO)
    logging.getLogger().handlers[:] = [handler]
    logging.captureWarnings(True)
    threading.excepthook = lambda raised: fault(raised.exc_value, kind="thread")


def serving() -> None:
    """Log no message of a library from now on, and remove the handlers of libraries."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, EntryFormatter):
            handler.formatter.serving = True
    for logger in logging.Logger.manager.loggerDict.values():
        if isinstance(logger, logging.Logger) and logger is not LOGGER:
            logger.handlers.clear()
            logger.propagate = True


def event(name: str, /, private: Mapping[str, Any] | None = None, **fields: Any) -> None:
    """Log an entry."""
    LOGGER.info(name, extra={"fields": fields, "private": dict(private or {})})


def fault(error: BaseException | None = None, prompt: str = "", **fields: Any) -> None:
    """Log an exception with its traceback. The default is the exception that is being handled."""
    LOGGER.error("fault", exc_info=error or True, extra={"fields": fields, "private": {"prompt": prompt}})


def failed(what: str) -> None:
    """Log one line for the exception that a request caused: its class, without its message."""
    error = sys.exception()
    fields = {"what": what, "error": type(error).__name__}
    LOGGER.warning("failed", extra={"fields": fields, "private": {"words": str(error)}})


def _quoted(value: Any) -> str:
    text = "+".join(map(str, value)) if isinstance(value, list) else str(value)
    return json.dumps(text) if any(c.isspace() or not c.isprintable() for c in text) else text
