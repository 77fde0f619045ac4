"""A classroom at one server: thirty at once, two hundred in a row, and who leaves before the end."""

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
from conftest import ROOT, emitted, started
from users import Caller

import lookahead

pytestmark = [pytest.mark.models, pytest.mark.timed]
CLASS = 30
WARM = CLASS  # of others, before memory is looked at
ROW = 200
FLAT = 0.05  # of the memory after the first of them
SLACK = 0.05  # seconds by which two clocks, or an entry in the log and what it tells of, may differ


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with started(tmp_path_factory.mktemp("classroom"), LOOKAHEAD_LOG="json", LOOKAHEAD_LOG_PROMPTS="1") as running:
        yield running


def lesson(server, first, last):
    """So many users at once, all gone afterwards: what became of each."""
    command = [sys.executable, ROOT / "tests" / "users.py", str(server.port), str(first), str(last)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=480, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return {int(user): found for user, found in json.loads(done.stdout).items()}


def logged(server):
    """The server's runs in the order in which they ended: prompt, when it came, when it ended (seconds since 1970)."""
    runs = [entry for line in server.errors().splitlines() if (entry := json.loads(line))["event"] == "run"]
    ends = [datetime.fromisoformat(run["time"]).timestamp() for run in runs]
    return [
        (run["prompt"], end - run["computed_s"] - run["waited_s"], end) for run, end in zip(runs, ends, strict=True)
    ]


def ids(trace, lane):
    return [token for step in trace["lanes"][lane]["steps"] for token in step["emitted"]]


def test_thirty_at_once_each_get_their_own_in_fair_order(server, models):
    lesson(server, CLASS, CLASS + WARM)
    memory = server.memory()
    found = lesson(server, 0, CLASS)
    assert len(found) == CLASS
    assert len({(f["trace"]["prompt"]["text"], f["trace"]["settings"]["seed"]) for f in found.values()}) == CLASS
    for user, one in found.items():
        trace, asked = one["trace"], users.asked(user)
        assert trace["prompt"]["text"] == asked["prompt"]
        assert [lane["method"] for lane in trace["lanes"]] == ["naive", asked["method"]]
        alone = lookahead.decode(
            models, asked["prompt"], "naive", max_new_tokens=users.TOKENS, temperature=asked["temperature"], seed=user
        )
        assert ids(trace, 0) == ids(trace, 1) == emitted(list(alone)), f"user {user}"
    runs = logged(server)[-CLASS:]
    came, gone = {prompt: at for prompt, at, _ in runs}, [end for _, _, end in runs]
    assert all(a <= b + SLACK for a, b in combinations(came.values(), 2)), "first come, first served"
    # Everybody was told how many were before it at some moment between its coming and its hearing.
    for user, one in found.items():
        prompt, (heard, ahead) = users.asked(user)["prompt"], one["told"]
        place = list(came).index(prompt)
        least, most = (max(0, place - sum(end < at for end in gone)) for at in (heard + SLACK, came[prompt] - SLACK))
        assert least <= ahead <= most, f"told {ahead}, were {least} to {most}"
    assert max(one["told"][1] for one in found.values()) > CLASS / 2, "they did come at once"
    assert server.memory() < (1 + FLAT) * memory


# ------------------------------------------------------------------ plain HTTP: callers who stop, and who vanish


@cache
def number_of_race(url):
    """The number by which the server knows /race."""
    with urllib.request.urlopen(f"{url}/config") as answer:
        return next(d["id"] for d in json.load(answer)["dependencies"] if d["api_name"] == "race")


def stop(server, event):
    """What a client's `cancel` sends."""
    line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    body = {"session_hash": event, "fn_index": number_of_race(server.url), "event_id": event}
    line.request("POST", "/gradio_api/cancel", json.dumps(body), {"Content-Type": "application/json"})
    assert line.getresponse().status == 200
    line.close()


def idle(server):
    """Nothing computes, nothing waits, nothing is wrong."""
    status, text = server.get("/healthz")
    told = json.loads(text)
    return status == 200 and told["status"] == "ok" and told["computing_s"] == told["waiting"] == 0


def within(seconds, true):
    start = time.monotonic()
    while not true():
        assert time.monotonic() - start < seconds
        time.sleep(0.02)
    return time.monotonic() - start


def timeless(value):
    """A trace without its times."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if not k.endswith("_s") and k != "created"}
    return [timeless(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("leave", ["vanish", "stop"])
def test_who_leaves_frees_the_thread_within_a_second(server, leave):
    caller = Caller(server.port, max_new_tokens=900).until("Computing")
    waiting = Caller(server.port, seed=5).until("Waiting")
    waiting.vanish()
    caller.vanish() if leave == "vanish" else stop(server, caller.event)
    within(1, lambda: idle(server))


def test_two_hundred_in_a_row(server):
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
    assert left == ROW - len(outcomes), "whoever left was at work or in the line, and was taken out"
