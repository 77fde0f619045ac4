"""A real llama-server on this processor, without speculation and with our draft model, if `LLAMA_SERVER` is its path.

No package index has the program, so these tests do not run everywhere. They were written with build 11434.
"""

from __future__ import annotations

import os

import pytest

import lookahead
from lookahead.measure.scenarios import BENCH
from lookahead.measure.timing import Question
from lookahead.servers import report
from lookahead.servers.addresses import server_at
from lookahead.servers.background import complete
from lookahead.servers.engines import Engine, EngineProcess, llama_cpp
from lookahead.servers.load import SIDES, blocks, rounds_of
from lookahead.servers.race import ServerRace

PROGRAM = os.environ.get("LLAMA_SERVER")
pytestmark = [
    pytest.mark.engines,
    pytest.mark.timed,
    pytest.mark.skipif(not PROGRAM, reason="LLAMA_SERVER does not name llama.cpp's llama-server"),
]
MAX_TOKENS, K = 48, 4
PROMPTS = [Question(s.id, s.category, s.prompt, s.chat) for s in BENCH if not s.options and not s.chat][:12]


def with_metrics(engine):
    return Engine(engine.label, [*engine.command, "--metrics"], engine.request_ids, engine.variables)


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """Both servers, running."""
    engines = llama_cpp(PROGRAM, lookahead.load("pocket"), tmp_path_factory.mktemp("gguf"))
    plain, fast = (with_metrics(e) for e in engines if e.label in ("llama.cpp", f"llama.cpp-draft:k={K}"))
    with EngineProcess(plain) as baseline, EngineProcess(fast) as speculative:
        yield server_at(baseline.url, "plain", {}), server_at(speculative.url, "fast", {})


def test_races_and_their_counts_are_complete(servers):
    identical = 0
    for prompt in PROMPTS:
        race = ServerRace(servers, prompt.prompt, MAX_TOKENS)
        assert [lane_step for lane_step in race if lane_step]
        plain, fast = race.result().lanes
        assert plain.steps[-1].finish and fast.steps[-1].finish and plain.text
        assert not plain.differs and not fast.differs
        assert [lane.options["kind"] for lane in (plain, fast)] == ["llama-server"] * 2
        drafted = [step for step in fast.verified if step.drafted]
        assert drafted and {step.drafted for step in drafted} <= set(range(1, K + 1))
        assert all(len(step.emitted) == step.accepted + 1 for step in drafted[:-1])
        identical += plain.tokens == fast.tokens
    assert identical >= 0.9 * len(PROMPTS), "float16 rows can change with the number of rows"


def test_its_own_counters_agree(servers):
    async def work():
        clients, *done = [
            item
            async for item in blocks(
                dict(zip(SIDES, servers, strict=False)), PROMPTS, rounds_of([1], len(PROMPTS), 4), MAX_TOKENS
            )
        ]
        return report.from_blocks(clients, PROMPTS, done, MAX_TOKENS)

    (level,) = complete(work)["levels"]
    assert level["failed"] == 0 and not level["differs"], level["errors"]
    for side in SIDES:
        counted = level["counters"][side]
        assert counted["counted"] == counted["arrived"], (side, counted)
    assert level["counters"]["speculative"]["counted"]["drafted"] > 0
