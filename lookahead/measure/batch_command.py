"""`python -m lookahead batch`: how many texts at once? Naive decoding against drafting in batches of several sizes.

`--json` prints one document, `--update` writes the table between the batch markers of a file. Modules that measure are
imported when they are needed, so that help comes at once.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..core.events import Settings, SettingsError, whole_number
from ..core.numbers import count, ranged, ratio
from .tables import between, markdown_table, measured_where, replace_between

if TYPE_CHECKING:
    from ..family.models import Models

MARKS = ("<!-- batch -->", "<!-- /batch -->")
USUAL_TEXTS, USUAL_METHODS = "1,2,4,8,16,32,64", "draft,ngram"
MOST_LEVELS = 16


def add(commands: Any, shared: Sequence[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """The subcommand and its arguments."""
    batch = commands.add_parser("batch", parents=shared, help="how many texts at once? Batches of several sizes")
    batch.add_argument("--methods", default=USUAL_METHODS, metavar="A,B", help=f"beside naive ({USUAL_METHODS})")
    batch.add_argument("--texts", default=USUAL_TEXTS, metavar="N,N", help=f"texts at once ({USUAL_TEXTS})")
    batch.add_argument("--prompts", metavar="FILE.jsonl", help='lines {"id", "category", "prompt", "chat"}')
    batch.add_argument("--repeat", type=int, default=1, metavar="N", help="times that every batch is written (1)")
    batch.add_argument("--update", metavar="FILE.md", help="write the table between the batch markers of a file")
    return batch


def run(
    arguments: argparse.Namespace, load: Callable[[argparse.Namespace], Models], options: Mapping[str, Any]
) -> None:
    """Write the batches, with settings of decoding."""
    from . import batches, bench, prompt_files, terminal
    from .decision import levels_of, texts_at_once
    from .progress import questions

    methods = [bench.read_entry(method).label for method in filter(None, arguments.methods.split(","))]
    sizes = read_levels("texts", arguments.texts, batches.MOST_TEXTS)
    whole_number("repeat", arguments.repeat, 1, 1000)
    options = {name: value for name, value in options.items() if name != "chat"}
    Settings(**options)
    if arguments.update:
        between(arguments.update, MARKS)  # before the first second is spent
    prompts = prompt_files.read(arguments.prompts) if arguments.prompts else questions(family=arguments.models)
    report = terminal.measured(
        batches.measure(load(arguments), prompts, methods, sizes, repeat=arguments.repeat, **options)
    )
    report["advice"] = {
        method: texts_at_once(levels_of(row for row in report["rows"] if row["method"] == method))
        for method in dict.fromkeys(row["method"] for row in report["rows"])
    }
    if arguments.update:
        replace_between(arguments.update, MARKS, markdown(report))
    if arguments.json:
        print(json.dumps(report))
    else:
        terminal.show_batches(report)


def read_levels(name: str, text: str, most: int) -> list[int]:
    """Rising numbers of texts at once, from "1,4,16"; `name` is the name of the setting."""
    try:
        levels = sorted({int(part) for part in text.split(",")})
    except ValueError:
        levels = []
    if not levels or not 1 <= levels[0] <= levels[-1] <= most or len(levels) > MOST_LEVELS:
        raise SettingsError(name, text, f"give up to {MOST_LEVELS} numbers from 1 to {most}: 1,4,16.")
    return levels


def markdown(report: Mapping[str, Any]) -> str:
    """The report as a Markdown table: a line for every size, speedups with their intervals."""
    rows = report["rows"]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    head = ["texts at once", "naive, tokens/s", *(f"`{method}`" for method in methods)]
    lines = []
    for size in dict.fromkeys(row["texts"] for row in rows):
        of = {row["method"]: row for row in rows if row["texts"] == size}
        rate = count(round(max(row["naive_tokens_per_second"] for row in of.values())))
        cells = [f"{ratio(of[method]['speedup'])} [{ranged(of[method]['interval'])}]" for method in methods]
        lines.append([str(size), rate, *cells])
    return f"{markdown_table(head, lines)}\n\n{measured_where(report)}; {report['note']}."
