"""Block verification: an exact rule that tests a sampled chain as a whole (Sun et al. 2024, arXiv 2403.10444, algorithm 2).

It keeps the target's distribution, as the rejection rule does, and accepts at least as many tokens on average. The rejection
rule limits each ratio p/q to 1. Block verification limits only the product of the ratios, so a likely beginning makes up for
a token that is less likely. Every prefix of the chain has its own test, and the longest prefix that passes is accepted.
"""

from dataclasses import replace

import torch

from .accept import Rejection, Verification, at_quantile, residual
from .events import ACCEPTED, BONUS, CORRECTION, REJECTED, Test
from .tree import is_chain


class BlockVerification(Rejection):
    """Test all prefixes of a chain. A draft with branches is tested token by token, as with the rejection rule."""

    name = "block-verification"

    def verify(self, logits, draft, context):
        count, tokens = draft.tested, draft.tokens
        if not count or not is_chain(draft.parents[:count]):
            return super().verify(logits, draft, context)
        p = self._scored(logits, draft, context).softmax(-1)
        q = draft.q or (None,) * count
        reach, accepted, tests = [1.0], 0, []  # `reach` is the product of the ratios, limited to 1, after each token
        for row, token in enumerate(tokens[:count]):
            token_p, token_q = float(p[row][token]), 1.0 if q[row] is None else float(q[row][token])
            reach.append(min(1.0, reach[row] * token_p / token_q))
            limit = reach[-1]
            if row + 1 < count:
                shared = _overlap(limit * p[row + 1], q[row + 1], tokens[row + 1])
                limit = (limit - shared) / (1 - shared) if shared < 1 else 1.0
            draw = self._testing.random()
            tests.append(Test(row, token, REJECTED, p=token_p, q=token_q, draw=draw, limit=limit))
            if draw < limit:
                accepted = row + 1
        tests = [replace(test, outcome=ACCEPTED) for test in tests[:accepted]] + tests[accepted : accepted + 1]
        left, outcome, draw = p[accepted], BONUS, self._testing.random()
        if accepted < count:
            left, outcome = residual(reach[accepted] * left, q[accepted], tokens[accepted]), CORRECTION
        token = at_quantile(left, draw)
        last = Test(None, token, outcome, p=float(left[token] / left.sum()), draw=draw)
        return Verification(tuple(range(accepted)), token, (*tests, last))


def _overlap(p: torch.Tensor, q: torch.Tensor | None, token: int) -> float:
    """Return the sum of min(p, q). If `q` is None, q is a point mass on `token`."""
    if q is None:
        return float(p[token])
    shared = min(len(p), len(q))  # a draft model may have fewer tokens than its target, or more
    return float(torch.minimum(p[:shared], q[:shared]).sum())
