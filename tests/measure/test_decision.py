"""Should I turn it on? The measured and the predicted reports, their reasons, prompt files and exports."""

import csv
import dataclasses
import io
import json
import random
import statistics
from types import SimpleNamespace

import pytest
from synthetic import lane, trace

from lookahead.__main__ import main
from lookahead.core import processor, theory
from lookahead.core.acceptance import Acceptance
from lookahead.core.costs import CostCurve, DrafterCosts, PassCosts
from lookahead.core.events import LookaheadError, SettingsError
from lookahead.core.tree import depths
from lookahead.measure import decision, prompt_files
from lookahead.measure.decision import COLUMNS, Level, Option, Report, advise, fastest_methods, forecast, texts_at_once
from lookahead.measure.intervals import interval
from lookahead.measure.progress import questions
from lookahead.measure.sweeps import LONG_K, sweep
from lookahead.measure.timing import Question, Timing, median_pairs, read_entry, run_samples

PROMPTS = [
    Question("a", "yours", "Once upon a time there was a frog", False),
    Question("b", "yours", "<b>Lily</b> had a red ball. One day", False),
]
NAIVE = Option(
    "draft", 2, 1.0, tokens_per_pass=1.0, drafted_per_pass=0.0, depth_per_pass=0.0, pass_cost=1.0, verify_cost=1.0, draft_cost=0.0
)  # fmt: skip


@pytest.fixture(scope="module")
def report(models):
    """The report after 5 seconds of measuring, or after 20 if those were too noisy; the measurement yields often."""
    for seconds in (5, 20):
        updates = list(decision.decide(models, PROMPTS, seconds, methods=["draft", "suffix"], max_new_tokens=24))
        done = [update for update in updates if update]
        assert updates.count(None) > 8 and done[-1].done == done[-1].total == seconds
        assert all(update.result.sentence for update in done), "there is a sentence after the first prompt"
        if done[-1].result.on:
            break
    return done[-1].result


@pytest.mark.timed
def test_the_report_has_reasons(report, models):
    document = report.document()
    assert document["method"] == "draft" and document["on"] and document["speedup"] > 1.1
    assert document["sentence"].startswith("On: draft, k = auto (best fixed k: ")
    assert document["interval"][0] <= document["speedup"] <= document["interval"][1]
    assert {option["method"] for option in document["methods"]} == {"draft", "suffix"}
    assert all(option["identical"] or models.exactness != "bit-exact" for option in document["methods"])
    assert [length["k"] for length in document["lengths"]] == [*decision.LENGTHS]
    assert [level["at_once"] for level in document["levels"]] == [*decision.SIZES][: len(document["levels"])]
    assert document["up_to"] >= 1
    assert document["limit"]["name"] in ("acceptance", "drafting", "verifying")
    assert document["limit"]["perfect"] >= document["limit"]["now"] > 1 and document["change"]
    assert set(document) >= {"machine", "models", "exactness", "options", "stops_paying_at", "at_once", "rows", "note"}
    assert set(document["methods"][0]) == {
        "method", "prompts", "speedup", "interval", "acceptance", "identical", "dropped", "tokens_per_pass",
        "drafted_per_pass", "depth_per_pass", "pass_cost", "verify_cost", "draft_cost",
    }  # fmt: skip


@pytest.mark.timed
def test_the_report_is_exported_as_json_csv_and_markdown(report):
    assert json.loads(json.dumps(report.document()))["sentence"] == report.sentence
    rows = list(csv.DictReader(io.StringIO(report.csv(), newline="")))
    assert list(rows[0]) == list(COLUMNS) and {row["question"] for row in rows} == {"a", "b"}
    text = report.markdown()
    assert text.startswith("# Should I turn it on?") and report.sentence in text and "| drafted tokens" in text


