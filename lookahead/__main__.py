"""The command line: `python -m lookahead run | bench | lab | calibrate | record | train | schema | limits`.

Bad input prints one clear line on stderr and exits 2. `--json` puts one JSON document on stdout
and nothing else; progress goes to stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from . import room
from .events import LookaheadError, SettingsError
from .lab import command

RUN_OPTIONS = (
    "max_new_tokens",
    "k",
    "temperature",
    "top_k",
    "top_p",
    "repetition_penalty",
    "seed",
    "rule",
    "stop",
    "chat",
)


def main(argv: list[str] | None = None) -> int:
    """Parse and run; returns the exit status."""
    arguments = _parser().parse_args(argv)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        from transformers.utils import logging

        logging.disable_progress_bar()
        return COMMANDS[arguments.command](arguments)
    except LookaheadError as error:
        print(f"lookahead: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("lookahead: stopped", file=sys.stderr)
        return 130


def _k(text: str) -> int | str:
    return text if text == "auto" else int(text)


_k.__name__ = 'whole number or "auto"'


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lookahead", description="Speculative decoding, seen and measured.")
    commands = parser.add_subparsers(dest="command", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--models", default=os.environ.get("LOOKAHEAD_MODELS", "pocket"), help='"pocket", or target+draft'
    )
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
    decoding.add_argument("--stop", action="append", help="end at this text (may be repeated)")
    decoding.add_argument("--chat", action="store_true", default=None, help="wrap the prompt in the chat template")

    run = commands.add_parser("run", parents=[shared, decoding], help="write a continuation, coloured by origin")
    run.add_argument("prompt")
    run.add_argument("--method", default="draft")
    run.add_argument("--race", action="store_true", help="run naive beside it and compare")
    run.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="an option of the method")

    bench = commands.add_parser("bench", parents=[shared, decoding], help="measure methods against naive")
    bench.add_argument("--methods", help='"a,b", or with options "a b:k=4 draft:draft=offdomain"; all by default')
    bench.add_argument("--peers", action="store_true", help="add transformers' own, with several settings each")
    bench.add_argument(
        "--fixed", metavar="METHODS", help="compare auto with fixed draft lengths, for these methods: a,b"
    )
    bench.add_argument("--prompts", metavar="FILE.jsonl", help='lines {"id", "category", "prompt", "chat"}')
    bench.add_argument("--repeat", type=int, default=3)
    bench.add_argument("--update", metavar="FILE.md", help="write the table between the bench markers of a file")

    command.add(commands, shared)
    commands.add_parser(
        "calibrate", parents=[shared], help="what this machine asks for a pass, and whether it is exact"
    )
    train = commands.add_parser("train", help="make a family of models from text")
    train.add_argument("--corpus", required=True, type=Path, metavar="DIR", help="the text; see the model card")
    train.add_argument("--out", required=True, type=Path, metavar="DIR", help="the family, and its work folder")
    train.add_argument("--minutes", type=float, help="time to spend in all (120)")
    train.add_argument("--tokens", type=int, help="or: tokens to train the target on")
    train.add_argument("--resume", action="store_true", help="go on where an earlier run in --out stopped")
    train.add_argument("--start-from", type=Path, metavar="DIR", help="a family to go on from")
    train.add_argument(
        "--only",
        nargs="+",
        metavar="ROLE",
        help="train these of target, draft, offdomain; take the rest from --start-from",
    )
    train.add_argument("--compile", action="store_true", help="use torch.compile: faster, needs a C++ compiler")
    train.add_argument("--card", action="store_true", help="only measure the family in --out and write its card")
    record = commands.add_parser("record", help="race every scenario and keep the recordings the page shows")
    record.add_argument("--out", type=Path, metavar="DIR", help="where to keep them (assets/traces)")
    record.add_argument("--only", metavar="ID,ID", help="these scenarios; all by default")
    commands.add_parser("schema", help="the JSON schema of a trace")
    limits = commands.add_parser("limits", help="the variables by which a host limits a server, as a table")
    limits.add_argument("--update", metavar="FILE.md", help="write it between the limits markers of a file")
    return parser


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The decoding options that were given."""
    given = {name: getattr(arguments, name) for name in RUN_OPTIONS}
    return {name: tuple(v) if isinstance(v, list) else v for name, v in given.items() if v is not None}


def _load(arguments: argparse.Namespace):
    from .hub import load

    models = load(arguments.models)
    room.release()
    return models


