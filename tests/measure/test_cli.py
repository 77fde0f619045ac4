"""The command line: documents on stdout, error messages on stderr, exit codes."""

import io
import json
import os
import shlex
import subprocess
import sys

import pytest
from conftest import POCKET, ROOT

import app
import lookahead
from lookahead.__main__ import main
from lookahead.family import hub, typical

pytestmark = [pytest.mark.models, pytest.mark.long]
TEXT = "naïve — 你好 🐸"


@pytest.fixture(autouse=True)
def loaded(models, monkeypatch):
    """Use the loaded family of the other tests for "pocket" in this process."""
    load = hub.load
    monkeypatch.setattr(hub, "load", lambda spec, *args, **kw: models if spec == "pocket" else load(spec, *args, **kw))


@pytest.fixture
def cli(capsys):
    """Run a command in this process, and return its stdout."""

    def call(arguments):
        capsys.readouterr()
        assert main(shlex.split(arguments)) == 0
        return capsys.readouterr().out

    return call


def test_run_prints_the_text_and_the_comparison(cli):
    out = cli("run 'Once upon a time' --method draft --race --max-new-tokens 24")
    assert out.startswith("Once upon a time")
    assert "identical" in out
    assert "tokens per pass" in out


def test_a_real_process_prints_one_trace_as_json_in_any_encoding():
    arguments = ["--method", "ngram", "--race", "--json", "--max-new-tokens", "16", "--option", "candidates=3"]
    command = [sys.executable, "-m", "lookahead", "run", TEXT, *arguments]
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    process = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, timeout=300, check=False)
    assert process.returncode == 0 and b"Traceback" not in process.stderr, process.stderr.decode(errors="replace")
    assert process.stdout.isascii()
    trace = lookahead.Trace.from_json(process.stdout)
    assert trace.prompt.text == TEXT
    assert [lane.method for lane in trace.lanes] == ["naive", "ngram"]
    assert trace.lanes[1].options == {"candidates": 3}
    assert len(trace.lanes[0].tokens) == 16


def test_calibrate_json(cli, tmp_path):
    report = json.loads(cli(f"calibrate --json --ship {tmp_path}"))
    assert typical.read(tmp_path).costs and typical.read(tmp_path.parent) is None
    assert report["exactness"] in ("bit-exact", "tie-aware")
    assert report["pass"][0]["rows"] == 1
    assert all(line["seconds"] > 0 for line in report["pass"])
    assert report["probe"]["compared"] > 0


def test_the_number_format_is_an_option(cli, monkeypatch):
    monkeypatch.setenv("LOOKAHEAD_DTYPE", "auto")  # restored after the test: --dtype sets it
    report = json.loads(cli(f"calibrate --json --models {POCKET / 'target'} --dtype float32"))
    assert report["machine"]["dtype"] == "float32"
    assert report["exactness"] == "bit-exact"
    assert "has the same bits as alone" in report["probe"]["sentence"]


