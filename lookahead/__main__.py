"""The command line, `lookahead` or `python -m lookahead`.

Bad input prints one line on stderr and exits with status 2. `--json` prints one JSON document on stdout, and progress on
stderr. Modules that compute are imported when a command runs.
"""

import argparse
import json
import os
import signal
import sys
from pathlib import Path

from .core.events import LOSSY, RULES, LookaheadError, SettingsError
from .core.numbers import size
from .core.streams import tolerate_any_text
from .family.spec import families
from .measure.scenarios import DEFAULT_FAMILY
from .page import app

CHECKOUT = Path(__file__).parent.parent
SERVER = "the server without speculation: its address, or a name of LOOKAHEAD_SERVERS"


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return the exit status."""
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
    raise KeyboardInterrupt  # like Ctrl-C, so that engines of a bench are also stopped


def _k(text: str) -> int | str:
    return text if text == "auto" else int(text)


_k.__name__ = 'whole number or "auto"'


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lookahead", description="Run and measure speculative decoding.")
    commands = parser.add_subparsers(dest="command", required=True)
    document, dtype, shared, decoding, prompts, table = (argparse.ArgumentParser(add_help=False) for _ in range(6))
    document.add_argument("--json", action="store_true", help="one JSON document on stdout")
    prompts.add_argument("--prompts", metavar="FILE.jsonl", help='lines {"id", "category", "prompt", "chat", "schema"}')
    table.add_argument("--update", metavar="FILE.md", help="write the table between the command's markers in a file")
    dtype.add_argument("--dtype", metavar="FORMAT", help="bfloat16, float32, or auto (LOOKAHEAD_DTYPE)")
    family = families(os.environ.get("LOOKAHEAD_MODELS") or DEFAULT_FAMILY)[0]
    shared.add_argument("--models", default=family, help='"pocket", "smol", or target+draft')
    loading = [dtype, shared, document]

    decoding.add_argument("--max-new-tokens", type=int, help="maximum number of new tokens (128)")
    decoding.add_argument("--k", type=_k, help='tokens to draft per pass, or "auto"')
    decoding.add_argument("--temperature", type=float, help="0 is greedy")
    decoding.add_argument("--top-k", type=int)
    decoding.add_argument("--top-p", type=float)
    decoding.add_argument("--repetition-penalty", type=float)
    decoding.add_argument("--seed", type=int)
    decoding.add_argument("--rule", help=f"acceptance rule: {', '.join(RULES)}")
    decoding.add_argument("--weight", type=float, help=f"how much {', '.join(LOSSY)} may change the text, 0 to 1")
    decoding.add_argument("--costs", help="pass costs for k=auto: auto, typical or measured")
    decoding.add_argument("--stop", action="append", help="end at this text (may be repeated)")
    decoding.add_argument(
        "--schema", metavar="FILE", help="a JSON schema, a JSON list of choices, or a regular expression"
    )
    decoding.add_argument("--chat", action="store_true", default=None, help="wrap the prompt in the chat template")

    run = commands.add_parser("run", parents=[*loading, decoding], help="continue a prompt, tokens colored by origin")
    run.add_argument("prompt")
    run.add_argument("--method", default="draft")
    run.add_argument("--race", action="store_true", help="also run naive and compare")
    run.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="an option of the method")

    app.add_arguments(commands.add_parser("serve", help="start the app in the browser"))

    measuring = [*loading, decoding, prompts]
    bench = commands.add_parser("bench", parents=[*measuring, table], help="measure methods against naive")
    bench.add_argument("--methods", help='"a,b", or with options "a b:k=4 draft:draft=offdomain" (all methods)')
    bench.add_argument("--peers", action="store_true", help="add transformers' own methods, with several settings each")
    bench.add_argument("--vllm", metavar="PYTHON", help="add vLLM; the Python interpreter of its environment")
    bench.add_argument("--llama-server", metavar="PROGRAM", help="add llama.cpp's server")
    bench.add_argument("--fixed", metavar="A,B", help="compare auto with fixed draft lengths for these methods")
    bench.add_argument("--repeat", type=int, default=3)

    batch = commands.add_parser("batch", parents=[*measuring, table], help="measure drafts for several texts at once")
    batch.add_argument("--methods", default="draft,ngram", metavar="A,B", help="compared with naive (%(default)s)")
    batch.add_argument("--texts", default="1,2,4,8,16,32,64", metavar="N,N", help="texts at once (%(default)s)")
    batch.add_argument("--repeat", type=int, default=1, metavar="N", help="repetitions of every batch (1)")

    decide = commands.add_parser("decide", parents=measuring, help="measure whether speculation pays for your prompts")
    decide.add_argument("--seconds", type=float, default=60.0, metavar="S", help="seconds to measure (60)")
    decide.add_argument("--methods", default="", metavar="A,B", help="methods to measure (all methods of the family)")
    decide.add_argument("--baseline", metavar="URL", help=f"measure servers: {SERVER}")
    decide.add_argument("--speculative", metavar="URL", help="the server with speculation")
    decide.add_argument("--markdown", type=Path, metavar="FILE.md", help="write the report with its tables")
    decide.add_argument("--csv", type=Path, metavar="FILE.csv", help="write a row for every method and prompt")

    lab = commands.add_parser("lab", parents=[*loading, table], help="test common claims about speculative decoding")
    lab.add_argument("experiment", nargs="?", metavar="NAME,NAME|all", help="experiments to run (default: list them)")
    lab.add_argument("--repeat", type=int, default=3, help="repetitions (3)")
    lab.add_argument("--prompts-each", type=int, metavar="N", help="maximum number of prompts per arm")
    lab.add_argument("--max-new-tokens", type=int, metavar="N", help="maximum number of tokens per text")

    attach = commands.add_parser("attach", parents=[document, prompts], help="measure two servers under load")
    attach.add_argument("--baseline", required=True, metavar="URL", help=SERVER)
    attach.add_argument("--speculative", required=True, metavar="URL", help="the server with speculation")
    attach.add_argument("--concurrency", default="1,2,4,8,16", metavar="N,N", help="texts at once (%(default)s)")
    attach.add_argument("--max-new-tokens", type=int, default=128, metavar="N", help="maximum tokens per text (128)")
    attach.add_argument("--repeat", type=int, default=2, metavar="N", help="rounds at each load (2)")
    attach.add_argument("--trace", metavar="FILE", type=Path, help="write a race with the first prompt as a trace")
    attach.add_argument("--csv", metavar="FILE", type=Path, help="write the rows as CSV")

    doctor = commands.add_parser("doctor", parents=[document, prompts], help="diagnose speculation on a server")
    doctor.add_argument("--baseline", required=True, metavar="URL", help=SERVER)
    doctor.add_argument("--speculative", required=True, metavar="URL", help="the server with speculation")
    doctor.add_argument("--seconds", type=float, default=120.0, metavar="S", help="seconds to measure (120)")
    doctor.add_argument("--max-new-tokens", type=int, default=64, metavar="N", help="maximum tokens per text (64)")
    doctor.add_argument("--markdown", type=Path, metavar="FILE.md", help="write the report")

    acceptance = commands.add_parser("acceptance", parents=[document], help="report on acceptance records or a trace")
    acceptance.add_argument("file", type=Path, help="records of AIPerf or vLLM, or a trace: JSON, or JSON lines")
    acceptance.add_argument("--records", type=Path, metavar="OUT.jsonl", help="write AIPerf's records, one per text")

    calibrate = commands.add_parser("calibrate", parents=loading, help="measure pass costs and exactness here")
    calibrate.add_argument("--ship", metavar="FAMILY", help="write the costs to a family's folder, for costs=typical")

    train = commands.add_parser("train", help="train a family of models on text; needs a checkout of the repository")
    corpus = "folder of the text; see the model card. Heads can be trained without it"
    train.add_argument("--corpus", type=Path, metavar="DIR", help=corpus)
    train.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder of the family and its work files")
    train.add_argument("--minutes", type=float, help="total time in minutes (120)")
    train.add_argument("--tokens", type=int, help="instead of --minutes: training tokens of the target")
    train.add_argument("--resume", action="store_true", help="continue an earlier run in --out")
    train.add_argument("--start-from", type=Path, metavar="DIR", help="a trained family to start from")
    roles = "train only these of target, draft, offdomain, medusa, mtp, eagle, block; copy the others from --start-from"
    train.add_argument("--only", nargs="+", metavar="ROLE", help=roles)
    train.add_argument("--compile", action="store_true", help="use torch.compile: faster, needs a C++ compiler")
    train.add_argument("--card", action="store_true", help="only measure the family in --out and write its card")

    record = commands.add_parser("record", parents=[dtype], help="record a race of every scenario for the page")
    record.add_argument("--models", default=DEFAULT_FAMILY, metavar="FAMILY", help='scenarios of "pocket" or of "smol"')
    record.add_argument("--out", type=Path, metavar="DIR", help="folder of the recordings (assets/traces)")
    record.add_argument("--only", metavar="ID,ID", help="scenarios to record (all)")

    fetch = commands.add_parser("fetch", parents=[document], help="download a family whose target is not bundled: smol")
    fetch.add_argument("family")
    schema = commands.add_parser("schema", help="print the JSON schema of a trace or of an acceptance record")
    schema.add_argument("--acceptance", action="store_true", help="the schema of an acceptance record")
    commands.add_parser("limits", parents=[table], help="print the environment variables that limit a server")
    return parser


def _run(arguments: argparse.Namespace) -> None:
    """Run a command. `measure` does not import `servers`, so functions of `servers` are passed to it here."""
    name = arguments.command
    if name in HERE:
        HERE[name](arguments)
    elif name in ("attach", "doctor", "acceptance"):
        from .servers import commands as server_commands

        getattr(server_commands, name)(arguments)
    else:
        from .measure import commands

        functions = []
        if name == "bench":
            from .servers.engines import external_engines

            functions = [external_engines]
        elif name == "decide" and (arguments.baseline or arguments.speculative):
            from .servers.commands import decide

            functions = [decide]
        getattr(commands, name)(arguments, *functions)


def _fetch(arguments: argparse.Namespace) -> None:
    from .family.hub import fetch, load
    from .measure import terminal

    with terminal.progress() as progress:

        def show(text: str, share: float) -> None:
            progress(round(100 * share), 100, text)

        source, folder = fetch(arguments.family, show)
        load(arguments.family, show)  # compile and measure now, so that the first race need not wait
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
        hint = "it needs a checkout of the repository, because the package does not contain `training`."
        raise SettingsError("command", "train", hint)
    sys.path.insert(0, str(CHECKOUT))  # because `training` is not installed
    from training.command import run

    run(arguments)


HERE = {"fetch": _fetch, "schema": _schema, "limits": _limits, "train": _train}

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    sys.exit(main())
