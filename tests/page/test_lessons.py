"""The lessons parse, their names exist, they are short, and each sum in them is correct."""

import ast
import inspect
import math
import re
import subprocess
import sys
from urllib.parse import parse_qs

import pytest
import torch
from agreement import assert_agrees, assert_badges
from conftest import POCKET, ROOT, finished, table_steps
from pydantic import ValidationError

from lookahead import METHODS, Settings, drafting
from lookahead.core import accept, theory
from lookahead.core.accept import Rejection, follow
from lookahead.core.events import Draft
from lookahead.core.tree import ancestor_mask
from lookahead.drafting import Resources
from lookahead.drafting.automaton import SuffixAutomaton
from lookahead.engine.fixed_length import FixedLength
from lookahead.engine.methods import options_of, text_methods
from lookahead.measure import bugs, recordings
from lookahead.measure.scenarios import SCENARIOS
from lookahead.page.learn import deck, lessons
from lookahead.page.learn import widgets as kinds
from lookahead.page.learn.lanes import pass_number
from lookahead.page.learn.lessons import ANSWERS, FOLDER, LessonError, read

LESSONS = lessons.lessons()
ALL = (*lessons.pages(), read(ANSWERS))
IDS = [lesson.name for lesson in ALL]
TEXTS = {lesson.name: (FOLDER / f"{lesson.name}.md").read_text(encoding="utf-8") for lesson in ALL}
PARTS = ("draft", "rows", "predictions", "accepted", "correction", "bonus", "cache")  # of the drawing of a pass
P, Q = [0.5, 0.3, 0.2], [0.2, 0.7, 0.1]  # the worked example of cat, dog and fox


def text(number):
    """Return the source of a lesson by its number."""
    return next(text for name, text in TEXTS.items() if name.startswith(f"{number:02}-"))


def named(name):
    return next(lesson for lesson in ALL if lesson.name == name)


def widgets(kind, *selected):
    return [part for lesson in selected or ALL for part in lesson.parts if isinstance(part, kind)]


def tables(markdown):
    """Yield each table as lists of cells, without the line under the head."""
    for table in re.findall(r"(?:^\|.*\|\n)+", markdown, flags=re.MULTILINE):
        yield [[cell.strip() for cell in line.strip("|").split("|")] for line in table.split("\n") if line.strip("|-")]


# ------------------------------------------------------------------ reading


def test_there_are_thirteen_lessons_in_order_a_plan_and_two_references():
    assert [lesson.name[:2] for lesson in LESSONS] == [f"{n:02}" for n in range(1, 14)]
    assert IDS[len(LESSONS) :] == ["teacher", "glossary", "bibliography", "answers"]
    assert {path.name for path in FOLDER.iterdir()} == {f"{lesson.name}.md" for lesson in ALL} | {deck.FILE.name}
    for kind in kinds.KINDS.values():
        assert widgets(kind), "a kind that no lesson needs"


def test_only_the_teachers_page_links_to_the_answer_key():
    assert [name for name, text in TEXTS.items() if ANSWERS.name in text] == ["teacher"]
    assert read(ANSWERS) not in lessons.pages()


@pytest.mark.parametrize("lesson", LESSONS, ids=IDS[: len(LESSONS)])
def test_a_lesson_is_short_interactive_and_ends_with_a_question(lesson):
    assert lesson.words <= 900
    assert lesson.words / lessons.WORDS_PER_MINUTE < 5
    assert lesson.learn.endswith(".")
    alive = widgets(kinds.Widget, lesson)
    assert isinstance(lesson.parts[-1], kinds.Quiz)
    special = {kinds.Bug, kinds.Dice, kinds.Figure, kinds.Exercise}  # of lesson 9, in which each bug is a widget
    assert 2 <= len(alive) - 1 <= 6 or {type(w) for w in alive[:-1]} == special


@pytest.mark.parametrize("name", IDS)
def test_links_are_internal_and_valid(name):
    assert "www." not in TEXTS[name]
    targets = re.findall(r"\]\(([^)]*)\)", TEXTS[name])
    assert TEXTS[name].count("://") == sum(target.startswith("https://") for target in targets)
    for target in targets:
        if target.startswith("https://"):
            assert name == "bibliography", "only the bibliography links to other hosts"
        elif target.startswith("?"):
            query = {key: values[0] for key, values in parse_qs(target[1:], strict_parsing=True).items()}
            assert_link(query)
        elif target.startswith("#"):
            assert target[1:] in PARTS
            assert any(figure.figure == "pass" for figure in widgets(kinds.Figure, named(name))), (
                "it outlines a drawing"
            )
        else:
            assert (FOLDER / target).is_file(), target
            assert target != f"{name}.md"


def assert_link(query):
    """Assert that the page accepts a link."""
    from lookahead.server import form
    from lookahead.server.limits import Limits

    if "present" in query:
        assert query["present"] in {*deck.sessions(), "notes"}
    elif "recording" in query:
        assert query.keys() == {"recording"}
        assert kinds.Recording(recording=query["recording"], at="longest")
    else:
        drafts = [path.parent.name for path in POCKET.glob("*/config.json")]
        form.from_link(query, ["pocket"], lambda family: drafts, Limits())