def _run(arguments: argparse.Namespace) -> int:
    from . import terminal
    from .events import Settings
    from .methods import method_class, read_options
    from .race import race

    options = {**_options(arguments), **read_options(arguments.option)}
    method_class(arguments.method)
    Settings(**{name: value for name, value in options.items() if name in Settings.names()})
    methods = [arguments.method] if not arguments.race or arguments.method == "naive" else ["naive", arguments.method]
    running = race(_load(arguments), arguments.prompt, methods, **options)
    if arguments.json:
        for _ in running:
            pass
        print(running.result().to_json())
    else:
        terminal.show_race(running)
    return 0


def _bench(arguments: argparse.Namespace) -> int:
    from . import bench, terminal
    from .events import Settings
    from .methods import METHODS

    methods = arguments.methods.split() if arguments.methods else [",".join(METHODS)]
    methods = [m for group in methods for m in ([group] if ":" in group else group.split(",")) if m]
    if arguments.peers:
        methods += bench.PEERS
    if arguments.fixed:
        methods += [f"{method}:k={k}" for method in arguments.fixed.split(",") for k in bench.FIXED]
    for method in methods:
        bench.read_entry(method)
    options = _options(arguments)
    options.pop("chat", None)
    Settings(**options)
    questions = bench.read_questions(arguments.prompts) if arguments.prompts else bench.default_questions()
    models = _load(arguments)
    with terminal.progress() as progress:
        report = bench.run(models, methods, questions, repeat=arguments.repeat, progress=progress, **options)
    if arguments.update:
        bench.update(arguments.update, report)
    if arguments.json:
        print(json.dumps(report))
    else:
        terminal.show_bench(report)
    return 0


def _lab(arguments: argparse.Namespace) -> int:
    return command.run(arguments, _load)


def _calibrate(arguments: argparse.Namespace) -> int:
    from . import terminal
    from .race import describe_machine

    models = _load(arguments)
    costs, probe = models.costs, models.probe
    report = {
        "machine": describe_machine(models).model_dump(),
        "models": {"spec": models.spec, **models.names},
        "exactness": models.exactness,
        "probe": {
            "chain_rows": probe.chain_rows,
            "chain_differ": probe.chain_differ,
            "tree_rows": probe.tree_rows,
            "tree_differ": probe.tree_differ,
            "largest_difference": probe.worst,
        },
        "pass": [
            {"rows": rows, "seconds": seconds, "ratio": costs.ratio(rows)}
            for rows, seconds in zip(costs.rows, costs.seconds, strict=True)
        ],
    }
    if arguments.json:
        print(json.dumps(report))
    else:
        terminal.show_calibration(report)
    return 0


def _record(arguments: argparse.Namespace) -> int:
    from . import recordings, terminal
    from .models import load

    scenarios = recordings.choose(arguments.only)
    with terminal.progress() as progress:
        files = recordings.write(load("pocket"), arguments.out or recordings.FOLDER, scenarios, progress)
    for path in files:
        print(f"{path} {path.stat().st_size:,} bytes")
    return 0


def _schema(arguments: argparse.Namespace) -> int:
    from .trace import Trace

    print(json.dumps(Trace.schema_json(), indent=1))
    return 0


def _limits(arguments: argparse.Namespace) -> int:
    from .bench import replace_between
    from .limits import MARKS, table

    if arguments.update:
        replace_between(arguments.update, MARKS, table())
    print(table())
    return 0


def _train(arguments: argparse.Namespace) -> int:
    from . import terminal
    from .train import ROLES, Job, Plan, describe, train

    for name in ("minutes", "tokens"):
        if (value := getattr(arguments, name)) is not None and value <= 0:
            raise SettingsError(name, value, "give a number above 0.")
    asked = arguments.only or ROLES
    if wrong := set(asked) - set(ROLES):
        raise SettingsError("only", ", ".join(sorted(wrong)), f"choose among {', '.join(ROLES)}.")
    only = tuple(role for role in ROLES if role in asked)
    if only != ROLES and not arguments.start_from:
        raise SettingsError("only", ", ".join(only), "say with --start-from where the others are.")
    job = Job(
        arguments.corpus, arguments.out, Plan(), arguments.minutes, arguments.tokens, arguments.resume, arguments.compile,
        arguments.start_from, only,
    )  # fmt: skip
    with terminal.training() as watch:
        if not arguments.card:
            train(job, watch)
    print(describe(job))
    return 0


COMMANDS = {
    "run": _run,
    "bench": _bench,
    "lab": _lab,
    "calibrate": _calibrate,
    "record": _record,
    "train": _train,
    "schema": _schema,
    "limits": _limits,
}


if __name__ == "__main__":
    sys.exit(main())
