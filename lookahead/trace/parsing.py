"""Parse JSON from untrusted files within limits.

Parsing is a call that blocks Python's interpreter, and objects need up to 20 times the memory of their text. So values
are counted before a text is parsed. The limits are 20 times the largest bundled recording. The longest race with default
settings, four lanes of 2,000 tokens, has 0.6 million values, 0.2 million names and 5 MB.
"""

from typing import Any

import pydantic_core
from pydantic import BeforeValidator, ValidationError

from ..core.events import TraceError
from ..core.numbers import count, size
from ..core.text_files import decoded

MAX_BYTES = 32 << 20
MAX_VALUES, MAX_NAMES = 1_000_000, 300_000  # of a JSON document
LINES = 4  # factor of these limits for a file of JSON lines, which is parsed line by line
# Characters before each value, and after each name. Those inside strings are counted too, but valid recordings have few.
BEFORE_VALUES, AFTER_NAMES = ",[{", ":"
MAX_ERRORS = 10_000  # if there are more, only their number is reported
MAX_PATH = 80  # characters of the path of an error


def decode_text(data: str | bytes, what: str, max_bytes: int = MAX_BYTES) -> str:
    """Return the text of a file of at most `max_bytes` bytes. `what` names the file in errors.

    Raises `TraceError` if the file is larger, not UTF-8, or has more values than a file of JSON lines may have.
    """
    if not isinstance(data, (str, bytes)):
        raise TraceError(what, data, "give JSON text.")
    if len(data) > max_bytes:
        raise TraceError(what, size(len(data)), f"a file has at most {size(max_bytes)}.")
    try:
        text = decoded(data)
    except UnicodeError as error:
        raise TraceError(what, "file", str(error)) from None
    _check(text, what, LINES)
    return text


def parse_json(text: str, what: str) -> Any:
    """Return the data of JSON text. Raises `TraceError` for too many values, `ValueError` if it is not valid JSON."""
    _check(text, what)
    try:
        return pydantic_core.from_json(text)
    except TypeError:  # half a surrogate pair
        raise ValueError("it is not Unicode text") from None


def _check(text: str, what: str, times: int = 1) -> None:
    for plural, marks, limit in (("values", BEFORE_VALUES, MAX_VALUES), ("names", AFTER_NAMES, MAX_NAMES)):
        if (number := sum(text.count(mark) for mark in marks)) > times * limit:
            raise TraceError(what, f"{count(number)} {plural}", f"a file has at most {count(limit)}.")


def first_error(error: ValidationError) -> tuple[str, str]:
    """Return the path and the message of the first error. If there are too many, return "" and their number."""
    if error.error_count() > MAX_ERRORS:
        return "", f"it has {count(error.error_count())} errors"
    first = error.errors(include_url=False, include_input=False)[0]
    return ".".join(str(part) for part in first["loc"])[:MAX_PATH], first["msg"]


def max_entries(entries: int) -> BeforeValidator:
    """Return a validator that rejects a larger mapping before pydantic validates its entries."""

    def check(value: Any) -> Any:
        if isinstance(value, dict) and len(value) > entries:
            raise ValueError(f"{count(len(value))} entries, at most {count(entries)} are allowed")
        return value

    return BeforeValidator(check)
