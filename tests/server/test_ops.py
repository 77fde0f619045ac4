"""Operations: limits that hold, variables that are read, health, metrics, the log, the revision, the end of a server."""

from __future__ import annotations

import json
import logging
import re
import signal
import threading
import time

import pytest
from conftest import ROOT, App, stand_in
from prompts import ENDLESS
from test_classroom import within
from users import Caller

from lookahead.core import version
from lookahead.measure import tables
from lookahead.page import app as entry
from lookahead.page.race_tab import arrive
from lookahead.server import form, health, limits, race_job
from lookahead.server import logging as server_logging
from lookahead.server import queue as queue_module
from lookahead.server.form import RaceForm
from lookahead.server.limits import Limits, LogSettings
from lookahead.server.queue import FAULT, Ended, Job, Refused, queue
from lookahead.server.state import ServerState

pytestmark = [pytest.mark.models, pytest.mark.timed, pytest.mark.last]
SECRET = "Zanzibar"


@pytest.fixture(autouse=True)
def opened():
    """The queue as it is at the start of a server, and again afterwards."""
    queue.open(Limits())
    yield
    queue.open(Limits())
    queue.call(lambda: None)


@pytest.fixture
def stage(models):
    return lambda **changed: ServerState(models, Limits(**changed))


def form_of(**changed):
    return {**form.DEFAULTS, "max_new_tokens": 8, **changed}


def said(batches):
    """The events, or the refusal, that batches bring."""
    got = [json.loads(batch) for batch in batches]
    return got[0] if "error" in got[0] else [event for batch in got for event in batch["ev"]]


def busy():
    """Something that computes until it is let go."""
    gate, begun = threading.Event(), threading.Event()
    job = queue.submit(Job("test", lambda job: (begun.set(), gate.wait(20))))
    assert begun.wait(5)
    return gate, job


def follow(make, limited=True):
    """The values of a job that publishes what the generator `make()` yields."""
    for update in queue.submit(Job("test", lambda _: make(), limited=limited)).follow():
        yield from update.values or [update.waiting]


# ------------------------------------------------------------------ what a host allows


@pytest.mark.parametrize(
    ("changed", "prompt", "methods", "asked", "word"),
    [
        ({"max_prompt_chars": 20}, "a" * 21, ["naive"], {}, "prompt"),
        ({"max_new_tokens": 7}, "Once", ["naive"], {}, "max_new_tokens"),
        ({"max_lanes": 2}, "Once", ["naive", "draft", "ngram"], {}, "lanes"),
        ({}, "Once", ["naive"], {"options": "x" * 2001}, "options"),
    ],
)
def test_more_than_the_host_allows_is_refused_with_words(stage, changed, prompt, methods, asked, word):
    before = queue.counts["race", "refused"]
    told = said(race_job.follow(stage(**changed), RaceForm(prompt, methods, form_of(**asked))))["error"]
    assert told.startswith(word) and ("this server's limit is" in told or word == "options")
    assert queue.counts["race", "refused"] == before + 1
    limit = {"prompt": prompt[:20], "max_new_tokens": 7, "lanes": methods[:2]}
    fits = form_of(max_new_tokens=limit["max_new_tokens"])
    assert (
        said(race_job.follow(stage(**changed), RaceForm(limit["prompt"], limit["lanes"], fits)))[-1]["reason"]
        == "finished"
    )


def test_a_race_made_elsewhere_is_held_to_the_limits_too(stage):
    make = lambda stage: RaceForm("Once", ["naive", "draft", "ngram"], form_of())(stage)  # noqa: E731
    assert "lanes is 3" in said(race_job.follow(stage(max_lanes=2), lambda _: make(stage())))["error"]
    assert "max_new_tokens is 8" in said(race_job.follow(stage(max_new_tokens=7), lambda _: make(stage())))["error"]


def test_a_link_is_held_to_them_and_the_form_begins_within_them(stage):
    small = Limits(max_new_tokens=50, max_prompt_chars=10, max_lanes=2)
    for query in (
        {"prompt": "a" * 11},
        {"prompt": "a", "max_new_tokens": "51"},
        {"prompt": "a", "methods": "draft,tree"},
    ):
        assert "this server's limit is" in json.loads(arrive(stand_in(small), query)["lanes"])["error"]
    assert form.from_link({"prompt": "a"}, ["pocket"], lambda family: ["draft"], small)[3]["max_new_tokens"] == 50
    assert form.first_values(small, max_new_tokens=12)["max_new_tokens"] == 12


