"""Cases for the guessing game happened as they are told."""

import pytest

from lookahead import LookaheadError
from lookahead.page.learn.games import DIGITS, UNCERTAIN, cases


def test_cases_are_what_a_real_run_drew(models):
    import lookahead
    from lookahead.page.learn.widgets import BY_ID

    prompt = BY_ID["story"].prompt
    (found,) = cases(models, prompt, seed=3, most=6)
    assert len(found) == 6 and sum(UNCERTAIN[0] < case.chance < UNCERTAIN[1] for case in found) >= 3
    drawn = []
    for step in lookahead.decode(
        models, prompt, method="draft", temperature=0.8, rule="rejection", k=4, max_new_tokens=64, seed=3, details=False
    ):
        for test in step.tests:
            if test.q is not None:
                drawn.append((*(round(x, DIGITS) for x in (test.p, test.q, test.draw)), test.outcome == "accepted"))
    order = [drawn.index((case.p, case.q, case.draw, case.accepted)) for case in found]
    assert order == sorted(order), "in the order in which they came"
    assert next(cases(models, prompt, seed=3)) == found != next(cases(models, prompt, seed=4))


def test_without_a_draft_model_there_is_nothing_to_guess(models):
    import dataclasses

    with pytest.raises(LookaheadError, match="draft"):
        next(cases(dataclasses.replace(models, drafts={}), "Once", seed=0))
