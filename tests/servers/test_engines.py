"""Other engines in the bench, with a fake engine in a real process; and models as GGUF files."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
from conftest import ROOT, tiny
from transformers import AutoModelForCausalLM

from lookahead.core.events import LookaheadError
from lookahead.measure import bench, tables
from lookahead.measure.timing import Question, lane_of, read_entry
from lookahead.servers import engines, gguf
from lookahead.servers.engines import Engine, EngineProcess

pytestmark = pytest.mark.engines

REACH_S, TOKEN_S = 0.15, 0.01  # seconds of the fake engine for a prompt, and for a token
SERVER = """
import json, sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def respond(self, status, body):
        self.send_response(status); self.end_headers(); self.wfile.write(body)
    def do_GET(self): self.respond(200, b"ok")
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        most = request.get("max_tokens") or request.get("n_predict")
        if "garbage" in sys.argv: return self.respond(200, b"<html>")
        if "broken" in sys.argv: return self.respond(500, b"no")
        assert request["temperature"] == 0 and all(isinstance(i, int) for i in request["prompt"])
        ids = json.loads(sys.argv[1])[:most]
        time.sleep(REACH_S + TOKEN_S * len(ids))
        self.respond(200, json.dumps({"choices": [{"token_ids": ids}], "tokens": ids}).encode())

if "broken from the start" in sys.argv: sys.exit("out of memory")
HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
""".replace("REACH_S", str(REACH_S)).replace("TOKEN_S", str(TOKEN_S))

NEVER_READY = """
import os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def do_GET(self):
        self.send_response(503); self.end_headers()
        with open(os.environ["STARTED"] + ".part", "w") as file: file.write(str(os.getpid()))
        os.replace(file.name, os.environ["STARTED"])

HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""


def engine(ids, *faults, request_ids=engines.request_vllm, label="vllm-draft:k=2"):
    return Engine(label, [sys.executable, "-c", SERVER, str(list(ids)), *faults], request_ids)


@pytest.fixture(scope="module")
def naive_ids(models):
    lane = lane_of(
        models, Question("a", "story", "Once upon a time", False), read_entry("naive"), {"max_new_tokens": 12}
    )
    return [token for step in lane.steps() for token in step.emitted]


@pytest.mark.timed
@pytest.mark.parametrize("request_ids", [engines.request_vllm, engines.request_llama_cpp])
def test_an_engine_is_timed_without_its_prompt_and_compared_with_naive(models, naive_ids, request_ids):
    questions = [
        Question("a", "story", "Once upon a time", False, {}),
        Question("b", "hot", "A", False, {"temperature": 1.0}),
    ]
    others = [
        engine(naive_ids, request_ids=request_ids),
        engine([7] * 12, request_ids=request_ids, label="vllm"),
    ]
    *_, last = bench.measure(models, ["naive"], questions, repeat=2, others=others, max_new_tokens=12)
    report = last.result
    rows = {row["method"]: row for row in report["rows"] if row["id"] == "a"}
    assert rows.keys() == {"naive", "vllm-draft:k=2", "vllm"}
    for label in ("vllm-draft:k=2", "vllm"):
        token_s = rows[label]["seconds"] / 12
        assert TOKEN_S / 2 < token_s < TOKEN_S + REACH_S / 12, "the time of the prompt is excluded"
    assert rows["vllm-draft:k=2"]["identical"] and not rows["vllm"]["identical"]
    assert [row["method"] for row in report["rows"] if row["id"] == "b"] == ["naive"], (
        "sampled texts cannot be compared"
    )
    (line,) = (line for line in report["against"] if line["rival"] == "vllm")
    assert line["ratio_median"] == pytest.approx(1 / rows["vllm"]["speedup"])
    assert "`vllm`, 1 setting" in tables.report_markdown(report, bench.tables(report))


def test_an_engine_is_paused_while_we_compute():
    with EngineProcess(engine([1, 2])) as server:
        process = psutil.Process(server._process.pid)
        server.send(signal.SIGSTOP)
        deadline = time.monotonic() + 5
        while process.status() != psutil.STATUS_STOPPED and time.monotonic() < deadline:
            time.sleep(0.01)
        assert process.status() == psutil.STATUS_STOPPED
        server.send(signal.SIGCONT)
        assert server.write([5, 6], 2)[0] == [1, 2]
        server.send(signal.SIGSTOP)
    assert not process.is_running(), "a paused process can be ended"


