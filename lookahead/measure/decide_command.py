"""`python -m lookahead decide`: whether to turn speculation on, for a user's own prompts and within a budget of seconds.

Modules that measure are imported when they are needed, so that help comes at once.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.events import Settings, SettingsError
from ..core.text_files import csv_file

if TYPE_CHECKING:
    from ..family.models import Models

USUAL_S = 60.0


def add(commands: Any, shared: Any) -> argparse.ArgumentParser:
    """The subcommand and its arguments."""
    decide = commands.add_parser("decide", parents=shared, help="should I turn it on? An answer for your own prompts")
    decide.add_argument("--prompts", metavar="FILE.jsonl", help='lines {"id", "category", "prompt", "chat"}')
    decide.add_argument("--seconds", type=float, default=USUAL_S, metavar="S", help="to measure for (60)")
    decide.add_argument("--methods", default="", metavar="A,B", help="all that the family has by default")
    decide.add_argument("--baseline", metavar="URL", help="ask servers: the one without speculation, and")
    decide.add_argument(
        "--speculative", metavar="URL", help="the one with it: addresses, or names of LOOKAHEAD_SERVERS"
    )
    decide.add_argument("--markdown", type=Path, metavar="FILE.md", help="write the answer with its tables")
    decide.add_argument("--csv", type=Path, metavar="FILE.csv", help="write a row for every method and prompt")
    return decide


def run(
    arguments: argparse.Namespace, load: Callable[[argparse.Namespace], Models], options: Mapping[str, Any]
) -> None:
    """Measure until the seconds are spent, and answer."""
    from . import prompt_files, terminal
    from .progress import questions
    from .tables import writable

    options = {name: value for name, value in options.items() if name != "chat"}
    Settings(**options)
    prompts = prompt_files.read(arguments.prompts) if arguments.prompts else questions(family=arguments.models)
    for path in filter(None, (arguments.markdown, arguments.csv)):
        writable(path)
    report = terminal.measured(_deciding(arguments, load, prompts, options))
    if arguments.markdown:
        arguments.markdown.write_text(report.markdown(), encoding="utf-8", newline="")
    if arguments.csv:
        arguments.csv.write_text(csv_file(report.csv()), encoding="utf-8", newline="")
    if arguments.json:
        print(json.dumps(report.document()))
    else:
        terminal.show_decision(report)


def _deciding(
    arguments: argparse.Namespace, load: Callable[[argparse.Namespace], Models], prompts: Sequence[Any],
    options: Mapping[str, Any],
) -> Iterator[Any]:  # fmt: skip
    """The measurement, of this machine or of two servers."""
    methods, sides = [*filter(None, arguments.methods.split(","))], (arguments.baseline, arguments.speculative)
    if not any(sides):
        from .decision import decide

        return decide(load(arguments), prompts, arguments.seconds, methods=methods, **options)
    from ..servers.addresses import both
    from ..servers.decision import MOST
    from ..servers.decision import decide as decide_servers

    if others := [*methods, *(options.keys() - {"max_new_tokens"})]:
        raise SettingsError("servers", others[0], "servers draft as they were started; leave it out.")
    return decide_servers(both(*sides), prompts, arguments.seconds, options.get("max_new_tokens", MOST))