def test_a_race_that_computes_too_long_is_ended_between_two_passes_and_keeps_what_it_has(stage):
    queue.open(Limits(max_run_s=0.3))
    events = said(
        race_job.follow(stage(), RaceForm("Once upon a time", ["naive", "draft"], form_of(max_new_tokens=900)))
    )
    end = events[-1]
    assert end["reason"] == "error"
    assert end["message"] == "Ended by this server's limit of 0.3 s of computing; what ran so far is shown."
    assert sum(event["kind"] == "step" for event in events) > 4 and end["stats"][0]["new_tokens"] > 0
    assert queue.counts["race", "limit"] >= 1


def test_other_work_is_ended_too_and_its_last_value_comes_first():
    queue.open(Limits(max_run_s=0.3))
    closed = threading.Event()

    def counting():
        try:
            for i in range(10_000):
                time.sleep(0.01)
                counted.append(i)
                yield i
        finally:
            closed.set()

    counted, values = [], []

    def watch():
        for value in follow(counting):
            values.append(value)

    with pytest.raises(Ended, match=re.escape("limit of 0.3 s of computing; what ran so far is shown")):
        watch()
    assert closed.is_set() and 0 < values[-1] == counted[-1] < 60
    assert len(list(follow(lambda: iter_slowly(200), limited=False))) > 2, "some work takes as long as it takes"


def iter_slowly(times):
    for i in range(times):
        time.sleep(0.003)
        yield i


def test_waiting_does_not_count():
    queue.open(Limits(max_run_s=0.3))
    gate, _ = busy()
    threading.Timer(0.8, gate.set).start()
    assert [value for value in follow(lambda: iter_slowly(3)) if isinstance(value, int)][-1] == 2


def test_the_queue_has_an_end_and_whoever_comes_then_hears_so_at_once(stage):
    queue.open(Limits(max_waiting=2))
    gate, _ = busy()
    waiting = [queue.submit(Job("test", lambda job: None)) for _ in range(2)]
    try:
        start = time.monotonic()
        told = said(race_job.follow(stage(), RaceForm("Once", ["naive"], form_of())))["error"]
        assert told.startswith("2 runs are waiting, as many as this server lets wait.")
        with pytest.raises(Refused, match="2 runs are waiting"):
            next(follow(lambda: iter_slowly(1)))
        assert time.monotonic() - start < 1
        waiting[0].leave()
        third = queue.submit(Job("test", lambda job: None))
    finally:
        gate.set()
    assert third.done.result(5) is None and queue.waiting() == 0


def test_a_fault_is_told_in_words_and_logged_without_what_was_typed(stage, caplog, monkeypatch):
    monkeypatch.setattr(server_logging.LOGGER, "propagate", True)

    def broken(*_):
        raise RuntimeError(SECRET)

    racing = RaceForm(SECRET, ["naive"], form_of())(stage())
    monkeypatch.setattr("lookahead.trace.race.Recorder.record", broken)
    with caplog.at_level(logging.INFO, "lookahead"):
        events = said(race_job.follow(stage(), lambda _: racing))
    assert events[-1]["message"] == FAULT and events[-1]["reason"] == "error"
    records = [record for record in caplog.records if record.name == server_logging.LOGGER.name]
    lines = [json.loads(server_logging.EntryFormatter(as_json=True).format(record)) for record in records]
    assert [line["event"] for line in lines] == ["fault", "run"], lines
    assert lines[1]["outcome"] == "failed"
    assert "in broken" in lines[0]["traceback"] and "RuntimeError" in lines[0]["traceback"]
    assert SECRET not in json.dumps(lines)
    open_ = [json.loads(server_logging.EntryFormatter(as_json=True, prompts=True).format(record)) for record in records]
    assert SECRET in open_[0]["traceback"] and open_[1]["prompt"] == SECRET


# ------------------------------------------------------------------ variables

