"""Experiments and sweeps: their numbers, sentences and outcomes, and that a run may be closed."""

import dataclasses
import json
import re

import pytest
from conftest import emitted

import lookahead
from lookahead import LookaheadError
from lookahead.core import theory
from lookahead.core.costs import CostCurve, DrafterCosts, PassCosts, PricedRun
from lookahead.measure import experiments, sweeps, tables
from lookahead.measure.decision import Level
from lookahead.measure.experiments import CLAIMED, EXPERIMENTS, HELPS, HURTS, NEWER, NOT, TABLE, UNSURE, Result
from lookahead.measure.progress import Arm, Row, explain_difference, explain_speedup, questions, row_of
from lookahead.measure.timing import Question, Sample, Timing, read_entry

TINY = {"repeats": 1, "prompts": 1, "tokens": 6}
CURVE = CostCurve((1, 2, 3, 5, 9, 17, 33), (0.005, 0.0052, 0.0054, 0.0058, 0.0066, 0.0078, 0.01))
COSTS = PassCosts(CURVE)


def timing(tokens=12, seconds=0.06, passes=12, drafted=0, tested=0, accepted=0, verify_s=0.05, propose_s=0.0):
    priced = PricedRun(tokens, 0.005, seconds, 0.0)
    return Timing(tuple(range(tokens)), seconds, passes, drafted, tested, accepted, verify_s, propose_s, 0.1, priced)


def sampled(runs, naive):
    question, entry = Question("q", "c", "x", False), read_entry("draft")
    return [Sample(0, question, entry, *pair) for pair in zip(runs, naive, strict=True)]


def row(speedup=2.0, tokens=3.0, cost=1.5, acceptance=0.7, drafted=4.0):
    return Row(
        "q", "c", 12, speedup, speedup - 0.1, speedup + 0.1, tokens, acceptance, drafted, cost, 1.2, 0.3, 2.0, True
    )


# ------------------------------------------------------------------ rows and sentences


def test_a_row_by_hand():
    naive = [timing(), timing(seconds=0.12)]
    ours = [timing(seconds=0.03, passes=4, drafted=16, tested=10, accepted=8, verify_s=0.02, propose_s=0.008)] * 2
    result = row_of(sampled(ours, naive))
    assert result.speedup == pytest.approx(0.12 / 0.03), "the slower of two runs"
    assert (result.low, result.high) == (pytest.approx(2), pytest.approx(4))
    assert result.tokens_per_pass == 3 and result.acceptance == 0.8 and result.drafted_per_pass == 4
    assert result.pass_cost == pytest.approx((0.03 / 4) / (0.12 / 12))
    assert result.verify_cost == pytest.approx((0.02 / 4) / (0.12 / 12))
    assert result.draft_cost == pytest.approx((0.008 / 4) / (0.12 / 12))
    assert result.predicted == pytest.approx(0.005 * 12 / 0.03)
    assert result.speedup == pytest.approx(result.tokens_per_pass / result.pass_cost), "the numbers are consistent"
    slow, fast = timing(seconds=0.05, passes=6, drafted=6, tested=6, accepted=6), timing(seconds=0.02, passes=2)
    result = row_of(sampled([slow, ours[0], fast], [naive[0]] * 3))
    assert result.tokens_per_pass == 3 and result.acceptance == 0.8, "the numbers of the median run"
    assert result.speedup == pytest.approx(result.tokens_per_pass / result.pass_cost)


def test_sentences_follow_from_the_numbers():
    fast, slow = Arm.from_rows("fast", "draft", [row()]), Arm.from_rows("slow", "draft", [row(0.8, 1.2, 1.5, 0.1)])
    assert "70% of the tested tokens were accepted" in explain_speedup(
        fast
    ) and "3.00 / 1.50 = 2.00x" in explain_speedup(fast)
    assert "mainly in tokens per pass" in explain_difference(fast, slow)
    expensive = Arm.from_rows("expensive", "draft", [row(1.0, 2.9, 2.9)])
    assert "mainly in the cost of a pass" in explain_difference(fast, expensive)
    assert "no tokens were drafted" in explain_speedup(Arm.from_rows("idle", "draft", [row(1.0, 1.0, 1.0, None, 0.0)]))
    assert "not measured" in explain_speedup(Arm("none", "draft"))


