"""Models loaded by visitors: downloaded outside the queue, measured in the queue, and unchanged after errors."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import gradio as gr
import pytest
from conftest import tiny

import lookahead
from lookahead.core import memory
from lookahead.core.events import Cancelled, ModelError
from lookahead.family import hub, models
from lookahead.page import models_tab
from lookahead.page.running import with_status
from lookahead.server.limits import Limits
from lookahead.server.loading_job import DownloadJob
from lookahead.server.queue import THREAD, Ended, Job, queue
from lookahead.server.state import ServerState

pytestmark = [pytest.mark.models, pytest.mark.last]


@pytest.fixture
def server(tmp_path):
    """A server with tiny models."""
    folders = [tiny("llama", tmp_path / "target", layers=2), tiny("llama", tmp_path / "draft", layers=1)]
    return ServerState(lookahead.load("+".join(folders)), Limits())


def lines(outputs):
    """Return the status lines and the plans in the yielded outputs."""
    rows = [[str(text) for text in output] for output in outputs]
    return [line for line, _ in rows], [plan for _, plan in rows if plan != str(gr.skip())]


load, check = (with_status(work, 2, None) for work in (models_tab._load, models_tab._check))


def busy():
    """Make the queue compute until the returned event is set."""
    started, free = threading.Event(), threading.Event()
    queue.submit(Job("test", lambda job: (started.set(), free.wait(10))))
    assert started.wait(5)
    return free


def test_progress_and_waiting_are_reported_and_computing_waits_in_the_queue():
    free, threads = busy(), []

    def work(job):
        job.progress("fetching", 0.5)
        time.sleep(0.5)
        threads.append(job.compute(lambda: threading.current_thread().name))

    values, waiting = [], []
    for update in DownloadJob(work).start().follow():
        values += update.values
        waiting += [update.waiting] if update.waiting else []
        if waiting:
            free.set()
    assert values == [("fetching", 0.5)]
    assert waiting[0].startswith("Waiting: one run is before yours")
    assert threads[0].startswith(THREAD)


def test_a_cancelled_download_ends_at_its_next_progress():
    ended = threading.Event()

    def work(job):
        try:
            while True:
                job.progress("downloading", 0.1)
                time.sleep(0.01)
        finally:
            ended.set()

    following = DownloadJob(work).start().follow()
    next(following)
    following.close()
    assert ended.wait(5)


def test_a_download_that_is_cancelled_in_the_queue_is_never_computed():
    free, computed = busy(), []
    job = DownloadJob(lambda job: job.compute(computed.append, 1)).start()
    following = job.follow()
    next(following)
    following.close()
    free.set()
    queue.call(lambda: None)
    assert not computed
    with pytest.raises(Cancelled):
        job.result()


def test_errors_become_messages():
    def refuse(job):
        raise ModelError("model", "x", "no.")

    def fail(job):
        raise KeyError("a secret")

    with pytest.raises(ModelError):
        list(DownloadJob(refuse).start().follow())
    for work in (fail, lambda job: job.compute(fail, job)):
        with pytest.raises(Ended, match=r"an error in Lookahead or in the model's files \(KeyError\)") as caught:
            list(DownloadJob(work).start().follow())
        assert "secret" not in str(caught.value)


def test_a_new_family_is_added_and_unloaded_if_memory_is_low(server, monkeypatch):
    before = server.models
    status, plans = lines(load(server, "pocket"))
    assert 'data-arrived="pocket"' in status[-1]
    assert "can be loaded" in plans[-1]
    assert server.models is before and server.models_for("a") is before, "no visitor's choice changes"
    assert server.models_for("a", "pocket").drafts.keys() >= {"draft", "offdomain"}
    assert not server.changing.locked()
    old = weakref.ref(server.models_for("a", "pocket").target.passes)
    server.families.choose("a", "pocket")
    monkeypatch.setattr(memory, "free", lambda: 0 if "pocket" in server.families else 10)
    assert server.families.spare_bytes > 1e6
    server.free_memory(5)
    gc.collect()
    assert old() is None and "pocket" not in server.families
    server.free_memory(20)
    assert server.models_for("a") is before, "models that the server was started with stay loaded"


def test_a_load_that_fails_changes_nothing(server, monkeypatch):
    before = server.models

    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr(models, "load", fail)
    status, _ = lines(load(server, "pocket"))
    assert "an error in Lookahead or in the model" in status[-1] and "MemoryError" in status[-1]
    status, _ = lines(load(server, "/etc"))
    assert "folders cannot be opened from the page" in status[-1]
    server.limits = Limits(loading="none")
    status, _ = lines(load(server, "pocket"))
    assert "switched loading off" in status[-1], "also for a request without the disabled button"
    assert server.models is before
    assert not server.changing.locked()


def test_a_stopped_load_changes_nothing_and_one_load_runs_at_a_time(server, monkeypatch):
    before, loading, resume = server.models, threading.Event(), threading.Event()

    def slow(spec, progress, **_):
        progress("Loading", 0.1)
        loading.set()
        resume.wait(10)
        progress("Measuring", 0.5)
        raise AssertionError("this load was cancelled")

    monkeypatch.setattr(models, "load", slow)
    first = load(server, "pocket")
    while not loading.is_set():
        next(first)
    status, _ = lines(load(server, "pocket"))
    assert "Another visitor is loading models" in status[-1]
    first.close()
    resume.set()
    queue.call(lambda: None)
    deadline = time.monotonic() + 5
    while server.changing.locked() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not server.changing.locked()
    assert server.models is before


def test_a_check_loads_nothing(server):
    before = server.models
    status, plans = lines(check(server, "pocket"))
    assert "Checked. Nothing was loaded." in status[-1]
    assert "The keys and values of rejected tokens are cut" in plans[-1]
    assert server.models is before


def test_texts_of_the_hub_are_shown_as_text(server):
    check = hub.Check("hub", "", ModelError("model", "<b>org</b>", "<script>alert(1)</script>"))
    known = hub.InspectedModel("target", "a/b", "<i>a/b</i>", license="<u>mit</u>")
    shown = models_tab.plan_html(hub.Plan("a/b", (known,), server.models.target.model.dtype, (check,)))
    assert not any(mark in shown for mark in ("<script", "<b>org", "<i>a", "<u>"))
    server.families.first.licenses = dict.fromkeys(server.models.names.values(), "<u>x</u>")
    assert "<u>" not in models_tab.in_use(server)
