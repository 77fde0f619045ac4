"""What the tests share: the bundled models, tiny random ones, a lane over weightless models, a browser, the running app."""

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
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

if "PYTEST_XDIST_WORKER" in os.environ:  # beside other workers: one computing thread each, also in what they start
    os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

import lookahead
from lookahead.core.accept import rule_for
from lookahead.core.costs import CostCurve, DrafterCosts
from lookahead.core.events import Settings
from lookahead.core.table import TableLM
from lookahead.drafting import Resources
from lookahead.engine.decode import Request
from lookahead.engine.decode import decode as loop
from lookahead.engine.draft_length import AdaptiveLength
from lookahead.engine.ends import Ends
from lookahead.engine.fixed_length import FixedLength
from lookahead.engine.methods import method_class, options_of

ROOT = Path(__file__).parent.parent
POCKET = ROOT / "assets" / "models" / "pocket"


FAST = "not (models or browser or engines or timed or long)"
# Fixtures whose tests belong to a tier. Other tests name theirs with a marker.
TIERS = {"browser": {"chromium", "app"}, "models": {"models"}}
PATIENT_MS = 60_000  # that a page is waited for: the machine may have other things to do


def pytest_configure(config):
    """Select the fast tests if the command line names neither files nor markers."""
    if not config.option.markexpr and config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.option.markexpr = FAST


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items):
    """Add the tier of each test, and choose its worker and its order by the markers in pyproject.toml.

    The tests of a file share a worker and its fixtures. Files with a browser share two workers, because two cores cannot
    serve more browsers. Long files come first and `split` tests last, so that all workers end at about the same time.
    """
    in_parallel = "PYTEST_XDIST_WORKER" in os.environ
    for item in items:
        for tier, fixtures in TIERS.items():
            if fixtures & set(item.fixturenames):
                item.add_marker(tier)
    browser = {item.module.__name__ for item in items if item.get_closest_marker("browser")}
    for item in items:
        name = item.module.__name__
        if not any(map(item.get_closest_marker, ("split", "xdist_group"))):
            item.add_marker(pytest.mark.xdist_group("browser-2" if name in browser else name))

    def order(item):
        if not in_parallel:
            return item.get_closest_marker("last") is not None
        long = item.get_closest_marker("long") is not None
        return not long, item.module.__name__ not in browser, item.get_closest_marker("split") is not None

    items.sort(key=order)


@pytest.fixture(autouse=True)
def log():
    """The app's logger as it was: a test that starts the log would leave it writing to a stream that is closed by then."""
    logger = logging.getLogger("lookahead")
    handlers, propagate, level = logger.handlers[:], logger.propagate, logger.level
    yield
    logger.handlers[:], logger.propagate = handlers, propagate
    logger.setLevel(level)


@pytest.fixture(scope="session")
def models():
    """The bundled family, loaded once."""
    return lookahead.load("pocket")


@pytest.fixture(scope="session")
def chromium():
    """One headless browser for all tests that need one."""
    from chromium import ARGUMENTS, executable
    from playwright.sync_api import expect, sync_playwright

    path = executable()
    expect.set_options(timeout=PATIENT_MS)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield opened
        opened.close()


class App:
    """The app, started as a user would, writing into `folder`; `environment` are variables on top of the usual ones.

    It is waited for until it can race, unless `ready` is False: then until its port answers. `place` is where the app lies,
    `program` what is started there, and `in_child` runs in its process before it begins.
    """

    def __init__(
        self, folder: Path, port: int | None = None, *, ready: bool = True, place: Path = ROOT,
        program: str = "app.py", in_child: Callable[[], None] | None = None, **environment: str,
    ):  # fmt: skip
        self.port, self._out, self._errors = port or free_port(), folder / "out.txt", folder / "errors.txt"
        self.url = f"http://127.0.0.1:{self.port}"
        env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1", **environment}
        with self._out.open("a") as out, self._errors.open("a") as errors:
            command = [sys.executable, program, "--port", str(self.port)]
            self.process = subprocess.Popen(command, cwd=place, env=env, stdout=out, stderr=errors, preexec_fn=in_child)
        try:
            self.wait(ready)
        except BaseException:
            self.process.kill()
            raise

    def wait(self, ready: bool = True) -> dict:
        """Wait until it can race, or only until it answers; what it says of its loading then."""
        start = time.monotonic()
        while True:
            with suppress(OSError):
                said = json.loads(self.get("/loading")[1])
                if said["ready"] or not ready:
                    return said
            assert self.process.poll() is None, self.output()
            assert time.monotonic() - start < 400, "the app did not start"
            time.sleep(0.05)

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
# A page that plays takes half a core at sixty frames a second: where frames are not what is tested, ten are drawn. `frame` is
# what the playhead asks for them with; of others, and of the pages of `bare_page`, nothing is changed.
TEN_FRAMES_A_SECOND = """
const ask = window.requestAnimationFrame.bind(window);
window.requestAnimationFrame = fn => (fn.name === "frame" ? setTimeout(() => ask(fn), 90) : ask(fn));
"""


