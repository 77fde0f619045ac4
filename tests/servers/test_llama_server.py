"""A real llama-server on this processor, where `LLAMA_SERVER` names the program: without speculation and with our draft model.

No package index has it built, so it is not in every run. Build 11434 is what these were written beside.
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
MOST, K = 48, 4
PROMPTS = [Question(s.id, s.category, s.prompt, s.chat) for s in BENCH if not s.options and not s.chat][:12]


def with_metrics(engine):
    return Engine(engine.label, [*engine.command, "--metrics"], engine.ask, engine.variables)


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """Both, running."""
    engines = llama_cpp(PROGRAM, lookahead.load("pocket"), tmp_path_factory.mktemp("gguf"))
    plain, fast = (with_metrics(e) for e in engines if e.label in ("llama.cpp", f"llama.cpp-draft:k={K}"))
    with EngineProcess(plain) as one, EngineProcess(fast) as other:
        yield server_at(one.url, "plain", {}), server_at(other.url, "fast", {})


def test_races_are_complete_and_their_counts_are_whole(servers):
    alike = 0
    for prompt in PROMPTS:
        race = ServerRace(servers, prompt.prompt, MOST)
        assert [lap for lap in race if lap]
        plain, fast = race.result().lanes
        assert plain.steps[-1].finish and fast.steps[-1].finish and plain.text
        assert not plain.differs and not fast.differs
        assert [lane.options["kind"] for lane in (plain, fast)] == ["llama-server"] * 2
        drafted = [step for step in fast.verified if step.drafted]
        assert drafted and {step.drafted for step in drafted} <= set(range(1, K + 1))
        assert all(len(step.emitted) == step.accepted + 1 for step in drafted[:-1])
        alike += plain.tokens == fast.tokens
    assert alike >= 0.9 * len(PROMPTS), "float16 rows of several differ from single ones now and then"


def test_its_own_counters_agree(servers):
    async def work():
        known, *done = [
            what
            async for what in blocks(
                dict(zip(SIDES, servers, strict=False)), PROMPTS, rounds_of([1], len(PROMPTS), 4), MOST
            )
        ]
        return report.of(known, PROMPTS, done, MOST)

    (level,) = complete(work)["levels"]
    assert level["failed"] == 0 and not level["differs"], level["errors"]
    for side in SIDES:
        counted = level["counters"][side]
        assert counted["counted"] == counted["arrived"], (side, counted)
    assert level["counters"]["speculative"]["counted"]["drafted"] > 0
