"""An internal error at each stage of each job: the page shows a sentence, buttons work again, the log has one traceback."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from concurrent.futures import ThreadPoolExecutor

import gradio as gr
import pytest
from playwright.sync_api import expect

from lookahead.core.events import SettingsError
from lookahead.engine import decode, text
from lookahead.page import gradio_internals, race_tab
from lookahead.page.page import build, mount_options
from lookahead.page.running import with_status
from lookahead.server import form, growing_job, loading_job, race_job
from lookahead.server import logging as server_logging
from lookahead.server.limits import Limits, LogSettings
from lookahead.server.loading_job import DownloadJob
from lookahead.server.queue import FAULT, Queue, queue
from lookahead.server.state import ServerState
from lookahead.server.web import WebServer
from lookahead.trace import race as racing
from lookahead.trace import wire

SECRET = "Zanzibar"


def broken(*_, **__):
    raise RuntimeError(SECRET)


@pytest.fixture(scope="module")
def server(models):
    queue.open(Limits())
    return ServerState(models, Limits())


@pytest.fixture(scope="module")
def page(server):
    return build(server, LogSettings())


@pytest.fixture
def log(monkeypatch):
    """The server's log as text."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(server_logging.EntryFormatter())
    monkeypatch.setattr(server_logging.LOGGER, "handlers", [handler])
    server_logging.LOGGER.setLevel(logging.INFO)
    return written.getvalue


def logged_once(log):
    """Assert that the log has one entry with the function of the fault, and no typed text."""
    entries = log()
    assert entries.count(" fault ") == 1 and "in broken" in entries and "RuntimeError" in entries, entries
    assert SECRET not in entries
    return True


# ------------------------------------------------------------------ a race


def at_step(number):
    """Return a function that breaks a race at this step."""

    def change(monkeypatch):
        record, left = racing.Recorder.record, [number]

        def counted(self, *arguments):
            left[0] -= 1
            return broken() if left[0] < 0 else record(self, *arguments)

        monkeypatch.setattr(racing.Recorder, "record", counted)

    return change


def at_the_end(monkeypatch):
    """Break the statistics and the verdict at the end of a race."""
    monkeypatch.setattr(wire.End, "from_trace", broken)


STAGES = {
    "loading the family": lambda patch: patch.setattr(loading_job, "missing", broken),
    "reading the settings": lambda patch: patch.setattr(form, "options", broken),
    "making the race": lambda patch: patch.setattr(form, "race", broken),
    "tokenizing": lambda patch: patch.setattr(text, "_encode_text", broken),
    "the first event": lambda patch: patch.setattr(wire, "Begin", broken),
    "the queue": lambda patch: patch.setattr(Queue, "submit", broken),
    "reading the prompt": lambda patch: patch.setattr(decode.Request, "prefill", broken),
    "the first recorded step": at_step(0),
    "the first step": lambda patch: patch.setattr(decode.Request, "propose", broken),
    "the middle": at_step(5),
    "the end": at_the_end,
}  # fmt: skip


@pytest.mark.parametrize("stage", STAGES)
def test_a_race_that_breaks_ends_with_a_sentence(server, monkeypatch, log, stage):
    STAGES[stage](monkeypatch)
    fields = {**form.DEFAULTS, "max_new_tokens": 8}

    def run():
        yield from race_job.follow(server, form.RaceForm(f"{SECRET} was", ["naive", "draft"], fields))

    *_, last = (json.loads(batch) for batch in with_status(run, 1, None, race_tab.refusal)())
    assert (last["error"] if "error" in last else last["ev"][-1]["message"]) == FAULT
    assert "error" in last or last["end"]
    assert logged_once(log)


def test_a_race_that_breaks_outside_its_job_is_over(monkeypatch, log):
    def run():
        yield race_tab.complete_batch("run", [wire.Status(text="Begun.")])
        broken()

    *_, last = with_status(run, 1, None, race_job.refusal)()
    assert json.loads(last)["error"] == FAULT and logged_once(log)


# ------------------------------------------------------------------ other events


def event(page, name):
    return next(function for function in page.fns.values() if function.api_name == name)


