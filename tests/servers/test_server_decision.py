"""The decision whether to turn speculation on, for two servers: its result and reasons, and invalid requests."""

import json

import pytest
from fakeserver import Fake, serving

from lookahead.__main__ import main
from lookahead.core.events import SettingsError
from lookahead.measure.timing import Question
from lookahead.servers import decision
from lookahead.servers.addresses import RemoteError, server_at

pytestmark = pytest.mark.engines

PROMPTS = [Question(str(i), "all", f"Prompt {i}", False) for i in range(4)]
RUNS, PASS_S = (2, 0, 4, 1), 0.006


def decided(plain, fast, seconds=5.0):
    with serving(plain) as plain_url, serving(fast) as fast_url:
        sides = {"baseline": server_at(plain_url, "plain", {}), "speculative": server_at(fast_url, "fast", {})}
        return [progress for progress in decision.decide(sides, PROMPTS, seconds, 24) if progress]


@pytest.fixture(scope="module")
def report():
    return decided(Fake(speed=PASS_S), Fake(runs=RUNS, speed=PASS_S))[-1].result


def test_two_servers_are_compared_within_the_budget(report):
    document = report.document()
    assert document["method"] == "fast"
    assert {side: server["name"] for side, server in document["servers"].items()} == {
        "baseline": "plain", "speculative": "fast",
    }  # fmt: skip
    assert document["levels"][0]["at_once"] == 1 and len(document["levels"]) > 1, "several texts at once, too"
    assert len(document["rows"]) == len(PROMPTS) and document["speedup"] > 0
    (winner,) = document["methods"]
    assert winner["tokens_per_pass"] == pytest.approx(1 + 14 / 9, abs=0.05) and winner[
        "drafted_per_pass"
    ] == pytest.approx(4, abs=0.1)
    assert document["limit"]["name"] in ("acceptance", "cost") and document["best_fixed_k"] is None
    assert "fast" in document["sentence"] and "k = auto" not in document["sentence"]


def test_the_report_can_be_exported(report):
    json.dumps(report.document())
    assert "baseline: plain" in report.markdown() and report.reasons()
    assert report.csv().count("\n") == 1 + len(PROMPTS)
    assert report.table()[1][0][-2] == "-", "servers do not report the time of verification"


def test_a_server_without_counts_has_no_limit():
    result = decided(Fake("openai", speed=PASS_S), Fake("openai", runs=RUNS, speed=PASS_S))[-1].result
    assert result.limit is None and result.change == "" and result.markdown()


def test_invalid_requests_are_refused_before_a_measurement():
    sides = {side: server_at("http://127.0.0.1:9", side, {}) for side in ("baseline", "speculative")}
    with pytest.raises(SettingsError, match="seconds"):
        next(decision.decide(sides, PROMPTS, 1))
    with pytest.raises(RemoteError):
        list(decision.decide(sides, PROMPTS, 5))


def test_the_command_decide_with_servers(capsys):
    with serving(Fake(speed=PASS_S)) as plain, serving(Fake(runs=RUNS, speed=PASS_S)) as fast:
        arguments = [
            "decide",
            "--baseline",
            plain,
            "--speculative",
            fast,
            "--seconds",
            "5",
            "--max-new-tokens",
            "16",
            "--json",
        ]
        assert main(arguments) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["servers"]["baseline"]["kind"] and document["sentence"]
        assert main(["decide", "--baseline", plain, "--seconds", "5"]) == 2
        assert "both servers" in capsys.readouterr().err
        assert main([*arguments[:-1], "--methods", "draft"]) == 2
        assert "draft as they were started" in capsys.readouterr().err
