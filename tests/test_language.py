"""Constructions that CONTRIBUTING.md rules out: some may not occur, and the others may only become rarer."""

import json

import pytest
from language import PATTERNS, ROOT, counts, files, places

COUNTS = ROOT / "tests" / "language_counts.json"
FORBIDDEN = ("whoever", "foretell", "let go")


def test_no_banned_construction_becomes_more_frequent():
    """Lower a number in the file when its count falls; `python tests/language.py` prints every place."""
    allowed, found = json.loads(COUNTS.read_text(encoding="utf-8")), counts(files([]))
    assert allowed.keys() == PATTERNS.keys() and not any(allowed[name] for name in FORBIDDEN)
    assert not {name: found[name] for name in PATTERNS if found[name] > allowed[name]}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("what-clause", '"""What it has read it keeps."""'),
        ("a pass", "x = 1  # tokens a pass"),
        ("behind", "# logits behind it"),
    ],
)
def test_constructions_are_counted_in_docstrings_and_comments(tmp_path, name, text):
    (tmp_path / "a.py").write_text(text + "\n")
    assert name in {place[0] for place in places(tmp_path / "a.py")}
