"""Shared fixtures and helpers: bundled models, tiny random models, the loop over tables, a browser, the running app."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from zlib import crc32

import psutil
import pytest

if "PYTEST_XDIST_WORKER" in os.environ:  # with several workers: one computing thread each, also in child processes
    os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

import lookahead
from lookahead.core.costs import CostCurve, DrafterCosts
from lookahead.core.events import Settings
from lookahead.core.masks import Masks
from lookahead.core.rules import rule_for
from lookahead.core.table import TableLM
from lookahead.drafting import Resources
from lookahead.engine.decode import Request
from lookahead.engine.decode import decode as loop
from lookahead.engine.draft_length import AdaptiveLength
from lookahead.engine.fixed_length import FixedLength
from lookahead.engine.methods import method_class, options_of
from lookahead.engine.stop_conditions import StopConditions

ROOT = Path(__file__).parent.parent
POCKET = ROOT / "assets" / "models" / "pocket"


# The day of `daily`: workers get it from the process that starts them, so all collect the same tests.
DAY = int(os.environ.setdefault("LOOKAHEAD_TEST_DAY", str(date.today().day)))
FAST = "not (models or browser or engines or timed or long)"
HALVED = ("models", "browser", "engines")  # tiers of which CI runs a half per day
# Fixtures whose tests belong to a tier. Other tests name theirs with a marker.
TIERS = {"browser": {"chromium", "app"}, "models": {"models"}}
PATIENT_MS = 60_000  # timeout for pages, because the machine may be busy


def daily(cases, parts=3):
    """Return the cases to test: all of them, or under CI one of `parts` parts, another one on each day.

    For lists within each other, the numbers of parts have no common factor. Otherwise some pairs of cases would never be tested.
    """
    cases = list(cases)
    return cases[DAY % parts :: parts] if "CI" in os.environ else cases


def pytest_configure(config):
    """Select the fast tests if the command line names neither files nor markers."""
    if not config.option.markexpr and config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.option.markexpr = FAST


def runs_today(item):
    """Return whether CI runs a test today: all fast tests and those marked `every_day`, and a random half of the others."""
    if "CI" not in os.environ or item.get_closest_marker("every_day"):
        return True
    return not any(map(item.get_closest_marker, HALVED)) or crc32(f"{DAY} {item.nodeid}".encode()) % 2 == 0


def pytest_report_header():
    return f"CI: fast tests, and half of the others ({DAY=})" if "CI" in os.environ else None


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config, items):
    """Add the tier of each test, select the tests of the day, and choose workers and order by the markers in pyproject.toml.

    The tests of a file share a worker and its fixtures. Files with a browser share two workers, because two cores cannot
    serve more browsers. Long files come first and `split` tests last, so that all workers end at about the same time.
    """
    in_parallel = "PYTEST_XDIST_WORKER" in os.environ
    for item in items:
        for tier, fixtures in TIERS.items():
            if fixtures & set(item.fixturenames):
                item.add_marker(tier)
    config.hook.pytest_deselected(items=[item for item in items if not runs_today(item)])
    items[:] = filter(runs_today, items)
    browser = {item.module.__name__ for item in items if item.get_closest_marker("browser")}
    for item in items:
        name = item.module.__name__
        if not any(map(item.get_closest_marker, ("split", "xdist_group"))):
            item.add_marker(pytest.mark.xdist_group("browser-2" if name in browser else name))

    def order(item):
        if not in_parallel:
            return item.get_closest_marker("last") is not None
        split = item.get_closest_marker("split") is not None
        long = item.get_closest_marker("long") is not None and not split
        return not long, item.module.__name__ not in browser, split

    items.sort(key=order)


@pytest.fixture(autouse=True)
def log():
    """Restore the app's logger after a test, because a handler of the test would write to a closed stream."""
    logger = logging.getLogger("lookahead")
    handlers, propagate, level = logger.handlers[:], logger.propagate, logger.level
    yield
    logger.handlers[:], logger.propagate = handlers, propagate
    logger.setLevel(level)


@pytest.fixture(scope="session")
def models():
    """The bundled family, loaded once per session."""
    return lookahead.load("pocket")


@pytest.fixture(scope="session")
def chromium():
    """A headless browser that all tests share."""
    from chromium import ARGUMENTS, executable
    from playwright.sync_api import expect, sync_playwright

    path = executable()
    expect.set_options(timeout=PATIENT_MS)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield opened
        opened.close()


