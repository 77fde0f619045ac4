"""Votes of a class: the store's bounds, and the routes."""

import json

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from lookahead.core.theory import expected_tokens, speedup
from lookahead.page.learn import questions as lesson_questions
from lookahead.page.learn.lessons import lessons
from lookahead.page.learn.widgets import Guess
from lookahead.server import votes as votes_module
from lookahead.server.votes import MAX_ANSWERS, MAX_S, MAX_VOTES, SILENCE_S, Question, VoteError, Votes, routes

QUESTIONS = {"one": Question("One?", ("a", "b"), 1, "Because."), "two": Question("Two?", ("a", "b", "c"), 0, "So.")}
CODE, SECRET, OTHER = "K7QM2P", "0" * 32, "1" * 32


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def votes(clock):
    return Votes(lambda: QUESTIONS, clock)


def voter(number):
    return f"{number:032x}"


def refused(status, function, *arguments):
    with pytest.raises(VoteError) as refusal:
        function(*arguments)
    assert refusal.value.status == status and str(refusal.value).endswith(".")


def test_an_answer_counts_once_per_tab_and_can_change_until_the_answer_is_shown(votes):
    opened = votes.open(CODE, SECRET, "one")
    assert opened["counts"] == [0, 0] and "right" not in opened
    for number in range(3):
        votes.answer(CODE, voter(number), opened["round"], 0)
    changed = votes.answer(CODE, voter(2), opened["round"], 1)
    assert changed["chosen"] == 1 and changed["answers"] == 3
    assert not {"counts", "right", "why"} & changed.keys(), "students see no counts before the answer is shown"
    assert votes.watch(CODE, SECRET)["counts"] == [2, 1]
    shown = votes.show(CODE, SECRET)
    assert (shown["right"], shown["why"]) == (1, "Because.")
    assert votes.read(CODE, voter(2)) == {**shown, "chosen": 1}
    refused(409, votes.answer, CODE, voter(0), opened["round"], 1)
    again = votes.open(CODE, SECRET, "two")
    assert again["counts"] == [0, 0, 0] and not again["shown"], "the same code has a new question"
    refused(409, votes.answer, CODE, voter(0), opened["round"], 1)
    refused(400, votes.answer, CODE, voter(0), again["round"], 3)


def test_only_the_teachers_tab_leads_a_vote(votes):
    refused(404, votes.open, CODE, SECRET, "three")
    votes.open(CODE, SECRET, "one")
    for function in (votes.watch, votes.show, votes.close):
        refused(403, function, CODE, OTHER)
    for function in (votes.show, votes.close):
        refused(410, function, "OTHER", SECRET)
    refused(403, votes.open, CODE, OTHER, "one")
    assert votes.read(CODE, voter(0))["open"]
    assert votes.close(CODE, SECRET) == votes.read(CODE, voter(0)) == {"open": False}
    refused(410, votes.answer, CODE, voter(0), 1, 0)
    assert SECRET not in repr(vars(votes)) and not votes._votes


def test_a_vote_ends_with_its_teachers_tab_or_after_two_hours(votes, clock):
    votes.open(CODE, SECRET, "one")
    clock.now += SILENCE_S - 1
    votes.watch(CODE, SECRET)
    clock.now += SILENCE_S - 1
    assert votes.read(CODE, voter(0))["open"]
    clock.now += 2
    assert not votes.read(CODE, voter(0))["open"] and not votes._votes
    votes.open(CODE, SECRET, "one")
    for _ in range(int(MAX_S // 100)):
        clock.now += 100
        votes.watch(CODE, SECRET)
    clock.now += 1
    assert votes.watch(CODE, SECRET) == {"open": False}


def test_votes_and_answers_are_bounded(votes, clock):
    for number in range(MAX_VOTES):
        votes.open(f"CODE{number:02}", SECRET, "one")
    refused(429, votes.open, CODE, SECRET, "one")
    now = votes.open("CODE00", SECRET, "two")["round"]
    for number in range(MAX_ANSWERS):
        votes.answer("CODE00", voter(number), now, 0)
    refused(429, votes.answer, "CODE00", voter(MAX_ANSWERS), now, 0)
    assert votes.answer("CODE00", voter(0), now, 1)["answers"] == MAX_ANSWERS
    clock.now += SILENCE_S + 1
    assert votes.open(CODE, SECRET, "one")["open"], "votes without a teacher make room"


def test_invalid_requests_get_an_error_as_json(votes):
    client = TestClient(Starlette(routes=routes(votes)))

    def post(action, body):
        response = client.post(f"/votes/{action}", content=body if isinstance(body, bytes) else json.dumps(body))
        assert response.headers["cache-control"] == "no-store"
        return response.status_code, response.json()

    opened = {"code": CODE, "secret": SECRET, "question": "one"}
    status, report = post("open", opened)
    answer = {"code": CODE, "voter": voter(1), "round": report["round"], "choice": 0}
    assert status == 200 and report["options"] == ["a", "b"]
    assert post("answer", answer)[1]["chosen"] == 0
    assert post("read", {"code": CODE, "voter": voter(1)})[1]["answers"] == 1
    wrong = [
        *({**answer, "choice": choice} for choice in (-1, True, 0.5, "0", None, [0])),
        {**answer, "name": "Ada"}, {**answer, "voter": "Ada"}, {**answer, "code": "<img>"}, {**answer, "code": f"{CODE}\n"},
        {"code": CODE}, [], None, b"", b"{", b"\xff", b"[" * 900,
    ]  # fmt: skip
    for body in wrong:
        assert post("answer", body) == (400, {"error": votes_module.INVALID}), body
    assert post("answer", b" " * 2000)[0] == 413
    assert post("delete", {})[0] == 404
    assert post("show", {"code": CODE, "secret": OTHER})[0] == 403
    assert client.get("/votes/read").status_code == 405
    assert post("close", {"code": CODE, "secret": SECRET}) == (200, {"open": False})
    assert client.get("/").status_code == 404, "the app's page is not a route of the votes"
    page = client.get(f"/?class={CODE}")
    assert page.status_code == 200 and len(page.content) < 20_000, "a phone loads a small page"


@pytest.mark.parametrize(("passes", "right"), [(1.35, 0), (3.1, 1), (8.2, 2)])
def test_the_answer_on_nine_rows_is_this_machines_cost(passes, right):
    question = lesson_questions.nine_rows(passes)
    assert question.right == right and f"{passes:.2f}" in question.why


def test_the_answers_of_the_lessons_are_computed():
    class Costs:
        class costs:
            class target:
                ratio = staticmethod(lambda rows: 1.35)

    questions = lesson_questions.questions(Costs)
    alpha, c, row = lesson_questions.ALPHA, lesson_questions.DRAFT_COST, lesson_questions.ROW_COST
    speedups = [speedup(expected_tokens(alpha, k), k, c, 1 + k * row) for k in range(17)]
    best = speedups.index(max(speedups))
    question = questions["best-k"]
    assert question.options[question.right] == f"k = {best}" and f"{max(speedups):.2f}x" in question.why
    widgets = [part for lesson in lessons() for part in lesson.parts if not isinstance(part, str)]
    (guess,) = (widget for widget in widgets if isinstance(widget, Guess))
    for number, case in enumerate(guess.cases, 1):
        question = questions[f"guess-{number}"]
        assert question.options[question.right] == ("it is accepted" if case.accepted else "it is rejected")
    assert sorted(filter(None, map(lesson_questions.vote, widgets))) == ["best-k", "guess", "nine-rows"]
