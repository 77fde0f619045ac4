"""Tables in Markdown, and the sections of Markdown files that commands update."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from tabulate import tabulate

from ..core.events import SettingsError

Table = tuple[Sequence[str], Sequence[Sequence[str]]]  # column headings, and rows of cells


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in (head, *rows)]
    return tabulate(escaped[1:], escaped[0], tablefmt="github", disable_numparse=True)


def report_markdown(report: Mapping[str, Any], shown: Iterable[Table]) -> str:
    """Return the tables that have rows in Markdown, then the machine or the servers, the report's note and the date."""
    parts = [markdown_table(head, rows) for head, rows in shown if rows]
    return "\n\n".join([*parts, f"{measured_where(report)}; {report['note']}; measured on {date.today()}."])


def measured_where(report: Mapping[str, Any]) -> str:
    """Return a short description of the machine or the servers of a report."""
    if "servers" in report:
        sides = report["servers"].items()
        return "; ".join(f"{side}: {server['name']}, {server['kind']}, {server['model']}" for side, server in sides)
    machine = report["machine"]
    return f"{machine['cpu']}, {machine['cores']} cores, {machine['dtype']}, {report['exactness']}"


def writable(path: Path) -> None:
    """Raise `SettingsError` if a file cannot be written."""
    try:
        path.open("a").close()
    except OSError as error:
        raise SettingsError("file", str(path), f"it cannot be written ({error.__class__.__name__}).") from None


def replace_between(path: str | Path, name: str, new: str) -> None:
    """Replace the text between the markers `<!-- name -->` and `<!-- /name -->` of a file. Raises `SettingsError`."""
    before, _, after = split(path, name)
    Path(path).write_text(f"{before}\n{new}\n{after}", encoding="utf-8")


def split(path: str | Path, name: str) -> tuple[str, str, str]:
    """Return the text up to the first marker `name`, between both, and from the second. Raises `SettingsError`."""
    start, stop = f"<!-- {name} -->", f"<!-- /{name} -->"
    try:
        before, remainder = Path(path).read_text(encoding="utf-8").split(start, 1)
        between, after = remainder.split(stop, 1)
    except (OSError, ValueError):
        raise SettingsError("update", str(path), f"give a file that contains {start} and {stop}.") from None
    return before + start, between, stop + after
