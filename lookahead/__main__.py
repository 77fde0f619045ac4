"""The command line: `python -m lookahead run | bench | batch | lab | attach | calibrate | record | train | fetch | schema | limits`.

Bad input prints one clear line on stderr and exits 2. `--json` puts one JSON document on stdout
and nothing else; progress goes to stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .core import memory
from .core.events import LookaheadError, Settings, SettingsError
from .core.numbers import size
from .core.streams import tolerate_any_text
from .family.spec import families
from .measure import batch_command, command, decide_command
from .measure.scenarios import USUAL
from .servers import command as servers_command

CHECKOUT = Path(__file__).parent.parent


def main(argv: list[str] | None = None) -> int:
    """Parse and run; returns the exit status."""
    tolerate_any_text()
    arguments = _parser().parse_args(argv)
    if getattr(arguments, "dtype", None):
        os.environ["LOOKAHEAD_DTYPE"] = arguments.dtype
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        from transformers.utils import logging

        logging.disable_progress_bar()
        arguments.call(arguments)
        return 0
    except LookaheadError as error:
        print(f"lookahead: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("lookahead: stopped", file=sys.stderr)
        return 130


def _stop(*_: object) -> None:
    raise KeyboardInterrupt  # as Ctrl-C does, so that engines started for a bench end too


def _k(text: str) -> int | str:
    return text if text == "auto" else int(text)


_k.__name__ = 'whole number or "auto"'


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lookahead", description="Speculative decoding, seen and measured.")
    commands = parser.add_subparsers(dest="command", required=True)
    number_format = argparse.ArgumentParser(add_help=False)
    number_format.add_argument(
        "--dtype", metavar="FORMAT", help="bfloat16, float32, or auto: measured (LOOKAHEAD_DTYPE)"
    )
    shared = argparse.ArgumentParser(add_help=False, parents=[number_format])
    family = families(os.environ.get("LOOKAHEAD_MODELS") or USUAL)[0]
    shared.add_argument("--models", default=family, help='"pocket", "smol", or target+draft')
    shared.add_argument("--json", action="store_true", help="one JSON document on stdout")

    decoding = argparse.ArgumentParser(add_help=False)
    decoding.add_argument("--max-new-tokens", type=int, help="at most so many tokens (128)")
    decoding.add_argument("--k", type=_k, help='tokens to draft in a pass, or "auto"')
    decoding.add_argument("--temperature", type=float, help="0 is greedy")
    decoding.add_argument("--top-k", type=int)
    decoding.add_argument("--top-p", type=float)
    decoding.add_argument("--repetition-penalty", type=float)
    decoding.add_argument("--seed", type=int)
    decoding.add_argument("--rule", help="auto, greedy, coupled or rejection")
    decoding.add_argument("--costs", help="pass costs that auto decides with: auto, typical or measured")
    decoding.add_argument("--stop", action="append", help="end at this text (may be repeated)")
    decoding.add_argument("--chat", action="store_true", default=None, help="wrap the prompt in the chat template")

    run = commands.add_parser("run", parents=[shared, decoding], help="write a continuation, coloured by origin")
    run.set_defaults(call=_run)
    run.add_argument("prompt")
    run.add_argument("--method", default="draft")
    run.add_argument("--race", action="store_true", help="run naive beside it and compare")
    run.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="an option of the method")

    bench = commands.add_parser("bench", parents=[shared, decoding], help="measure methods against naive")
    bench.set_defaults(call=_bench)
    bench.add_argument("--methods", help='"a,b", or with options "a b:k=4 draft:draft=offdomain"; all by default')
    bench.add_argument("--peers", action="store_true", help="add transformers' own, with several settings each")
    bench.add_argument("--vllm", metavar="PYTHON", help="add vLLM: the interpreter of the environment it is in")
    bench.add_argument("--llama-server", metavar="PROGRAM", help="add llama.cpp's server")
    bench.add_argument(
        "--fixed", metavar="METHODS", help="compare auto with fixed draft lengths, for these methods: a,b"
    )
    bench.add_argument("--prompts", metavar="FILE.jsonl", help='lines {"id", "category", "prompt", "chat"}')
    bench.add_argument("--repeat", type=int, default=3)
    bench.add_argument("--update", metavar="FILE.md", help="write the table between the bench markers of a file")

    batch_command.add(commands, [shared, decoding]).set_defaults(
        call=lambda arguments: batch_command.run(arguments, _load, _settings(arguments))
    )
    decide_command.add(commands, [shared, decoding]).set_defaults(
        call=lambda arguments: decide_command.run(arguments, _load, _settings(arguments))
    )
    command.add(commands, shared).set_defaults(call=partial(command.run, load=_load))
    servers_command.add(commands)
    calibrate = commands.add_parser("calibrate", parents=[shared], help="pass costs of this machine, and exactness")
    calibrate.set_defaults(call=_calibrate)
    calibrate.add_argument("--ship", metavar="FAMILY", help="write the costs into a family's folder, for costs=typical")
    train = commands.add_parser("train", help="train a family of models on text; needs a checkout of the repository")
    train.set_defaults(call=_train)
    train.add_argument("--corpus", type=Path, metavar="DIR", help="the text; see the model card. Heads can do without")
    train.add_argument("--out", required=True, type=Path, metavar="DIR", help="the family, and its work folder")
    train.add_argument("--minutes", type=float, help="time to spend in all (120)")
    train.add_argument("--tokens", type=int, help="or: tokens to train the target on")
    train.add_argument("--resume", action="store_true", help="go on where an earlier run in --out stopped")
    train.add_argument("--start-from", type=Path, metavar="DIR", help="a family to go on from")
    train.add_argument(
        "--only",
        nargs="+",
        metavar="ROLE",
        help="train these of target, draft, offdomain, medusa, eagle, block; take the rest from --start-from",
    )
    train.add_argument("--compile", action="store_true", help="use torch.compile: faster, needs a C++ compiler")
    train.add_argument("--card", action="store_true", help="only measure the family in --out and write its card")
    record = commands.add_parser(
        "record", parents=[number_format], help="race every scenario and keep the recordings the page shows"
    )
    record.set_defaults(call=_record)
    record.add_argument("--models", default=USUAL, metavar="FAMILY", help='those of "pocket", or of "smol"')
    record.add_argument("--out", type=Path, metavar="DIR", help="where to keep them (assets/traces)")
    record.add_argument("--only", metavar="ID,ID", help="these scenarios; all by default")
    fetch = commands.add_parser("fetch", help="get a family ready whose target is not bundled: smol")
    fetch.set_defaults(call=_fetch)
    fetch.add_argument("family")
    fetch.add_argument("--json", action="store_true", help="one JSON document on stdout")
    schema = commands.add_parser("schema", help="the JSON schema of a trace, or of a record of acceptance")
    schema.add_argument("--acceptance", action="store_true", help="that of a record of acceptance")
    schema.set_defaults(call=_schema)
    limits = commands.add_parser("limits", help="the variables by which a host limits a server, as a table")
    limits.set_defaults(call=_limits)
    limits.add_argument("--update", metavar="FILE.md", help="write it between the limits markers of a file")
    return parser


def _settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """The decoding settings that were given."""
    given = {name: getattr(arguments, name, None) for name in Settings.names()}
    return {name: value for name, value in given.items() if value is not None}


def _load(arguments: argparse.Namespace):
    from .family.hub import load

    models = load(arguments.models)
    memory.release()
    return models


def _run(arguments: argparse.Namespace) -> None:
    from .measure import terminal
    from .race.methods import method_class, read_options
    from .trace.race import race

    options = {**_settings(arguments), **read_options(arguments.option)}
    method_class(arguments.method)
    Settings(**{name: value for name, value in options.items() if name in Settings.names()})
    methods = [arguments.method] if not arguments.race or arguments.method == "naive" else ["naive", arguments.method]
    running = race(_load(arguments), arguments.prompt, methods, **options)
    if arguments.json:
        for _ in running:
            pass
        print(json.dumps(json.loads(running.result().to_json())))
    else:
        terminal.show_race(running)


def _bench(arguments: argparse.Namespace) -> None:
    from .measure import bench, prompt_files, terminal
    from .measure.progress import questions
    from .measure.tables import replace_between
    from .race.methods import methods_for

    groups = (arguments.methods or "").split()
    given = [m for group in groups for m in ([group] if ":" in group else group.split(",")) if m]
    further = list(bench.PEERS) if arguments.peers else []
    if arguments.fixed:
        further += [f"{method}:k={k}" for method in arguments.fixed.split(",") for k in bench.FIXED]
    for method in (*given, *further):
        bench.read_entry(method)
    options = _settings(arguments)
    options.pop("chat", None)
    Settings(**options)
    prompts = prompt_files.read(arguments.prompts) if arguments.prompts else questions(family=arguments.models)
    models = _load(arguments)
    methods = [*(given or methods_for(models)), *further]
    with terminal.progress() as progress, TemporaryDirectory() as folder:
        others = []
        if arguments.vllm or arguments.llama_server:
            from .servers.engines import rivals

            others = rivals(models, arguments.vllm, arguments.llama_server, Path(folder))
        report = bench.run(
            models, methods, prompts, repeat=arguments.repeat, progress=progress, others=others, **options
        )
    if arguments.update:
        replace_between(arguments.update, bench.marks(models.spec), bench.markdown(report))
    if arguments.json:
        print(json.dumps(report))
    else:
        terminal.show_bench(report)


def _calibrate(arguments: argparse.Namespace) -> None:
    from .core import processor
    from .family import typical
    from .family.typical import Typical
    from .measure import terminal
    from .trace.race import measured_on

    models = _load(arguments)
    curve, probe = models.costs.target, models.probe
    report = {
        **measured_on(models),
        "probe": {
            "compared": probe.compared,
            "differ": probe.differ,
            "largest_difference": probe.worst,
            "sentence": probe.sentence,
        },
        "pass": [
            {"rows": rows, "seconds": seconds, "ratio": curve.ratio(rows)}
            for rows, seconds in zip(curve.rows, curve.seconds, strict=True)
        ],
    }
    if arguments.ship:
        typical.write(Path(arguments.ship), Typical(processor.name(), models.costs))
    if arguments.json:
        print(json.dumps(report))
    else:
        terminal.show_calibration(report)


def _record(arguments: argparse.Namespace) -> None:
    from .family.hub import load
    from .measure import recordings, terminal

    scenarios = recordings.choose(arguments.only, arguments.models)
    with terminal.progress() as progress:
        files = recordings.write(load(arguments.models), arguments.out or recordings.FOLDER, scenarios, progress)
    for path in files:
        print(f"{path} {size(path.stat().st_size)}")


def _fetch(arguments: argparse.Namespace) -> None:
    from .family.hub import fetch, load
    from .measure import terminal

    with terminal.progress() as progress:

        def show(text: str, share: float) -> None:
            progress(round(100 * share), 100, text)

        source, folder = fetch(arguments.family, show)
        load(arguments.family, show)  # what is compiled and measured once is so before anybody waits for it
    bytes_ = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    if arguments.json:
        print(json.dumps({"family": arguments.family, "source": source, "folder": str(folder), "bytes": bytes_}))
    else:
        print(f"{arguments.family} is ready, from the {source}: {size(bytes_)} in {folder}")


def _schema(arguments: argparse.Namespace) -> None:
    from .servers.records import AcceptanceRecord
    from .trace.trace import Trace

    print(json.dumps((AcceptanceRecord.model_json_schema if arguments.acceptance else Trace.schema_json)(), indent=1))


def _limits(arguments: argparse.Namespace) -> None:
    from .measure.tables import replace_between
    from .server.limits import MARKS, table

    if arguments.update:
        replace_between(arguments.update, MARKS, table())
    print(table())


def _train(arguments: argparse.Namespace) -> None:
    if not (CHECKOUT / "training" / "command.py").is_file():
        hint = "it needs a checkout of the repository, because `training` is not installed."
        raise SettingsError("command", "train", hint)
    sys.path.insert(0, str(CHECKOUT))  # the current directory may be another
    from training.command import run

    run(arguments)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    sys.exit(main())
