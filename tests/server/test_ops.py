"""Operations: limits, environment variables, health, metrics, the log, the revision, the end of a server."""

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

pytestmark = [
    pytest.mark.models,
    pytest.mark.timed,
    pytest.mark.last,
    pytest.mark.every_day,
]  # its last test counts runs
SECRET = "Zanzibar"


@pytest.fixture(autouse=True)
def opened():
    """Set the queue to its state at the start of a server, before and after the test."""
    queue.open(Limits())
    yield
    queue.open(Limits())
    queue.call(lambda: None)


@pytest.fixture
def stage(models):
    return lambda **changed: ServerState(models, Limits(**changed))


def form_of(**changed):
    return {**form.DEFAULTS, "max_new_tokens": 8, **changed}


def events_of(batches):
    """Return the events in batches, or the refusal."""
    parsed = [json.loads(batch) for batch in batches]
    return parsed[0] if "error" in parsed[0] else [event for batch in parsed for event in batch["ev"]]


def busy():
    """Submit a job that computes until `gate` is set. Returns (gate, job)."""
    gate, started = threading.Event(), threading.Event()
    job = queue.submit(Job("test", lambda job: (started.set(), gate.wait(20))))
    assert started.wait(5)
    return gate, job


def follow(make, limited=True):
    """Yield the values of a job that publishes the values of the generator `make()`."""
    for update in queue.submit(Job("test", lambda _: make(), limited=limited)).follow():
        yield from update.values or [update.waiting]


# ------------------------------------------------------------------ limits of a host


@pytest.mark.parametrize(
    ("changed", "prompt", "methods", "fields", "word"),
    [
        ({"max_prompt_chars": 20}, "a" * 21, ["naive"], {}, "prompt"),
        ({"max_new_tokens": 7}, "Once", ["naive"], {}, "max_new_tokens"),
        ({"max_lanes": 2}, "Once", ["naive", "draft", "ngram"], {}, "lanes"),
        ({}, "Once", ["naive"], {"options": "x" * 2001}, "options"),
    ],
)
def test_values_above_the_limits_are_refused_with_a_message(stage, changed, prompt, methods, fields, word):
    before = queue.counts["race", "refused"]
    error = events_of(race_job.follow(stage(**changed), RaceForm(prompt, methods, form_of(**fields))))["error"]
    assert error.startswith(word) and ("this server's limit is" in error or word == "options")
    assert queue.counts["race", "refused"] == before + 1
    limit = {"prompt": prompt[:20], "max_new_tokens": 7, "lanes": methods[:2]}
    fits = form_of(max_new_tokens=limit["max_new_tokens"])
    assert (
        events_of(race_job.follow(stage(**changed), RaceForm(limit["prompt"], limit["lanes"], fits)))[-1]["reason"]
        == "finished"
    )


def test_a_race_without_a_form_must_respect_the_limits(stage):
    make = lambda stage: RaceForm("Once", ["naive", "draft", "ngram"], form_of())(stage)  # noqa: E731
    assert "lanes is 3" in events_of(race_job.follow(stage(max_lanes=2), lambda _: make(stage())))["error"]
    assert (
        "max_new_tokens is 8" in events_of(race_job.follow(stage(max_new_tokens=7), lambda _: make(stage())))["error"]
    )


def test_a_link_and_the_initial_form_must_respect_the_limits(stage):
    small = Limits(max_new_tokens=50, max_prompt_chars=10, max_lanes=2)
    for query in (
        {"prompt": "a" * 11},
        {"prompt": "a", "max_new_tokens": "51"},
        {"prompt": "a", "methods": "draft,tree"},
    ):
        assert "this server's limit is" in json.loads(arrive(stand_in(small), query)["lanes"])["error"]
    assert form.from_link({"prompt": "a"}, ["pocket"], lambda family: ["draft"], small)[3]["max_new_tokens"] == 50
    assert form.initial_values(small, max_new_tokens=12)["max_new_tokens"] == 12


def test_a_race_that_computes_too_long_ends_between_two_passes_and_keeps_its_steps(stage):
    queue.open(Limits(max_run_s=0.3))
    events = events_of(
        race_job.follow(stage(), RaceForm("Once upon a time", ["naive", "draft"], form_of(max_new_tokens=900)))
    )
    end = events[-1]
    assert end["reason"] == "error"
    assert end["message"] == "Ended after 0.3 s of computing, this server's limit. The results so far are shown."
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

    with pytest.raises(
        Ended, match=re.escape("after 0.3 s of computing, this server's limit. The results so far are shown")
    ):
        watch()
    assert closed.is_set() and 0 < values[-1] == counted[-1] < 60
    assert len(list(follow(lambda: iter_slowly(200), limited=False))) > 2, "some jobs have no limit"