def test_methods_that_are_clearly_slower_are_dropped():
    def rows(*speedups):
        return [SimpleNamespace(speedup=speedup) for speedup in speedups]

    measured = {"bad": rows(1.0, 1.1, 8.0), "good": rows(2.0, 2.2, 9.0), "near": rows(1.9, 2.1, 9.2)}
    assert fastest_methods(measured) == ["good", "near"]
    few = {"slow": rows(1.0, 1.0), "fast": rows(2.0, 2.1)}
    assert fastest_methods(few) == ["fast", "slow"], "two prompts are not enough"
    assert fastest_methods(few, hurried=True) == ["fast"], "there is no time for a third prompt"


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"pass_cost": 1.4, "verify_cost": 1.1, "draft_cost": 0.2, "drafted_per_pass": 7, "depth_per_pass": 7, "tokens_per_pass": 2}, "acceptance"),
        ({"pass_cost": 3.0, "verify_cost": 1.1, "draft_cost": 1.8, "drafted_per_pass": 4, "depth_per_pass": 4, "tokens_per_pass": 4.6}, "drafting"),
        ({"pass_cost": 3.0, "verify_cost": 2.8, "draft_cost": 0.1, "drafted_per_pass": 4, "depth_per_pass": 4, "tokens_per_pass": 4.6}, "verifying"),
    ],
)  # fmt: skip
def test_the_limit_is_the_part_with_the_largest_gain(changed, name):
    on, off = (Report((dataclasses.replace(NAIVE, **changed, speedup=speedup),)) for speedup in (2.0, 0.9))
    assert on.limit["name"] == off.limit["name"] == name
    assert "tokens per pass. Here" in off.change and "gain most" in on.change
    assert "drafted no tokens" in Report((NAIVE,)).change
    assert decision.LIMITS[name][0] in on.reasons()


def test_at_most_one_path_of_a_tree_is_accepted():
    option = dataclasses.replace(
        NAIVE,
        pass_cost=2.0,
        verify_cost=1.5,
        draft_cost=0.3,
        drafted_per_pass=12,
        depth_per_pass=3,
        tokens_per_pass=3.9,
    )
    limit = Report((option,)).limit
    assert limit["name"] == "verifying" and limit["perfect"] == pytest.approx(3.9 / 1.5), "acceptance gives 4 / 2"


def test_the_number_of_texts_at_once_up_to_which_it_pays():
    on = dataclasses.replace(NAIVE, speedup=2.0)
    assert Report((on,)).document()["up_to"] == 1 and Report((NAIVE,)).document()["up_to"] == 0
    levels = (
        Level(1, 2.0, (1.8, 2.2)),
        Level(4, 1.2, (1.1, 1.3)),
        Level(8, 1.1, (0.9, 1.3)),
        Level(16, 1.5, (1.2, 1.6)),
    )
    assert Report((on,), levels).document()["up_to"] == 4, "it ends before the first interval that contains 1"


def levels(*pairs):
    return [Level(n, speedup, (speedup - 0.05, speedup + 0.05)) for n, speedup in pairs]


@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        ([(1, 2.0), (4, 1.7), (8, 1.4)], "On for up to 8 at once: 1.40x [1.35, 1.45], 2.00x [1.95, 2.05] for one text at a time."),
        (
            [(1, 2.0), (8, 1.5), (32, 0.5)],
            "On for up to 8 at once: 1.50x [1.45, 1.55], 2.00x [1.95, 2.05] for one text at a time; off from 16 on.",
        ),
        ([(1, 1.5), (4, 1.01)], "On for one text at a time: 1.50x [1.45, 1.55]; no clear difference with 4 (1.01x [0.96, 1.06])."),
        ([(1, 0.8), (4, 0.7)], "Off: 0.80x [0.75, 0.85] for one text at a time."),
    ],
)  # fmt: skip
def test_the_advice_on_batches_has_intervals(pairs, sentence):
    assert texts_at_once(levels(*pairs)) == sentence


def test_the_advice_without_measurements():
    assert "Nothing was measured" in texts_at_once([Level(1, None)])