@pytest.mark.parametrize("name", IDS)
def test_text_has_no_exclamation_marks_or_emoji(name):
    prose = lessons.LISTING.sub("", lessons.BLOCK.sub("", TEXTS[name]))
    assert "!" not in prose
    assert not re.search("[\U0001f000-\U0001faff✀-➿]", prose)
    for part in named(name).parts:
        if isinstance(part, kinds.Widget):
            assert not re.search(r"[`*\[\]!]|\n", " ".join(lessons._sentences(part)))


def test_every_name_exists():
    drafts = {path.parent.name for path in POCKET.glob("*/config.json")} - {"target"}
    for race in widgets(kinds.Race):
        assert set(race.methods) <= set(METHODS) - {"naive"}
        assert race.draft in drafts
        for method in race.methods:
            options_of(method, race.options)
    for bug in widgets(kinds.Bug):
        entry = bugs.find(bug.bug)
        assert bool(bug.scenario) == (entry.harm != bugs.DISTRIBUTION), "a race shows a visible effect"
        assert Settings(**bug.settings).rule == "auto"
    for what_if in widgets(kinds.WhatIf):
        assert what_if.method in text_methods()
        options_of(what_if.method, what_if.options)
    for die in widgets(kinds.Dice):
        assert not die.bug or bugs.find(die.bug).rule == "rejection"
    assert sorted(bug.bug for bug in widgets(kinds.Bug, LESSONS[8])) == sorted(bugs.BUGS)
    thrown = {die.bug for die in widgets(kinds.Dice, LESSONS[8])}
    assert thrown == {bug.id for bug in bugs.BUGS.values() if bug.harm == bugs.DISTRIBUTION}


def test_a_recording_opens_at_the_right_pass():
    for recording in widgets(kinds.Recording):
        lane = recordings.read(recording.recording).lanes[-1]
        step = lane.verified[pass_number(lane, recording.at) - 1]
        drafted, accepted = len(step.draft.tokens), step.accepted
        longest = max(verified.accepted for verified in lane.verified)
        origins = zip(step.statuses, step.draft.ngram_origins or [None] * drafted, strict=True)
        is_found = any(status == "accepted" and origin for status, origin in origins)
        most = max(verified.draft.window for verified in lane.verified)
        meant = {
            "partly": 0 < accepted < drafted, "mixed": 2 <= accepted <= drafted - 2, "refused": accepted == 0 < drafted,
            "longest": accepted == longest, "window": is_found and step.draft.window == most > 0,
        }  # fmt: skip
        assert meant[recording.at]


def test_a_listing_is_the_source():
    code = kinds.Code(source="lookahead/core/accept.py#follow", marks=("REJECTED",))
    lines, first = inspect.getsourcelines(follow)
    assert (code.text, code.first) == ("".join(lines).rstrip("\n"), first)
    assert all("REJECTED" in lines[n - first] for n in code.marked)
    method = kinds.Code(source="lookahead/core/accept.py#Greedy.choose")
    assert method.text.startswith("def choose(self, logits, context, chance=None):\n    return")
    assert kinds.Code(source="lookahead/core/events.py#Draft").text.startswith("@dataclass")


GOOD = (
    "---\ntitle: T\nlearn: L.\n---\ntext\n\n%s\n```widget quiz\nquestion: q\nanswers:\n  - {text: a, why: b, right: true}\n"
    "  - {text: c, why: d}\n```\n"
)
WRONG = {
    "```widget rase\n```": "line 7, widget is 'rase'",
    "```widget race\nprompt: a\n": "end every block",
    "```widget race\nprompt: a\n```": "prompt and methods",
    "```widget race\nscenario: story\nprompt: a\n```": "prompt and methods",
    "```widget race\nscenario: story\nsettings: {k: many}\n```": "k is 'many'",
    "```widget race\nscenario: story\nsettings: {temperatur: 1}\n```": "there is no setting temperatur",
    "```widget race\nscenario: story\nscenario: hot\n```": "scenario is given twice",
    "```widget race\nscenario: story\nsettings: {k: 3, k: 4}\n```": "k is given twice",
    "```widget race\nscenario: story\ncases: [a]\n```": "cases is ['a']: Extra inputs are not permitted",
    "```widget race\nscenario: stories\n```": "choose one of",
    "```widget race\nscenario: [story]\n```": "choose one of",
    "```widget race\nscenario: story\noptions: window\n```": "options is 'window': Input should be a valid dictionary",
    "```widget race\nscenario: story\nsettings: window\n```": "settings is 'window': Input should be a valid dictionary",
    "```widget recording\n```": "line 7, recording is {}: Field required",
    "```widget recording\nrecording: stories\n```": "choose one of",
    "```widget recording\nrecording: story\nat: 1000\n```": "line 7, at is 1000: Input should be 'partly', 'mixed', 'refused', 'longest' or 'window'",
    "```widget recording\nrecording: story\nat: soon\n```": "at is 'soon': Input should be 'partly'",
    "```widget guess\ncases: [{token: a, p: 0.5, q: 0.5}]\n```": "line 7, cases.0.draw is {'token': 'a', 'p': 0.5, 'q': 0.5}: Field required",
    "```widget guess\ncases: [{token: a, p: 0.5, q: 0, draw: 0.5}]\n```": "cases.0.q is 0: Input should be greater than 0",
    "```widget guess\ncases: [{token: a, p: 0.5, q: 0.5, draw: 1}]\n```": "cases.0.draw is 1: Input should be less than 1",
    "```widget bug\nbug: a\nscenario: stories\n```": "choose one of",
    "```widget cost\nrows: [0, 2]\n```": "rows.0 is 0: Input should be greater than or equal to 1",
    "```widget cost\nrows: [1, 2]\npredict: 3\n```": "one of the rows",
    "```widget cost\nrows: [1, 2]\nk: 3\n```": "together with k",
    "```widget code\n```": "a text or a source",
    "```widget code\nsource: lookahead/nope.py#f\n```": "no such file",
    "```widget code\nsource: ../lookahead/x.py#f\n```": "no such file",
    "```widget code\nsource: lookahead/engine/decode.py#nope\n```": "no such definition",
    "```widget code\ntext: a\nmarks: [b]\n```": "no line of the listing",
    "```widget quiz\nquestion: q\nanswers: [{text: a, why: b, right: true}, {text: c, why: d, right: true}]\n```": "one right answer",
    "```widget quiz\nquestion: q\nanswers: [{text: a, why: b, right: true}]\n```": "at least 2 items",
    "```widget quiz\nquestion: q\nanswers: [{text: a, right: true}, {text: c, why: d}]\n```": "answers.0.why is {'text': 'a', 'right': True}: Field required",
    "```widget figure\nfigure: pass\ntext: a b\nrules: {a: b}\n```": "give a rule for b",
    "```widget figure\nfigure: pass\nrules: {a: a}\n```": "give a text",
    "```widget figure\nfigure: window\ntext: a\n```": "only the figure pass",
    "```widget cost\nstray\n```": "line 7, fields is 'stray",
    "```widget cost\nrows: [1]\nstray\n```": "line 7, YAML is",
    "```widget cost\nsay: a: b\n```": "mapping values are not allowed here",
}


