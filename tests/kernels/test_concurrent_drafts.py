"""Texts of a batch draft on all cores at the same time, with one head.

Each text gets the draft that it gets alone.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest

from lookahead.core.events import Settings
from lookahead.core.lm import draft_tokens
from lookahead.core.policy import StopRule
from lookahead.core.rules import rule_for

TEXTS = 8
REPEATS = 40


@pytest.mark.parametrize("kind", ["block", "mtp", "eagle", "medusa", "draft"])
def test_drafts_do_not_depend_on_drafts_of_other_threads(models, kind):
    rule = rule_for(Settings())

    def drafted(number, repeats):
        target, context = models.target.fresh(), [40 + number, *range(50 + 9 * number, 90 + 9 * number)]
        lm = models.draft(kind)
        if lm.kind is not None:
            lm.follow(target)
        target.reset()
        target.extend(context[:-1])
        return [draft_tokens(lm, rule, lm.sync(context), context, 4, StopRule()) for _ in range(repeats)]

    alone = [drafted(number, 1)[0] for number in range(TEXTS)]
    with ThreadPoolExecutor(TEXTS) as pool:
        for number, drafts in enumerate(pool.map(lambda number: drafted(number, REPEATS), range(TEXTS))):
            assert all(str(draft) == str(alone[number]) for draft in drafts), number