@pytest.mark.parametrize(
    ("prompts", "seconds", "methods"),
    [
        ([], 10, []),
        (PROMPTS, 1, []),
        (PROMPTS, 10_000, []),
        (PROMPTS, 10, ["magic"]),
        (PROMPTS, 10, ["hf-assisted"]),
        (PROMPTS * 200, 10, []),
    ],
)
def test_invalid_input_raises_before_the_first_measurement(models, prompts, seconds, methods):
    with pytest.raises(LookaheadError):
        next(decision.decide(models, prompts, seconds, methods=methods))


def test_an_invalid_prompt_is_reported_with_its_id(models):
    with pytest.raises(LookaheadError, match="question 'empty'"):
        next(decision.decide(models, [*PROMPTS, Question("empty", "yours", "", False)], 5))


def test_prompts_are_pasted_as_lines_or_as_json():
    lines = prompt_files.pasted("One\n\n  Two  \n", chat=True)
    assert [(q.id, q.prompt, q.chat) for q in lines] == [("1", "One", True), ("2", "Two", True)]
    (question,) = prompt_files.pasted('{"prompt": "A", "category": "c"}\n', chat=True)
    assert (question.prompt, question.category, question.chat) == ("A", "c", False), "JSON has its own `chat`"
    (spec,) = prompt_files.pasted(
        '{"question_id": 81, "category": "writing", "turns": ["First", "Second"]}', chat=False
    )
    assert (spec.id, spec.prompt, spec.chat) == ("81", "First", True)
    with pytest.raises(SettingsError, match="line 2 must be"):
        prompt_files.pasted('{"prompt": "A"}\nnot JSON', chat=False)
    with pytest.raises(SettingsError, match="one per line"):
        prompt_files.pasted(" \n", chat=False)


TEXT = "one\u2028two\u2029three\u0085four\x7f"
LINE = json.dumps({"id": "ä", "prompt": TEXT}, ensure_ascii=False)


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "mark"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_prompts_are_the_same_from_a_file_and_pasted(tmp_path, mark, end):
    text = mark + LINE + end + end + LINE
    file = tmp_path / "prompts.jsonl"
    file.write_bytes(text.encode())
    for parsed in (prompt_files.read(file), prompt_files.pasted(text, chat=True)):
        assert [(q.id, q.prompt, q.chat) for q in parsed] == [("ä", TEXT, False)] * 2
    prompts = [q.prompt for q in prompt_files.pasted(f"{mark}a\u2028b\x0cc{end}d", chat=False)]
    assert prompts == ["a\u2028b\x0cc", "d"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "latin-1"])
def test_a_prompt_file_in_another_encoding_raises(tmp_path, encoding, capsys):
    file = tmp_path / "prompts.jsonl"
    file.write_bytes('{"prompt": "für"}'.encode(encoding))
    for command in (["decide"], ["bench"], ["batch"], ["attach", "--baseline", "x", "--speculative", "y"]):
        assert main([*command, "--prompts", str(file)]) == 2
    errors = capsys.readouterr().err
    assert errors.count("it is not UTF-8 text; save it as UTF-8") >= 3 and "Traceback" not in errors


def test_a_name_with_a_lone_surrogate_becomes_encodable():
    (question,) = prompt_files.parse('{"id": "a\\ud83d", "category": "\\udc00", "prompt": "x"}', "pasted")
    assert (question.id, question.category) == ("a?", "?")


def test_csv_escapes_formulas():
    name = "=ä"
    text = Report((NAIVE,), rows=({"method": "draft", "question": name, "speedup": -0.5, "low": 1.5},)).csv()
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert (row["question"], row["speedup"], row["low"], row["high"]) == ("'=ä", "-0.5", "1.5", "")


# ------------------------------------------------------------------ other draft lengths

LINEAR = PassCosts(CostCurve((1, 9), (0.010, 0.018)))
WRITTEN = 90