@pytest.mark.parametrize("how", ["broken from the start", "broken", "garbage"])
def test_the_error_of_a_failing_engine_has_its_name(how):
    message = "out of memory" if how == "broken from the start" else "did not respond"
    with pytest.raises(LookaheadError, match=f"vllm-draft.*{message}"), EngineProcess(engine([1], how)) as server:
        server.write([5, 6], 2)


def test_the_error_of_a_missing_program_has_its_path():
    missing = Engine("llama.cpp", ["/nowhere/llama-server"], engines.request_llama_cpp)
    with pytest.raises(LookaheadError, match="/nowhere/llama-server"):
        EngineProcess(missing)


def test_a_bench_that_is_ended_ends_its_engine(tmp_path):
    program, prompts, started = tmp_path / "server", tmp_path / "prompts.jsonl", tmp_path / "pid"
    program.write_text(f"#!{sys.executable}\n{NEVER_READY}")
    program.chmod(0o755)
    prompts.write_text('{"id": "a", "category": "story", "prompt": "Once upon a time", "chat": false}\n')
    short = ["--methods", "naive", "--max-new-tokens", "2", "--repeat", "1", "--prompts", str(prompts)]
    command = [sys.executable, "-m", "lookahead", "bench", *short, "--llama-server", str(program)]
    environment = {**os.environ, "STARTED": str(started)}
    bench_process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while not started.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        server = psutil.Process(int(started.read_text()))
        bench_process.terminate()
        assert bench_process.wait(60) == 130
        assert not server.is_running()
    finally:
        bench_process.kill()


def test_engines_are_started_with_our_models(models, tmp_path):
    commands = {item.label: item.command for item in engines.vllm("python", models)}
    assert list(commands) == [
        "vllm",
        *(f"vllm-draft:k={k}" for k in (2, 4, 6)),
        *(f"vllm-eagle:k={k}" for k in (2, 4)),
        *(f"vllm-ngram:k={k}" for k in (4, 10)),
    ]
    assert "pocket/eagle" in commands["vllm-eagle:k=2"][-1]
    assert "--speculative-config" not in commands["vllm"]
    assert all(any("pocket/target" in part for part in command) for command in commands.values())
    commands = {item.label: item.command for item in engines.llama_cpp("llama-server", models, tmp_path)}
    assert "--spec-type" not in commands.pop("llama.cpp")
    assert {label.partition(":")[0] for label in commands} == {"llama.cpp-draft", "llama.cpp-ngram"}
    draft = commands["llama.cpp-draft:k=4"]
    assert Path(draft[draft.index("--spec-draft-model") + 1]).is_file() and draft[-1] == "4"


@pytest.mark.parametrize("changes", [{}, {"num_key_value_heads": 4, "tie_word_embeddings": True}], ids=str)
def test_a_gguf_file_has_the_same_weights(tmp_path, changes):
    folder = tiny("llama", tmp_path / "m", **changes)
    path = gguf.write(folder, tmp_path / "m.gguf")
    original = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    converted = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file=path.name, dtype=torch.float32)
    ids = torch.tensor([[5, 9, 700, 31, 2]])
    assert torch.allclose(original(ids).logits, converted(ids).logits, atol=0.05), "equal up to float16"


def test_only_a_plain_llama_can_be_converted_to_gguf(tmp_path):
    with pytest.raises(LookaheadError, match="plain Llama"):
        gguf.write(tiny("qwen3", tmp_path / "m"), tmp_path / "m.gguf")


@pytest.mark.parametrize(
    ("vllm", "llama_server", "message"),
    [
        ("/nowhere/python", None, "vllm is '/nowhere/python': it is not a program"),
        (str(ROOT), None, "it is not a program"),
        (sys.executable, None, "it is not a Python interpreter with vLLM"),
        (None, str(ROOT / "README.md"), "llama-server is .*README.md': it is not a program"),
    ],
)
def test_a_program_that_cannot_be_used_is_refused_before_a_measurement(tmp_path, vllm, llama_server, message):
    with pytest.raises(LookaheadError, match=message):
        engines.external_engines(None, vllm, llama_server, tmp_path)
    assert not [*tmp_path.iterdir()]
