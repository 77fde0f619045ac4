"""Details of a test: probabilities, entropy, margin, and the target's likeliest tokens."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import torch

from .accept import Rule
from .events import ACCEPTED, REJECTED, Draft, Test
from .processing import above

TOP_K = 5


def explain(
    rule: Rule, logits: torch.Tensor, draft: Draft, context: Sequence[int], tests: Sequence[Test]
) -> tuple[Test, ...]:
    """Return the tests with p, entropy, margin and the target's likeliest tokens. Outcomes stay the same."""
    last = accumulate((test.row + 1 if test.outcome == ACCEPTED else 0 for test in tests[:-1]), max, initial=0)
    nodes, rows_above = [*last], above(draft)  # rows of the pass that predict each test's token
    paths = [rows_above[node] for node in nodes]
    scores = rule.process(logits[nodes], context, paths)
    logp = scores.log_softmax(-1)
    p = logp.exp()
    entropy = -(p * logp.clamp_min(-1e4)).sum(-1)
    values, ids = p.topk(min(TOP_K, p.shape[-1]), dim=-1)
    token_p = p[torch.arange(len(tests)), [t.token for t in tests]].tolist()
    perturbed = rule.perturbed_scores(scores, [len(context) + len(path) for path in paths])
    margins: list[float | None] = [None] * len(tests)
    if perturbed is not None:
        highest = perturbed.topk(2, dim=-1).values
        gaps = (highest[:, 0] - highest[:, 1]).tolist()
        margins = [gap if math.isfinite(gap) else None for gap in gaps]  # infinite if there is no other token
    out = []
    for i, (test, top_p, top_i) in enumerate(zip(tests, values.tolist(), ids.tolist(), strict=True)):
        test = replace(test, p=token_p[i] if test.p is None else test.p)
        if test.outcome != REJECTED:
            top = tuple((t, v) for t, v in zip(top_i, top_p, strict=True) if v > 0)
            test = replace(test, entropy=float(entropy[i]), top=top, margin=margins[i])
        out.append(test)
    return tuple(out)
