"""A class on one server: 30 users at once, 60 who vote, 100 users in a row, and users who leave before the end."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
import urllib.request
from datetime import datetime
from functools import cache
from itertools import combinations

import pytest
import users
import voters
from conftest import ROOT, emitted, started
from users import Caller

import lookahead

pytestmark = [pytest.mark.models, pytest.mark.timed]
CLASS = 30
WARM = CLASS  # other users, before memory is measured
VOTERS = 60
ROW = 100
FLAT = 0.05  # growth of memory after the first users
SLACK = 0.05  # seconds by which two clocks, or a log entry and its event, may differ


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with started(tmp_path_factory.mktemp("classroom"), LOOKAHEAD_LOG="json", LOOKAHEAD_LOG_PROMPTS="1") as running:
        yield running


def lesson(server, first, last):
    """Run users `first` to `last` at once until all have left. Returns {user: result}."""
    command = [sys.executable, ROOT / "tests" / "users.py", str(server.port), str(first), str(last)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=480, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return {int(user): result for user, result in json.loads(done.stdout).items()}


def logged(server):
    """Return the server's runs in the order of their ends: prompt, time of arrival, time of the end (seconds since 1970)."""
    runs = [entry for line in server.errors().splitlines() if (entry := json.loads(line))["event"] == "run"]
    ends = [datetime.fromisoformat(run["time"]).timestamp() for run in runs]
    return [
        (run["prompt"], end - run["computed_s"] - run["waited_s"], end) for run, end in zip(runs, ends, strict=True)
    ]


def ids(trace, lane):
    return [token for step in trace["lanes"][lane]["steps"] for token in step["emitted"]]


@pytest.fixture(scope="module")
def voted(server):
    """The result of a class of 60 that votes while other users race."""
    return voters.load(server.port, VOTERS, range(CLASS, CLASS + WARM))


def test_sixty_vote_while_thirty_race_and_none_is_lost(voted, server):
    assert (voted["votes"], voted["counted"], voted["races"]) == (VOTERS, VOTERS, WARM)
    assert voted["request_median_s"] < voted["race_median_s"] / 10, "votes do not wait in the queue"
    assert "vote" not in server.output(), "the log has no votes"


def test_thirty_users_at_once_get_their_results_in_order(voted, server, models):
    memory = server.memory()
    results = lesson(server, 0, CLASS)
    assert len(results) == CLASS
    assert len({(f["trace"]["prompt"]["text"], f["trace"]["settings"]["seed"]) for f in results.values()}) == CLASS
    for user, result in results.items():
        trace, request = result["trace"], users.race_request(user)
        assert trace["prompt"]["text"] == request["prompt"]
        assert [lane["method"] for lane in trace["lanes"]] == ["naive", request["method"]]
        alone = lookahead.decode(
            models,
            request["prompt"],
            "naive",
            max_new_tokens=users.TOKENS,
            temperature=request["temperature"],
            seed=user,
        )
        assert ids(trace, 0) == ids(trace, 1) == emitted(list(alone)), f"user {user}"
    runs = logged(server)[-CLASS:]
    arrivals, ends = {prompt: at for prompt, at, _ in runs}, [end for _, _, end in runs]
    assert all(a <= b + SLACK for a, b in combinations(arrivals.values(), 2)), "first come, first served"
    # Each user received the number of runs before it at a moment between its arrival and the message.
    for user, result in results.items():
        prompt, (heard_at, ahead) = users.race_request(user)["prompt"], result["queue_status"]
        index = list(arrivals).index(prompt)
        least, most = (
            max(0, index - sum(end < at for end in ends)) for at in (heard_at + SLACK, arrivals[prompt] - SLACK)
        )
        assert least <= ahead <= most, f"reported {ahead}, expected {least} to {most}"
    assert max(result["queue_status"][1] for result in results.values()) > CLASS / 2, "they arrived at the same time"
    assert server.memory() < (1 + FLAT) * memory


# ------------------------------------------------------------------ plain HTTP: clients that stop or disconnect


@cache
def number_of_race(url):
    """Return the number of /race on the server."""
    with urllib.request.urlopen(f"{url}/config") as response:
        return next(d["id"] for d in json.load(response)["dependencies"] if d["api_name"] == "race")


def stop(server, event):
    """Send the request of a client's `cancel`."""
    line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    body = {"session_hash": event, "fn_index": number_of_race(server.url), "event_id": event}
    line.request("POST", "/gradio_api/cancel", json.dumps(body), {"Content-Type": "application/json"})
    assert line.getresponse().status == 200
    line.close()


def idle(server):
    """Return whether nothing computes, nothing waits, and the status is ok."""
    status, text = server.get("/healthz")
    report = json.loads(text)
    return status == 200 and report["status"] == "ok" and report["computing_s"] == report["waiting"] == 0


def within(seconds, true):
    start = time.monotonic()
    while not true():
        assert time.monotonic() - start < seconds
        time.sleep(0.02)
    return time.monotonic() - start


def timeless(value):
    """Return a trace without its times."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if not k.endswith("_s") and k != "created"}
    return [timeless(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("leave", ["vanish", "stop"])
def test_a_user_who_leaves_frees_the_thread_within_a_second(server, leave):
    caller = Caller(server.port, max_new_tokens=900).until("Computing")
    waiting = Caller(server.port, seed=5).until("Waiting")
    waiting.vanish()
    caller.vanish() if leave == "vanish" else stop(server, caller.event)
    within(1, lambda: idle(server))


def test_a_hundred_in_a_row(server):
    first = Caller(server.port).result()
    memory, outcomes, before = None, [], server.errors().count('"outcome": "stopped"')
    for number in range(ROW):
        if number % 3 == 0:
            outcomes.append(Caller(server.port, seed=number).result()["settings"]["seed"] == number)
        else:
            caller = Caller(server.port, max_new_tokens=900, seed=number).until("Computing")
            caller.vanish() if number % 3 == 1 else stop(server, caller.event)
        if number == ROW // 10:
            memory = server.memory()
    assert all(outcomes) and len(outcomes) == (ROW + 2) // 3
    within(1, lambda: idle(server))
    assert timeless(Caller(server.port).result()) == timeless(first)
    assert server.memory() < (1 + FLAT) * memory
    left = server.errors().count('"outcome": "stopped"') - before
    assert left == ROW - len(outcomes), "each user who left was computing or waiting, and was removed"
