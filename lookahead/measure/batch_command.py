"""`python -m lookahead batch`: how many texts at once? Naive decoding against drafting in batches of several sizes.

Knows arguments. What is measured is `batches`' business, imported when it is needed, so that help comes at once.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..core.events import Settings, whole_number
from .paying import read_levels

if TYPE_CHECKING:
    from ..family.models import Models

USUAL_TEXTS, USUAL_METHODS = "1,2,4,8,16,32,64", "draft,ngram"


def add(commands: Any, shared: Sequence[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """The subcommand and its arguments."""
    batch = commands.add_parser("batch", parents=shared, help="how many texts at once? Batches of several sizes")
    batch.add_argument("--methods", default=USUAL_METHODS, metavar="A,B", help=f"beside naive ({USUAL_METHODS})")
    batch.add_argument("--texts", default=USUAL_TEXTS, metavar="N,N", help=f"texts at once ({USUAL_TEXTS})")
    batch.add_argument("--prompts", metavar="FILE.jsonl", help='lines {"id", "category", "prompt", "chat"}')
    batch.add_argument("--repeat", type=int, default=1, metavar="N", help="times that every batch is written (1)")
    return batch


def run(
    arguments: argparse.Namespace, load: Callable[[argparse.Namespace], Models], options: Mapping[str, Any]
) -> None:
    """Write the batches, with settings of decoding."""
    from . import batches, bench, prompt_files, terminal
    from .progress import questions

    methods = [bench.read_entry(method).label for method in filter(None, arguments.methods.split(","))]
    sizes = read_levels("texts", arguments.texts, batches.MOST_TEXTS)
    whole_number("repeat", arguments.repeat, 1, 1000)
    options = {name: value for name, value in options.items() if name != "chat"}
    Settings(**options)
    prompts = prompt_files.read(arguments.prompts) if arguments.prompts else questions(family=arguments.models)
    models, report = load(arguments), None
    with terminal.progress() as progress:
        for now in batches.measure(models, prompts, methods, sizes, repeat=arguments.repeat, **options):
            if now:
                progress(now.done, now.total, now.text)
                report = now.result
    if arguments.json:
        print(json.dumps(report))
    else:
        terminal.show_batches(report)
