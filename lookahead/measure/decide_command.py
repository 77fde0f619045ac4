"""`python -m lookahead decide`: should I turn it on? One's own prompts, and a budget of seconds.

Knows arguments. What is measured is `decision`'s business, imported when it is needed, so that help comes at once.
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


def add(commands: Any, shared: Sequence[argparse.ArgumentParser]) -> argparse.ArgumentParser:
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
    from . import decision_report, prompt_files, terminal
    from .progress import questions
    from .tables import writable

    options = {name: value for name, value in options.items() if name != "chat"}
    Settings(**options)
    prompts = prompt_files.read(arguments.prompts) if arguments.prompts else questions(family=arguments.models)
    methods, answer = [*filter(None, arguments.methods.split(","))], None
    files = (
        (arguments.markdown, decision_report.to_markdown),
        (arguments.csv, lambda answer: csv_file(decision_report.to_csv(answer))),
    )
    written = {path: text for path, text in files if path}
    for path in written:
        writable(path)
    deciding = _deciding(arguments, load, prompts, methods, options)
    with terminal.progress() as progress:
        for now in deciding:
            if now:
                progress(now.done, now.total, now.text)
                answer = now.result
    for path, text in written.items():
        path.write_text(text(answer), encoding="utf-8", newline="")
    if arguments.json:
        print(json.dumps(answer))
    else:
        terminal.show_decision(answer)


def _deciding(
    arguments: argparse.Namespace, load: Callable[[argparse.Namespace], Models], prompts: Sequence[Any],
    methods: Sequence[str], options: Mapping[str, Any],
) -> Iterator[Any]:  # fmt: skip
    """The measurement, of this machine or of two servers."""
    given = [getattr(arguments, side) for side in ("baseline", "speculative")]
    if not any(given):
        from .decision import decide

        return decide(load(arguments), prompts, arguments.seconds, methods=methods, **options)
    from ..servers.addresses import both
    from ..servers.decision import MOST
    from ..servers.decision import decide as decide_servers

    if others := [*methods, *(options.keys() - {"max_new_tokens"})]:
        raise SettingsError("servers", others[0], "servers draft as they were started; leave it out.")
    most = options.get("max_new_tokens", MOST)
    return decide_servers(both(*given), prompts, arguments.seconds, most)