@pytest.fixture(scope="module")
def pages(chromium, address):
    """What `visit` opens pages with, for a module that shares one.

    A page has a browser context to itself, which goes to another page when it is closed: what was fetched is kept there.
    """
    idle = {}

    def context(options):
        made = chromium.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
        made.set_default_timeout(PATIENT_MS)
        made.add_init_script(f"{{{LEAVING}{TEN_FRAMES_A_SECOND}}}")
        return made

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
            page.wait_for_function(
                "!document.querySelector('.main > .wrap .progress-text')"
            )  # Gradio's own notice that it is loading
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
    """Open the page, with that query; at the end no request has left the machine and nothing was logged as an error."""
    with pages() as opened:
        yield opened


@pytest.fixture
def page(request, chromium):
    """A page without the app, as the module's `blank` makes it; at the end it had no problem."""
    page = request.module.blank(chromium)
    yield page
    assert page.problems == []
    page.close()


@torch.inference_mode()
def table_steps(
    method, settings, *, target=None, draft=None, prompt=(1, 2, 3), eos=(), stop=None, k=None, drafter=None, **options
):
    """Run the real loop over TableLMs; returns its steps."""
    target = (target or TableLM(seed=0)).fresh()
    draft = (draft or TableLM(seed=1)).fresh()
    rule = rule_for(settings)
    costs = DrafterCosts(CostCurve((1, 64), (0.01, 0.02)))
    resources = Resources(rule, draft, lambda rows, branches: 1 + 0.02 * rows, costs)
    made = drafter(resources) if drafter else method_class(method)(resources, options_of(method, options))
    k = settings.k if k is None else k
    policy = AdaptiveLength(resources.pass_s, 8, made.sources()) if k == "auto" else FixedLength(k)
    ends = Ends(frozenset(eos), settings.max_new_tokens, target.context_length, stop)
    return list(loop(Request(target, made, policy, rule, list(prompt), ends, details=settings.details)))


def finished(race):
    """The trace of a race that is run to its end."""
    for _ in race:
        pass
    return race.result()


def emitted(steps):
    """All ids that steps wrote."""
    return [token for step in steps for token in step.emitted]


def tiny(kind: str, folder: Path, *, seed: int = 0, layers: int = 2, **changes) -> str:
    """Save a tiny random model of some architecture with the bundled tokenizer; returns its folder."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    sizes = {
        "vocab_size": 4096, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": layers,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256, "head_dim": 16,
        "eos_token_id": 0, "bos_token_id": 0, "pad_token_id": 0,
    }  # fmt: skip
    if kind.startswith("mistral"):
        sizes["sliding_window"] = 16 if kind == "mistral-sliding" else None
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
    """A server whose family has these drafters by name, and no models."""
    from lookahead.server.state import ServerState

    named = {"drafts": dict.fromkeys(drafts), "heads": dict.fromkeys(heads)}
    listed = [name for name in drafts if name != "self"]
    words = SimpleNamespace(chat_template="template")
    return ServerState(SimpleNamespace(spec=spec, tokenizer=words, draft_models=listed, nbytes=1, **named), limits)


def sampling(**changes) -> Settings:
    """Settings at temperature 1 without details."""
    return Settings(**{"temperature": 1.0, "details": False, **changes})
