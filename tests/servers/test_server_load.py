"""Measurements under load: tokens counted while all readers are busy, intervals, advice, and the command."""

import csv
import io
import json

import numpy as np
import pytest
from fakeserver import Fake, serving

from lookahead.__main__ import main
from lookahead.core.events import SettingsError
from lookahead.measure.commands import read_levels
from lookahead.measure.intervals import interval
from lookahead.measure.timing import Question
from lookahead.servers import report
from lookahead.servers.addresses import server_at
from lookahead.servers.background import complete
from lookahead.servers.commands import to_csv
from lookahead.servers.load import SIDES, Block, blocks, rounds_of
from lookahead.servers.replies import Completion, Pass
from lookahead.trace.trace import Trace

pytestmark = pytest.mark.engines

PROMPTS = [Question(str(i), "all", f"Prompt {i}", i % 2 == 1) for i in range(4)]
RUNS, PASS_S = (2, 0, 4, 1), 0.02


def measured(plain, fast, levels, most=24, rounds=1):
    """Return the report on two fake servers."""

    async def work(urls):
        sides = {side: server_at(url, name, {}) for side, url, name in zip(SIDES, urls, ("plain", "fast"), strict=True)}
        clients, *done = [item async for item in blocks(sides, PROMPTS, rounds_of(levels, len(PROMPTS), rounds), most)]
        assert all(isinstance(block, Block) for block in done)
        return report.from_blocks(clients, PROMPTS, done, most)

    with serving(plain) as plain_url, serving(fast) as fast_url:
        return complete(lambda: work((plain_url, fast_url)))


@pytest.mark.timed
def test_a_report_of_two_servers():
    document = measured(Fake(speed=PASS_S), Fake(runs=RUNS, speed=PASS_S), [1, 4])
    assert [level["concurrency"] for level in document["levels"]] == [1, 4] and len(document["rows"]) == 8
    for level in document["levels"]:
        assert 1.8 < level["speedup"] < 3.4, "24 tokens in 9 passes instead of 23"
        low, high = level["interval"]
        assert low <= level["speedup"] <= high
        assert level["draft_acceptance_rate"] == pytest.approx(14 / 36, abs=0.01)
        assert level["mean_acceptance_length"] == pytest.approx(1 + 14 / 9, abs=0.05)
        assert level["identical"] == 4 and level["failed"] == 0 and level["differs"] == []
        assert all(counted["agree"] for counted in level["counters"].values())
        fast = level["latency"]["speculative"]
        assert (
            fast["largest_burst"] == 5 and fast["gap_p50_s"] >= PASS_S * 0.8 and fast["first_token_s"] >= PASS_S * 0.8
        )
    single, four = document["levels"]
    assert four["tokens_per_second"] > 2.5 * single["tokens_per_second"], "readers are served at the same time"
    assert set(document["rows"][0]) >= {
        "id", "concurrency", "tokens_per_second", "baseline_tokens_per_second", "speedup", "mean_acceptance_length",
        "draft_acceptance_rate", "identical",
    }  # fmt: skip
    rows = [*csv.DictReader(io.StringIO(to_csv(document)))]
    assert [row["id"] for row in rows] == ["0", "1", "2", "3"] * 2 and rows[0]["identical"] == "True"
    assert document["advice"].startswith("On for up to 4 at once: ")


def test_positions_after_a_rejection_are_not_tested():
    passes = tuple(Pass(0.0, "", (1,), 3, accepted) for accepted in (0, 1, 1, 3))
    rates = report.tested([Completion(passes)]).rates
    assert rates == (3 / 4, 1 / 3, 1.0), "not 3/4, 1/4, 1/4"


def test_texts_that_differ_and_texts_that_fail_are_reported():
    other = [*Fake().text[:5], *(f" x{i}" for i in range(400))]
    document = measured(Fake(), Fake(text=other), [1])
    assert document["levels"][0]["identical"] == 4, "if there are ids, they are compared instead of text"
    document = measured(Fake("openai"), Fake("openai", text=other), [1])
    assert document["levels"][0]["identical"] == 0
    assert document["rows"][0]["first_difference"] == len("".join(Fake().text[:5])) + 1
    document = measured(Fake(), Fake(fault="error event"), [2], most=2)
    assert document["levels"][0]["failed"] == 0, "the fault is at the fourth pass"


def test_a_server_that_fails_under_load_still_has_a_report():
    class Failing(Fake):
        async def stream(self, most, runs, path):
            self.fault = "error event" if len(self.requests) > 3 else None
            async for event in super().stream(most, runs, path):
                yield event

    document = measured(Fake(), Failing(), [1])
    level = document["levels"][0]
    assert level["failed"] == 2 and "out of memory" in level["errors"][0] and len(document["rows"]) == 2


def test_the_coverage_of_intervals():
    draws = np.random.default_rng(3)
    covered = 0
    for _ in range(200):
        sample = draws.normal(2.0, 0.5, 24).tolist()
        low, high = interval(sample, lambda values: float(np.mean(values)))
        covered += low <= 2.0 <= high
    assert 0.82 <= covered / 200 <= 0.97
    assert interval([1.0], np.mean) is None


@pytest.mark.parametrize("text", ["", "0", "a", "1,9999", "-1", ",".join(map(str, range(1, 30)))])
def test_invalid_numbers_of_readers_are_refused(text):
    with pytest.raises(SettingsError, match="1,4,16"):
        read_levels("concurrency", text, 512)


def test_the_command_prints_one_document_or_a_clear_error(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # a narrow terminal wraps the table's cells
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"id": "a", "prompt": "One"}\n{"id": "b", "prompt": "Two", "chat": true}\n')
    with serving(Fake(speed=PASS_S)) as plain, serving(Fake(runs=RUNS, speed=PASS_S)) as fast:
        monkeypatch.setenv("LOOKAHEAD_SERVERS", f"fast={fast}")
        arguments = [
            "attach",
            "--baseline",
            plain,
            "--speculative",
            "fast",
            "--prompts",
            str(prompts),
            "--concurrency",
            "2,1",
        ]
        arguments += [
            "--max-new-tokens",
            "12",
            "--repeat",
            "1",
            "--csv",
            str(tmp_path / "rows.csv"),
            "--trace",
            str(tmp_path / "race.json"),
        ]
        assert main([*arguments, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert [row["id"] for row in document["rows"]] == ["a", "b"] * 2 and document["options"]["concurrency"] == [
            1,
            2,
        ]
        assert document["servers"]["speculative"] == {"name": "fast", "kind": "vllm", "model": "target"}
        assert plain not in json.dumps(document) and (tmp_path / "rows.csv").read_text(encoding="utf-8").startswith(
            "\ufeffid,concurrency,"
        )
        trace = Trace.from_json((tmp_path / "race.json").read_text())
        assert [len(lane.tokens) for lane in trace.lanes] == [12, 12] and trace.stats(1)["num_draft_tokens"] > 0
        assert main(arguments) == 0
        shown = capsys.readouterr().out
        assert "at once" in shown and "On for " in shown
    assert main(["attach", "--baseline", "http://127.0.0.1:9", "--speculative", "fast", "--concurrency", "1"]) == 2
    assert "is it running?" in capsys.readouterr().err
    assert main([*arguments, "--csv", str(tmp_path / "nowhere" / "rows.csv")]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert main(["attach", "--baseline", "nonsense", "--speculative", "fast"]) == 2
    assert "http://localhost:8000" in capsys.readouterr().err
