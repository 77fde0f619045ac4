"""The command line, `lookahead` or `python -m lookahead`.

Bad input prints one line on stderr and exits 2. `--json` prints one JSON document on stdout; progress goes to stderr. Modules
that compute are imported when a command runs.
"""

import argparse
import json
import os
import signal
import sys
from pathlib import Path

from .core.events import LookaheadError, SettingsError
from .core.numbers import size
from .core.streams import tolerate_any_text
from .family.spec import families
from .measure.scenarios import USUAL
from .page import app

CHECKOUT = Path(__file__).parent.parent
SERVER = "the server without speculation: its address, or a name of LOOKAHEAD_SERVERS"


def main(argv: list[str] | None = None) -> int:
    """Parse and run; returns the exit status."""
    tolerate_any_text()
    arguments = _parser().parse_args(argv)
    if arguments.command == "serve":
        return app.serve(arguments)
    if getattr(arguments, "dtype", None):
        os.environ["LOOKAHEAD_DTYPE"] = arguments.dtype
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        from transformers.utils import logging

        logging.disable_progress_bar()
        _run(arguments)
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
    parser = argparse.ArgumentParser(prog="lookahead", description="Speculative decoding, seen and measured.")
    commands = parser.add_subparsers(dest="command", required=True)
    document, dtype, shared, decoding, prompts, table = (argparse.ArgumentParser(add_help=False) for _ in range(6))
    document.add_argument("--json", action="store_true", help="one JSON document on stdout")
    prompts.add_argument("--prompts", metavar="FILE.jsonl", help='lines {"id", "category", "prompt", "chat"}')
    table.add_argument("--update", metavar="FILE.md", help="write the table between the command's markers in a file")
    dtype.add_argument("--dtype", metavar="FORMAT", help="bfloat16, float32, or auto (LOOKAHEAD_DTYPE)")
    family = families(os.environ.get("LOOKAHEAD_MODELS") or USUAL)[0]
    shared.add_argument("--models", default=family, help='"pocket", "smol", or target+draft')
    loading = [dtype, shared, document]

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

    run = commands.add_parser("run", parents=[*loading, decoding], help="write a continuation, coloured by origin")
    run.add_argument("prompt")
    run.add_argument("--method", default="draft")
    run.add_argument("--race", action="store_true", help="run naive too and compare")
    run.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="an option of the method")

    app.add_arguments(commands.add_parser("serve", help="start the app in the browser"))

    measuring = [*loading, decoding, prompts]
    bench = commands.add_parser("bench", parents=[*measuring, table], help="measure methods against naive")
    bench.add_argument("--methods", help='"a,b", or with options "a b:k=4 draft:draft=offdomain"; all by default')
    bench.add_argument("--peers", action="store_true", help="add transformers' own, with several settings each")
    bench.add_argument("--vllm", metavar="PYTHON", help="add vLLM: the interpreter of the environment it is in")
    bench.add_argument("--llama-server", metavar="PROGRAM", help="add llama.cpp's server")
    bench.add_argument("--fixed", metavar="A,B", help="compare auto with fixed draft lengths, for these methods")
    bench.add_argument("--repeat", type=int, default=3)

    batch = commands.add_parser("batch", parents=[*measuring, table], help="how many texts at once?")
    batch.add_argument("--methods", default="draft,ngram", metavar="A,B", help="compared with naive (%(default)s)")
    batch.add_argument("--texts", default="1,2,4,8,16,32,64", metavar="N,N", help="texts at once (%(default)s)")
    batch.add_argument("--repeat", type=int, default=1, metavar="N", help="times that every batch is written (1)")

    decide = commands.add_parser("decide", parents=measuring, help="should I turn it on, for my prompts?")
    decide.add_argument("--seconds", type=float, default=60.0, metavar="S", help="to measure for (60)")
    decide.add_argument("--methods", default="", metavar="A,B", help="all that the family has by default")
    decide.add_argument("--baseline", metavar="URL", help=f"measure servers, of which this is {SERVER}")
    decide.add_argument("--speculative", metavar="URL", help="the server with it")
    decide.add_argument("--markdown", type=Path, metavar="FILE.md", help="write the answer with its tables")
    decide.add_argument("--csv", type=Path, metavar="FILE.csv", help="write a row for every method and prompt")

    lab = commands.add_parser("lab", parents=[*loading, table], help="measure the claims that everybody quotes")
    lab.add_argument("experiment", nargs="?", metavar="NAME,NAME|all", help="which to run; without it they are listed")
    lab.add_argument("--repeat", type=int, default=3, help="repetitions (3)")
    lab.add_argument("--prompts-each", type=int, metavar="N", help="at most so many prompts in each arm")
    lab.add_argument("--max-new-tokens", type=int, metavar="N", help="at most so many tokens a text")

    attach = commands.add_parser("attach", parents=[document, prompts], help="does it pay on my servers, under load?")
    attach.add_argument("--baseline", required=True, metavar="URL", help=SERVER)
    attach.add_argument("--speculative", required=True, metavar="URL", help="the server with it")
    attach.add_argument("--concurrency", default="1,2,4,8,16", metavar="N,N", help="texts at once (%(default)s)")
    attach.add_argument("--max-new-tokens", type=int, default=128, metavar="N", help="of a text (128)")
    attach.add_argument("--repeat", type=int, default=2, metavar="N", help="rounds at each load (2)")
    attach.add_argument("--trace", metavar="FILE", type=Path, help="write a race on the first prompt, for the page")
    attach.add_argument("--csv", metavar="FILE", type=Path, help="write the rows as CSV")

    acceptance = commands.add_parser("acceptance", parents=[document], help="records of AIPerf or vLLM, or of a trace")
    acceptance.add_argument("file", type=Path, help="JSON, or JSON lines")
    acceptance.add_argument("--records", type=Path, metavar="OUT.jsonl", help="write AIPerf's records, one a text")

    calibrate = commands.add_parser("calibrate", parents=loading, help="pass costs of this machine, and exactness")
    calibrate.add_argument("--ship", metavar="FAMILY", help="write the costs into a family's folder, for costs=typical")

    train = commands.add_parser("train", help="train a family of models on text; needs a checkout of the repository")
    train.add_argument("--corpus", type=Path, metavar="DIR", help="the text; see the model card. Heads can do without")
    train.add_argument("--out", required=True, type=Path, metavar="DIR", help="the family, and its work folder")
    train.add_argument("--minutes", type=float, help="time to spend in all (120)")
    train.add_argument("--tokens", type=int, help="or: tokens to train the target on")
    train.add_argument("--resume", action="store_true", help="go on where an earlier run in --out stopped")
    train.add_argument("--start-from", type=Path, metavar="DIR", help="a family to go on from")
    roles = "train these of target, draft, offdomain, medusa, eagle, block; take the rest from --start-from"
    train.add_argument("--only", nargs="+", metavar="ROLE", help=roles)
    train.add_argument("--compile", action="store_true", help="use torch.compile: faster, needs a C++ compiler")
    train.add_argument("--card", action="store_true", help="only measure the family in --out and write its card")

    record = commands.add_parser("record", parents=[dtype], help="race every scenario, for the recordings of the page")
    record.add_argument("--models", default=USUAL, metavar="FAMILY", help='those of "pocket", or of "smol"')
    record.add_argument("--out", type=Path, metavar="DIR", help="where to keep them (assets/traces)")
    record.add_argument("--only", metavar="ID,ID", help="these scenarios; all by default")

    fetch = commands.add_parser("fetch", parents=[document], help="get a family whose target is not bundled: smol")
    fetch.add_argument("family")
    schema = commands.add_parser("schema", help="the JSON schema of a trace, or of a record of acceptance")
    schema.add_argument("--acceptance", action="store_true", help="that of a record of acceptance")
    commands.add_parser("limits", parents=[table], help="the variables by which a host limits a server, as a table")
    return parser


