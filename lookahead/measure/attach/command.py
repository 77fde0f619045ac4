"""`python -m lookahead attach`: two servers under the same load, and whether speculation pays there.

Knows arguments. What is measured is `load`'s business, what it means `report`'s; both are imported when they are needed, so
that help comes at once.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ...core.events import whole_number
from ...core.text_files import csv_file, csv_text
from ..batch_command import read_levels

USUAL_LEVELS, USUAL_ROUNDS = "1,2,4,8,16", 2
MOST_AT_ONCE = 512
COLUMNS = (
    "id", "concurrency", "tokens_per_second", "baseline_tokens_per_second", "speedup", "mean_acceptance_length",
    "draft_acceptance_rate", "identical",
)  # fmt: skip


def add(commands: Any) -> argparse.ArgumentParser:
    """The subcommand and its arguments."""
    attach = commands.add_parser("attach", help="does speculation pay on the server you run? Two servers under load")
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
    return attach


def run(arguments: argparse.Namespace) -> None:
    """Load both, and say what came of it."""
    from .. import prompt_files, terminal
    from ..progress import questions
    from ..tables import writable
    from .report import measure
    from .servers import both

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
        terminal.show_attach(measured)
    if arguments.trace:
        arguments.trace.write_text(_raced([*sides.values()], prompts[0], arguments.max_new_tokens), encoding="utf-8")


def _raced(servers: list[Any], prompt: Any, most: int) -> str:
    """A race on a prompt, as a trace's JSON."""
    from .race import ServerRace

    race = ServerRace(servers, prompt.prompt, most, prompt.chat)
    for _ in race:
        pass
    return race.result().to_json()


def to_csv(measured: dict[str, Any]) -> str:
    """The rows as CSV."""
    return csv_text(COLUMNS, ([row.get(name) for name in COLUMNS] for row in measured["rows"]))
