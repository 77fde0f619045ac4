"""Two real vLLM servers on this processor, without speculation and with our draft model: races, counts, load, a crash.

vLLM is in another environment, see `vllm_environment`. All engines compute in float32.
"""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from conftest import daily
from doctor_states import STATES, draft_folder, vllm

import lookahead
from lookahead.family.sources import locations
from lookahead.measure.scenarios import BENCH
from lookahead.measure.timing import Question
from lookahead.servers import doctor, report
from lookahead.servers.addresses import RemoteError, server_at
from lookahead.servers.background import complete
from lookahead.servers.engines import EngineProcess
from lookahead.servers.load import SIDES, Block, blocks, rounds_of
from lookahead.servers.race import ServerRace

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1500)]  # the first test may wait until vLLM is installed
MAX_TOKENS, TOGETHER, PREFIX, K = 32, 4, 0.9, 4
PROMPTS = [Question(s.id, s.category, s.prompt, s.chat) for s in BENCH if not s.options][:8]
NAMES, THINGS, VERBS = ("Anna", "Ben"), ("frog", "kite", "cake"), ("found", "lost")


@pytest.fixture(scope="module")
def servers():
    """Both servers, running."""
    draft = locations("pocket")["draft"]
    plain, fast = EngineProcess(vllm()), EngineProcess(vllm(draft, K))  # both start now
    with ExitStack() as stack:
        stack.push(fast)  # it is ended also if the other does not start
        stack.enter_context(plain)
        stack.enter_context(fast)
        yield server_at(plain.url, "plain", {}), server_at(fast.url, "fast", {}), fast


@pytest.fixture(scope="module")
def ours():
    """Our target in the same number format."""
    before = os.environ.get("LOOKAHEAD_DTYPE")
    os.environ["LOOKAHEAD_DTYPE"] = "float32"
    yield lookahead.load(locations("pocket")["target"])
    os.environ.pop("LOOKAHEAD_DTYPE") if before is None else os.environ.update(LOOKAHEAD_DTYPE=before)


def raced(servers, prompt, most=MAX_TOKENS, chat=False):
    race = ServerRace(servers[:2], prompt, most, chat)
    for _ in race:
        pass
    return race.result()


def test_its_ids_equal_ours(servers, ours):
    identical = []
    for prompt in PROMPTS:
        trace = raced(servers, prompt.prompt, chat=prompt.chat)
        steps = lookahead.decode(ours, prompt.prompt, "naive", max_new_tokens=MAX_TOKENS, chat=prompt.chat)
        ids = [token for step in steps for token in step.emitted]
        for lane in trace.lanes:
            ended = len(lane.tokens) < len(ids)  # vLLM omits the token that ends a text
            identical.append(lane.tokens == (ids[:-1] if ended else ids))
    assert sum(identical) >= PREFIX * len(identical), identical


def test_concurrent_races_are_complete_and_their_counts_agree(servers):
    prompts = [f"One day {name} {verb} a {thing}." for name in NAMES for thing in THINGS for verb in VERBS]
    with ThreadPoolExecutor(TOGETHER) as visitors:
        traces = list(visitors.map(lambda prompt: raced(servers, prompt, 12), prompts))
    for trace in traces:
        assert all(lane.steps[-1].finish for lane in trace.lanes)
        fast = trace.lanes[1]
        assert fast.verified[0].drafted is None
        # A delayed pass is received together with the next one, as one step.
        passes = [step.drafted / K for step in fast.verified[1:]]
        assert all(number in (1, 2, 3) for number in passes)
        assert all(
            len(step.emitted) == step.accepted + number
            for step, number in zip(fast.verified[1:-1], passes, strict=False)
        )


def test_its_counters_agree_under_load(servers):
    async def work():
        clients, *done = [
            item
            async for item in blocks(dict(zip(SIDES, servers, strict=False)), PROMPTS, rounds_of([1, 8], 8), MAX_TOKENS)
        ]
        assert all(isinstance(block, Block) for block in done)
        return report.from_blocks(clients, PROMPTS[:8], done, MAX_TOKENS)

    measured = complete(work)
    assert [level["concurrency"] for level in measured["levels"]] == [1, 8]
    for level in measured["levels"]:
        assert level["failed"] == 0 and not level["differs"]
        for side in SIDES:
            counted = level["counters"][side]
            assert counted["counted"] == counted["arrived"], (side, counted)
        assert level["counters"]["speculative"]["counted"]["drafted"] > 0


SECONDLESS = {name: state for name, state in STATES.items() if name != "k too large"}  # others need no speeds
DRAFTER = {"off", "broken-drafter", "low-acceptance"}


@pytest.mark.parametrize("state", daily(SECONDLESS, len(SECONDLESS)))
def test_the_doctor_diagnoses_the_drafter(servers, state, tmp_path, monkeypatch):
    """`doctor_states.py` runs the complete doctor in all states, on an idle machine."""
    monkeypatch.setattr(doctor, "SHARES", {"texts": 1.0})
    expected, name, k = SECONDLESS[state]
    with ExitStack() as stack:
        fast = {"off": servers[0], "healthy": servers[1]}.get(state)
        if fast is None:
            process = stack.enter_context(EngineProcess(vllm(draft_folder(name, tmp_path), k)))
            fast = server_at(process.url, "fast", {})
        sides = dict(zip(SIDES, (servers[0], fast), strict=True))
        *_, last = (p for p in doctor.examine(sides, doctor.bundled_questions(), 30, 48) if p and p.result)
    found = {finding.id for finding in last.result.findings}
    assert found & DRAFTER == {expected} & DRAFTER, last.result.findings
    assert (state == "off") == ("positions" in last.result.missing)


def test_the_received_steps_of_a_crashed_server_are_kept(servers):
    race = ServerRace(servers[:2], PROMPTS[0].prompt, 400)

    def run():
        for lane_step in race:
            if lane_step and lane_step.lane == 1 and lane_step.step.index == 5:
                os.killpg(servers[2].process_group, signal.SIGKILL)

    with pytest.raises(RemoteError, match="'fast'") as caught:
        run()
    assert "Traceback" not in str(caught.value)
    assert len(race.result().lanes[1].verified) >= 5