def outputs(page, name, **changed):
    """Return all outputs of an event as text. Its components have their initial values, except those in `changed`."""
    function = event(page, name)
    names = [getattr(block, "label", None) or block.get_block_name() for block in function.inputs]
    values = [changed.get(name, block.value) for name, block in zip(names, function.inputs, strict=True)]
    inputs = ["x" if value is None else value for value in values]
    target = next((block for block in page.blocks.values() if getattr(block, "elem_id", "") == "la-run"), None)
    context = {
        "state": gradio_internals.state_holder.SessionState(page), "request": gr.Request(session_hash="visitor", query_params={}),
        "session_hash": "visitor", "event_data": gr.EventData(target, None),
    }  # fmt: skip

    async def ask():
        shown, iterator = [], None
        while True:
            now = await page.process_api(function, inputs, iterator=iterator, **context)
            shown.append(now["data"])
            iterator = now["iterator"]
            if not now["is_generating"]:
                return json.dumps(shown, default=str)

    try:
        with ThreadPoolExecutor(1) as pool:  # this thread may have a browser's event loop
            return pool.submit(asyncio.run, ask()).result()
    except gr.Error as error:
        return "" if error.print_exception else error.message


JOBS = ["run", "run_1", "run_2", "work_with_status", "work_with_status_1", "partial_1",
        *("with_models" + (f"_{number}" if number else "") for number in range(6))]  # fmt: skip


@pytest.mark.parametrize("name", JOBS)
def test_every_job_of_the_page_that_breaks_shows_an_error(page, monkeypatch, log, name):
    """Each job breaks when it is submitted, before it computes anything."""
    monkeypatch.setattr(Queue, "submit", broken)
    monkeypatch.setattr(DownloadJob, "start", broken)
    monkeypatch.setattr(growing_job, "grow", broken)
    monkeypatch.setattr(race_job, "follow", broken)
    assert FAULT in outputs(page, name)
    assert logged_once(log)


FIGURES = {
    "partial": ("lookahead.page.lab.whatif.what_if", {}),
    "draw_7": ("lookahead.measure.charts.cost_curve", {"checkbox": True}),
    "advice": ("lookahead.page.lab.decision._advice", {}),
    "follow": ("lookahead.page.race_tab.arrive", {}),
    "race": ("lookahead.server.form.RaceForm.__call__", {}),
    "advise": ("lookahead.page.api.decision.advise", {"max_new_tokens": 4}),
    "link": ("lookahead.page.api.form.link", {}),
    "families": ("lookahead.server.loading_job.offered", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
def test_outputs_that_break_show_an_error(page, monkeypatch, log, name):
    target, changed = FIGURES[name]
    monkeypatch.setattr(target, broken)
    assert FAULT in outputs(page, name, **changed)
    assert logged_once(log)


def test_files_that_break_are_refused_with_a_sentence(monkeypatch, log):
    monkeypatch.setattr("lookahead.servers.records.open_trace", broken)
    assert json.loads(race_tab.open_("{}"))["error"] == FAULT and logged_once(log)


def test_files_that_cannot_be_made_are_refused_with_a_sentence(monkeypatch, log):
    monkeypatch.setattr(race_tab.Trace, "from_json", broken)
    assert race_tab.make(["csv", "{}", ""]) == {"error": FAULT} and logged_once(log)


def test_our_errors_are_shown_and_are_no_fault(page, monkeypatch, log):
    def refusing(*_):
        raise SettingsError("seed", 7, "give another.")

    monkeypatch.setattr(race_tab, "arrive", refusing)
    assert outputs(page, "follow") == "seed is 7: give another."
    assert "fault" not in log()


# ------------------------------------------------------------------ in a browser


@pytest.fixture
def served(page):
    """The page, served on a free port by this process."""
    web = WebServer("127.0.0.1", 0)
    gradio_internals.mount(page, web, **mount_options())
    web.serve_routes([])
    yield f"http://127.0.0.1:{web.port}"
    gradio_internals.close(page)
    web.close()


@pytest.mark.browser
def test_race_can_be_pressed_again_after_a_fault(served, chromium, monkeypatch, log):
    shown = chromium.new_page()
    shown.goto(served)
    shown.wait_for_function("window.lookahead && window.lookahead.state().run")
    button = shown.locator("#la-race")
    before = race_job.follow
    monkeypatch.setattr(race_job, "follow", broken)
    button.click()
    expect(shown.locator("#la-race-timeline .la-error")).to_have_text(FAULT)
    expect(button).to_be_enabled()
    assert logged_once(log)
    monkeypatch.setattr(race_job, "follow", before)
    button.click()
    expect(button).to_be_disabled()
    expect(button).to_be_enabled()
    expect(shown.locator("#la-race-timeline .la-error")).to_be_hidden()
    over = "window.lookahead.state().done && !window.lookahead.state().run.startsWith('recording')"
    shown.wait_for_function(over)
    monkeypatch.setattr(gradio_internals, "_is_valid", broken)  # before the race's own code
    button.click()
    expect(shown.get_by_text("the page sends different values")).to_be_visible()
    expect(button).to_be_enabled()
    shown.close()