@pytest.mark.parametrize("block", WRONG, ids=lambda block: WRONG[block])
def test_errors_in_a_block_are_named(tmp_path, block):
    path = tmp_path / "01-a.md"
    path.write_text(GOOD % block, encoding="utf-8")
    with pytest.raises(LessonError, match=re.escape(WRONG[block])):
        read(path)


def test_a_scenario_without_a_recording_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(kinds, "ASSETS", tmp_path)
    with pytest.raises(ValidationError, match="no bundled recording"):
        kinds.Recording(recording="story", at="longest")


def test_the_front_matter_is_checked(tmp_path):
    path = tmp_path / "01-a.md"
    path.write_text((GOOD % "").replace("learn: L.\n", ""), encoding="utf-8")
    with pytest.raises(LessonError, match=r"line 1, learn is .*: Field required"):
        read(path)
    path.write_text((GOOD % "").replace("---\n", "", 1), encoding="utf-8")
    with pytest.raises(LessonError, match="begin with"):
        read(path)
    path.write_text((GOOD % "")[: GOOD.index("%s")], encoding="utf-8")
    with pytest.raises(LessonError, match="end with a quiz"):
        read(path)


def test_values_are_read_as_yaml(tmp_path):
    block = (
        '```widget race\nprompt: "Age:\\n 3"\nmethods: [draft, ngram]\n'
        "settings: {k: auto, temperature: 0.8, chat: true, stop: City}\noptions: {window: 3, name: x}\nsay: one\n  two\n```\n\n"
        "```python\nx = 1\n```\n\n```widget code\ntext: |-\n  def f():\n\n      pass\n```\n"
    )
    path = tmp_path / "01-a.md"
    path.write_text(GOOD % block, encoding="utf-8")
    lesson = read(path)
    prose, race, listing, code, quiz = lesson.parts
    assert (lesson.name, lesson.title, lesson.learn) == ("01-a", "T", "L.")
    assert (prose, listing) == ("text", "```python\nx = 1\n```")
    assert (race.prompt, race.methods, race.say) == ("Age:\n 3", ("draft", "ngram"), "one two")
    assert race.settings == {"k": "auto", "temperature": 0.8, "chat": True, "stop": "City"}
    assert race.options == {"window": 3, "name": "x"}
    assert code.text == "def f():\n\n    pass"
    assert [answer.right for answer in quiz.answers] == [True, False]
    for widget in (race, code, quiz):
        with pytest.raises(ValidationError):
            widget.say = "changed"


def test_a_scenario_sets_prompt_and_methods():
    for scenario in SCENARIOS:
        race = kinds.Race(scenario=scenario.id, settings={"max_new_tokens": 9})
        assert (race.prompt, race.methods, race.settings["max_new_tokens"]) == (scenario.prompt, scenario.methods, 9)
        assert race.settings.get("chat", False) == scenario.chat
        assert race.draft == scenario.options.get("draft", "draft")


def test_lessons_are_read_without_torch():
    code = "import sys; from lookahead.page.learn import lessons; lessons.lessons(); print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True).strip() == "False"


# ------------------------------------------------------------------ sums


