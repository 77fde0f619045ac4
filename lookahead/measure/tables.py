"""Tables in Markdown, and the places of Markdown files where commands keep them up to date."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

from ..core.events import SettingsError


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells as they stand."""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in (head, *rows)]
    return tabulate(escaped[1:], escaped[0], tablefmt="github", disable_numparse=True)


def measured_where(report: Mapping[str, Any]) -> str:
    """The machine that a report was measured on, in a few words."""
    machine = report["machine"]
    return f"{machine['cpu']}, {machine['cores']} cores, {machine['dtype']}, {report['exactness']}"


def writable(path: Path) -> None:
    """Raises `SettingsError` where a file cannot be written."""
    try:
        path.open("a").close()
    except OSError as error:
        raise SettingsError("file", str(path), f"it cannot be written ({error.__class__.__name__}).") from None


def replace_between(path: str, marks: tuple[str, str], new: str) -> None:
    """Replace what stands between two markers of a text file."""
    before, after = between(path, marks)
    Path(path).write_text(f"{before}\n{new}\n{after}", encoding="utf-8")


def between(path: str, marks: tuple[str, str]) -> tuple[str, str]:
    """What stands before and after the place between two markers of a file, or a `SettingsError`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        start, stop = text.index(marks[0]) + len(marks[0]), text.index(marks[1])
    except (OSError, ValueError):
        raise SettingsError("update", path, f"give a file that holds {marks[0]} and {marks[1]}.") from None
    return text[:start], text[stop:]
