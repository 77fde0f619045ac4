"""`python -m lookahead attach`, two servers under the same load, and `acceptance`, records of other tools.

This module is imported for the command line's help, so it imports whatever is expensive only when a command runs.
"""

from __future__ import annotations

import argparse
import json
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ..core.events import TraceError, whole_number
from ..core.numbers import count, counted, decimal, percent
from ..core.text_files import csv_file, csv_text
from ..measure.batch_command import read_levels

USUAL_LEVELS, USUAL_ROUNDS = "1,2,4,8,16", 2
MOST_AT_ONCE = 512
COLUMNS = (
    "id", "concurrency", "tokens_per_second", "baseline_tokens_per_second", "speedup", "mean_acceptance_length",
    "draft_acceptance_rate", "identical",
)  # fmt: skip


def add(commands: Any) -> None:
    """Add the subcommands and their arguments."""
    attach = commands.add_parser("attach", help="does speculation pay on the server you run? Two servers under load")
    attach.set_defaults(call=_attach)
    address = "its address, or a name of LOOKAHEAD_SERVERS"
    attach.add_argument("--baseline", required=True, metavar="URL", help=f"the server without speculation: {address}")
    attach.add_argument("--speculative", required=True, metavar="URL", help="the server with it")
    attach.add_argument("--prompts", metavar="FILE.jsonl", help='lines {"id", "category", "prompt", "chat"}')
    attach.add_argument("--concurrency", default=USUAL_LEVELS, metavar="N,N", help=f"texts at once ({USUAL_LEVELS})")
    attach.add_argument("--max-new-tokens", type=int, default=128, metavar="N", help="of a text (128)")
    attach.add_argument(
        "--repeat", type=int, default=USUAL_ROUNDS, metavar="N", help=f"rounds at each load ({USUAL_ROUNDS})"
    )
    attach.add_argument(
        "--trace", metavar="FILE", type=Path, help="race them on the first prompt too, and keep that: the page opens it"
    )
    attach.add_argument("--csv", metavar="FILE", type=Path, help="write the rows as CSV")
    attach.add_argument("--json", action="store_true", help="one JSON document on stdout")

    words = "what was recorded of drafts by AIPerf, by vLLM or in a trace of ours"
    acceptance = commands.add_parser("acceptance", help=words)
    acceptance.set_defaults(call=_acceptance)
    acceptance.add_argument("file", type=Path, help="JSON, or JSON lines")
    acceptance.add_argument("--records", type=Path, metavar="OUT.jsonl", help="write AIPerf's records, one a text")
    acceptance.add_argument("--json", action="store_true", help="one JSON document on stdout")


def _attach(arguments: argparse.Namespace) -> None:
    """Load both servers, and print the report."""
    from ..measure import prompt_files, terminal
    from ..measure.progress import questions
    from ..measure.tables import writable
    from .addresses import both
    from .race import ServerRace
    from .report import measure

    levels = read_levels("concurrency", arguments.concurrency, MOST_AT_ONCE)
    whole_number("max_new_tokens", arguments.max_new_tokens, 1, 100_000)
    whole_number("repeat", arguments.repeat, 1, 1000)
    sides = both(arguments.baseline, arguments.speculative)
    prompts = prompt_files.read(arguments.prompts) if arguments.prompts else questions()
    for path in filter(None, (arguments.csv, arguments.trace)):
        writable(path)  # before the first second is spent
    measured = terminal.measured(measure(sides, prompts, levels, arguments.max_new_tokens, arguments.repeat))
    if arguments.csv:
        arguments.csv.write_text(csv_file(to_csv(measured)), encoding="utf-8", newline="")
    if arguments.json:
        print(json.dumps(measured))
    else:
        _show_report(measured)
    if arguments.trace:
        race = ServerRace([*sides.values()], prompts[0].prompt, arguments.max_new_tokens, prompts[0].chat)
        for _ in race:
            pass
        arguments.trace.write_text(race.result().to_json(), encoding="utf-8")


def to_csv(measured: dict[str, Any]) -> str:
    """Return the rows as CSV."""
    return csv_text(COLUMNS, ([row.get(name) for name in COLUMNS] for row in measured["rows"]))


def _show_report(report: dict[str, Any]) -> None:
    from ..measure.terminal import show_table
    from .report import figures

    heads = [
        "at once", "tokens/s", "without", "speedup", "90% interval", "tokens a pass", "accepted", "first token",
        "longest gaps (p99)", "identical", "failed",
    ]  # fmt: skip
    rows = [
        [
            str(level["concurrency"]), decimal(level["tokens_per_second"]), decimal(level["baseline_tokens_per_second"]),
            *figures(level), str(level["identical"]), str(level["failed"]),
        ]
        for level in report["levels"]
    ]  # fmt: skip
    before = [f"{side}: {server['model']}, {server['kind']}" for side, server in report["servers"].items()]
    remarks = dict.fromkeys(line for level in report["levels"] for line in level["remarks"])
    show_table(heads, rows, before, [*remarks, report["advice"], report["note"]])


def _acceptance(arguments: argparse.Namespace) -> None:
    """Read and judge records, print the result, and write the records if requested."""
    from ..measure.tables import writable
    from .records import judged, read

    if arguments.records:
        writable(arguments.records)
    try:
        text = arguments.file.read_bytes()
    except OSError as error:
        raise TraceError("file", str(arguments.file), f"it cannot be read ({error.__class__.__name__}).") from None
    records = read(text)
    if arguments.records:
        lines = "".join(record.model_dump_json(exclude_none=True) + "\n" for record in records)
        arguments.records.write_text(lines, encoding="utf-8")
    report = judged(records)
    if arguments.json:
        print(json.dumps(report))
    else:
        _show_acceptance(report)


def _show_acceptance(report: dict[str, Any]) -> None:
    from ..measure.terminal import show_table

    between = report["interval"]
    sure = f" [{decimal(between[0])}, {decimal(between[1])}]" if between else ""
    summary = (
        f"{counted(report['texts'], 'text')} by {', '.join(report['engines'])}: {decimal(report['mean_acceptance_length'])}{sure} tokens a "
        f"pass, over {count(report['num_spec_steps'])} passes with a draft; {percent(report['draft_acceptance_rate'])} of the drafted tokens accepted."
    )
    rows = []
    for place, expected in zip_longest(report["by_position"], report["tokens_a_pass"]):
        tested = (
            [str(place["position"]), str(place["accepted"]), str(place["tested"]), percent(place["rate"])]
            if place
            else [""] * 4
        )
        rows.append([*tested, *([f"k = {expected['k']}", decimal(expected["tokens"])] if expected else [])])
    forecast = ["drafting as many", "tokens per pass"] if report["tokens_a_pass"] else []
    show_table(["position", "accepted", "tested", "rate", *forecast], rows, [summary], [report["note"]])