def test_lesson_1_passes_of_an_imagined_machine():
    weights, bytes_per_weight, bytes_per_second, operations_per_second = 8e9, 2, 1e12, 200e12
    reading, computing = 1e3 * weights * bytes_per_weight / bytes_per_second, 1e3 * weights * 2 / operations_per_second
    assert (reading, computing) == pytest.approx((16, 0.08))
    _, *rows = next(tables(text(1)))
    for n, read_ms, compute_ms, longer in rows:
        assert (float(read_ms[:-3]), float(compute_ms[:-3])) == pytest.approx((reading, int(n) * computing)), n
        assert float(longer[:-3]) == pytest.approx(max(reading, int(n) * computing))
    assert 50 * computing == pytest.approx(4)
    assert (2 / bytes_per_weight, operations_per_second / bytes_per_second) == (1, 200)
    assert "here 1 per row. The machine can do 200 operations" in text(1)
    assert "takes little longer than a pass over one" in LESSONS[0].learn
    assert "50 x 0.08 = 4 ms" in text(1)


def pass_by_rules(figure, text, draft):
    """Return the words that the real rule writes, with the predictions of a figure's table of words."""
    read, rules = [word.lower() for word in (*text, *draft)], {key: word.lower() for key, word in figure.rules.items()}
    ends = [read[:end] for end in range(len(text), len(read) + 1)]
    predictions = [rules.get(" ".join(words[-2:]), rules[words[-1]]) for words in ends]
    vocabulary = sorted({*read, *predictions})
    tree = Draft.chain([vocabulary.index(word.lower()) for word in draft], "figure")
    verification = follow(tree, [vocabulary.index(word) for word in predictions])
    return [vocabulary[token] for token in (*(tree.tokens[row] for row in verification.path), verification.token)]


def test_lesson_2_passes_of_the_figure_agree_with_the_real_rule():
    figure = next(figure for figure in widgets(kinds.Figure, LESSONS[1]) if figure.figure == "pass")
    assert pass_by_rules(figure, ["The"], figure.draft.split()) == ["quick", "brown", "dog"]
    assert pass_by_rules(figure, ["The", "quick", "brown", "dog"], ["sleeps", "in", "the", "sun"]) == [
        "sleeps",
        "in",
        "the",
        "sun",
        ".",
    ]
    assert "two passes of the target write 8 tokens: 4 per pass" in text(2)
    written = re.findall(r"`([^`]+) → ([^`]+)`", text(2))
    rules = {key.lower(): word for key, word in written}
    assert figure.rules == rules, "the table in the text"
    for other in widgets(kinds.Figure, LESSONS[0], LESSONS[2], LESSONS[6], LESSONS[8]):
        if other.figure == "pass":
            assert pass_by_rules(other, other.text.split(), other.draft.split())


def test_the_worksheet_has_a_pass_by_hand():
    """The table agrees with the real rule."""
    source, written = TEXTS["teacher"], "small frog jumped"
    _, *rows = next(
        t for t in tables(source) if t[0][1] == "input" and len(t[0]) == 5 and t[0][2] == "the target predicts"
    )
    vocabulary = sorted({word for row in rows for word in row[1:4]})
    drafted = [vocabulary.index(row[3]) for row in rows if row[3]]
    assert [row[1] for row in rows[1:]] == [row[3] for row in rows[:-1]], "the next row reads the drafted token"
    verification = follow(Draft.chain(drafted, "pencil"), [vocabulary.index(row[2]) for row in rows])
    tokens = (*(drafted[row] for row in verification.path), verification.token)
    assert " ".join(vocabulary[token] for token in tokens) == written
    assert all(row[4] == "" for row in rows), "an exercise"


def test_lesson_3_the_residual():
    residual = accept.residual(torch.tensor(P), torch.tensor(Q), 0).tolist()
    assert sum(map(min, P, Q)) == pytest.approx(0.6)
    assert residual == pytest.approx([0.75, 0, 0.25])
    agree, exact = [t for t in tables(text(3)) if t[0][:2] in (["token", "p"], ["token", "min(p, q)"])]
    assert sum(p * q for p, q in zip(P, Q, strict=True)) == pytest.approx(0.33)
    for i, (token, p, q, both) in enumerate(agree[1:]):
        assert (float(p), float(q)) == (P[i], Q[i]), token
        assert float(both) == pytest.approx(P[i] * Q[i])
    for i, (token, minimum, over, share, result) in enumerate(exact[1:4]):
        assert float(minimum) == pytest.approx(min(P[i], Q[i])), token
        assert float(over) == pytest.approx(max(0, P[i] - Q[i]))
        assert float(share) == pytest.approx(residual[i])
        assert result == f"{minimum} + 0.4 x {share} = **{P[i]}**"
        assert float(minimum) + 0.4 * float(share) == pytest.approx(P[i])
    assert exact[4] == ["sum", "0.6", "0.4", "1", "1"]
    assert round(0.3 / 0.7, 2) == 0.43


