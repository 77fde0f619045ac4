"""Models loaded by visitors: fetched outside the queue and computed in it, changed or left as they were."""

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
from lookahead.page.running import reporting
from lookahead.server.limits import Limits
from lookahead.server.loading_job import DownloadJob
from lookahead.server.queue import THREAD, Ended, Job, queue
from lookahead.server.state import ServerState

pytestmark = [pytest.mark.models, pytest.mark.last]


@pytest.fixture
def server(tmp_path):
    """A server with tiny models of its host's."""
    folders = [tiny("llama", tmp_path / "target", layers=2), tiny("llama", tmp_path / "draft", layers=1)]
    return ServerState(lookahead.load("+".join(folders)), Limits())


def lines(outputs):
    """What the line of progress and the plan became, of everything that was yielded."""
    rows = [[str(text) for text in output] for output in outputs]
    return [line for line, _ in rows], [plan for _, plan in rows if plan != str(gr.skip())]


load, check = (reporting(work, 2, None) for work in (models_tab._load, models_tab._check))


def busy():
    """The queue computes until the event is set."""
    begun, free = threading.Event(), threading.Event()
    queue.submit(Job("test", lambda job: (begun.set(), free.wait(10))))
    assert begun.wait(5)
    return free


def test_progress_and_waiting_are_told_and_what_computes_waits_in_the_queue():
    free, where = busy(), []

    def work(job):
        job.progress("fetching", 0.5)
        time.sleep(0.5)
        where.append(job.compute(lambda: threading.current_thread().name))

    values, waiting = [], []
    for update in DownloadJob(work).start().follow():
        values += update.values
        waiting += [update.waiting] if update.waiting else []
        if waiting:
            free.set()
    assert values == [("fetching", 0.5)]
    assert waiting[0].startswith("Waiting: one run is before yours")
    assert where[0].startswith(THREAD)


def test_a_download_that_is_left_ends_at_its_next_word():
    ended = threading.Event()

    def work(job):
        try:
            while True:
                job.progress("on and on", 0.1)
                time.sleep(0.01)
        finally:
            ended.set()

    following = DownloadJob(work).start().follow()
    next(following)
    following.close()
    assert ended.wait(5)


def test_a_download_that_is_left_in_the_queue_is_never_computed():
    free, begun = busy(), []
    job = DownloadJob(lambda job: job.compute(begun.append, 1)).start()
    following = job.follow()
    next(following)
    following.close()
    free.set()
    queue.call(lambda: None)
    assert not begun
    with pytest.raises(Cancelled):
        job.result()


def test_errors_come_back_in_words():
    def refuse(job):
        raise ModelError("model", "x", "no.")

    def fail(job):
        raise KeyError("a secret")

    with pytest.raises(ModelError):
        list(DownloadJob(refuse).start().follow())
    for work in (fail, lambda job: job.compute(fail, job)):
        with pytest.raises(Ended, match=r"a fault in Lookahead or in the model's files \(KeyError\)") as caught:
            list(DownloadJob(work).start().follow())
        assert "secret" not in str(caught.value)


def test_a_new_family_stands_beside_the_old_until_memory_is_short(server, monkeypatch):
    before = server.models
    told, plans = lines(load(server, "pocket"))
    assert 'data-arrived="pocket"' in told[-1]
    assert "can be loaded" in plans[-1]
    assert server.models is before and server.models_for("a") is before, "nobody's choice is changed"
    assert server.models_for("a", "pocket").drafts.keys() >= {"draft", "offdomain"}
    assert not server.changing.locked()
    old = weakref.ref(server.models_for("a", "pocket").target.passes)
    server.families.choose("a", "pocket")
    monkeypatch.setattr(memory, "free", lambda: 0 if "pocket" in server.families else 10)
    assert server.families.spare_bytes > 1e6
    server.make_room(5)
    gc.collect()
    assert old() is None and "pocket" not in server.families
    server.make_room(20)
    assert server.models_for("a") is before, "what the server was started with stays"


def test_a_load_that_fails_changes_nothing(server, monkeypatch):
    before = server.models

    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr(models, "load", fail)
    told, _ = lines(load(server, "pocket"))
    assert "a fault in Lookahead or in the model" in told[-1] and "MemoryError" in told[-1]
    told, _ = lines(load(server, "/etc"))
    assert "no folder is opened from the page" in told[-1]
    server.limits = Limits(loading="none")
    told, _ = lines(load(server, "pocket"))
    assert "switched loading off" in told[-1], "also where somebody asks past the disabled button"
    assert server.models is before
    assert not server.changing.locked()


def test_a_load_that_is_stopped_changes_nothing_and_one_goes_on_at_a_time(server, monkeypatch):
    before, loading, go_on = server.models, threading.Event(), threading.Event()

    def slow(spec, progress, **_):
        progress("Loading", 0.1)
        loading.set()
        go_on.wait(10)
        progress("Measuring", 0.5)
        raise AssertionError("nobody waits for this any more")

    monkeypatch.setattr(models, "load", slow)
    first = load(server, "pocket")
    while not loading.is_set():
        next(first)
    told, _ = lines(load(server, "pocket"))
    assert "Somebody is loading models" in told[-1]
    first.close()
    go_on.set()
    queue.call(lambda: None)
    deadline = time.monotonic() + 5
    while server.changing.locked() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not server.changing.locked()
    assert server.models is before


def test_a_check_loads_nothing(server):
    before = server.models
    told, plans = lines(check(server, "pocket"))
    assert "Checked. Nothing was loaded." in told[-1]
    assert "Every layer can be rolled back" in plans[-1]
    assert server.models is before


def test_words_of_others_are_shown_as_words(server):
    check = hub.Check("hub", "", ModelError("model", "<b>org</b>", "<script>alert(1)</script>"))
    known = hub.Known("target", "a/b", "<i>a/b</i>", licence="<u>mit</u>")
    shown = models_tab.plan_shown(hub.Plan("a/b", (known,), server.models.target.model.dtype, (check,)))
    assert not any(mark in shown for mark in ("<script", "<b>org", "<i>a", "<u>"))
    server.families.first.licences = dict.fromkeys(server.models.names.values(), "<u>x</u>")
    assert "<u>" not in models_tab.in_use(server)