def test_a_claim_does_not_repeat_its_title():
    claimed = {e.id: e.claimed for e in EXPERIMENTS.values()}
    assert claimed["short-outputs"] == "to help less" and claimed["memory-bound"] == "to help: spare compute"
    assert claimed["good-match"] == "2-3×" and claimed["generations"].startswith("A block in one pass")
    assert not any(e.title in e.claimed for e in EXPERIMENTS.values())


def test_claims_are_quoted():
    claims = [e.claim for e in EXPERIMENTS.values() if e.group == TABLE]
    assert claims == ["2-3×", "2-4×", "3-5× (n-gram)", "1.5-2×", "~1× (no benefit)"]
    assert [len([e for e in EXPERIMENTS.values() if e.group == group]) for group in (TABLE, HELPS, HURTS, NEWER)] == [
        5,
        4,
        3,
        1,
    ]
    for experiment in EXPERIMENTS.values():
        assert (experiment.low is None) == (experiment.group != TABLE)
        assert all(plan.questions(None, None) for plan in experiment.plans), experiment.id


@pytest.mark.parametrize(
    ("speedups", "outcome"),
    [
        ([1.2, 1.3], NOT), ([2.0, 2.2], CLAIMED), ([2.8, 2.9], CLAIMED), ([3.4, 3.5], NOT), ([1.9, 2.2], UNSURE),
        ([2.9, 3.2], UNSURE), ([2.5], UNSURE), ([], ""),
    ],
)  # fmt: skip
def test_a_claim_with_numbers_needs_the_whole_interval(speedups, outcome):
    assert Result(EXPERIMENTS["good-match"], (arm("x", *speedups),)).outcome == outcome


def arm(label, *speedups):
    """Return an arm with one prompt for each speedup."""
    return Arm.from_rows(label, "draft", [dataclasses.replace(row(s), question=str(i)) for i, s in enumerate(speedups)])


def test_a_claim_without_numbers_is_a_comparison():
    better, worse = arm("a", 2.0, 3.0), arm("b", 1.5, 2.4)
    assert Result(EXPERIMENTS["long-outputs"], (better, worse)).outcome == CLAIMED, "ratios are per prompt"
    assert Result(EXPERIMENTS["long-outputs"], (worse, better)).outcome == NOT
    assert Result(EXPERIMENTS["long-outputs"], (better, arm("b", 2.1, 2.8))).outcome == UNSURE
    assert Result(EXPERIMENTS["long-outputs"], (arm("a", 2.0), arm("b", 1.5))).outcome == UNSURE, "one prompt"
    assert Result(EXPERIMENTS["short-outputs"], (worse, better)).outcome == CLAIMED
    assert Result(EXPERIMENTS["short-outputs"], (arm("a", 1.51, 1.4), arm("b", 1.5, 1.45))).outcome == UNSURE
    assert Result(EXPERIMENTS["short-outputs"], (worse, Arm("b", "m"))).outcome == ""
    assert Result(EXPERIMENTS["memory-bound"], (better,)).outcome == CLAIMED
    assert Result(EXPERIMENTS["memory-bound"], (arm("a", 0.8, 1.2),)).outcome == UNSURE
    batches = (Level(1, 2.0, (1.9, 2.1)), Level(64, 0.7, (0.6, 0.8)))
    bound = Result(EXPERIMENTS["compute-bound"], (better,), batches)
    assert bound.outcome == "as claimed" and bound.measured.median == 0.7
    assert "off from 2" in bound.why and "320 rows instead of 64" in bound.why


# ------------------------------------------------------------------ with the bundled models


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=list(EXPERIMENTS))
def test_every_experiment_runs_and_yields_its_results(models, experiment):
    if experiment.batches:
        experiment = dataclasses.replace(experiment, batches=experiment.batches[:3])
    updates = [update for update in experiment.run(models, **TINY) if update]
    assert [update.done for update in updates] == sorted(update.done for update in updates)
    assert updates[-1].done == updates[-1].total
    result = updates[-1].result
    assert result.outcome and result.why
    for arm in result.arms:
        assert arm.low <= arm.median <= arm.high
        for measured in arm.rows:
            assert measured.speedup == pytest.approx(measured.tokens_per_pass / measured.pass_cost, rel=1e-6)
            assert measured.identical or models.exactness != "bit-exact"
    assert [level.at_once for level in result.batches] == list(experiment.batches)
    assert all(level.interval[0] <= level.speedup <= level.interval[1] for level in result.batches)
    json.dumps(experiments.document(models, [result], 1))