def regular(k, slower=1.0):
    """A run with the first two drafted tokens accepted in each pass; passes take `slower` times the calibrated seconds."""
    acceptance = Acceptance((1000,) * min(k, 2) + (0,) * (k > 2), (1000,) * min(k, 3))
    passes = WRITTEN // (1 + min(k, 2))
    verify_s, propose_s = passes * LINEAR.pass_s(1 + k) * slower, passes * (0.002 + k * 0.001) * bool(k)
    return Timing(
        tuple(range(WRITTEN)),
        verify_s + propose_s + passes * 0.002,
        passes,
        0,
        0,
        0,
        verify_s,
        propose_s,
        0.1,
        None,
        acceptance,
    )


def test_two_regular_runs_predict_every_length():
    for slower in (1.0, 1.3):
        naive = regular(0, slower)
        short, long = (1, [(regular(1, slower), naive)]), (8, [(regular(8, slower), naive)])
        for predicted in forecast(LINEAR, short, long, range(1, 9)):
            true = naive.seconds / regular(predicted.k, slower).seconds
            assert predicted.speedup == pytest.approx(true, rel=1e-6) and predicted.interval is None


def test_intervals_are_over_prompts():
    runs = [dataclasses.replace(regular(8), seconds=regular(8).seconds * factor) for factor in (1.0, 1.1, 1.5)]
    short, long = (1, [(regular(1), regular(0))] * 3), (8, [(run, regular(0)) for run in runs])
    (predicted,) = forecast(LINEAR, short, long, [8])
    low, high = predicted.interval
    assert low < predicted.speedup < high


@pytest.mark.long
def test_an_interval_has_the_stated_coverage():
    """Draw 8 of 24 prompts many times: the 90% intervals contain the median of all 24 in 85 to 95% of the draws."""
    hits = []
    for sample in range(4):
        draw = random.Random(sample)
        speedups = [draw.lognormvariate(0.7, 0.35) for _ in range(24)]
        truth = statistics.median(speedups)
        for seed in range(200):
            low, high = interval(draw.choices(speedups, k=8), statistics.median, seed=seed)
            hits.append(low <= truth <= high)
    assert 0.85 <= statistics.mean(hits) <= 0.95


@pytest.mark.timed
def test_two_runs_predict_the_speedups_of_other_lengths(models):
    ks, prompts = (1, 2, 3, 4, 5, 6, 8), questions("story", most=3, max_new_tokens=96)
    entries = [read_entry("naive"), *(read_entry(f"draft:k={k}") for k in ks)]
    taken = [sample for sample in run_samples(models, entries, prompts, 5, {}) if sample]
    pairs = {k: median_pairs(taken, f"draft:k={k}") for k in ks}
    errors = []
    for predicted in forecast(models.costs, (1, pairs[1]), (LONG_K, pairs[LONG_K]), ks):
        measured = statistics.median(naive.seconds / run.seconds for run, naive in pairs[predicted.k])
        errors.append(abs(predicted.speedup / measured - 1))
    assert statistics.mean(errors) < 0.1, "on a quiet machine, the limit is 0.05"
    assert median_pairs(taken, "naive")[0][0].acceptance.tested == ()
    assert all(pairs.values())


def test_a_sweep_of_draft_lengths_predicts_all_of_them(models):
    *_, last = sweep(models, "draft-length", [2, LONG_K], repeats=1, tokens=12, most=2)
    forecasts = last.result.forecasts
    assert [predicted.k for predicted in forecasts][:3] == [1, 2, 3]
    assert all(predicted.interval for predicted in forecasts)
    *_, last = sweep(models, "temperature", [0.0], repeats=1, tokens=8, most=1)
    assert not last.result.forecasts


# ------------------------------------------------------------------ predicted from a race

CURVE = CostCurve((1, 2, 3, 5, 9, 17, 33), (0.005, 0.0052, 0.0054, 0.0058, 0.0066, 0.0078, 0.01))
COSTS = PassCosts(CURVE)
EXPENSIVE = PassCosts(CostCurve((1, 2, 33), (0.005, 0.01, 0.165)))