BAD = [
    ("MAX_PROMPT_CHARS", "many"), ("MAX_PROMPT_CHARS", "0"), ("MAX_NEW_TOKENS", "1.5"), ("MAX_NEW_TOKENS", "-1"), ("MAX_LANES", "1"),
    ("MAX_LANES", "5"), ("MAX_RUN_S", "nan"), ("MAX_RUN_S", "0"), ("MAX_WAITING", "1e9"), ("MAX_WAITING", "1001"), ("LOADING", "some"),
    ("MAX_MODEL_GB", "-1"), ("LOG", "xml"), ("LOG_PROMPTS", "yes"), ("METRICS", "on"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_bad_variable_stops_the_start_with_one_line(monkeypatch, capsys, name, value):
    monkeypatch.setenv(f"LOOKAHEAD_{name}", value)
    assert entry.main(["--port", "1"]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and told.startswith(f"lookahead: LOOKAHEAD_{name} is '{value}': ")


def test_variables_are_read_and_one_table_says_them_all(monkeypatch):
    assert (Limits.of().max_lanes, Limits.of().max_run_s, LogSettings.of().log) == (4, 300, "text")
    for name, value in {"MAX_LANES": "3", "MAX_RUN_S": " 2.5 ", "LOG": "json", "METRICS": "1", "LOG_PROMPTS": "0",
                        "MAX_WAITING": " ", "REVISION": "abc"}.items():  # fmt: skip
        monkeypatch.setenv(f"LOOKAHEAD_{name}", value)
    assert Limits.of().model_dump() == {
        "max_prompt_chars": 20_000, "max_new_tokens": 2_000, "max_lanes": 3, "max_run_s": 2.5, "max_grow_s": 300,
        "max_waiting": 64, "loading": "any", "max_model_gb": 0,
    }  # fmt: skip
    assert LogSettings.of().model_dump() == {"log": "json", "log_prompts": False, "metrics": True, "revision": "abc"}
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in limits.table().split("\n")[2:]]
    assert [row[0] for row in rows] == [
        f"`LOOKAHEAD_{name.upper()}`" for cls in (Limits, LogSettings) for name in cls.model_fields
    ]
    assert all(meaning for _, _, meaning in rows)
    shown = {name: value for name, value, _ in rows}
    assert shown["`LOOKAHEAD_MAX_PROMPT_CHARS`"] == "20,000" and shown["`LOOKAHEAD_LOG`"] == "text"
    assert shown["`LOOKAHEAD_METRICS`"] == "0"


def test_the_readme_holds_the_table():
    _, held, _ = tables.split(ROOT / "docs" / "hosting.md", "limits")
    assert held.strip() == limits.table(), "python -m lookahead limits --update docs/hosting.md"


def test_the_revision_is_what_the_build_or_the_host_names():
    sha = "0123456789abcdef0123456789abcdef01234567"
    assert version.revision({}) == ""
    assert version.revision({"LOOKAHEAD_REVISION": "v1 <b>\n", "SOURCE_COMMIT": sha}) == "v1 <b>"
    assert version.revision({"LOOKAHEAD_REVISION": "", "SOURCE_COMMIT": sha}) == sha[:9]
    assert len(version.revision({"SOURCE_VERSION": "x" * 1000})) == 40


# ------------------------------------------------------------------ health


def test_health_tells_a_stuck_pass_a_dead_thread_and_the_end(stage, monkeypatch):
    here, log_settings = stage(), LogSettings(revision="abc")
    assert health.health(here, log_settings) == {
        "status": "ok", "version": version.VERSION, "revision": "abc", "models": ["pocket"], "waiting": 0, "computing_s": 0.0,
    }  # fmt: skip
    monkeypatch.setattr(queue_module, "GRACE_S", 0.1)
    queue.open(Limits(max_run_s=0.2))
    gate, job = busy()
    try:
        assert health.health(here, log_settings)["status"] == "ok", "within its time"
        time.sleep(0.4)
        told = health.health(here, log_settings)
        assert told["status"] == "stuck" and told["computing_s"] >= 0.3
        monkeypatch.setattr(queue_module, "THREAD", "no such thread")
        assert health.health(here, log_settings)["status"] == "dead"
    finally:
        gate.set()
    job.done.result(5)
    within(1, lambda: health.health(here, log_settings)["status"] == "ok")
    queue.close()
    assert health.health(here, log_settings)["status"] == "closing"


def test_a_page_that_closes_does_not_wait_for_a_pass_that_hangs():
    gate, _ = busy()
    hung = threading.Event()

    def hanging():
        hung.set()
        gate.wait(20)
        yield 1

    late = follow(hanging)
    next(late)
    start = time.monotonic()
    late.close()
    gate.set()
    assert time.monotonic() - start < 0.2, "Gradio closes it on the thread that answers everybody"


# ------------------------------------------------------------------ a whole server


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A server with small limits that tells what there is to tell."""
    running = App(
        tmp_path_factory.mktemp("small"), LOOKAHEAD_LOG="json", LOOKAHEAD_METRICS="1", LOOKAHEAD_MAX_PROMPT_CHARS="300",
        LOOKAHEAD_MAX_NEW_TOKENS="900", LOOKAHEAD_MAX_RUN_S="1.5", LOOKAHEAD_MAX_WAITING="1", LOOKAHEAD_REVISION=40 * "a",
    )  # fmt: skip
    yield running
    running.process.kill()
    running.process.wait()


def entries(server):
    return [json.loads(line) for line in server.errors().splitlines()]


def test_the_api_is_held_to_the_limits(small):
    from gradio_client import Client
    from gradio_client.exceptions import AppError

    client = Client(small.url, verbose=False)
    for asked, words in (
        ((SECRET * 60, "draft", 8), "prompt is '480 characters': this server's limit is 300"),
        ((SECRET, "draft", 901), "max_new_tokens is 901: this server's limit is 900"),
        ((SECRET, SECRET, 8), "method is 'Zanzibar'"),
        ((f"{SECRET}. {ENDLESS}", "lookahead", 900), "limit of 1.5 s of computing"),
    ):
        with pytest.raises(AppError, match=re.escape(words)):
            client.predict(*asked, api_name="/race")
    assert len(client.predict(SECRET, "draft", 8, api_name="/race")["lanes"]) == 2


def test_a_third_is_refused_at_once(small):
    first = Caller(small.port, prompt=ENDLESS, max_new_tokens=900).until("Computing")
    second = Caller(small.port).until("Waiting: one run is before yours")
    start = time.monotonic()
    assert "One run is waiting, as many as" in json.dumps(Caller(small.port).result())
    assert time.monotonic() - start < 0.8
    first.vanish()
    assert second.result()["lanes"]


def test_the_page_names_the_version_and_the_revision(small):
    assert f"Lookahead {version.VERSION} ({9 * 'a'}). The bundled models" in small.get("/")[1]
    status, told = small.get("/healthz")
    assert status == 200 and json.loads(told)["revision"] == 9 * "a"


def test_metrics_count_what_was_done(small):
    status, text = small.get("/metrics")
    found = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[0] != "#"}
    assert status == 200
    assert found['lookahead_runs_total{kind="api",outcome="refused"}'] == 4
    assert found['lookahead_runs_total{kind="api",outcome="limit"}'] == 1
    assert found['lookahead_runs_total{kind="api",outcome="finished"}'] == 2
    assert found['lookahead_runs_begun_total{kind="api"}'] == 4
    # How many tokens the run that met its limit wrote is a matter of the machine.
    assert found["lookahead_tokens_total"] > 16 and found["lookahead_computed_seconds_total"] > 1.5
    assert found["lookahead_waited_seconds_total"] > 0 and found["lookahead_waiting"] == 0
    assert found["process_resident_memory_bytes"] > 1e8


def test_the_log_is_an_object_a_line_and_holds_no_prompt(small):
    held = entries(small)
    assert held[0]["event"] == "started" or "message" in held[0]
    started = next(entry for entry in held if entry["event"] == "started")
    assert (
        started["version"] == version.VERSION and started["max_prompt_chars"] == 300 and started["models"] == "pocket"
    )
    runs = [entry for entry in held if entry["event"] == "run"]
    assert {run["outcome"] for run in runs} == {"finished", "limit", "stopped"}
    assert len({run["id"] for run in runs}) == len(runs)
    assert runs[-1] == runs[-1] | {"kind": "api", "methods": ["naive", "draft"], "tokens": 24}
    refused = {entry["field"] for entry in held if entry["event"] == "refused"}
    assert refused == {"prompt", "max_new_tokens", "method", "server"}
    text = small.errors()
    assert SECRET not in text and "Once upon" not in text and "127.0.0.1" not in text


def test_a_signal_ends_it_gently(small):
    racing = Caller(small.port, prompt=ENDLESS, max_new_tokens=900).until("Computing")
    waiting = Caller(small.port).until("Waiting")
    ends = []
    readers = [
        threading.Thread(target=lambda c=caller: ends.append((time.monotonic(), c.result())))
        for caller in (racing, waiting)
    ]
    for reader in readers:
        reader.start()
    start = time.monotonic()
    small.process.send_signal(signal.SIGTERM)
    status = small.process.wait(timeout=10)
    took = time.monotonic() - start
    for reader in readers:
        reader.join(5)
    assert status == 0 and took < 3
    assert [run["outcome"] for run in entries(small) if run["event"] == "run"][-2:] == ["closing", "closing"]
    assert entries(small)[-1]["event"] == "ended"
    assert len(ends) == 2
