"""Runs and their events for the page: batches, gaps, ids, memory."""

import json
import threading
import time
from functools import partial
from urllib.parse import parse_qsl

import pytest
from conftest import stand_in

from lookahead.server import form, race_job
from lookahead.server.limits import Limits
from lookahead.server.queue import Job, queue
from lookahead.server.runs import GONE, MAX_RUNS, Run, Runs, complete_batch
from lookahead.trace.wire import End, Status


def end():
    return End(reason="finished")


@pytest.fixture
def followed(monkeypatch):
    """Return a function that yields the batches of a race that computes `work(run, job)`."""

    def follow(work):
        submit = lambda server, make, kind, run: queue.submit(Job(kind, partial(work, run)))  # noqa: E731
        monkeypatch.setattr(race_job, "submit", submit)
        return race_job.follow(stand_in(Limits()), None)

    return follow


def test_batches_have_every_event_once_and_in_order(followed):
    def write(run, job):
        for i in range(300):
            run.add(Status(text="\u2028</script>\U0001f438", fraction=i))
            time.sleep(0.001)
        run.add(end())
        run.add(Status(text="too late"))

    sent, events = [json.loads(text) for text in followed(write)], []
    for batch in sent:
        assert batch["run"] == sent[0]["run"]
        assert batch["i0"] == len(events)
        events += batch["ev"]
    assert [e["fraction"] for e in events[:-1]] == list(range(300))
    assert [b.get("end", False) for b in sent] == [False] * (len(sent) - 1) + [True]


def test_a_run_without_events_can_be_cancelled(followed):
    gate, ended = threading.Event(), threading.Event()

    def silent(run, job):
        while not gate.wait(0.01) and not job.end_reason:
            pass
        ended.set()

    sent = followed(silent)
    start = time.monotonic()
    assert json.loads(next(sent))["ev"] == []
    assert time.monotonic() - start < 1
    sent.close()
    assert ended.wait(1)


def test_gaps_are_filled_from_any_index():
    runs, run = Runs(), Run()
    runs.remember(run)
    for i in range(5):
        run.add(Status(text="", fraction=i))
    run.add(end())
    assert [e.get("fraction") for e in json.loads(runs.resend([run.id, 3]))["ev"]] == [3, 4, None]
    assert json.loads(runs.resend([run.id, 3]))["end"] is True
    assert json.loads(runs.resend([run.id, 99]))["ev"] == []


def test_old_runs_are_deleted():
    runs, opened = Runs(), [Run() for _ in range(MAX_RUNS + 5)]
    for run in opened:
        runs.remember(run)
    assert GONE in runs.resend([opened[0].id, 0])
    assert GONE not in runs.resend([opened[-1].id, 0])


def test_a_recording_is_one_batch():
    batch = json.loads(complete_batch("recording", [Status(text="begun"), end()]))
    assert batch["end"] is True
    assert len(batch["ev"]) == 2


def test_form_values_become_options():
    out = form.options({"max_new_tokens": 12.0, "k": " 4 ", "temperature": "0.5", "stop": "a\n\nb", "seed": 3})
    assert out == {"max_new_tokens": 12, "k": 4, "temperature": 0.5, "stop": ("a", "b"), "seed": 3}
    assert form.options({"k": None})["k"] == "auto"
    assert form.options({"stop": "\ufeffa\u2028b\r\nc\r\n"})["stop"] == ("a\u2028b", "c")
    assert form.options({"max_new_tokens": 1.5})["max_new_tokens"] == 1.5, "refused later, with a message"


# ------------------------------------------------------------------ links


def test_a_link_restores_the_form():
    fields = {**form.DEFAULTS, "temperature": 0.7, "seed": 9, "chat": True, "options": "window=5 ngram=3", "k": "4"}
    query = form.link("A & b = #1 \u202e\n<b>", ["naive", "ngram", "lookahead"], fields)
    assert query.startswith("?") and "seed=9" in query and "top_k" not in query, "default values are left out"
    back = dict(parse_qsl(query[1:]))
    prompt, method, also, restored = form.from_link(back, ["pocket"], lambda family: ["draft", "offdomain"], Limits())
    assert (prompt, method, also) == ("A & b = #1 \u202e\n<b>", "lookahead", ["ngram"])
    assert restored == fields
    assert form.options(restored) == form.options(fields)


def test_naive_comes_first_and_the_chosen_method_last():
    assert form.lanes("hybrid") == ["naive", "hybrid"]
    assert form.lanes("hybrid", ["ngram", "naive", "hybrid", "ngram", "tree"]) == ["naive", "ngram", "tree", "hybrid"]
    assert form.lanes("naive") == ["naive"]