def here(*lanes, **changes):
    """A race that ran on this machine."""
    race = trace(*lanes, **changes)
    return race.model_copy(update={"machine": race.machine.model_copy(update={"cpu": processor.name()})})


def terms(option):
    return {term.name: term.value for term in option.terms}


def test_advice_has_the_best_length_and_its_calculation():
    report = advise(here(lane("naive"), lane("draft"), lane("ngram", shortest=1), lane("draft", opaque=True)), COSTS)
    assert (
        report.on
        and report.best.method == "draft"
        and "Yes" in report.sentence
        and "from the recording" not in report.sentence
    )
    assert sorted(option.method for option in report.options) == ["draft", "ngram", "suffix"]
    best, drafts = terms(report.best), lane("draft").verified
    assert best["speedup"] == report.best.speedup == pytest.approx(best["tokens per pass"] / best["cost of a pass"])
    statuses = [status for step in drafts for status in step.statuses]
    accepted, rejected = statuses.count("accepted"), statuses.count("rejected")
    assert best["acceptance"] == accepted / (accepted + rejected)
    share = sum(bool(step.draft.tokens) for step in drafts) / len(drafts)
    token = sum(step.propose_s for step in drafts) / sum(len(step.draft.tokens) for step in drafts) / CURVE.pass_s(1)

    def by_hand(k):
        drafted = theory.expected_tokens(best["acceptance"], k)
        return (share * drafted + 1 - share) / (share * (CURVE.ratio(1 + k) + k * token) + 1 - share)

    assert report.best.speedup == pytest.approx(max(map(by_hand, decision.KS))) == pytest.approx(by_hand(report.k))
    assert [option.speedup for option in report.options] == sorted(
        (option.speedup for option in report.options), reverse=True
    )
    for option in report.options:
        assert terms(option)["speedup"] == option.speedup


def test_advice_may_be_no():
    report = advise(here(lane("naive"), lane("draft")), EXPENSIVE)
    assert not report.on and report.sentence.startswith("Don't") and report.best.terms
    with pytest.raises(LookaheadError, match="race"):
        advise(here(lane("naive"), settings=race_by_rejection()), COSTS)


def race_by_rejection():
    return trace().settings.model_copy(update={"rule": "rejection"})


def test_advice_ignores_the_times_of_another_machine():
    costs = PassCosts(CURVE, {"draft": DrafterCosts(CostCurve((1,), (0.0005,)))})
    lanes = [lane("naive"), lane("draft", draft="draft"), lane("tree", draft="other")]
    local, elsewhere = advise(here(*lanes), costs), advise(trace(*lanes), costs)
    (draft,) = [option for option in elsewhere.options if option.method == "draft"]
    assert terms(draft)["draft cost"] == pytest.approx(draft.k * 0.0005 / CURVE.pass_s(1)), "times of this machine"
    assert "tree" in {option.method for option in local.options}
    assert "tree" not in {option.method for option in elsewhere.options}, "its draft time on this machine is unknown"
    assert elsewhere.sentence.endswith(
        "Acceptance is from the recording (A processor), all times are from this machine."
    )


def test_advice_needs_reported_drafts():
    rejecting = race_by_rejection()
    for hidden in (lane("draft", opaque=True), lane("lookahead")):
        with pytest.raises(SettingsError, match="race a method that drafts"):
            advise(here(hidden, settings=rejecting), COSTS)
    costs = PassCosts(dataclasses.replace(CURVE, branching_s=0.001))
    tree = lane("tree")
    (option,) = advise(here(tree, settings=rejecting), costs, ks=(2,)).options
    rows = sum(len(step.draft.tokens) for step in tree.verified) / sum(
        max(depths(step.draft.parents), default=0) for step in tree.verified
    )
    assert rows > 1
    assert terms(option)["verify cost"] == pytest.approx(costs.pass_s(1 + round(2 * rows), 2) / costs.pass_s(1))
