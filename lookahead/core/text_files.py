"""Text files for other programs: UTF-8, lines and CSV.

Spreadsheets read CSV files as UTF-8 only after a byte-order mark, and evaluate cells that begin like a formula.
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

BYTE_ORDER_MARK = "\ufeff"
LINE_END = re.compile("\r\n|\n|\r")
# First characters of a formula, ASCII and full-width. With the apostrophe, removing one always restores the text.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20", "'")


def decoded(data: str | bytes) -> str:
    """Return the text of a file, or pasted text, without its byte-order mark.

    Raises `UnicodeError` with a message for users if the bytes are not UTF-8. UTF-16 is often valid UTF-8 with zeros.
    """
    if isinstance(data, bytes):
        try:
            data = data.decode()
        except UnicodeDecodeError:
            data = "\0"
        if "\0" in data:
            raise UnicodeError("it is not UTF-8 text; save it as UTF-8.")
    return data.removeprefix(BYTE_ORDER_MARK)


def lines(text: str) -> list[str]:
    """Return the lines, split only at LF, CRLF and CR, without byte-order marks. JSON may contain other separators."""
    return [line.removeprefix(BYTE_ORDER_MARK) for line in LINE_END.split(text)]


def cell(value: Any) -> Any:
    """Return a value that no spreadsheet evaluates: an apostrophe precedes text that looks like a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as CSV (RFC 4180) with a header and guarded cells. `csv_file` returns the content of a file."""
    out = io.StringIO(newline="")
    table = csv.writer(out)
    table.writerows([cell(value) for value in row] for row in (columns, *rows))
    return out.getvalue()


def csv_file(text: str) -> str:
    """Return the content of a CSV file. Write it as UTF-8, without translation of line ends."""
    return BYTE_ORDER_MARK + text