def test_lesson_3_shared_noise():
    table = next(t for t in tables(text(3)) if "noise" in t[0])
    numbers = [[float(cell.strip("*")) for cell in row[1:]] for row in table[1:]]
    for (ln_p, ln_q, noise, target, draft), p, q in zip(numbers, P, Q, strict=True):
        assert (ln_p, ln_q) == pytest.approx((math.log(p), math.log(q)), abs=0.005)
        assert (target, draft) == pytest.approx((math.log(p) + noise, math.log(q) + noise), abs=0.0051)
    assert [max(column) == column[1] for column in list(zip(*numbers, strict=True))[3:]] == [True, True]
    other = (1.2, 0.3, 0.1)
    target, draft = ([math.log(x) + n for x, n in zip(xs, other, strict=True)] for xs in (P, Q))
    assert (max(target), max(draft)) == (target[0], draft[1])
    assert (round(target[0], 2), round(draft[1], 2)) == (0.51, -0.06)
    # The probability that both select the same token (a race of exponentials), a little below the overlap.
    agree = sum(1 / sum(max(P[j] / P[i], Q[j] / Q[i]) for j in range(3)) for i in range(3))
    distance = sum(abs(p - q) for p, q in zip(P, Q, strict=True)) / 2
    assert distance == pytest.approx(0.4)
    assert (1 - distance) / (1 + distance) <= agree < 1 - distance
    lesson = text(3).replace("\n", " ")
    assert f"0.6 / 1.4 = {0.6 / 1.4:.2f}; the exact value is {agree:.3f}." in lesson
    assert "**one candidate** per position, no exact rule can accept more often" in lesson


def test_lesson_3_cases_agree_with_the_real_rule():
    (guess,) = widgets(kinds.Guess)
    for case in guess.cases:
        rule = Rejection(Settings(temperature=1.0, rule="rejection"))
        rule._testing = type("Drawn", (), {"random": lambda self, draw=case.draw: draw})()
        logits = torch.tensor([[case.p, 1 - case.p]] * 2, dtype=torch.float64).log().float()
        q = torch.tensor([case.q, 1 - case.q])
        assert bool(rule.verify(logits, Draft.chain([0], "lesson", [q]), [1]).path) == case.accepted, case
    best = [case.accepted == (case.chance >= 0.5) for case in guess.cases]
    assert any(best)
    assert not all(best), "the best guess can be wrong, as in the lesson"
    assert {case.chance for case in guess.cases} >= {0.0, 1.0}, "and some are certain"


def ngram(words, k, **options):
    """Return the n-gram method's drafts after these words, one per branch."""
    ids = sorted(set(words))
    context = [ids.index(word) for word in words]
    drafter = drafting.DRAFTERS["ngram"](Resources(rule=None), options_of("ngram", options))
    drafter.start(context)
    drafter.policy = FixedLength(k)
    draft = drafter.propose(context, k)
    leaves = [row for row in range(len(draft)) if row not in draft.parents]
    paths = [[i for i in range(len(draft)) if ancestor_mask(draft.parents)[leaf][i]] for leaf in leaves]
    return [" ".join(ids[draft.tokens[row]] for row in path) for path in paths]


def test_lesson_4_lookups():
    cat, letters = (
        re.search(rf"^> ({first} .*)$", text(4), re.MULTILINE)[1].replace("*", "") for first in ("the", "a")
    )
    assert ngram(cat.split(), 4) == ["sat on the mat"]
    assert ngram(letters.split(), 3) == ["d a b", "c a b"]
    seen = [letters.split()[i + 2] for i in range(len(letters.split()) - 2) if letters.split()[i : i + 2] == ["a", "b"]]
    assert seen == ["c", "d", "c"]
    automaton = SuffixAutomaton()
    automaton.extend(["abcd".index(letter) for letter in letters.split()])
    state, length = automaton.longest_match()
    assert (length, automaton._counts[state]) == (5, {3: 1})


def test_lesson_5_jacobi_by_hand():
    next_word = dict(pair.split(" → ") for pair in re.search(r"^> (the → .*)$", text(5), re.MULTILINE)[1].split(", "))
    true = ["the"]
    for _ in range(4):
        true.append(next_word[true[-1]])
    guesses, rounds = ["on", "cat", "mat", "sat"], next(t for t in tables(text(5)) if t[0][0] == "pass")[1:]
    for number, guessed, answered in rounds:
        assert guesses == guessed.split(), number
        guesses = [next_word[word] for word in ("the", *guesses[:3])]
        assert guesses == answered.replace("*", "").split()
        right = re.search(r"\*\*(.*)\*\*", answered)[1].split()
        assert right == true[1 : 1 + len(right)]
        assert len(right) == int(number)
    assert guesses == true[1:]


@pytest.mark.parametrize(("w", "n", "g", "rows"), [(3, 3, 3, 13), (15, 5, 15, 121), (2, 3, 2, 9), (5, 4, 5, 31)])
def test_lesson_5_rows(w, n, g, rows):
    assert 1 + w * (n - 1) + g * (n - 1) == rows
    assert str(rows) in text(5)


def test_lesson_5_the_mask_of_a_real_window():
    steps = table_steps("lookahead", Settings(max_new_tokens=60), k=4, window=3, ngram=3, guesses=3)
    full = [step.draft for step in steps if step.draft.window == 6]
    assert full
    assert max(1 + len(draft) for draft in full) == 13
    for draft in full:
        first, mask = draft.tested, ancestor_mask(draft.parents)
        names = ["guess"] * first + ["a1", "a2", "a3", "b1", "b2", "b3"]
        assert [names[i] for i in range(len(draft)) if mask[first + 4][i]] == ["a1", "a2", "b2"]


