"""The cases of the guessing game come from a real run."""

import pytest

from lookahead import LookaheadError
from lookahead.page.learn.games import DIGITS, OPEN, cases


def test_cases_come_from_a_real_run(models):
    import lookahead
    from lookahead.page.learn.widgets import BY_ID

    prompt = BY_ID["story"].prompt
    (drawn_cases,) = cases(models, prompt, seed=3, most=6)
    assert len(drawn_cases) == 6 and sum(OPEN[0] < case.chance < OPEN[1] for case in drawn_cases) >= 3
    drawn = []
    for step in lookahead.decode(
        models, prompt, method="draft", temperature=0.8, rule="rejection", k=4, max_new_tokens=64, seed=3, details=False
    ):
        for test in step.tests:
            if test.q is not None:
                drawn.append((*(round(x, DIGITS) for x in (test.p, test.q, test.draw)), test.outcome == "accepted"))
    order = [drawn.index((case.p, case.q, case.draw, case.accepted)) for case in drawn_cases]
    assert order == sorted(order), "in the order in which they came"
    assert next(cases(models, prompt, seed=3)) == drawn_cases != next(cases(models, prompt, seed=4))


def test_without_a_draft_model_there_are_no_cases(models):
    import dataclasses

    with pytest.raises(LookaheadError, match="draft"):
        next(cases(dataclasses.replace(models, drafts={}), "Once", seed=0))