class App:
    """The app in a child process, with its output in `folder`; `environment` are additional variables.

    The constructor waits until the app can race, or with `ready=False` until its port responds. `program` is started in `cwd`;
    `in_child` is called in the child process before it starts.
    """

    def __init__(
        self, folder: Path, port: int | None = None, *, ready: bool = True, cwd: Path = ROOT,
        program: str = "app.py", in_child: Callable[[], None] | None = None, **environment: str,
    ):  # fmt: skip
        self.port, self._out, self._errors = port or free_port(), folder / "out.txt", folder / "errors.txt"
        self.url = f"http://127.0.0.1:{self.port}"
        env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1", **environment}
        with self._out.open("a") as out, self._errors.open("a") as errors:
            command = [sys.executable, program, "--port", str(self.port)]
            self.process = subprocess.Popen(command, cwd=cwd, env=env, stdout=out, stderr=errors, preexec_fn=in_child)
        try:
            self.wait(ready)
        except BaseException:
            self.process.kill()
            raise

    def wait(self, ready: bool = True) -> dict:
        """Wait until the app can race, or only until it responds; return the response of `/loading`."""
        start = time.monotonic()
        while True:
            with suppress(OSError):
                status = json.loads(self.get("/loading")[1])
                if status["ready"] or not ready:
                    return status
            assert self.process.poll() is None, self.output()
            assert time.monotonic() - start < 400, "the app did not start"
            time.sleep(0.05)

    def output(self) -> str:
        """Return all output so far."""
        return self._out.read_text(encoding="utf-8") + self.errors()

    def errors(self) -> str:
        """Return the output to stderr, which is the log."""
        return self._errors.read_text(encoding="utf-8")

    def memory(self) -> float:
        """Return the resident memory in MB."""
        return psutil.Process(self.process.pid).memory_info().rss / 1e6

    def get(self, path: str) -> tuple[int, str]:
        """Return status and body of a GET request."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def stop(self) -> int:
        """Terminate the process and return its exit status."""
        self.process.terminate()
        return self.process.wait(timeout=20)


def free_port() -> int:
    """Return a port that is not in use."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def started(folder, **environment):
    """Start the app on a free port; on exit, check that it ends with status 0 and printed no traceback."""
    running = App(folder, **environment)
    yield running
    assert running.stop() == 0
    assert "traceback" not in running.output().lower(), running.output()


@pytest.fixture(scope="session")
def app(tmp_path_factory):
    """The app that most tests share."""
    with started(tmp_path_factory.mktemp("app")) as running:
        yield running


@pytest.fixture(scope="session")
def address(app):
    """The URL of the shared app."""
    return app.url


# A page that is unloaded aborts its requests and logs errors, which the next page must not report.
LEAVING = "addEventListener('beforeunload', () => { console.error = () => {}; });"
# At sixty frames per second, a playing page takes half a core, so tests draw ten. Only the playhead's callback, `frame`, is slowed;
# other callbacks and the pages of `bare_page` are not.
TEN_FRAMES_PER_SECOND = """
const ask = window.requestAnimationFrame.bind(window);
window.requestAnimationFrame = fn => (fn.name === "frame" ? setTimeout(() => ask(fn), 90) : ask(fn));
"""


@pytest.fixture(scope="module")
def pages(chromium, address):
    """A context manager that yields a function to open pages; see `visit`.

    Each open page has its own browser context. After a page is closed, another page reuses its context and cache.
    """
    idle = {}

    def context(options):
        created = chromium.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
        created.set_default_timeout(PATIENT_MS)
        created.add_init_script(f"{{{LEAVING}{TEN_FRAMES_PER_SECOND}}}")
        return created

    @contextmanager
    def visits():
        shown = []

        def opened(query="", **options):
            waiting = idle.setdefault(json.dumps(options, sort_keys=True), [])
            page = (waiting.pop() if waiting else context(options)).new_page()
            page.faults, page.requests = [], []
            page.on("console", lambda m: page.faults.append(m.text) if m.type == "error" else None)
            page.on("pageerror", lambda e: page.faults.append(str(e)))
            page.on("request", lambda r: page.requests.append(r.url))
            page.goto(f"{address}/{query}")
            page.wait_for_function("window.lookahead && window.lookahead.state().run")
            page.wait_for_function("!document.querySelector('.main > .wrap .progress-text')")  # Gradio's loading notice
            shown.append((page, waiting))
            return page

        yield opened
        for page, waiting in shown:
            assert not page.faults
            outside = [url for url in page.requests if not url.startswith((address, "data:", "blob:"))]
            assert not outside
            page.evaluate("localStorage.clear()")
            page.close()
            waiting.append(page.context)

    yield visits
    for left in chromium.contexts:
        left.close()


