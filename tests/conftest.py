"""What the tests share: the bundled models, tiny random ones, a lane over weightless models, a browser, the running app."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import torch

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import lookahead
from lookahead.accept import rule_for
from lookahead.decode import Ends
from lookahead.decode import decode as loop
from lookahead.events import Settings
from lookahead.methods import method_class, options_of
from lookahead.pace import Auto, Fixed
from lookahead.proposers import Means
from lookahead.table import TableLM

ROOT = Path(__file__).parent.parent
POCKET = ROOT / "assets" / "models" / "pocket"


ASIDE = ("test_errand", "test_ops")


def pytest_collection_modifyitems(items):
    """Last come the files that compute in the worker's thread: with two threads torch no longer waits actively, and all
    that follows takes twice as long."""
    items.sort(key=lambda item: item.module.__name__ in ASIDE)


@pytest.fixture(scope="session")
def models():
    """The bundled family, loaded once."""
    return lookahead.load("pocket")


@pytest.fixture(scope="session")
def chromium():
    """One headless browser for all tests that need one."""
    from chromium import ARGUMENTS, executable
    from playwright.sync_api import sync_playwright

    path = executable()
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield opened
        opened.close()


class App:
    """The app, started as a user would, writing into `folder`; `environment` are variables on top of the usual ones."""

    def __init__(self, folder: Path, port: int | None = None, **environment: str):
        self.port, self._out, self._errors = port or free_port(), folder / "out.txt", folder / "errors.txt"
        self.url = f"http://127.0.0.1:{self.port}"
        env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1", **environment}
        with self._out.open("a") as out, self._errors.open("a") as errors:
            command = [sys.executable, "app.py", "--port", str(self.port)]
            self.process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=out, stderr=errors)
        start = time.monotonic()
        while True:
            try:
                urllib.request.urlopen(self.url, timeout=2)
                return
            except OSError:
                assert self.process.poll() is None, self.output()
                assert time.monotonic() - start < 120, "the app did not start"
                time.sleep(0.2)

    def output(self) -> str:
        """All it has written so far."""
        return self._out.read_text(encoding="utf-8") + self.errors()

    def errors(self) -> str:
        """What it has written to stderr: its log."""
        return self._errors.read_text(encoding="utf-8")

    def memory(self) -> float:
        """MB that it occupies."""
        return psutil.Process(self.process.pid).memory_info().rss / 1e6

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a plain request."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def stop(self) -> int:
        """Ask it to end; its exit status."""
        self.process.terminate()
        return self.process.wait(timeout=20)


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def started(folder, **environment):
    """The app on a free port; at the end it ends as it should and has printed no traceback."""
    running = App(folder, **environment)
    yield running
    assert running.stop() == 0
    assert "traceback" not in running.output().lower(), running.output()


@pytest.fixture(scope="session")
def app(tmp_path_factory):
    """The app that all tests share but those that want one of their own."""
    with started(tmp_path_factory.mktemp("app")) as running:
        yield running


@pytest.fixture(scope="session")
def address(app):
    """Where the app is."""
    return app.url


# A page that is being left aborts its own requests and calls that an error; no fault of the page that comes.
LEAVING = "addEventListener('beforeunload', () => { console.error = () => {}; });"


@pytest.fixture
def visit(chromium, address):
    """Open the page, with that query; at the end no request has left the machine and nothing was logged as an error."""
    contexts = []

    def opened(query="", **options):
        context = chromium.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
        context.add_init_script(LEAVING)
        page = context.new_page()
        page.faults, page.requests = [], []
        page.on("console", lambda m: page.faults.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: page.faults.append(str(e)))
        page.on("request", lambda r: page.requests.append(r.url))
        page.goto(f"{address}/{query}")
        page.wait_for_function("window.lookahead && window.lookahead.state().run")
        page.wait_for_function(
            "!document.querySelector('.main > .wrap .progress-text')"
        )  # Gradio's own notice that it is loading
        contexts.append((context, page))
        return page

    yield opened
    for context, page in contexts:
        assert not page.faults
        outside = [url for url in page.requests if not url.startswith((address, "data:", "blob:"))]
        assert not outside
        context.close()


def table_steps(
    method, settings, *, target=None, draft=None, prompt=(1, 2, 3), eos=(), k=None, proposer=None, **options
):
    """Run the real loop over TableLMs; returns its steps."""
    target = (target or TableLM(seed=0)).fresh()
    draft = (draft or TableLM(seed=1)).fresh()
    rule = rule_for(settings)
    means = Means(rule, draft, lambda rows, branches: 1 + 0.02 * rows)
    made = proposer(means) if proposer else method_class(method)(means, options_of(method, options))
    k = settings.k if k is None else k
    pace = Auto(means.pass_s, 8) if k == "auto" else Fixed(k)
    ends = Ends(frozenset(eos), settings.max_new_tokens, target.context_length)
    return list(loop(target, made, pace, rule, list(prompt), ends, details=settings.details))


def emitted(steps):
    """All ids that steps wrote."""
    return [token for step in steps for token in step.emitted]


def tiny(kind: str, folder: Path, *, seed: int = 0, layers: int = 2, **changes) -> str:
    """Save a tiny random model of some architecture with the bundled tokenizer; returns its folder."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    common = {
        "llama": ("llama", {}),
        "mistral": ("mistral", {"sliding_window": None}),
        "mistral-sliding": ("mistral", {"sliding_window": 16}),
        "qwen2": ("qwen2", {}),
        "qwen3": ("qwen3", {"head_dim": 16}),
        "gemma": ("gemma", {"head_dim": 16}),
        "gpt2": ("gpt2", {}),
        "mamba": ("mamba", {}),
    }
    family, extra = common[kind]
    sizes = {
        "vocab_size": 4096, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": layers,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
        "eos_token_id": 0, "bos_token_id": 0, "pad_token_id": 0,
    }  # fmt: skip
    if kind == "gpt2":
        sizes = {
            "vocab_size": 4096, "n_embd": 64, "n_layer": layers, "n_head": 4, "n_positions": 256,
            "eos_token_id": 0, "bos_token_id": 0,
        }  # fmt: skip
    if kind == "mamba":
        sizes = {"vocab_size": 4096, "hidden_size": 64, "num_hidden_layers": 2, "eos_token_id": 0, "bos_token_id": 0}
    torch.manual_seed(seed)
    config = AutoConfig.for_model(family, **{**sizes, **extra, **changes})
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():  # larger than usual, so that the argmax depends on the context
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.2)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(POCKET / "target").save_pretrained(folder)
    return str(folder)


def sampling(**changes) -> Settings:
    """Settings at temperature 1 without details."""
    return Settings(**{"temperature": 1.0, "details": False, **changes})
