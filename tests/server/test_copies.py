"""Several copies of the app with the proxy of `deploy/`: 40 visitors, a killed copy, a restarted copy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
import urllib.request
from collections import Counter
from contextlib import suppress

import pytest
import yaml
from chromium import until
from conftest import ROOT, App, free_port
from prompts import ENDLESS
from users import Caller, race_request

pytestmark = [pytest.mark.models, pytest.mark.timed]
VISITORS = 40
STATE = "window.lookahead.state()"
CONFIGURATION = ROOT / "deploy" / "haproxy.cfg"


@pytest.fixture(scope="module")
def proxy():
    """The proxy's program, installed if that is allowed."""
    if "CI" in os.environ and not shutil.which("haproxy") and shutil.which("apt-get") and os.geteuid() == 0:
        for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "haproxy"]):
            subprocess.run(["apt-get", *command], capture_output=True, check=False, timeout=300)
    return shutil.which("haproxy") or pytest.skip("haproxy is not installed, and cannot be installed here")


@pytest.fixture(scope="module")
def started(proxy, tmp_path_factory):
    """Two running copies and the proxy: the proxy's port, and the copies by their cookie."""
    both = {}
    for name in ("one", "two"):
        both[name] = App(tmp_path_factory.mktemp(name), ready=False)  # both start now
    port = free_port()
    variables = {"BIND": f"127.0.0.1:{port}"} | {
        f"COPY_{name.upper()}": f"127.0.0.1:{copy.port}" for name, copy in both.items()
    }
    running = subprocess.Popen(
        [proxy, "-f", str(CONFIGURATION)], env={**os.environ, **variables}, stderr=subprocess.PIPE
    )
    try:
        for copy in both.values():
            copy.wait()
        yield port, both
    finally:
        running.terminate()
        running.wait(10)
        for copy in both.values():
            with suppress(Exception):
                copy.stop()


@pytest.fixture
def copies(started, tmp_path):
    """The proxy's port and the copies, when both are up. A copy that another test has killed starts again."""
    port, both = started
    for name, copy in both.items():
        if copy.process.poll() is not None:
            both[name] = App(tmp_path, copy.port)
    wait(lambda: both_up(port, both))
    return port, both


def wait(true, seconds=30):
    start = time.monotonic()
    while not true():
        assert time.monotonic() - start < seconds
        time.sleep(0.1)


def copy_of(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2) as response:
            return response.headers.get("Set-Cookie", "").partition("=")[2].partition(";")[0]
    except OSError:
        return ""


def both_up(port, both):
    return {copy_of(port) for _ in range(8)} == set(both)


class Visit:
    """One visitor's race, and the copy that computed it."""

    def __init__(self, port, number, together):
        self.number, self.copy, self.trace, self.lost = number, None, None, None
        self._thread = threading.Thread(target=self._race, args=(port, together))
        self._thread.start()

    def _race(self, port, together):
        together.wait()
        try:
            caller = Caller(port, patience_s=120, **race_request(self.number))
            self.copy = caller.copy  # known even if the response ends early
            self.trace = caller.result()
        except (OSError, ValueError, AssertionError) as error:
            self.lost = error

    def join(self):
        self._thread.join(180)
        return self


def lesson(port, while_running=lambda visits: None):
    """Run 40 visitors at once; `while_running` is called after their start."""
    together = threading.Barrier(VISITORS)
    visits = [Visit(port, number, together) for number in range(VISITORS)]
    while_running(visits)
    return [visit.join() for visit in visits]


def complete(visit):
    lanes = visit.trace.get("lanes") if isinstance(visit.trace, dict) else None
    return bool(lanes) and all(lane["steps"][-1]["finish"] for lane in lanes)


def unfinished(visits):
    """Return the visits whose race was not completed."""
    return [(visit.number, visit.copy, visit.lost, visit.trace) for visit in visits if not complete(visit)]


def test_the_configuration_is_complete():
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
    served = [line.split()[1] for line in CONFIGURATION.read_text().splitlines() if line.strip().startswith("server ")]
    assert served == ["one", "two"] and set(compose["services"]) == {*served, "proxy"}
    assert set(compose["services"]["proxy"]["environment"]) == {"BIND", *(f"COPY_{name.upper()}" for name in served)}


def test_copies_can_be_restarted_one_after_the_other(copies, tmp_path):
    """A copy that must end refuses no visitor, because the proxy sends no new ones."""
    port, both = copies
    for name in both:

        def restart(visits, name=name):
            wait(lambda: sum(map(complete, visits)) >= 4, 60)
            assert both[name].stop() == 0
            both[name] = App(tmp_path, both[name].port)

        visits = lesson(port, restart)
        assert not unfinished(visit for visit in visits if visit.copy != name)
        wait(lambda: both_up(port, both))
    visits = lesson(port)
    assert not unfinished(visits)
    assert min(Counter(visit.copy for visit in visits).values()) >= VISITORS / 4, "both have computed"


def test_forty_visitors_and_a_copy_that_is_killed(copies):
    port, both = copies

    def kill(visits):
        wait(lambda: sum(complete(visit) for visit in visits) >= 4, 60)
        both["one"].process.kill()

    visits = lesson(port, kill)
    others = [visit for visit in visits if visit.copy != "one"]
    assert len(others) >= VISITORS / 4 and all(map(complete, others)), "the other copy is not affected"
    lost = [visit for visit in visits if not complete(visit)]
    assert {visit.copy for visit in lost} == {"one"} and len(lost) < len(visits) - len(others), "some had already ended"
    # A visitor of the killed copy returns with its cookie, and the other copy computes the race.
    wait(lambda: copy_of(port) == "two")
    for visit in lost[:3]:
        back = Caller(port, patience_s=60, cookie="lookahead-copy=one", **race_request(visit.number))
        assert json.dumps(back.result()) and back.copy == "two"


@pytest.mark.browser
def test_a_page_whose_copy_is_killed_continues_on_the_other(copies, chromium):
    """The proxy changes the copy immediately. The page reloads, shows the received events, and races again."""
    port, both = copies
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{port}/")
    until(page, f"!!window.lookahead && !!{STATE}.run")
    (first,) = (cookie["value"] for cookie in context.cookies() if cookie["name"] == "lookahead-copy")
    page.get_by_label("Prompt", exact=True).fill(ENDLESS)
    page.get_by_role("button", name="more", exact=True).click()
    page.get_by_label("new tokens, at most").fill("900")
    page.get_by_role("button", name="Race", exact=True).click()
    until(page, f"{STATE}.run !== 'recording-story' && {STATE}.received > 40")
    before = page.evaluate(STATE)
    both[first].process.kill()
    page.locator(".la-statustext", has_text="Restored after a reload. The run ended early.").wait_for(timeout=60_000)
    shown = page.evaluate(STATE)
    assert shown["run"] == before["run"] and "server was restarted" in shown["error"]
    for lane, earlier in zip(shown["lanes"], before["lanes"], strict=True):
        assert lane["text"].startswith(earlier["text"]) and lane["tokens"] > 10
    (second,) = (cookie["value"] for cookie in context.cookies() if cookie["name"] == "lookahead-copy")
    assert {first, second} == set(both)
    page.get_by_label("Prompt", exact=True).fill("The dog")
    page.get_by_role("button", name="Race", exact=True).click()
    until(page, f"{STATE}.done && {STATE}.run !== {json.dumps(before['run'])}", 60)
    assert page.evaluate(STATE)["error"] is None
    context.close()