def test_missing_draft_models_are_reported(models):
    assert all(not experiment.missing(models) for experiment in EXPERIMENTS.values())
    pair = dataclasses.replace(models, drafts={"draft": models.drafts["draft"]})
    lacking = [e.id for e in EXPERIMENTS.values() if e.missing(pair) == ["offdomain"]]
    assert lacking == ["mismatched", "alignment"]
    with pytest.raises(LookaheadError, match="no such draft model"):
        next(EXPERIMENTS["alignment"].run(pair, **TINY))


def test_missing_trained_heads_are_reported(models):
    headless = dataclasses.replace(models, heads={})
    lacking = {e.id: e.missing(headless) for e in EXPERIMENTS.values() if e.missing(headless)}
    assert lacking == {"generations": ["block", "eagle", "medusa", "mtp"]}
    with pytest.raises(LookaheadError, match=r"no such trained head; load .* or train one: python -m lookahead train"):
        next(EXPERIMENTS["generations"].run(headless, **TINY))


def test_generations_are_compared_with_the_previous_one():
    block, eagle = arm("block", 2.5, 2.6), arm("eagle", 2.0, 2.1)
    others = (Arm("mtp", "mtp"), Arm("medusa", "medusa"), Arm("draft", "draft"))
    assert Result(EXPERIMENTS["generations"], (block, eagle, *others)).outcome == CLAIMED
    assert Result(EXPERIMENTS["generations"], (eagle, block, *others)).outcome == NOT


def test_an_experiment_may_be_closed_and_its_results_remain(models):
    running = EXPERIMENTS["alignment"].run(models, 2, prompts=2, tokens=6)
    for update in filter(None, running):
        if update.result.measured.median:
            break
    running.close()
    assert update.result.arms[0].rows and update.done < update.total
    assert explain_speedup(update.result.arms[0])
    assert emitted(lookahead.decode(models, "Once", method="draft", max_new_tokens=4))


def test_sweeps_measure_and_predict(models):
    *_, last = sweeps.sweep(models, "draft-length", (1, 3), repeats=1, tokens=12, most=1)
    sweep = last.result
    assert [point.x for point in sweep.points] == [1, 3] and last.done == last.total == 2
    for point in sweep.points:
        k, draft = int(point.x), models.costs.drafters["draft"]
        c = (draft.token_s + draft.switch_s(k) / k) / models.costs.pass_s(1)
        tokens = theory.expected_tokens(point.acceptance, k)
        assert point.leviathan == pytest.approx(theory.speedup(tokens, k, c))
        assert point.priced == pytest.approx(theory.speedup(tokens, k, c, models.costs.target.ratio(1 + k)))
        assert point.arm.median > 0 and point.arm.mean("tokens_per_pass") >= 1
    for name, values in (
        ("temperature", (0.0, 1.0)),
        ("output-length", (4, 8)),
        ("window", ((2, 2, 2), (3, 3, 3))),
    ):
        *_, last = sweeps.sweep(models, name, values, repeats=1, tokens=8, most=1)
        assert len(last.result.points) == 2, name
        assert all(point.arm.median and point.priced for point in last.result.points if point.acceptance is not None)
        if name == "output-length":
            assert [point.arm.rows[0].new_tokens for point in last.result.points] == [4, 8]


def test_a_sweep_of_prompt_lengths_measures_attention(models):
    values = (128, 512, models.target.context_length)  # the longest one leaves no space for the text
    *_, last = sweeps.sweep(models, "context-length", values, repeats=1, tokens=8, most=1)
    short, long = last.result.points
    assert (short.x, long.x) == (128, 512) and short.arm.median and long.priced
    assert 0 < short.attention <= 1 and 0 < long.attention <= 1
    question = sweeps.lengthened(models, questions("story", most=1)[0], 200)
    assert len(question.prompt) == 200
    assert models.tokenizer.decode(question.prompt).endswith(questions("story", most=1)[0].prompt)


