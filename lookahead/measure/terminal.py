"""Terminal output of commands: colored tokens, tables and a progress bar.

Text from prompts and models is untrusted: its markup is not interpreted, and control characters are removed.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ..core.events import ACCEPTED, REJECTED
from ..core.numbers import decimal, seconds
from ..drafting.grammar import FORCED
from ..trace.race import Race
from ..trace.schema import StepRecord
from ..trace.verdict import ending
from . import tables
from .progress import Progress as Measured

STYLES = {
    "accepted": "underline green", "forced": "underline2 magenta", "correction": "bold blue", "bonus": "bold blue",
    "rejected": "strike red",
}  # fmt: skip


def clean(text: str) -> str:
    """Return the text without control characters other than newline and tab."""
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) != "Cc")


def show_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], before: Iterable[str] = (), after: Iterable[str] = ()
) -> None:
    """Print a table with lines of text before and after it. Columns with letters are left-aligned, others right-aligned."""
    console, table = Console(highlight=False), Table(box=None, pad_edge=False)
    for heading, *cells in zip(heads, *rows, strict=True):
        table.add_column(heading, justify="left" if any(cell[:1].isalpha() for cell in cells) else "right")
    for row in rows:
        table.add_row(*(Text(clean(cell)) for cell in row))
    show_lines(before)
    console.print(table)
    show_lines(after)


def show_report(report: Mapping[str, Any], shown: Iterable[tables.Table], after: Iterable[str] = ()) -> None:
    """Print the tables of a report that have rows, lines of text, and the machine or servers with the report's note."""
    for head, rows in shown:
        if rows:
            show_table(head, [[cell.strip("`") for cell in row] for row in rows], after=[""])
    show_lines([*after, f"{tables.measured_where(report)}; {report['note']}"])


def show_lines(lines: Iterable[str]) -> None:
    """Print lines of text."""
    for line in lines:
        Console(highlight=False).print(Text(clean(line)))


def show_race(race: Race) -> None:
    """Print the tokens of the last lane as they are decoded, then the results of all lanes."""
    console = Console(highlight=False)
    legend = Text("\n")
    forced = [("forced", "forced by the schema")] if race.settings.schema else []
    for name, label in (
        ("accepted", "accepted"),
        *forced,
        ("correction", "correction or bonus"),
        ("rejected", "rejected"),
    ):
        legend.append(label, style=STYLES[name]).append("   ")
    lanes = len(race.methods)
    for number, lane_step in enumerate(race):
        if number == 0:
            console.print(Text(clean(race.prompt_text), style="dim"), end="")
        if lane_step.lane == lanes - 1:
            console.print(_step(lane_step.step, naive=race.methods[-1] == "naive"), end="")
    trace = race.result()
    console.print()
    console.print(legend)
    rows = []
    for i in range(lanes):
        stats, agreement = trace.stats(i), trace.agreement(i)
        rows.append([
            stats["method"], str(stats["new_tokens"]), seconds(stats["clock_s"]), decimal(stats["tokens_per_second"]),
            decimal(stats["new_tokens"] / stats["num_spec_steps"]), agreement["badge"] if agreement else "",
        ])  # fmt: skip
    verdict = trace.verdict()
    sentence = verdict["sentence"] if verdict else ending(trace.lanes[-1], trace.prompt).strip()
    heads = ["method", "tokens", "time", "tokens/s", "tokens per pass", "text"]
    show_table(heads, rows, after=[sentence] if sentence else [])


def _step(record: StepRecord, *, naive: bool) -> Text:
    out = Text()
    sources = [record.draft.sources[row] for row in record.path]
    for piece, origin, source in zip_longest(record.pieces, record.origins, sources):
        if origin != ACCEPTED:
            for status, drafted in zip(record.statuses, record.draft.pieces, strict=True):
                if status == REJECTED:
                    out.append(clean(drafted).replace("\n", "\u21b5"), style=STYLES["rejected"])
        out.append(clean(piece), style="" if naive else STYLES["forced" if source == FORCED else origin])
    return out


@contextmanager
def progress() -> Iterator[Any]:
    """Show a progress bar on stderr; yields `update(done, total, text)`."""
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"), TimeRemainingColumn(),
        console=Console(stderr=True),
    )  # fmt: skip
    with bar:
        task = bar.add_task("warming up", total=None)
        yield lambda done, total, text: bar.update(task, completed=done, total=total, description=text)


def run_with_progress(measurement: Iterable[Measured | None]) -> Any:
    """Run a measurement with a progress bar, and return its last result."""
    result = None
    with progress() as show:
        for update in filter(None, measurement):
            show(update.done, update.total, update.text)
            result = update.result
    return result