@pytest.mark.parametrize(
    ("begin", "arguments"), [(main, ["calibrate"]), (app.main, ["--port", "0"])], ids=["calibrate", "app"]
)
def test_an_unknown_number_format_prints_one_line(begin, arguments, capsys, monkeypatch):
    monkeypatch.setenv("LOOKAHEAD_DTYPE", "auto")  # restored after the test: --dtype sets it
    assert begin([*arguments, "--models", str(POCKET / "target"), "--dtype", "float9"]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "float9" in message and "bfloat16, float32" in message


def test_bench_json_has_the_documented_keys(tmp_path, cli):
    prompts = tmp_path / "p.jsonl"
    lines = [
        {"id": "a", "category": "x", "prompt": "Once upon a time", "chat": False},
        {"id": "b", "category": "y", "prompt": "Hi", "chat": True},
    ]
    prompts.write_text("\n".join(map(json.dumps, lines)) + "\n\n", encoding="utf-8")
    out = cli(f"bench --methods draft,ngram --prompts {prompts} --max-new-tokens 12 --repeat 1 --json")
    report = json.loads(out)
    assert {"machine", "models", "exactness", "rows", "summary"} <= report.keys()
    assert [(r["id"], r["method"]) for r in report["rows"]] == [
        (i, m) for i in "ab" for m in ("naive", "draft", "ngram")
    ]
    for row in report["rows"]:
        assert {"id", "category", "method", "new_tokens", "seconds", "naive_seconds", "speedup"} <= row.keys()
        assert {"mean_acceptance_length", "draft_acceptance_rate", "identical", "overhead_fraction"} <= row.keys()
        assert row["identical"] is True
        assert 0 <= row["overhead_fraction"] < 1
    for line in report["summary"]:
        assert {"method", "category", "speedup_median", "speedup_min", "identical_share"} <= line.keys()
        assert line["identical_share"] == 1


def test_schema_is_published(cli):
    assert json.loads(cli("schema")) == lookahead.Trace.model_json_schema()


BAD = [
    (["run", ""], "prompt"),
    (["run", "   "], "prompt"),
    (["run", "x" * 100_000], "shorten"),
    (["run", "Once " * 1100], "shorten"),
    (["run", "a\x07b"], "control character"),
    (["run", "Once", "--method", "nope"], "choose one of"),
    (["run", "Once", "--models", "nope"], "no such bundled family"),
    (["run", "Once", "--models", "a/b+c/d"], "has no copy"),
    (["run", "Once", "--max-new-tokens", "0"], "max_new_tokens"),
    (["run", "Once", "--max-new-tokens", "-1"], "max_new_tokens"),
    (["run", "Once", "--max-new-tokens", "1000000000"], "max_new_tokens"),
    (["run", "Once", "--max-new-tokens", "ten"], "invalid"),
    (["run", "Once", "--temperature", "nan"], "temperature"),
    (["run", "Once", "--temperature", "hot"], "invalid"),
    (["run", "Once", "--k", "x"], "invalid"),
    (["run", "Once", "--option", "nonsense"], "NAME=VALUE"),
    (["run", "Once", "--method", "ngram", "--option", "color=red"], "option"),
    (["run"], "required"),
    ([], "required"),
    (["fly"], "invalid choice"),
    (["bench", "--prompts", "/no/such/file"], "cannot be read"),
    (["bench", "--methods", "nope"], "choose one of"),
    (["bench", "--repeat", "0"], "repeat"),
    (["train", "--corpus", "x", "--out", "y", "--only", "tail"], "choose among"),
    (["train", "--corpus", "x", "--out", "y", "--only", "draft"], "--start-from"),
]


@pytest.mark.parametrize(("arguments", "word"), BAD, ids=lambda x: " ".join(x)[:40] if isinstance(x, list) else None)
def test_invalid_input_exits_2_with_a_message(arguments, word, capsys):
    try:
        code = main(arguments)
    except SystemExit as stop:  # argparse
        code = stop.code
    output = capsys.readouterr()
    assert code == 2
    assert word in output.err
    assert not output.out
    assert "Traceback" not in output.err


def test_an_invalid_prompts_file_is_reported_with_its_line(tmp_path, capsys):
    for bad in ("{", "[]", '{"id": 1}', '{"prompt": 7}', '{"prompt": "a", "chat": "yes"}', "[" * 10_000):
        path = tmp_path / "bad.jsonl"
        path.write_text('{"prompt": "fine"}\n' + bad, encoding="utf-8")
        assert main(["bench", "--prompts", str(path)]) == 2
        assert "line 2 must be" in capsys.readouterr().err
    path.write_text("\n", encoding="utf-8")
    assert main(["bench", "--prompts", str(path)]) == 2


def test_emoji_and_accents_are_printed(cli):
    out = cli("run 'Zo\u00eb \U0001f438 said: na\u00efve' --max-new-tokens 8")
    assert out.startswith("Zo\u00eb \U0001f438 said: na\u00efve")


@pytest.mark.parametrize(
    ("arguments", "code", "name", "begin"),
    [
        (["run", f"{TEXT} ran", "--max-new-tokens", "4", "--race"], 0, "stdout", "naïve — ?? ? ran"),
        (["run", "--method", "你好", "x"], 2, "stderr", "lookahead: method is '??'"),
    ],
    ids=["text", "error"],
)
def test_any_text_on_any_terminal(arguments, code, name, begin, monkeypatch):
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr(sys, name, terminal)
    assert main(arguments) == code
    terminal.flush()
    assert terminal.buffer.getvalue().decode("cp1252").startswith(begin)