def iter_slowly(times):
    for i in range(times):
        time.sleep(0.003)
        yield i


def test_waiting_does_not_count():
    queue.open(Limits(max_run_s=0.3))
    gate, _ = busy()
    threading.Timer(0.8, gate.set).start()
    assert [value for value in follow(lambda: iter_slowly(3)) if isinstance(value, int)][-1] == 2


def test_a_full_queue_refuses_immediately(stage):
    queue.open(Limits(max_waiting=2))
    gate, _ = busy()
    waiting = [queue.submit(Job("test", lambda job: None)) for _ in range(2)]
    try:
        start = time.monotonic()
        error = events_of(race_job.follow(stage(), RaceForm("Once", ["naive"], form_of())))["error"]
        assert error.startswith("2 runs are waiting, this server's limit.")
        with pytest.raises(Refused, match="2 runs are waiting"):
            next(follow(lambda: iter_slowly(1)))
        assert time.monotonic() - start < 1
        waiting[0].cancel()
        third = queue.submit(Job("test", lambda job: None))
    finally:
        gate.set()
    assert third.done.result(5) is None and queue.waiting() == 0


def test_an_unexpected_error_is_reported_and_logged_without_the_prompt(stage, caplog, monkeypatch):
    monkeypatch.setattr(server_logging.LOGGER, "propagate", True)

    def broken(*_):
        raise RuntimeError(SECRET)

    racing = RaceForm(SECRET, ["naive"], form_of())(stage())
    monkeypatch.setattr("lookahead.trace.race.Recorder.record", broken)
    with caplog.at_level(logging.INFO, "lookahead"):
        events = events_of(race_job.follow(stage(), lambda _: racing))
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
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and error.startswith(f"lookahead: LOOKAHEAD_{name} is '{value}': ")


def test_variables_are_read_and_listed_in_one_table(monkeypatch):
    assert (
        Limits.from_environment().max_lanes,
        Limits.from_environment().max_run_s,
        LogSettings.from_environment().log,
    ) == (4, 300, "text")
    for name, value in {"MAX_LANES": "3", "MAX_RUN_S": " 2.5 ", "LOG": "json", "METRICS": "1", "LOG_PROMPTS": "0",
                        "MAX_WAITING": " ", "REVISION": "abc"}.items():  # fmt: skip
        monkeypatch.setenv(f"LOOKAHEAD_{name}", value)
    assert Limits.from_environment().model_dump() == {
        "max_prompt_chars": 20_000, "max_new_tokens": 2_000, "max_lanes": 3, "max_run_s": 2.5, "max_grow_s": 300,
        "max_waiting": 64, "loading": "any", "max_model_gb": 0,
    }  # fmt: skip
    assert LogSettings.from_environment().model_dump() == {
        "log": "json",
        "log_prompts": False,
        "metrics": True,
        "revision": "abc",
    }
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in limits.table().split("\n")[2:]]
    assert [row[0] for row in rows] == [
        f"`LOOKAHEAD_{name.upper()}`" for cls in (Limits, LogSettings) for name in cls.model_fields
    ]
    assert all(meaning for _, _, meaning in rows)
    shown = {name: value for name, value, _ in rows}
    assert shown["`LOOKAHEAD_MAX_PROMPT_CHARS`"] == "20,000" and shown["`LOOKAHEAD_LOG`"] == "text"
    assert shown["`LOOKAHEAD_METRICS`"] == "0"


def test_the_documentation_has_the_table():
    _, table, _ = tables.split(ROOT / "docs" / "hosting.md", "limits")
    assert table.strip() == limits.table(), "python -m lookahead limits --update docs/hosting.md"


def test_the_revision_comes_from_the_build_or_the_host():
    sha = "0123456789abcdef0123456789abcdef01234567"
    assert version.revision({}) == ""
    assert version.revision({"LOOKAHEAD_REVISION": "v1 <b>\n", "SOURCE_COMMIT": sha}) == "v1 <b>"
    assert version.revision({"LOOKAHEAD_REVISION": "", "SOURCE_COMMIT": sha}) == sha[:9]
    assert len(version.revision({"SOURCE_VERSION": "x" * 1000})) == 40


# ------------------------------------------------------------------ health


