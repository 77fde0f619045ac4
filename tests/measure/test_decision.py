"""Should I turn it on? The answer, what limits, and the ways in and out."""

import csv
import io
import json
from types import SimpleNamespace

import pytest

from lookahead.__main__ import main
from lookahead.core.events import LookaheadError, SettingsError
from lookahead.measure import decision, prompt_files
from lookahead.measure.decision_report import COLUMNS, to_csv, to_markdown
from lookahead.measure.paying import Level
from lookahead.measure.timing import Question

PROMPTS = [
    Question("a", "yours", "Once upon a time there was a frog", False),
    Question("b", "yours", "<b>Lily</b> had a red ball. One day", False),
]
NAIVE_COSTS = {
    "verify_cost": 1.0,
    "draft_cost": 0.0,
    "pass_cost": 1.0,
    "tokens_per_pass": 1.0,
    "drafted_per_pass": 0.0,
    "depth_per_pass": 0.0,
}


@pytest.fixture(scope="module")
def answer(models):
    """What is found out in a few seconds, and how often one could have stopped it."""
    laps = list(decision.decide(models, PROMPTS, 5, methods=["draft", "suffix"], max_new_tokens=24))
    done = [lap for lap in laps if lap]
    assert laps.count(None) > 8 and done[-1].done == done[-1].total == 5
    assert all(lap.result["sentence"] for lap in done), "there is an answer from the first prompt on"
    return done[-1].result


@pytest.mark.timed
def test_it_answers_with_its_reasons(answer, models):
    assert answer["method"] == "draft" and answer["on"] and answer["speedup"] > 1.1
    assert answer["sentence"].startswith("On: draft, k = auto (the best fixed one: ")
    assert answer["interval"][0] <= answer["speedup"] <= answer["interval"][1]
    assert {one["method"] for one in answer["methods"]} == {"draft", "suffix"}
    assert all(one["identical"] or models.exactness != "bit-exact" for one in answer["methods"])
    assert [one["k"] for one in answer["lengths"]] == [*decision.LENGTHS]
    assert [level["at_once"] for level in answer["levels"]] == [*decision.SIZES][: len(answer["levels"])]
    assert answer["up_to"] >= 1
    assert answer["limit"]["name"] in ("acceptance", "drafting", "verifying")
    assert answer["limit"]["perfect"] >= answer["limit"]["now"] > 1 and answer["change"]


@pytest.mark.timed
def test_it_is_taken_away_as_json_csv_and_markdown(answer):
    assert json.loads(json.dumps(answer))["sentence"] == answer["sentence"]
    rows = list(csv.DictReader(io.StringIO(to_csv(answer), newline="")))
    assert list(rows[0]) == list(COLUMNS) and {row["question"] for row in rows} == {"a", "b"}
    text = to_markdown(answer)
    assert text.startswith("# Should I turn it on?") and answer["sentence"] in text and "| drafted tokens" in text


def test_whoever_is_surely_worse_is_let_go():
    def candidate(*speedups):
        runs = {
            number: [(SimpleNamespace(seconds=1 / speedup, tokens=(1,)), SimpleNamespace(seconds=1.0, tokens=(1,)))]
            for number, speedup in enumerate(speedups)
        }
        return decision._Candidate(decision.read_entry("draft"), runs)

    good, near, bad = candidate(2.0, 2.2, 9.0), candidate(1.9, 2.1, 9.2), candidate(1.0, 1.1, 8.0)
    state = decision._State(None, PROMPTS, {}, [good, near, bad])
    state.let_go()
    assert state.racing == [good, near] and state.best is good
    few = decision._State(None, PROMPTS, {}, [candidate(2.0, 2.1), candidate(1.0, 1.0)])
    few.let_go()
    assert len(few.racing) == 2, "two prompts do not settle it"


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"pass_cost": 1.4, "verify_cost": 1.1, "draft_cost": 0.2, "drafted_per_pass": 7, "depth_per_pass": 7, "tokens_per_pass": 2}, "acceptance"),
        ({"pass_cost": 3.0, "verify_cost": 1.1, "draft_cost": 1.8, "drafted_per_pass": 4, "depth_per_pass": 4, "tokens_per_pass": 4.6}, "drafting"),
        ({"pass_cost": 3.0, "verify_cost": 2.8, "draft_cost": 0.1, "drafted_per_pass": 4, "depth_per_pass": 4, "tokens_per_pass": 4.6}, "verifying"),
    ],
)  # fmt: skip
def test_what_limits_is_what_would_gain_most(changed, name):
    of = NAIVE_COSTS | changed
    assert decision.limits(of)["name"] == name
    assert "tokens a pass on" in decision.change(of, name, on=False) and "gain most" in decision.change(
        of, name, on=True
    )
    assert "Nothing was drafted" in decision.change(NAIVE_COSTS, name, on=False)