def test_lesson_6_speedups():
    tokens = theory.expected_tokens(0.8, 4)
    assert round(tokens, 2) == 3.36
    assert tokens == pytest.approx(1 + 0.8 + 0.64 + 0.512 + 0.4096)
    for v, k, written in ((1.1, 4, "**2.24**"), (1.0, 4, "**2.40**"), (5.0, 4, "**0.62**")):
        assert f"**{theory.speedup(tokens, k, 0.1, v):.2f}**" == written
        assert written in text(6)
    table = next(t for t in tables(text(6)) if t[0][0] == "k")
    assert [row[0] for row in table[1:]] == ["1", "2", "4", "8", "16"]
    for row in table[1:]:
        k = int(row[0])
        v = 1 + 0.03 * k
        speedups = [theory.speedup(theory.expected_tokens(alpha, k), k, 0.1, v) for alpha in (0.8, 0.3, 0.1)]
        assert row[1:] == [f"{v + 0.1 * k:.2f}", *(f"{s:.2f}" for s in speedups)]
    assert theory.speedup(theory.expected_tokens(0.13, 1), 1, 0.1, 1.03) == pytest.approx(1)
    quiz = LESSONS[5].parts[-1]
    right = next(answer for answer in quiz.answers if answer.right)
    assert theory.expected_tokens(0.5, 2) == 1.75
    assert f"1.75 / 1.5 = {theory.speedup(1.75, 2, 0.2, 1.1):.2f}" == right.text


def test_lesson_6_acceptance_is_neither_constant_nor_accepted_by_drafted():
    lesson, rates = text(6).replace("\n", " "), card_rates("draft model")
    assert f"rates {', '.join(f'{rate:.2f}' for rate in rates[:-1])} and {rates[-1]:.2f}" in lesson
    tokens = 1 + sum(math.prod(rates[:n]) for n in range(1, 9))
    low, high = theory.expected_tokens(min(rates), 8), theory.expected_tokens(max(rates), 8)
    assert f"give **{tokens:.2f}** tokens" in lesson
    assert f"constant 0.72 gives {low:.2f} and a constant 0.90 gives {high:.2f}" in lesson
    accepted = theory.expected_tokens(0.8, 4) - 1
    assert f"accepts {accepted:.2f} of 4 drafted tokens: accepted / drafted is only {accepted / 4:.2f}" in lesson
    assert "A larger v lowers the speedup. A measured speedup can still exceed this number" in lesson


def test_lesson_11_converts_the_counters_of_lesson_6():
    rates = [theory.expected_tokens(0.8, n) - theory.expected_tokens(0.8, n - 1) for n in range(1, 5)]
    listed = f"{', '.join(f'{rate:.2f}' for rate in rates[:-1])} and {rates[-1]:.2f}"
    assert f"With α = 0.8 it is {listed}." in text(11).replace("\n", " ")
    assert f"{rates[3]:.2f} / {rates[2]:.2f} = {rates[3] / rates[2]:.1f}" in text(11)
    assert sum(0.52**n for n in range(1, 5)) == pytest.approx(1, abs=0.01), "the quiz"
    assert 8 * (1 + 4) == 40


def test_lesson_11_names_are_those_that_the_package_uses():
    """The bench and `attach` start and read the same engines."""
    sources = "".join(
        (ROOT / name).read_text(encoding="utf-8")
        for name in ("lookahead/servers/engines.py", "lookahead/servers/replies.py", "docs/servers.md")
    )
    for name in (
        "draft_model", "eagle3", "ngram", "num_speculative_tokens", "prompt_lookup_min", "prompt_lookup_max", "draft-simple",
        "--per-request-spec-decode-metrics", "--spec-draft-model", "--spec-draft-n-max", "ngram-simple", "--spec-ngram-simple-size-n",
    ):  # fmt: skip
        assert name in text(11), name
        assert name in sources, name
    assert "build 11434" in text(11) and "build 11434" in sources and "vLLM 0.32" in text(11)


def tree_of_lesson_12():
    """Return (tokens, parents, probabilities of the paths) of the first table."""
    rows = next(t for t in tables(text(12)) if t[0][:3] == ["row", "parent", "token"])[1:]
    paths = [0.0]
    for row in rows:
        paths.append(paths[int(row[1])] * float(row[3]) if int(row[1]) else float(row[3]))
        assert float(row[4].rpartition("= ")[2]) == pytest.approx(paths[-1])
    return [row[2] for row in rows], [int(row[1]) - 1 for row in rows], paths[1:]


@pytest.mark.parametrize(
    ("target", "rows", "written"),
    [("dog ran home", [2, 5], "dog ran home"), ("cat ran off", [0, 4], "cat ran off"), ("fox hid", [], "fox")],
)
def test_lesson_12_a_walk_by_hand(target, rows, written):
    """The walk agrees with the real rule: after a row the target predicts its next word, or "?" on other branches."""
    tokens, parents, _ = tree_of_lesson_12()
    words = target.split()
    vocabulary = sorted({*tokens, *words, "?"})
    predictions = ["?"] * (1 + len(tokens))
    for row, mask in enumerate([[], *ancestor_mask(parents)]):
        path = [tokens[i] for i, on in enumerate(mask) if on]
        if path == words[: len(path)] and len(path) < len(words):
            predictions[row] = words[len(path)]
    draft = Draft(tuple(map(vocabulary.index, tokens)), tuple(parents), None, ("lesson",) * len(tokens))
    verification = follow(draft, [*map(vocabulary.index, predictions)])
    assert list(verification.path) == rows
    assert " ".join([*(tokens[row] for row in rows), vocabulary[verification.token]]) == written