def test_a_sweep_may_be_closed(models):
    running = sweeps.sweep(models, "temperature", (0.0, 1.0), repeats=1, tokens=6, most=1)
    for update in filter(None, running):
        if update.result.points:
            break
    running.close()
    assert len(update.result.points) == 1


def test_the_prediction_is_the_formula():
    assert [COSTS.predict(alpha, 0).speedup for alpha in (0.0, 0.5, 1.0)] == [1.0, 1.0, 1.0], "without drafts"
    assert COSTS.predict(1.0, 8).speedup == pytest.approx(9 / (0.0066 / 0.005))
    assert COSTS.predict(0.0, 8).speedup == pytest.approx(1 / (0.0066 / 0.005))
    drafter = DrafterCosts(CostCurve((1,), (0.001,)), cold_s=(0.0003, 0.0001), return_s=0.0001)
    slower = PassCosts(CURVE, {"draft": drafter})
    assert slower.predict(0.5, 0, "draft").speedup == 1.0
    assert slower.predict(0.5, 2, "draft").speedup == pytest.approx(1.75 / (0.0054 / 0.005 + 2 * 0.2 + 0.1))


def test_prompts_by_category_and_id():
    assert {q.category for q in questions("story")} == {"story"}
    assert [q.id for q in questions("code-2", "story", most=1)] == ["story"]
    hot = questions("hot", max_new_tokens=9)[0]
    assert hot.settings == {"temperature": 1.0, "max_new_tokens": 9}


# ------------------------------------------------------------------ the command


def test_the_command_lists_runs_and_updates(capsys, tmp_path, models, monkeypatch):
    from lookahead.__main__ import main

    monkeypatch.setattr("lookahead.family.models.load", lambda *_, **__: models)
    monkeypatch.setenv("COLUMNS", "200")  # a narrow terminal wraps the table's cells
    assert main(["lab", "--json"]) == 0
    assert [entry["id"] for entry in json.loads(capsys.readouterr().out)] == list(EXPERIMENTS)
    assert main(["lab"]) == 0
    assert "good-match" in capsys.readouterr().out
    page = tmp_path / "page.md"
    page.write_text("before <!-- lab --> old <!-- /lab --> after", encoding="utf-8")
    tiny = ["--repeat", "1", "--prompts-each", "1", "--max-new-tokens", "6", "--update", str(page)]
    assert main(["lab", "good-match,short-outputs", "--json", *tiny]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [e["id"] for e in report["experiments"]] == ["good-match", "short-outputs"]
    for e in report["experiments"]:
        assert e["low"] <= e["median"] <= e["high"] and e["why"] and e["arms"][0]["rows"]
    text = page.read_text(encoding="utf-8")
    text = re.sub(" +", " ", text)
    assert text.startswith("before <!-- lab -->\n| performance expectations |") and text.endswith("<!-- /lab --> after")
    assert "| Good draft model match | 2-3× |" in text and "old" not in text
    assert main(["lab", "mismatched", *tiny[:6]]) == 0
    assert "~1× (no benefit)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "word"),
    [(["nope"], "choose from all"), (["all", "--repeat", "0"], "repeat"), (["all", "--update", "/no/file"], "lab")],
    ids=str,
)
def test_invalid_arguments_exit_2(arguments, word, capsys):
    from lookahead.__main__ import main

    assert main(["lab", *arguments]) == 2
    assert word in capsys.readouterr().err


def test_the_report_becomes_tables(models):
    result = Result(EXPERIMENTS["good-match"], (Arm.from_rows("x", "draft", [row(2.5)]),))
    unmeasured = Result(EXPERIMENTS["alignment"], (Arm("x", "draft"), Arm("y", "draft")))
    report = experiments.document(models, [result, unmeasured], 1)
    text = re.sub(" +", " ", tables.report_markdown(report, experiments.tables(report)))
    assert "| Good draft model match | 2-3× | x: 2.50x | - | 2.40x to 2.60x | | inconclusive |" in text
    assert "| Good draft model alignment | to help | not measured |" in text