def test_a_perfect_tree_writes_one_path_and_not_all_of_its_rows():
    of = NAIVE_COSTS | {
        "pass_cost": 2.0,
        "verify_cost": 1.5,
        "draft_cost": 0.3,
        "drafted_per_pass": 12,
        "depth_per_pass": 3,
        "tokens_per_pass": 3.9,
    }
    found = decision.limits(of)
    assert found["name"] == "verifying" and found["perfect"] == pytest.approx(3.9 / 1.5), "acceptance gives 4 / 2"


def test_up_to_how_many_at_once():
    assert decision.up_to([]) == 1
    levels = [
        Level(1, 2.0, (1.8, 2.2)),
        Level(4, 1.2, (1.1, 1.3)),
        Level(8, 1.1, (0.9, 1.3)),
        Level(16, 1.5, (1.2, 1.6)),
    ]
    assert decision.up_to(levels) == 4, "a size that is not sure ends it"


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
def test_what_makes_no_sense_is_refused_at_once(models, prompts, seconds, methods):
    with pytest.raises(LookaheadError):
        next(decision.decide(models, prompts, seconds, methods=methods))


def test_a_prompt_that_cannot_be_written_is_named(models):
    with pytest.raises(LookaheadError, match="question 'empty'"):
        next(decision.decide(models, [*PROMPTS, Question("empty", "yours", "", False)], 5))


def test_prompts_are_pasted_as_lines_or_as_json():
    lines = prompt_files.pasted("One\n\n  Two  \n", chat=True)
    assert [(q.id, q.prompt, q.chat) for q in lines] == [("1", "One", True), ("2", "Two", True)]
    (one,) = prompt_files.pasted('{"prompt": "A", "category": "c"}\n', chat=True)
    assert (one.prompt, one.category, one.chat) == ("A", "c", False), "JSON says for itself"
    (spec,) = prompt_files.pasted(
        '{"question_id": 81, "category": "writing", "turns": ["First", "Second"]}', chat=False
    )
    assert (spec.id, spec.prompt, spec.chat) == ("81", "First", True)
    with pytest.raises(SettingsError, match="line 2 must be"):
        prompt_files.pasted('{"prompt": "A"}\nnot JSON', chat=False)
    with pytest.raises(SettingsError, match="one on a line"):
        prompt_files.pasted(" \n", chat=False)


TEXT = "one\u2028two\u2029three\u0085four\x7f"
LINE = json.dumps({"id": "ä", "prompt": TEXT}, ensure_ascii=False)


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "mark"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_prompts_are_the_same_from_a_file_and_pasted(tmp_path, mark, end):
    text = mark + LINE + end + end + LINE
    file = tmp_path / "prompts.jsonl"
    file.write_bytes(text.encode())
    for questions in (prompt_files.read(file), prompt_files.pasted(text, chat=True)):
        assert [(q.id, q.prompt, q.chat) for q in questions] == [("ä", TEXT, False)] * 2
    words = [q.prompt for q in prompt_files.pasted(f"{mark}a\u2028b\x0cc{end}d", chat=False)]
    assert words == ["a\u2028b\x0cc", "d"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "latin-1"])
def test_a_prompt_file_in_another_encoding_is_refused(tmp_path, encoding, capsys):
    file = tmp_path / "prompts.jsonl"
    file.write_bytes('{"prompt": "für"}'.encode(encoding))
    for command in (["decide"], ["bench"], ["batch"], ["attach", "--baseline", "x", "--speculative", "y"]):
        assert main([*command, "--prompts", str(file)]) == 2
    said = capsys.readouterr().err
    assert said.count("it is not UTF-8 text; save it as UTF-8") >= 3 and "Traceback" not in said


def test_a_name_that_no_file_can_hold_is_made_one():
    (question,) = prompt_files.parse('{"id": "a\\ud83d", "category": "\\udc00", "prompt": "x"}', "pasted")
    assert (question.id, question.category) == ("a?", "?")


def test_tables_are_for_spreadsheets():
    name = "=ä"
    text = to_csv({"rows": [{"method": "draft", "question": name, "speedup": -0.5, "low": 1.5}]})
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert (row["question"], row["speedup"], row["low"], row["high"]) == ("'=ä", "-0.5", "1.5", "")