def _run(arguments: argparse.Namespace) -> None:
    """Run a command. `measure` does not import `servers`, so it gets what it needs of them here."""
    name = arguments.command
    if name in HERE:
        HERE[name](arguments)
    elif name in ("attach", "acceptance"):
        from .servers import commands as of_servers

        getattr(of_servers, name)(arguments)
    else:
        from .measure import commands

        more = []
        if name == "bench":
            from .servers.engines import rivals

            more = [rivals]
        elif name == "decide" and (arguments.baseline or arguments.speculative):
            from .servers.commands import decide

            more = [decide]
        getattr(commands, name)(arguments, *more)


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

    print(json.dumps((AcceptanceRecord if arguments.acceptance else Trace).model_json_schema(), indent=1))


def _limits(arguments: argparse.Namespace) -> None:
    from .measure.tables import replace_between
    from .server.limits import table

    if arguments.update:
        replace_between(arguments.update, "limits", table())
    print(table())


def _train(arguments: argparse.Namespace) -> None:
    if not (CHECKOUT / "training" / "command.py").is_file():
        hint = "it needs a checkout of the repository, because `training` is not installed."
        raise SettingsError("command", "train", hint)
    sys.path.insert(0, str(CHECKOUT))  # the current directory may be another
    from training.command import run

    run(arguments)


HERE = {"fetch": _fetch, "schema": _schema, "limits": _limits, "train": _train}

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    sys.exit(main())
