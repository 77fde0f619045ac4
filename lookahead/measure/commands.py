"""The commands `run`, `bench`, `batch`, `decide`, `lab`, `calibrate` and `record`.

`__main__` parses their arguments. Each command checks its arguments before it loads models.
"""

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..core import memory, processor
from ..core.events import Settings, SettingsError, whole_number
from ..core.numbers import decimal, seconds, size
from ..core.text_files import csv_file
from ..engine.methods import method_class, methods_for, read_options
from ..family import hub, typical
from ..family.models import Models
from ..trace.race import measured_on, race
from . import batches, decision, experiments, prompt_files, recordings, tables, terminal
from . import bench as method_bench
from .progress import Progress, questions
from .scenarios import DEFAULT_FAMILY
from .timing import Question, read_entry

MAX_LEVELS = 16


def run(arguments: Namespace) -> None:
    """Write one text. With `--race`, also write it with naive decoding."""
    options = {**_settings(arguments), **read_options(arguments.option)}
    method_class(arguments.method)
    Settings(**{name: value for name, value in options.items() if name in Settings.names()})
    methods = [arguments.method] if not arguments.race or arguments.method == "naive" else ["naive", arguments.method]
    running = race(_load(arguments), arguments.prompt, methods, **options)
    if not arguments.json:
        terminal.show_race(running)
        return
    for _ in running:
        pass
    print(json.dumps(json.loads(running.result().to_json())))


def bench(arguments: Namespace, external_engines: Callable[..., list[method_bench.ExternalEngine]]) -> None:
    """Measure each method on each prompt. `external_engines` returns engines for a family, programs and a folder for files."""
    groups = (arguments.methods or "").split()
    chosen = [method for group in groups for method in ([group] if ":" in group else group.split(",")) if method]
    extra = [*method_bench.PEERS] if arguments.peers else []
    if arguments.fixed:
        extra += [f"{method}:k={k}" for method in arguments.fixed.split(",") for k in method_bench.FIXED]
    for method in (*chosen, *extra):
        read_entry(method)
    options, prompts = _measuring(arguments), _prompts(arguments)
    name = "bench" if arguments.models == DEFAULT_FAMILY else f"bench {arguments.models}"
    _check_update(arguments, name)
    models = _load(arguments)
    has_schema = "schema" in options or any("schema" in question.settings for question in prompts)
    all_methods = [m for m in methods_for(models) if has_schema or not getattr(method_class(m), "needs_schema", False)]
    methods = [*(chosen or all_methods), *extra]
    with TemporaryDirectory() as folder:
        others = external_engines(models, arguments.vllm, arguments.llama_server, Path(folder))
        running = method_bench.measure(models, methods, prompts, repeat=arguments.repeat, others=others, **options)
        report = terminal.run_with_progress(running)
    shown = method_bench.tables(report)
    _finish(arguments, report, lambda: terminal.show_report(report, shown), name, shown)


def batch(arguments: Namespace) -> None:
    """Measure batches of several sizes, and report up to which size drafting pays."""
    methods = [read_entry(method).label for method in filter(None, arguments.methods.split(","))]
    sizes = read_levels("texts", arguments.texts, batches.MAX_TEXTS)
    whole_number("repeat", arguments.repeat, 1, 1000)
    options, prompts = _measuring(arguments), _prompts(arguments)
    _check_update(arguments, "batch")
    running = batches.measure(_load(arguments), prompts, methods, sizes, repeat=arguments.repeat, **options)
    report = terminal.run_with_progress(running)
    report["advice"] = {
        method: decision.texts_at_once(decision.levels_of(row for row in report["rows"] if row["method"] == method))
        for method in dict.fromkeys(row["method"] for row in report["rows"])
    }
    _finish(arguments, report, lambda: _show_batches(report), "batch", [batches.overview(report["rows"])])


def decide(arguments: Namespace, measuring: Callable[..., Iterator[Progress | None]] | None = None) -> None:
    """Measure for a limited time, and report whether speculation pays. `measuring` measures two servers instead."""
    options, prompts = _measuring(arguments), _prompts(arguments)
    for path in filter(None, (arguments.markdown, arguments.csv)):
        tables.writable(path)
    if measuring:
        running = measuring(arguments, prompts, options)
    else:
        methods = [*filter(None, arguments.methods.split(","))]
        running = decision.decide(_load(arguments), prompts, arguments.seconds, methods=methods, **options)
    report = terminal.run_with_progress(running)
    if arguments.markdown:
        arguments.markdown.write_text(report.markdown(), encoding="utf-8", newline="")
    if arguments.csv:
        arguments.csv.write_text(csv_file(report.csv()), encoding="utf-8", newline="")
    after = report.sentence, report.reasons(), report.note
    _finish(arguments, report.document(), lambda: terminal.show_table(*report.table(), after=after))