def test_lesson_12_expected_tokens_and_costs():
    tokens, _parents, paths = tree_of_lesson_12()
    total = 1 + sum(paths)
    assert f"= **{total:.2f}**" in text(12)
    chain = [tokens.index("cat"), tokens.index("sat"), tokens.index("on")]
    first = 1 + sum(paths[row] for row in chain)
    second = [paths[2], paths[5], paths[5] * 0.5]
    assert f"= {first:.2f} |" in text(12) and f"= {first + sum(second):.2f} |" in text(12)
    lesson = text(12).replace("\n", " ")
    for row, bold in ((0.03, (False, True)), (0.5, (False, True))):
        for sum_, rows, is_bold in ((first, 3, bold[0]), (total, 6, bold[1])):
            result = f"{sum_ / (1 + rows * row):.2f}"
            cost = f"{1 + rows * row:.2f}".rstrip("0").rstrip(".")
            assert f"{sum_:.2f} / {cost} = {'**' if is_bold else ''}{result}" in lesson


# ------------------------------------------------------------------ references


def test_the_glossary_has_every_symbol_and_its_lessons_use_it():
    symbols, terms = tables(TEXTS["glossary"])
    assert {row[0].split()[0] for row in symbols[1:]} >= {"α", "k", "a", "c", "v", "p", "q", "W", "N", "G"}
    for row in (*symbols[1:], *terms[1:]):
        for target in re.findall(r"\(([\w-]+\.md)\)", row[1]):
            symbol = row[0].split()[0].rstrip(",")
            assert symbol.lower() in (FOLDER / target).read_text(encoding="utf-8").lower(), (row[0], target)
    names = [row[0] for row in terms[1:]]
    assert names == sorted(names, key=lambda name: name.lower().replace("-", "")), "alphabetical"


def test_the_bibliography_has_each_cited_paper():
    entry = re.compile(r"^- (.+) \((20\d\d)\)\. \[.+\]\(https://\S+\).*\. Lessons? \[\d+\]\(.+\)\.$", re.MULTILINE)
    papers = entry.findall(TEXTS["bibliography"])
    assert len(papers) == TEXTS["bibliography"].count("\n- ")
    cited = {
        (name, year)
        for n in range(1, 13)
        for name, year in re.findall(r"([A-Z][\w-]+)(?: et al\.)? (20[12]\d)\b", text(n))
        if name not in ("JetSpec", "DeepSpec")
    }
    assert len(cited) >= 12
    for name, year in cited:
        assert any(name in authors and year == published for authors, published in papers), (name, year)
    assert all(name in TEXTS["bibliography"] for name in ("JetSpec", "DeepSpec"))


def test_the_worksheet_explains_the_symbols():
    worksheet = TEXTS["teacher"].partition("## Worksheet")[2].partition("## Answer key")[0]
    assert all(f"{symbol}: " in worksheet for symbol in ("α", "k", "*a*", "c", "v"))


def test_ten_questions_name_a_passage_and_a_figure():
    document = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
    rows = next(t for t in tables(document) if t[0][0] == "question")[1:]
    assert len(rows) == 10
    assert {row[1][1] for row in rows} == {"1", "2", "3", "6"}
    for question, link, passage, figure in rows:
        number = int(link[1])
        assert question.endswith("?") and f"(../assets/lessons/{LESSONS[number - 1].name}.md)" in link
        assert passage in " ".join(text(number).split()), passage
        assert figure.strip("`") in [part.figure for part in widgets(kinds.Figure, LESSONS[number - 1])]


def test_lesson_4_credits_the_automaton_to_its_paper():
    assert "automaton** (SAM-Decoding, Hu et al. 2024)" in text(4)


def test_lesson_7_the_sketch():
    listing = LESSONS[6].parts[1]
    assert isinstance(ast.parse(listing.text).body[0], ast.FunctionDef)
    assert [int(n) for n in re.findall(r"^\*\*(\d)\.", text(7), re.MULTILINE)] == list(range(1, 8))
    namespace = {"torch": torch}
    exec(listing.text, namespace)
    with pytest.raises(NameError, match="done"):
        namespace["speculative_decode"](None, None, torch.tensor([[1, 2]]))
    ids = torch.zeros((1, 5), dtype=torch.long)
    assert [len(ids) + i - 1 for i in range(4)] == [0, 1, 2, 3]
    assert [ids.shape[1] + i - 1 for i in range(4)] == [4, 5, 6, 7]
    drafted = range(100, 104)
    assert f"{' + '.join(map(str, drafted))} = {sum(drafted)}" in text(7).replace("\n", " ")
    assert f"{100 + 4} in the target" in text(7)


def test_lesson_7_every_bug_of_the_sketch_is_among_its_mistakes():
    for bug in bugs.BUGS.values():
        if bug.in_sketch:
            assert bug.name.split()[-1] in text(7), bug.id


