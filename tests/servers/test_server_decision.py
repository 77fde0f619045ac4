"""Should I turn it on, asked of two servers: the answer and its reasons, and what is refused."""

import json

import pytest
from fakeserver import Fake, serving

from lookahead.__main__ import main
from lookahead.core.events import SettingsError
from lookahead.measure.timing import Question
from lookahead.servers import decision
from lookahead.servers.addresses import RemoteError, server_at

PROMPTS = [Question(str(i), "all", f"Prompt {i}", False) for i in range(4)]
RUNS, PASS_S = (2, 0, 4, 1), 0.006


def decided(plain, fast, seconds=5.0):
    with serving(plain) as one, serving(fast) as other:
        sides = {"baseline": server_at(one, "plain", {}), "speculative": server_at(other, "fast", {})}
        return [lap for lap in decision.decide(sides, PROMPTS, seconds, 24) if lap]


@pytest.fixture(scope="module")
def answer():
    return decided(Fake(speed=PASS_S), Fake(runs=RUNS, speed=PASS_S))[-1].result


def test_two_servers_are_judged_within_the_budget(answer):
    answer = answer.document()
    assert answer["method"] == "fast" and {side: of["name"] for side, of in answer["servers"].items()} == {
        "baseline": "plain", "speculative": "fast",
    }  # fmt: skip
    assert answer["levels"][0]["at_once"] == 1 and len(answer["levels"]) > 1, "several texts at once, too"
    assert len(answer["rows"]) == len(PROMPTS) and answer["speedup"] > 0
    (winner,) = answer["methods"]
    assert winner["tokens_per_pass"] == pytest.approx(1 + 14 / 9, abs=0.05) and winner[
        "drafted_per_pass"
    ] == pytest.approx(4, abs=0.1)
    assert answer["limit"]["name"] in ("acceptance", "cost") and answer["best_fixed_k"] is None
    assert "fast" in answer["sentence"] and "k = auto" not in answer["sentence"]


def test_it_is_taken_away_like_any_answer(answer):
    json.dumps(answer.document())
    assert "baseline: plain" in answer.markdown() and answer.reasons()
    assert answer.csv().count("\n") == 1 + len(PROMPTS)
    assert answer.table()[1][0][-2] == "-", "a server does not tell what verifying took"


def test_what_a_server_does_not_tell_is_left_open():
    got = decided(Fake("openai", speed=PASS_S), Fake("openai", runs=RUNS, speed=PASS_S))[-1].result
    assert got.limit is None and got.change == "" and got.markdown()


def test_bad_requests_are_refused_before_a_second_is_spent():
    sides = {side: server_at("http://127.0.0.1:9", side, {}) for side in ("baseline", "speculative")}
    with pytest.raises(SettingsError, match="seconds"):
        next(decision.decide(sides, PROMPTS, 1))
    with pytest.raises(RemoteError):
        list(decision.decide(sides, PROMPTS, 5))


def test_the_command_asks_servers(capsys):
    with serving(Fake(speed=PASS_S)) as one, serving(Fake(runs=RUNS, speed=PASS_S)) as other:
        given = [
            "decide",
            "--baseline",
            one,
            "--speculative",
            other,
            "--seconds",
            "5",
            "--max-new-tokens",
            "16",
            "--json",
        ]
        assert main(given) == 0
        got = json.loads(capsys.readouterr().out)
        assert got["servers"]["baseline"]["kind"] and got["sentence"]
        assert main(["decide", "--baseline", one, "--seconds", "5"]) == 2
        assert "both servers" in capsys.readouterr().err
        assert main([*given[:-1], "--methods", "draft"]) == 2
        assert "draft as they were started" in capsys.readouterr().err
