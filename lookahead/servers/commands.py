"""The commands `attach`, which compares two servers under load, `doctor`, and `acceptance`, which reads records of other tools."""

import json
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from ..core.events import SettingsError, TraceError, whole_number
from ..core.numbers import count, counted, decimal, percent
from ..core.text_files import csv_file, csv_text
from ..measure import prompt_files
from ..measure.commands import read_levels
from ..measure.progress import Progress, questions
from ..measure.tables import writable
from ..measure.terminal import run_with_progress, show_lines, show_table
from ..measure.timing import Question
from . import decision, diagnosis, records, report
from .addresses import compared_servers
from .doctor import bundled_questions, examine
from .load import rounds_of
from .race import ServerRace

MAX_AT_ONCE = 512
COLUMNS = (
    "id", "concurrency", "tokens_per_second", "baseline_tokens_per_second", "speedup", "mean_acceptance_length",
    "draft_acceptance_rate", "identical",
)  # fmt: skip


def attach(arguments: Namespace) -> None:
    """Measure both servers under load, and print the report."""
    levels = read_levels("concurrency", arguments.concurrency, MAX_AT_ONCE)
    whole_number("max_new_tokens", arguments.max_new_tokens, 1, 100_000)
    whole_number("repeat", arguments.repeat, 1, 1000)
    sides = compared_servers(arguments.baseline, arguments.speculative)
    prompts = prompt_files.read(arguments.prompts) if arguments.prompts else questions()
    for path in filter(None, (arguments.csv, arguments.trace)):
        writable(path)  # checked before the measurement
    plan = rounds_of(levels, len(prompts), arguments.repeat)
    measured = run_with_progress(report.measure(sides, prompts, plan, arguments.max_new_tokens))
    if arguments.csv:
        arguments.csv.write_text(csv_file(to_csv(measured)), encoding="utf-8", newline="")
    if arguments.json:
        print(json.dumps(measured))
    else:
        before = [f"{side}: {server['model']}, {server['kind']}" for side, server in measured["servers"].items()]
        remarks = dict.fromkeys(line for level in measured["levels"] for line in level["remarks"])
        show_table(*report.table(measured), before, [*remarks, measured["advice"], measured["note"]])
    if arguments.trace:
        race = ServerRace([*sides.values()], prompts[0].prompt, arguments.max_new_tokens, prompts[0].chat)
        for _ in race:
            pass
        arguments.trace.write_text(race.result().to_json(), encoding="utf-8")


def decide(arguments: Namespace, prompts: Sequence[Question], options: Mapping[str, Any]) -> Iterator[Progress | None]:
    """Start the measurement of the command `decide` on two servers."""
    sides = compared_servers(arguments.baseline, arguments.speculative)
    if others := [*filter(None, arguments.methods.split(",")), *(options.keys() - {"max_new_tokens"})]:
        raise SettingsError("servers", others[0], "servers draft as they were started; omit this option.")
    return decision.decide(sides, prompts, arguments.seconds, options.get("max_new_tokens", decision.MAX_TOKENS))


def doctor(arguments: Namespace) -> None:
    """Diagnose speculation on two servers, and print the report."""
    whole_number("max_new_tokens", arguments.max_new_tokens, 1, 100_000)
    sides = compared_servers(arguments.baseline, arguments.speculative)
    prompts = prompt_files.read(arguments.prompts) if arguments.prompts else bundled_questions()
    if arguments.markdown:
        writable(arguments.markdown)  # checked before the measurement
    result = run_with_progress(examine(sides, prompts, arguments.seconds, arguments.max_new_tokens))
    if arguments.markdown:
        arguments.markdown.write_text(result.markdown(), encoding="utf-8", newline="")
    if arguments.json:
        print(json.dumps(result.document()))
    else:
        _show_diagnosis(result)


def acceptance(arguments: Namespace) -> None:
    """Read and summarize records, print the summary, and write the records if requested."""
    if arguments.records:
        writable(arguments.records)
    try:
        data = arguments.file.read_bytes()
    except OSError as error:
        raise TraceError("file", str(arguments.file), f"it cannot be read ({error.__class__.__name__}).") from None
    texts = records.read(data)
    if arguments.records:
        lines = "".join(record.model_dump_json(exclude_none=True) + "\n" for record in texts)
        arguments.records.write_text(lines, encoding="utf-8")
    summary = records.summarize(texts)
    if arguments.json:
        print(json.dumps(summary))
    else:
        _show_acceptance(summary)


def to_csv(measured: dict[str, Any]) -> str:
    """Return the rows as CSV."""
    return csv_text(COLUMNS, ([row.get(name) for name in COLUMNS] for row in measured["rows"]))


def _show_diagnosis(result: diagnosis.Diagnosis) -> None:
    for finding in result.findings:
        lines = (f"{finding.severity}: {finding.title}", finding.evidence, finding.fix, finding.flag)
        show_lines([*filter(None, lines), ""])
    for name, title in diagnosis.TITLES.items():
        if name in result.sections:
            show_table(*result.table(name), [title], [*filter(None, [result.reason(name)]), ""])
        else:
            show_lines([title, result.reason(name), ""])
    show_lines([diagnosis.NOTE, "", result.advice])


def _show_acceptance(summary: dict[str, Any]) -> None:
    interval = summary["interval"]
    bounds = f" [{decimal(interval[0])}, {decimal(interval[1])}]" if interval else ""
    sentence = (
        f"{counted(summary['texts'], 'text')} by {', '.join(summary['engines'])}: {decimal(summary['mean_acceptance_length'])}{bounds} tokens per "
        f"pass, over {count(summary['num_spec_steps'])} passes with a draft; {percent(summary['draft_acceptance_rate'])} of the drafted tokens accepted."
    )
    headings, rows = ["position", "accepted", "tested"], []
    for position, forecast in zip_longest(summary["by_position"], summary["tokens_per_pass"]):
        tested = [*(str(position[name]) for name in headings), percent(position["rate"])] if position else [""] * 4
        rows.append([*tested, *([f"k = {forecast['k']}", decimal(forecast["tokens"])] if forecast else [])])
    forecast_headings = ["draft length", "tokens per pass"] if summary["tokens_per_pass"] else []
    show_table([*headings, "rate", *forecast_headings], rows, [sentence], [summary["note"]])
