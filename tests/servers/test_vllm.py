"""A real vLLM on this processor, twice: without speculation and with our draft model. Races, counts, load, and one that dies.

In an environment of its own, see `vllm_environment`. Both compute in float32, and so does ours.
"""

from __future__ import annotations

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
import vllm_environment

import lookahead
from lookahead.family.sources import places
from lookahead.measure.scenarios import BENCH
from lookahead.measure.timing import Question
from lookahead.servers import report
from lookahead.servers.addresses import RemoteError, server_at
from lookahead.servers.background import complete
from lookahead.servers.engines import Engine, EngineProcess
from lookahead.servers.load import SIDES, Block, blocks, rounds_of
from lookahead.servers.race import ServerRace

pytestmark = [pytest.mark.engines, pytest.mark.timed, pytest.mark.timeout(1500)]  # the first of them installs it
MOST, RACES, TOGETHER, PREFIX = 48, 100, 4, 0.9
PROMPTS = [Question(s.id, s.category, s.prompt, s.chat) for s in BENCH if not s.options][:12]
NAMES, THINGS = ("Anna", "Ben", "Lily", "Tom", "Mia"), ("frog", "kite", "cake", "boat", "star")


def engine(plan=False):
    """How vLLM is started here."""
    members, python = places("pocket"), vllm_environment.python()

    command = [
        python, "-m", "vllm.entrypoints.openai.api_server", "--model", members["target"], "--served-model-name", "target",
        "--dtype", "float32", "--max-model-len", "1024", "--max-num-seqs", "16", "--no-enable-prefix-caching",
        "--enforce-eager",  # compiling takes a minute a server, and what is tested is ids and counts
    ]  # fmt: skip
    speculative = {"method": "draft_model", "model": members["draft"], "num_speculative_tokens": 4}
    drafting = ["--speculative-config", json.dumps(speculative), "--per-request-spec-decode-metrics", "detailed"]
    variables = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    return Engine("vllm", [*command, *(drafting if plan else [])], None, variables)


@pytest.fixture(scope="module")
def servers():
    """Both, running."""
    plain, fast = EngineProcess(engine()), EngineProcess(engine(plan=True))  # both are starting now
    with ExitStack() as stack:
        stack.push(fast)  # also where the other does not start
        stack.enter_context(plain)
        stack.enter_context(fast)
        yield server_at(plain.url, "plain", {}), server_at(fast.url, "fast", {}), fast


@pytest.fixture(scope="module")
def ours():
    """Our engine in the same number format."""
    before = os.environ.get("LOOKAHEAD_DTYPE")
    os.environ["LOOKAHEAD_DTYPE"] = "float32"
    yield lookahead.load("pocket")
    os.environ.pop("LOOKAHEAD_DTYPE") if before is None else os.environ.update(LOOKAHEAD_DTYPE=before)


def raced(servers, prompt, most=MOST, chat=False):
    race = ServerRace(servers[:2], prompt, most, chat)
    for _ in race:
        pass
    return race.result()


def test_its_ids_are_ours(servers, ours):
    alike = []
    for prompt in PROMPTS:
        trace = raced(servers, prompt.prompt, chat=prompt.chat)
        steps = lookahead.decode(ours, prompt.prompt, "naive", max_new_tokens=MOST, chat=prompt.chat)
        ids = [token for step in steps for token in step.emitted]
        for lane in trace.lanes:
            ended = len(lane.tokens) < len(ids)  # it leaves out the token that ends a text
            alike.append(lane.tokens == (ids[:-1] if ended else ids))
    assert sum(alike) >= PREFIX * len(alike), alike


def test_a_hundred_races_are_complete_and_their_counts_reconcile(servers):
    prompts = [
        f"One day {name} {verb} a {thing}."
        for name in NAMES
        for thing in THINGS
        for verb in ("found", "lost", "saw", "made")
    ]
    assert len(prompts) == RACES
    with ThreadPoolExecutor(TOGETHER) as visitors:
        traces = list(visitors.map(lambda prompt: raced(servers, prompt, 12), prompts))
    for trace in traces:
        assert all(lane.steps[-1].finish for lane in trace.lanes)
        fast = trace.lanes[1]
        assert fast.verified[0].drafted is None
        # What arrives late comes with the next pass, as one step of both.
        passes = [step.drafted / 4 for step in fast.verified[1:]]
        assert all(number in (1, 2, 3) for number in passes)
        assert all(
            len(step.emitted) == step.accepted + number
            for step, number in zip(fast.verified[1:-1], passes, strict=False)
        )


def test_under_load_its_own_counters_agree(servers):
    async def work():
        known, *done = [
            what
            async for what in blocks(dict(zip(SIDES, servers, strict=False)), PROMPTS, rounds_of([1, 4, 16], 8), MOST)
        ]
        assert all(isinstance(block, Block) for block in done)
        return report.of(known, PROMPTS[:8], done, MOST)

    measured = complete(work)
    assert [level["concurrency"] for level in measured["levels"]] == [1, 4, 16]
    for level in measured["levels"]:
        assert level["failed"] == 0 and not level["differs"]
        for side in SIDES:
            counted = level["counters"][side]
            assert counted["counted"] == counted["arrived"], (side, counted)
        assert level["counters"]["speculative"]["counted"]["drafted"] > 0


def test_one_that_dies_in_the_middle_keeps_what_arrived(servers):
    race = ServerRace(servers[:2], PROMPTS[0].prompt, 400)

    def run():
        for lap in race:
            if lap and lap.lane == 1 and lap.step.index == 5:
                os.killpg(servers[2].process_group, signal.SIGKILL)

    with pytest.raises(RemoteError, match="'fast'") as died:
        run()
    assert "Traceback" not in str(died.value)
    assert len(race.result().lanes[1].verified) >= 5
