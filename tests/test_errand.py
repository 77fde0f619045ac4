"""Errands: what is fetched outside the line and computed in it, and models that are changed or left as they were."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import pytest
from conftest import tiny

import lookahead
from lookahead import hub, models, worker
from lookahead.events import ModelError
from lookahead.limits import Limits
from lookahead.ui import Stage, models_tab
from lookahead.ui.desk import Ended
from lookahead.ui.errand import STOPPED, Errand


@pytest.fixture
def stage(tmp_path):
    """A server with tiny models of its host's."""
    folders = [tiny("llama", tmp_path / "target", layers=2), tiny("llama", tmp_path / "draft", layers=1)]
    return Stage(lookahead.load("+".join(folders)), Limits())


def lines(outputs):
    """What the line of progress and the plan became, of everything that was yielded."""
    found = [[str(words) for words in output] for output in outputs]
    return [words for words, _ in found], [plan for _, plan in found]


def test_progress_and_waiting_are_told_and_what_computes_stands_in_line():
    busy, free = threading.Event(), threading.Event()
    worker.submit(lambda: (busy.set(), free.wait(10)))
    busy.wait(5)
    where = []

    def work(errand):
        errand.progress("fetching", 0.5)
        time.sleep(0.5)
        where.append(errand.compute(lambda: threading.current_thread().name))

    told = []
    for now in Errand(work).follow():
        told += [now] if now else []
        if now and now[0].startswith("Waiting"):
            free.set()
    assert told[0] == ("fetching", 0.5)
    assert any(words.startswith("Waiting: one run is before yours") for words, _ in told)
    assert where[0].startswith(worker.NAME)


def test_an_errand_that_is_left_ends_at_its_next_word():
    ended = threading.Event()

    def work(errand):
        try:
            while True:
                errand.progress("on and on", 0.1)
                time.sleep(0.01)
        finally:
            ended.set()

    following = Errand(work).follow()
    next(following)
    following.close()
    assert ended.wait(5)


def test_an_errand_that_is_left_in_the_line_is_never_begun():
    busy, free, begun = threading.Event(), threading.Event(), []
    worker.submit(lambda: (busy.set(), free.wait(10)))
    busy.wait(5)
    errand = Errand(lambda errand: errand.compute(begun.append, 1))
    following = errand.follow()
    next(following)
    following.close()
    free.set()
    worker.call(lambda: None)
    assert not begun


def test_errors_come_back_in_words():
    def refuse(errand):
        raise ModelError("model", "x", "no.")

    def fail(errand):
        raise KeyError("a secret")

    with pytest.raises(ModelError):
        list(Errand(refuse).follow())
    for work in (fail, lambda errand: errand.compute(fail, errand)):
        with pytest.raises(Ended, match=r"a fault in Lookahead or in the model's files \(KeyError\)") as caught:
            list(Errand(work).follow())
        assert "secret" not in str(caught.value)


def test_new_models_take_the_stage_and_the_old_are_given_back(stage):
    old = weakref.ref(stage.models.target.model)
    told, plans = lines(models_tab._load(stage, "pocket"))
    assert "data-arrived" in told[-1]
    assert "can be loaded" in plans[-1]
    assert stage.models.spec == "pocket"
    assert stage.models.drafts.keys() >= {"draft", "offdomain"}
    gc.collect()
    assert old() is None
    assert not stage.changing.locked()


def test_a_load_that_fails_changes_nothing(stage, monkeypatch):
    before = stage.models

    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr(models, "load", fail)
    told, _ = lines(models_tab._load(stage, "pocket"))
    assert "a fault in Lookahead or in the model" in told[-1] and "MemoryError" in told[-1]
    told, _ = lines(models_tab._load(stage, "/etc"))
    assert "no folder is opened from the page" in told[-1]
    stage.limits = Limits(loading="none")
    told, _ = lines(models_tab._load(stage, "pocket"))
    assert "switched loading off" in told[-1], "also where somebody asks past the disabled button"
    assert stage.models is before
    assert not stage.changing.locked()


def test_a_load_that_is_stopped_changes_nothing_and_one_goes_on_at_a_time(stage, monkeypatch):
    before, loading, go_on = stage.models, threading.Event(), threading.Event()

    def slow(spec, progress, **_):
        progress("Loading", 0.1)
        loading.set()
        go_on.wait(10)
        progress("Measuring", 0.5)
        raise AssertionError("nobody waits for this any more")

    monkeypatch.setattr(models, "load", slow)
    first = models_tab._load(stage, "pocket")
    while not loading.is_set():
        next(first)
    told, _ = lines(models_tab._load(stage, "pocket"))
    assert "Somebody is loading models" in told[-1]
    first.close()
    go_on.set()
    worker.call(lambda: None)
    deadline = time.monotonic() + 5
    while stage.changing.locked() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not stage.changing.locked()
    assert stage.models is before
    assert STOPPED.startswith("Stopped")


def test_a_check_loads_nothing(stage):
    before = stage.models
    told, plans = lines(models_tab._check(stage, "pocket"))
    assert "Checked. Nothing was loaded." in told[-1]
    assert "Every layer can be rolled back" in plans[-1]
    assert stage.models is before


def test_words_of_others_are_shown_as_words(stage):
    check = hub.Check("hub", "", ModelError("model", "<b>org</b>", "<script>alert(1)</script>"))
    known = hub.Known("target", "a/b", "<i>a/b</i>", licence="<u>mit</u>")
    shown = models_tab.plan_shown(hub.Plan("a/b", (known,), stage.models.target.model.dtype, (check,)))
    assert not any(mark in shown for mark in ("<script", "<b>org", "<i>a", "<u>"))
    stage.licences = dict.fromkeys(stage.models.names.values(), "<u>x</u>")
    assert "<u>" not in models_tab.in_use(stage)