def lab(arguments: Namespace) -> None:
    """Run experiments, or list them if none is named."""
    if arguments.experiment is None:
        listed = [experiment.listing() for experiment in experiments.EXPERIMENTS.values()]
        rows = [[entry["id"], entry["claim"], "\n".join(entry["runs"])] for entry in listed]
        _finish(arguments, listed, lambda: terminal.show_table(["name", "claim", "runs"], rows))
        return
    chosen = experiments.choose(arguments.experiment)
    for name, most in (("repeat", 1000), ("prompts_each", 1000), ("max_new_tokens", 100_000)):
        if (value := getattr(arguments, name)) is not None:
            whole_number(name, value, 1, most)
    _check_update(arguments, "lab")
    models = _load(arguments)
    caps, results = {"prompts": arguments.prompts_each, "tokens": arguments.max_new_tokens}, []
    for experiment in chosen:
        missing = experiment.missing(models) if arguments.experiment == "all" else []
        if missing:
            message = f"lookahead: skipped {experiment.id}, because {models.spec} has no {' and no '.join(missing)}"
            print(message, file=sys.stderr)
        else:
            results.append(terminal.run_with_progress(experiment.run(models, arguments.repeat, **caps)))
    report = experiments.document(models, results, arguments.repeat)
    shown = experiments.tables(report)
    reasons = [f"{experiment['title']}: {experiment['why']}\n" for experiment in report["experiments"]]
    _finish(arguments, report, lambda: terminal.show_report(report, shown, reasons), "lab", shown)


def calibrate(arguments: Namespace) -> None:
    """Report the cost and the exactness of passes on this machine."""
    models = _load(arguments)
    curve, probe = models.costs.target, models.probe
    probed = {name: getattr(probe, name) for name in ("compared", "differ", "sentence")}
    report = {
        **measured_on(models),
        "probe": {**probed, "largest_difference": probe.worst},
        "pass": [
            {"rows": rows, "seconds": pass_s, "ratio": curve.ratio(rows)}
            for rows, pass_s in zip(curve.rows, curve.seconds, strict=True)
        ],
    }
    if arguments.ship:
        typical.write(Path(arguments.ship), typical.Typical(processor.name(), models.costs))
    machine = "{cpu}, {cores} cores, {threads} threads, {device}, {dtype}".format(**report["machine"])
    rows = [[str(line["rows"]), seconds(line["seconds"]), decimal(line["ratio"])] for line in report["pass"]]
    heads = ["rows", "time per pass", "cost (one-row passes)"]
    _finish(arguments, report, lambda: terminal.show_table(heads, rows, [machine, probe.sentence]))


def record(arguments: Namespace) -> None:
    """Race scenarios and store the recordings."""
    scenarios = recordings.choose(arguments.only, arguments.models)
    folder = arguments.out or recordings.FOLDER
    for path in terminal.run_with_progress(recordings.write(hub.load(arguments.models), folder, scenarios)):
        print(f"{path} {size(path.stat().st_size)}")


def read_levels(name: str, text: str, most: int) -> list[int]:
    """Parse numbers of texts at once, such as "1,4,16", and sort them. Raises `SettingsError` for the setting `name`."""
    try:
        levels = sorted({int(part) for part in text.split(",")})
    except ValueError:
        levels = []
    if not levels or not 1 <= levels[0] <= levels[-1] <= most or len(levels) > MAX_LEVELS:
        raise SettingsError(name, text, f"give up to {MAX_LEVELS} numbers from 1 to {most}: 1,4,16.")
    return levels


def _show_batches(report: dict[str, Any]) -> None:
    for method, sentence in report["advice"].items():
        rows = [row for row in report["rows"] if row["method"] == method]
        terminal.show_table(*batches.table(rows), [f"\n{method}: {sentence}"])
    terminal.show_report(report, [])


def _load(arguments: Namespace) -> Models:
    models = hub.load(arguments.models)
    memory.release()
    return models


def _settings(arguments: Namespace) -> dict[str, Any]:
    """Return the decoding settings that the arguments have."""
    values = {name: getattr(arguments, name, None) for name in Settings.names()}
    if values["schema"]:
        values["schema"] = prompt_files.text_of("schema", values["schema"])
    return {name: value for name, value in values.items() if value is not None}


def _measuring(arguments: Namespace) -> dict[str, Any]:
    """Return the settings without `chat`, which each prompt sets. Raises `SettingsError`."""
    options = {name: value for name, value in _settings(arguments).items() if name != "chat"}
    Settings(**options)
    return options


def _prompts(arguments: Namespace) -> list[Question]:
    return prompt_files.read(arguments.prompts) if arguments.prompts else questions(family=arguments.models)


def _check_update(arguments: Namespace, name: str) -> None:
    """Raise `SettingsError` if the `--update` file does not have the markers."""
    if arguments.update:
        tables.split(arguments.update, name)


def _finish(
    arguments: Namespace, report: Any, show: Callable[[], None], name: str = "", shown: Sequence[tables.Table] = ()
) -> None:
    """Print a report as JSON or with `show`, and write its tables between the markers `name` of the `--update` file."""
    if shown and arguments.update:
        tables.replace_between(arguments.update, name, tables.report_markdown(report, shown))
    if arguments.json:
        print(json.dumps(report))
    else:
        show()
