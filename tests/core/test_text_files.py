"""Text files of other programs: encoding, line ends, and tables that no spreadsheet computes."""

import csv
import io

import pytest

from lookahead.core.text_files import csv_file, csv_text, decoded, lines

SEPARATORS = "\u2028\u2029\u0085\x0b\x0c\x1c\x1d\x1e"  # line ends in Python, but not in JSON


def test_only_line_feeds_and_carriage_returns_end_a_line():
    assert lines("a\nb\r\nc\rd") == ["a", "b", "c", "d"]
    assert lines(f"a{SEPARATORS}b\n") == [f"a{SEPARATORS}b", ""]
    assert lines("\ufeffa\n\ufeffb\ufeff") == ["a", "b\ufeff"], "each of the joined files has a mark"


def test_a_byte_order_mark_is_ignored():
    assert decoded("\ufeffÄ") == decoded("Ä".encode()) == decoded("Ä".encode("utf-8-sig")) == "Ä"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252"])
def test_another_encoding_gets_a_clear_message(encoding):
    with pytest.raises(UnicodeError, match="it is not UTF-8 text; save it as UTF-8"):
        decoded('{"prompt": "für"}'.encode(encoding))


@pytest.mark.parametrize("start", [*"=+-@\t\r\n'", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
def test_text_cells_are_guarded_and_numbers_stay_numbers(start):
    text = csv_text(["a", "b", "c"], [[f"{start}1", -0.5, None], ["5 - 3", -7, True]])
    assert list(csv.reader(io.StringIO(text, newline=""))) == [
        ["a", "b", "c"], [f"'{start}1", "-0.5", ""], ["5 - 3", "-7", "True"],
    ]  # fmt: skip
    assert csv_file(text).encode() == b"\xef\xbb\xbf" + text.encode()
