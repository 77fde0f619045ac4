"""Gradio's private names are used in one file only, which names the version that it was written for."""

import ast
import json
import subprocess
import sys
import time
from itertools import pairwise
from types import SimpleNamespace

import gradio as gr
import psutil
import pytest
from conftest import ROOT

from lookahead.page import gradio_internals, serving

ADAPTER = ROOT / "lookahead" / "page" / "gradio_internals.py"
OTHERS = [path for path in (ROOT / "app.py", *sorted((ROOT / "lookahead").rglob("*.py"))) if path != ADAPTER]
PRIVATE = {"state_holder", "session_data", "time_last_used", "default_config", "blocks_config", "iterators", "_queue"}


def private_uses(text):
    """Return the uses of Gradio's private names in a source text."""
    uses = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.ImportFrom(module=str(module)) if module.startswith("gradio."):
                uses.append(module)
            case ast.Import(names=names):
                uses += [alias.name for alias in names if alias.name.startswith("gradio.")]
            case ast.Attribute(value=ast.Name(id="gr"), attr=name) if name.startswith("_") or not hasattr(gr, name):
                uses.append(name)
            case ast.Attribute(attr=name) if name in PRIVATE:
                uses.append(name)
            case ast.keyword(arg=str(name)) if name.startswith("_"):
                uses.append(name)
            case ast.Constant(value=str(value)) if "__type__" in value:
                uses.append(value)
    return uses


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_other_files_use_public_names(path):
    assert private_uses(path.read_text(encoding="utf-8")) == []


def test_the_check_finds_the_adapters_uses():
    uses = set(private_uses(ADAPTER.read_text(encoding="utf-8")))
    assert uses >= {"_queue", "gradio.tunneling", "gradio.utils", "state_holder"}


def test_the_adapter_names_the_pinned_version():
    pins = (ROOT / "requirements.txt").read_text(encoding="utf-8").split()
    assert f"gradio=={gradio_internals.READ_IN}" in pins and gr.__version__ == gradio_internals.READ_IN


@pytest.mark.parametrize("share", [True, False])
def test_a_public_link_or_an_explanation_is_printed(monkeypatch, capsys, share):
    def tunnel(host, port, token, *_):
        if not share:
            raise RuntimeError("no network")
        return f"http://{token}.example"

    monkeypatch.setattr(gradio_internals.networking, "setup_tunnel", tunnel)
    page = SimpleNamespace(space_id=None, share_token="abc", share=False, share_url=None, mcp_server=True)
    serving._announce(page, SimpleNamespace(host="0.0.0.0", port=1, url="http://localhost:1"), True)
    public = (
        "* Running on public URL: https://abc.example"
        if share
        else ("* No public URL (no network); the page is served at the local one.")
    )
    tools = f"* MCP server: {'https://abc.example' if share else 'http://localhost:1'}/gradio_api/mcp/"
    assert capsys.readouterr().out.splitlines() == ["* Running on local URL:  http://0.0.0.0:1", public, tools]
    assert page.share is share


def test_sessions_of_visitors_who_left_are_dropped(monkeypatch):
    monkeypatch.setattr(gradio_internals, "GONE_SESSIONS", 2)
    holder = SimpleNamespace(session_data=dict.fromkeys("abcd"), time_last_used=dict.fromkeys("abcd", 1))
    events, forgotten = [], []
    gradio_internals.forget_closed_sessions(
        SimpleNamespace(state_holder=holder, unload=events.append), forgotten.append
    )
    for session in "abcd":
        if session == "c":
            holder.time_last_used["a"] = 2  # this visitor came back
        events[0](SimpleNamespace(session_hash=session))
    assert forgotten == ["b"] and set(holder.session_data) == set(holder.time_last_used) == set("acd")


def test_no_event_shows_progress_on_a_container(app):
    """Gradio would copy a container with all its contents at every message of a run (`progress_on`)."""
    config = json.loads(app.get("/config")[1])
    kinds = {component["id"]: component["type"] for component in config["components"]}
    shown = {
        kinds[output] for event in config["dependencies"] for output in event["show_progress_on"] or event["outputs"]
    }
    assert "html" in shown and not shown & {"accordion", "column", "group", "row", "tabs"}


def test_an_idle_app_uses_no_processor(app):
    """Gradio's queue would poll a thousand times per second, during timed races, too."""
    process = psutil.Process(app.process.pid)
    seen = [sum(process.cpu_times()[:2])]
    for _ in range(5):  # the app may have just started
        time.sleep(1)
        seen.append(sum(process.cpu_times()[:2]))
    assert min(after - before for before, after in pairwise(seen)) < 0.05


def test_an_idle_page_requests_no_frames(chromium, address):
    """Gradio's loading notice would request sixty frames per second while the page is open."""
    context = chromium.new_context()
    context.add_init_script(
        "const ask = requestAnimationFrame; window.frames_asked = 0;"
        "window.requestAnimationFrame = step => { window.frames_asked++; return ask(step); };"
    )
    page = context.new_page()
    page.goto(address)
    page.wait_for_function("window.lookahead && window.lookahead.state().run && window.frames_asked")
    frames = [0, 1]
    while frames[-1] > frames[-2] and len(frames) < 60:  # until the recording has ended
        page.locator("body").press("End")
        page.wait_for_timeout(500)
        frames.append(page.evaluate("window.frames_asked"))
    assert frames[-1] == frames[-2], frames
    context.close()


@pytest.mark.long
def test_gradio_is_imported_without_stubs_for_editors():
    """Gradio would parse its sources and write the stubs at every start."""
    code = (
        "import ast, inspect\n"
        "segment, made = ast.get_source_segment, []\n"
        "ast.get_source_segment = lambda *a, **k: made.append(1) or segment(*a, **k)\n"
        "{}import gradio\n"
        "assert inspect.getfile(gradio.Textbox).endswith('textbox.py')\n"
        "print(len(made))\n"
    )
    ours, plain = (
        subprocess.run([sys.executable, "-c", code.format(first)], cwd=ROOT, capture_output=True, text=True, check=True)
        for first in ("from lookahead.page import build\n", "")
    )
    assert int(ours.stdout) == 0 < int(plain.stdout), "one for every component"
