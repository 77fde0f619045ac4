"""The terminal's view: coloured tokens, a bench table, a cost curve. Drawn with rich.

Text from prompts and models is printed as text: markup in it is not interpreted, and control
characters are dropped. Colour is never alone: accepted tokens are underlined, the target's own
are bold, rejected ones are struck through.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ..core.events import ACCEPTED, REJECTED
from ..core.numbers import decimal, percent, ranged, ratio, seconds
from ..trace.race import Race
from ..trace.schema import StepRecord
from ..trace.verdict import ending
from .tables import measured_where

if TYPE_CHECKING:
    from .decision import Report
    from .progress import Progress as Lap

STYLES = {
    "accepted": "underline green",
    "correction": "bold blue",
    "bonus": "bold blue",
    "rejected": "strike red",
    "prompt": "dim",
}


def clean(text: str) -> str:
    """The text without characters that would steer a terminal."""
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) != "Cc")


def _table(*headings: str) -> Table:
    """An empty table; columns of figures stand to the right, those whose heading ends with "<" to the left."""
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading.removesuffix("<"), justify="left" if heading.endswith("<") else "right")
    return table


def show_table(
    heads: Iterable[str], rows: Iterable[Iterable[str]], before: Iterable[str] = (), after: Iterable[str] = ()
) -> None:
    """Print a table of figures with the lines of text before and after it."""
    console = Console(highlight=False)
    for line in before:
        console.print(Text(clean(line)))
    table = _table(*heads)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    for line in after:
        console.print(Text(clean(line)))


def show_race(race: Race) -> None:
    """Print the last lane as it is written, then how it did."""
    console = Console(highlight=False)
    legend = Text("\n")
    for name, words in (("accepted", "accepted"), ("correction", "target's own"), ("rejected", "rejected")):
        legend.append(words, style=STYLES[name]).append("   ")
    lanes, started = len(race.methods), False
    for lap in race:
        if not started:
            console.print(Text(clean(race.prompt_text), style=STYLES["prompt"]), end="")
            started = True
        if lap.lane == lanes - 1:
            console.print(_step(lap.step, plain=race.methods[-1] == "naive"), end="")
    trace = race.result()
    console.print()
    console.print(legend)
    table = _table("method<", "tokens", "time", "tokens/s", "tokens a pass", "text<")
    for i in range(lanes):
        stats, agreement = trace.stats(i), trace.agreement(i)
        table.add_row(
            stats["method"], str(stats["new_tokens"]), seconds(stats["clock_s"]), decimal(stats["tokens_per_second"]),
            decimal(stats["new_tokens"] / stats["num_spec_steps"]), agreement["badge"] if agreement else "",
        )  # fmt: skip
    console.print(table)
    if verdict := trace.verdict():
        console.print(verdict["sentence"])
    elif words := ending(trace.lanes[-1], trace.prompt):
        console.print(words.strip())


def _step(record: StepRecord, *, plain: bool) -> Text:
    out = Text()
    for i, (piece, origin) in enumerate(zip(record.pieces, record.origins, strict=True)):
        if origin != ACCEPTED:
            for status, drafted in zip(record.statuses, record.draft.pieces, strict=True):
                if status == REJECTED:
                    out.append(clean(drafted).replace("\n", "\u21b5"), style=STYLES["rejected"])
        out.append(clean(piece), style="" if plain else STYLES[record.origins[i]])
    return out


@contextmanager
def progress() -> Iterator[Any]:
    """A progress bar on stderr; yields `update(done, total, text)`."""
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"), TimeRemainingColumn(),
        console=Console(stderr=True),
    )  # fmt: skip
    with bar:
        task = bar.add_task("warming up", total=None)
        yield lambda done, total, text: bar.update(task, completed=done, total=total, description=text)


def measured(laps: Iterable[Lap | None]) -> Any:
    """Follow a measurement with a progress bar; returns its last result."""
    result = None
    with progress() as show:
        for lap in filter(None, laps):
            show(lap.done, lap.total, lap.text)
            result = lap.result
    return result


def show_bench(report: dict[str, Any]) -> None:
    """The summary of a bench."""
    console = Console(highlight=False)
    console.print(measured_where(report))
    table = _table(
        "method<", "category<", "prompts", "speedup", "90% interval", "worst", "tokens/s", "tokens a pass", "of predicted", "identical", "overhead",
    )  # fmt: skip
    for line in report["summary"]:
        table.add_row(
            line["method"], line["category"], str(line["prompts"]), ratio(line["speedup_median"]),
            ranged(line["speedup_interval"]), ratio(line["speedup_min"]),
            decimal(line["tokens_per_second_median"]), decimal(line["mean_acceptance_length"]), percent(line["of_predicted"]),
            percent(line["identical_share"]), percent(line["overhead_fraction"]),
        )  # fmt: skip
    console.print(table)
    console.print(report["note"])


def show_batches(report: dict[str, Any]) -> None:
    """Batches of several sizes, and advice."""
    console = Console(highlight=False)
    console.print(measured_where(report))
    table = _table(
        "method<", "texts", "tokens/s", "naive", "speedup", "90% interval", "tokens a pass", "rows a pass", "identical"
    )
    for row in report["rows"]:
        table.add_row(
            row["method"], str(row["texts"]), decimal(row["tokens_per_second"]), decimal(row["naive_tokens_per_second"]),
            ratio(row["speedup"]), ranged(row["interval"]), decimal(row["mean_acceptance_length"]),
            decimal(row["rows_per_pass"]), "yes" if row["identical"] else "no",
        )  # fmt: skip
    console.print(table)
    for method, sentence in report["advice"].items():
        console.print(Text(f"{method}: {sentence}"))
    console.print(report["note"])


def show_experiments(listed: list[dict[str, Any]]) -> None:
    """What the lab can measure."""
    table = _table("name<", "claim<", "runs<")
    for one in listed:
        table.add_row(one["id"], one["claim"], Text("\n".join(one["runs"])))
    Console(highlight=False).print(table)


def show_lab(report: dict[str, Any]) -> None:
    """Claims beside measurements, and why."""
    console = Console(highlight=False)
    table = _table("experiment<", "claimed<", "measured<", "median", "90% interval", "lowest to highest", "outcome<")
    for one in report["experiments"]:
        if one["median"] is not None:
            spread = f"{ratio(one['low'])} to {ratio(one['high'])}"
            sure = ranged(one["interval"])
            table.add_row(
                one["id"], one["claimed"], one["measured"], ratio(one["median"]), sure, spread, one["outcome"]
            )
    console.print(table)
    for one in report["experiments"]:
        console.print(f"\n{one['title']}: {one['why']}", markup=False)
    console.print(f"\n{report['note']}")


def show_decision(report: Report) -> None:
    """Whether to turn it on, and why."""
    console = Console(highlight=False)
    heads, rows = report.table()
    table = _table(f"{heads[0]}<", *heads[1:])
    for row in rows:
        table.add_row(*row)
    console.print(table)
    for text in (report.sentence, report.reasons(), report.note):
        console.print(Text(clean(text)))


def show_calibration(report: dict[str, Any]) -> None:
    """The cost curve and the exactness probe."""
    console = Console(highlight=False)
    machine, probe = report["machine"], report["probe"]
    console.print(
        f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads, {machine['device']}, {machine['dtype']}"
    )
    console.print(probe["sentence"])
    table = _table("rows", "a pass", "in one-row passes")
    for line in report["pass"]:
        table.add_row(str(line["rows"]), seconds(line["seconds"]), decimal(line["ratio"]))
    console.print(table)