def test_lesson_8_a_real_pair_on_paper():
    for alpha, weights, written in ((0.8, 8, "**2.31**"), (0.7, 1, "**2.62**")):
        assert f"**{theory.speedup(theory.expected_tokens(alpha, 4), 4, weights / 70):.2f}**" == written
        assert written in text(8)
    assert f"{8 / 70:.3f}" in text(8)
    assert f"{1 / 70:.3f}" in text(8)
    assert f"{theory.expected_tokens(0.7, 4):.2f} / {1 + 4 / 70:.3f}" in text(8)
    assert (70 + 8) * 2 == 156


def test_lesson_9_effects_of_bugs_on_three_tokens():
    table = next(t for t in tables(text(9)) if t[0][1] == "should be")
    for i, (token, right, result) in enumerate(table[1:]):
        minimum = min(P[i], Q[i])
        assert float(right) == P[i], token
        assert result == f"{minimum} + 0.4 x {P[i]} = {minimum + 0.4 * P[i]:.2f}"
    # dog is drafted for u from 0.2 to 0.9 and accepted if u x 0.7 < 0.3
    assert f"probability {0.3 / 0.7 - 0.2:.2f} instead of 0.30" in text(9).replace("\n", " ")
    assert [accept.at_quantile(torch.tensor(Q), u) for u in (0.1, 0.3, 0.8, 0.95)] == [0, 1, 1, 2]


def card_rates(drafter):
    """Return the acceptance rates by position from the model card."""
    card = (POCKET / "README.md").read_text(encoding="utf-8")
    row = re.search(rf"^\| {drafter} .*\| ((?:[01]\.\d\d ?)+) *\|$", card, re.MULTILINE)
    return [float(rate) for rate in row[1].split()]


def test_lesson_10_speedups_of_the_generations():
    rates = card_rates("Medusa heads")
    assert rates == sorted(rates), "rates of tested tokens rise by position"
    assert "rates\n{}, {}, {} and {}, as on the models' card".format(*rates) in text(10)
    assert "late ones seldom" not in text(10)
    rows = {row[0]: row[1:] for table in tables(text(10)) for row in table[1:]}
    chain = theory.expected_tokens(0.8, 4)
    medusa = 1 + sum(math.prod(card_rates("Medusa heads")[:n]) for n in range(1, 5))
    drafted = {
        "draft model": (chain, 4 * 0.25),
        "Medusa": (medusa, 0.05),
        "EAGLE-3": (chain, 4 * 0.10),
        "block": (chain, 0.15),
    }
    assert rows.keys() == drafted.keys()
    for name, (tokens, drafts) in drafted.items():
        cost = 1.1 + drafts
        assert rows[name][1:] == [f"{tokens:.2f}", f"{cost:.2f}", f"{tokens / cost:.2f}"], name
    longer = theory.expected_tokens(0.8, 8)
    for part in (f"rise to {longer:.2f}", f"**{longer / (1.2 + 8 * 0.10):.2f}**", f"**{longer / (1.2 + 0.15):.2f}**"):
        assert part in " ".join(text(10).split()), part


def test_the_sums_of_the_answer_key():
    for c in (0.2, 0.4):
        assert f"1.75 / {1.1 + 2 * c:.1f} = {theory.speedup(1.75, 2, c, 1.1):.2f}" in TEXTS["answers"]
    assert "0.2 + 0.4 x 0.75 = 0.5" in TEXTS["answers"]


# ------------------------------------------------------------------ with the models


@pytest.mark.models
def test_lesson_8_the_code_runs(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    blocks = re.findall(r"^```python\n(.*?)^```$", text(8), re.DOTALL | re.MULTILINE)
    namespace = {}
    for block in blocks:
        exec(block, namespace)
    output = capsys.readouterr().out
    assert namespace["plain"].shape[1] > namespace["inputs"]["input_ids"].shape[1]
    assert "Once upon a time" in output
    assert ("same ids" in output) or ("other ids" in output)
    assert "tokens per pass" in output
    assert namespace["models"].exactness in output


@pytest.mark.parametrize("bug", [b for b in widgets(kinds.Bug, LESSONS[8]) if b.scenario], ids=lambda bug: bug.bug)
def test_lesson_9_each_bug_has_its_effect(models, bug):
    """With the widgets' settings, a bug in the text changes the text, and a bug in the speed does not."""
    scenario_of_bug = next(scenario for scenario in SCENARIOS if scenario.id == bug.scenario)
    running = bugs.race(models, scenario_of_bug.prompt, bugs.find(bug.bug), ["naive", "draft", "draft"], **bug.settings)
    trace = finished(running)
    naive, correct, broken = trace.lanes
    assert correct.tokens == naive.tokens and broken.options["bug"] == bug.bug, "only the last lane has the bug"
    harm = bugs.find(bug.bug).harm
    if harm == bugs.TEXT:
        assert naive.tokens != broken.tokens
    if harm == bugs.SPEED:
        assert_badges(trace, bug.bug)
    if bug.bug == "eos-ignored":
        assert len(broken.tokens) > len(naive.tokens)


def test_lesson_3_three_lanes_write_one_text(models):
    race = widgets(kinds.Race, LESSONS[2])[0]
    for method in race.methods:
        assert_agrees(models, race.prompt, method, **race.settings)
