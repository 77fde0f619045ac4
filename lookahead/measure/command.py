"""`python -m lookahead lab`: the experiments on the command line, and their table.

Without a name it lists them; with names it runs them and prints claim and measurement side by side.
`--json` prints one document, `--update` writes the table between the lab markers of a file.

Knows reports. Models and measurements are imported when they are needed, so that help comes at once.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..core.events import whole_number
from ..core.numbers import ranged, ratio
from .tables import between, markdown_table, measured_where, replace_between

if TYPE_CHECKING:
    from ..family.models import Models
    from .experiments import Experiment, Result

MARKS = ("<!-- lab -->", "<!-- /lab -->")


def add(commands: Any, shared: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """The subcommand and its arguments."""
    lab = commands.add_parser("lab", parents=[shared], help="measure the claims that everybody quotes")
    lab.add_argument("experiment", nargs="?", metavar="NAME,NAME|all", help="which to run; without it they are listed")
    lab.add_argument("--repeat", type=int, default=3, help="repetitions (3)")
    lab.add_argument("--prompts-each", type=int, metavar="N", help="at most so many prompts in each arm")
    lab.add_argument("--max-new-tokens", type=int, metavar="N", help="at most so many tokens a text")
    lab.add_argument("--update", metavar="FILE.md", help="write the table between the lab markers of a file")
    return lab


def run(arguments: argparse.Namespace, load: Callable[[argparse.Namespace], Models]) -> None:
    """List or run the experiments."""
    from . import terminal
    from .experiments import EXPERIMENTS, choose

    if arguments.experiment is None:
        listed = [listing(experiment) for experiment in EXPERIMENTS.values()]
        if arguments.json:
            print(json.dumps(listed))
        else:
            terminal.show_experiments(listed)
        return
    chosen = choose(arguments.experiment)
    for name, most in (("repeat", 1000), ("prompts_each", 1000), ("max_new_tokens", 100_000)):
        if (value := getattr(arguments, name)) is not None:
            whole_number(name, value, 1, most)
    if arguments.update:
        between(arguments.update, MARKS)  # before the first second is spent
    models = load(arguments)
    for experiment in chosen if arguments.experiment == "all" else ():
        if missing := experiment.missing(models):
            print(
                f"lookahead: {experiment.id} left out: {models.spec} has no {' and no '.join(missing)}", file=sys.stderr
            )
            chosen = [other for other in chosen if other is not experiment]
    with terminal.progress() as progress:
        results = []
        for experiment in chosen:
            for now in experiment.run(
                models, arguments.repeat, prompts=arguments.prompts_each, tokens=arguments.max_new_tokens
            ):
                if now:
                    progress(now.done, now.total, f"{experiment.id}, {now.text}")
                    newest = now.result
            results.append(newest)
    report = document(models, results, arguments.repeat)
    if arguments.update:
        replace_between(arguments.update, MARKS, markdown(report))
    if arguments.json:
        print(json.dumps(report))
    else:
        terminal.show_lab(report)


def listing(experiment: Experiment) -> dict[str, Any]:
    """An experiment as plain data."""
    return {
        "id": experiment.id,
        "title": experiment.title,
        "group": experiment.group,
        "claim": experiment.claim,
        "claimed": experiment.claimed,
        "runs": [f"{plan.method}: {plan.label}" for plan in experiment.plans],
    }


def document(models: Models, results: list[Result], repeat: int) -> dict[str, Any]:
    """Results as plain data, with what they were measured on."""
    from ..trace.race import measured_on

    return {
        **measured_on(models),
        "options": {"repeat": repeat},
        "note": "speedups over naive decoding, prefill excluded on both sides; the median prompt, and the extremes of all prompts and repetitions",
        "experiments": [
            {
                **listing(result.experiment),
                "measured": result.measured.label,
                "median": result.measured.median,
                "low": result.measured.low,
                "high": result.measured.high,
                "interval": result.interval,
                "compared": None if result.compared is None else asdict(result.compared),
                "outcome": result.outcome,
                "why": result.why,
                "arms": [asdict(arm) for arm in result.arms],
                "batches": [level._asdict() for level in result.batches],
            }
            for result in results
        ],
    }


def markdown(report: dict[str, Any]) -> str:
    """The report as Markdown tables, one for each list that the claims stand in."""
    tables = []
    for group in dict.fromkeys(one["group"] for one in report["experiments"]):
        head = [group, "claimed", "measured here", "90% interval", "lowest to highest", "compared with", ""]
        rows = [_cells(one) for one in report["experiments"] if one["group"] == group]
        tables.append(markdown_table(head, rows))
    end = f"{measured_where(report)}; {report['note']}."
    return "\n\n".join([*tables, end])


def _cells(one: dict[str, Any]) -> list[str]:
    """An experiment's row."""
    if one["median"] is None:
        return [one["title"], one["claimed"], "not measured", "", "", "", ""]
    compared = one["compared"]
    return [
        one["title"], one["claimed"], f"{one['measured']}: {ratio(one['median'])}",
        ranged(one["interval"]), f"{ratio(one['low'])} to {ratio(one['high'])}",
        f"{compared['label']}: {ratio(compared['median'])}" if compared and compared["median"] else "", one["outcome"],
    ]  # fmt: skip