def test_health_reports_a_stuck_pass_a_dead_thread_and_the_end(stage, monkeypatch):
    here, log_settings = stage(), LogSettings(revision="abc")
    assert health.health(here, log_settings) == {
        "status": "ok", "version": version.VERSION, "revision": "abc", "models": ["pocket"], "waiting": 0, "computing_s": 0.0,
    }  # fmt: skip
    monkeypatch.setattr(queue_module, "GRACE_S", 0.1)
    queue.open(Limits(max_run_s=0.2))
    gate, job = busy()
    try:
        assert health.health(here, log_settings)["status"] == "ok", "within its limit"
        time.sleep(0.4)
        report = health.health(here, log_settings)
        assert report["status"] == "stuck" and report["computing_s"] >= 0.3
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
    assert time.monotonic() - start < 0.2, "Gradio closes it in the thread that serves all visitors"


# ------------------------------------------------------------------ a running server


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A server with small limits, a JSON log and metrics."""
    running = App(
        tmp_path_factory.mktemp("small"), LOOKAHEAD_LOG="json", LOOKAHEAD_METRICS="1", LOOKAHEAD_MAX_PROMPT_CHARS="300",
        LOOKAHEAD_MAX_NEW_TOKENS="900", LOOKAHEAD_MAX_RUN_S="1.5", LOOKAHEAD_MAX_WAITING="1", LOOKAHEAD_REVISION=40 * "a",
    )  # fmt: skip
    yield running
    running.process.kill()
    running.process.wait()


def entries(server):
    return [json.loads(line) for line in server.errors().splitlines()]


def test_the_api_must_respect_the_limits(small):
    from gradio_client import Client
    from gradio_client.exceptions import AppError

    client = Client(small.url, verbose=False)
    for arguments, message in (
        ((SECRET * 60, "draft", 8), "prompt is '480 characters': this server's limit is 300"),
        ((SECRET, "draft", 901), "max_new_tokens is 901: this server's limit is 900"),
        ((SECRET, SECRET, 8), "method is 'Zanzibar'"),
        ((f"{SECRET}. {ENDLESS}", "lookahead", 900), "Ended after 1.5 s of computing"),
    ):
        with pytest.raises(AppError, match=re.escape(message)):
            client.predict(*arguments, api_name="/race")
    assert len(client.predict(SECRET, "draft", 8, api_name="/race")["lanes"]) == 2


def test_a_third_run_is_refused_immediately(small):
    first = Caller(small.port, prompt=ENDLESS, max_new_tokens=900).until("Computing")
    second = Caller(small.port).until("Waiting: one run is before yours")
    start = time.monotonic()
    assert "One run is waiting, this server's limit." in json.dumps(Caller(small.port).result())
    assert time.monotonic() - start < 0.8
    first.vanish()
    assert second.result()["lanes"]


def test_the_page_names_the_version_and_the_revision(small):
    assert f"Lookahead {version.VERSION} ({9 * 'a'}). The bundled models" in small.get("/")[1]
    status, report = small.get("/healthz")
    assert status == 200 and json.loads(report)["revision"] == 9 * "a"


def test_metrics_count_the_runs(small):
    status, text = small.get("/metrics")
    values = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[0] != "#"}
    assert status == 200
    assert values['lookahead_runs_total{kind="api",outcome="refused"}'] == 4
    assert values['lookahead_runs_total{kind="api",outcome="limit"}'] == 1
    assert values['lookahead_runs_total{kind="api",outcome="finished"}'] == 2
    assert values['lookahead_runs_begun_total{kind="api"}'] == 4
    # The number of tokens of the run that reached its limit depends on the machine.
    assert values["lookahead_tokens_total"] > 16 and values["lookahead_computed_seconds_total"] > 1.5
    assert values["lookahead_waited_seconds_total"] > 0 and values["lookahead_waiting"] == 0
    assert values["process_resident_memory_bytes"] > 1e8


def test_the_log_has_one_object_per_line_and_no_prompt(small):
    log = entries(small)
    assert log[0]["event"] == "started" or "message" in log[0]
    started = next(entry for entry in log if entry["event"] == "started")
    assert (
        started["version"] == version.VERSION and started["max_prompt_chars"] == 300 and started["models"] == "pocket"
    )
    runs = [entry for entry in log if entry["event"] == "run"]
    assert {run["outcome"] for run in runs} == {"finished", "limit", "stopped"}
    assert len({run["id"] for run in runs}) == len(runs)
    assert runs[-1] == runs[-1] | {"kind": "api", "methods": ["naive", "draft"], "tokens": 24}
    refused = {entry["field"] for entry in log if entry["event"] == "refused"}
    assert refused == {"prompt", "max_new_tokens", "method", "server"}
    text = small.errors()
    assert SECRET not in text and "Once upon" not in text and "127.0.0.1" not in text


def test_a_signal_ends_it_between_two_passes(small):
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