@pytest.fixture
def visit(pages):
    """A function that opens the page with a query. Afterwards, checks that no request left the machine and no error was logged."""
    with pages() as opened:
        yield opened


@pytest.fixture
def page(request, chromium):
    """A page without the app, from the module's `blank`. Afterwards, checks that it had no errors."""
    page = request.module.blank(chromium)
    yield page
    assert page.problems == []
    page.close()


@torch.inference_mode()
def table_steps(
    method, settings, *, target=None, draft=None, prompt=(1, 2, 3), eos=(), stop=None, k=None, drafter=None,
    grammar=None, **options
):  # fmt: skip
    """Run the decoding loop over TableLMs; return its steps."""
    target = (target or TableLM(seed=0)).fresh()
    draft = (draft or TableLM(seed=1)).fresh()
    rule = rule_for(settings, Masks(grammar, len(prompt)) if grammar else None)
    costs = DrafterCosts(CostCurve((1, 64), (0.01, 0.02)))
    resources = Resources(rule, draft, lambda rows, branches: 1 + 0.02 * rows, costs)
    strategy = drafter(resources) if drafter else method_class(method)(resources, options_of(method, options))
    k = settings.k if k is None else k
    policy = AdaptiveLength(resources.pass_s, 8, strategy.sources()) if k == "auto" else FixedLength(k)
    ends = StopConditions(frozenset(eos), settings.max_new_tokens, target.context_length, stop)
    return list(loop(Request(target, strategy, policy, rule, list(prompt), ends, details=settings.details)))


def becomes_idle(queue) -> bool:
    """Return whether the queue removes its jobs within two seconds. A job's result is set just before it is removed."""
    end = time.monotonic() + 2
    while not queue.idle() and time.monotonic() < end:
        time.sleep(0.001)
    return queue.idle()


def finished(race):
    """Run a race to its end; return its trace."""
    for _ in race:
        pass
    return race.result()


def emitted(steps):
    """Return all ids that steps emitted."""
    return [token for step in steps for token in step.emitted]


HYBRID = {
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
    "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32,
}  # fmt: skip


def tiny(kind: str, folder: Path, *, seed: int = 0, layers: int = 2, **changes) -> str:
    """Save a tiny random model of an architecture with the bundled tokenizer; return its folder."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    sizes = {
        "vocab_size": 4096, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": layers,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256, "head_dim": 16,
        "eos_token_id": 0, "bos_token_id": 0, "pad_token_id": 0,
    }  # fmt: skip
    if kind.startswith("mistral"):
        sizes["sliding_window"] = 16 if kind == "mistral-sliding" else None
    if kind == "qwen3_next":
        sizes |= HYBRID | {"layer_types": ["full_attention", *["linear_attention"] * (layers - 1)]}
    torch.manual_seed(seed)
    config = AutoConfig.for_model(kind.removesuffix("-sliding"), **{**sizes, **changes})
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():  # larger than usual, so that the argmax depends on the context
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.2)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(POCKET / "target").save_pretrained(folder)
    return str(folder)


def stand_in(limits, drafts=("draft", "offdomain", "self"), heads=("block",), spec="pocket"):
    """Return a server state whose family has the names of drafters but no models."""
    from lookahead.server.state import ServerState

    named = {"drafts": dict.fromkeys(drafts), "heads": dict.fromkeys(heads)}
    listed = [name for name in drafts if name != "self"]
    tokenizer = SimpleNamespace(chat_template="template")
    return ServerState(SimpleNamespace(spec=spec, tokenizer=tokenizer, draft_models=listed, nbytes=1, **named), limits)


def sampling(**changes) -> Settings:
    """Return settings with temperature 1 and without details."""
    return Settings(**{"temperature": 1.0, "details": False, **changes})
