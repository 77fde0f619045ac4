"""Lossy acceptance rules, which change the text: they also accept drafted tokens that naive decoding would not write.

| rule     | accepts in addition                                                                | source              |
|----------|------------------------------------------------------------------------------------|---------------------|
| typical  | tokens with p > min(epsilon, delta exp(-H)), where H is the entropy of p           | Medusa, Cai et al.  |
|          |                                                                                    | 2024, section 2.3.1 |
| relaxed  | tokens among the k likeliest with p > the highest p - delta                        | TensorRT-LLM,       |
|          |                                                                                    | relaxed acceptance  |
| ensemble | tokens that a mixture of p and the drafter's q predicts                            | transformers 5,     |
|          |                                                                                    | ensemble weight     |

`Settings.weight` sets how much a rule accepts. At 0, a rule is exact: greedy at temperature 0, else coupled. At 1, it accepts
every drafted token that has a probability. A published rule has constants; `looseness` scales them. At weight 0.5 the rule
has the published constants.

With typical and relaxed, the last token of a pass, a correction or a bonus, is the target's own. Medusa's greedy first token is
this token. With ensemble, a correction is the mixture's, as in transformers.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import torch

from .accept import Coupled, Greedy, Rule, Verification, argmax, follow
from .events import REJECTED, Change, Draft, Settings
from .masks import Masks
from .tree import children, depths

EPSILON, DELTA = 0.09, 0.3  # Medusa's code: posterior_threshold and posterior_alpha
TOP_K, TOP_DELTA = 10, 0.6  # TensorRT-LLM's values for DeepSeek-R1: relaxed_topk and relaxed_delta
LEAST_LOG_P = math.log(torch.finfo(torch.float32).tiny)  # of a token that top-k or top-p removed


def looseness(weight: float) -> float:
    """Return the factor of a rule's constants: 0 at weight 0, 1 at weight 0.5, and infinity at weight 1."""
    return weight / (1 - weight) if weight < 1 else math.inf


class Lossy(Rule):
    """The base of the lossy rules. It relaxes an exact rule, and reports each token that this rule would not have written."""

    def __init__(self, settings: Settings, masks: Masks | None = None):
        super().__init__(settings, masks)
        self._exact = (Coupled if settings.temperature > 0 else Greedy)(settings, masks)

    def choose(self, logits, context, chance=None):
        return self._exact.choose(logits, context, chance)

    def scores(self, text, count, vocab):
        return self._exact.scores(text, count, vocab)

    def perturbed_scores(self, scores, positions):
        return self._exact.perturbed_scores(scores, positions)

    def verify(self, logits, draft, context):
        scores = self._scored(logits, draft, context)
        positions = [len(context), *(len(context) + d for d in depths(draft.parents[: draft.tested]))]
        exact = self._predicted(scores, positions)
        if not draft.tested or not self.settings.weight:
            return follow(draft, exact)
        logp = scores.log_softmax(-1)
        verification = follow(draft, self.relaxed(exact, logp, draft, positions))
        return _with_changes(verification, exact, logp)

    def _predicted(self, scores: torch.Tensor, positions: Sequence[int]) -> list[int]:
        perturbed = self._exact.perturbed_scores(scores, positions)
        assert perturbed is not None, "an exact rule that draws has no scores"
        return argmax(perturbed)

    @abstractmethod
    def relaxed(
        self, exact: Sequence[int], logp: torch.Tensor, draft: Draft, positions: Sequence[int]
    ) -> Sequence[int]:
        """Return the token to write after each row. `exact` has the exact rule's tokens, `logp` [rows, vocab] the target's log p."""


def _with_changes(verification: Verification, exact: Sequence[int], logp: torch.Tensor) -> Verification:
    """Return the verification with a `Change` in the test of each written token that differs from the exact one."""
    nodes = iter([0, *(row + 1 for row in verification.path)])  # rows of the pass that predict the written tokens
    tests = []
    for test in verification.tests:
        if test.outcome != REJECTED and test.token != exact[node := next(nodes)]:
            log_p, written = (float(logp[node, token].clamp_min(LEAST_LOG_P)) for token in (exact[node], test.token))
            test = replace(test, change=Change(exact[node], math.exp(log_p), log_p - written))
        tests.append(test)
    return replace(verification, tests=tuple(tests))


class _ByProbability(Lossy):
    """A rule that accepts a drafted token if its probability is high enough. An exact token among siblings comes first."""

    def relaxed(self, exact, logp, draft, positions):
        nodes = [parent + 1 for parent in draft.parents[: draft.tested]]
        tokens = list(draft.tokens[: draft.tested])
        accepted = self.accepts(logp[nodes], logp[nodes, tokens]).tolist()
        written = list(exact)
        for node, rows in enumerate(children(draft.parents[: draft.tested])):
            likely = [tokens[row] for row in rows if accepted[row]]
            if likely and exact[node] not in (tokens[row] for row in rows):
                written[node] = likely[0]
        return written

    @abstractmethod
    def accepts(self, logp: torch.Tensor, drafted: torch.Tensor) -> torch.Tensor:
        """Return whether each token is accepted. `logp` [rows, vocab] is the target's, `drafted` [rows] that of the token."""


class Typical(_ByProbability):
    """Accept tokens that are not improbable for the target's entropy (Medusa's typical acceptance)."""

    name = "typical"

    def accepts(self, logp, drafted):
        entropy = -(logp.exp() * logp.clamp_min(LEAST_LOG_P)).sum(-1)
        threshold = (math.log(DELTA) - entropy).clamp_max(math.log(EPSILON))
        return drafted > looseness(self.settings.weight) * threshold


class Relaxed(_ByProbability):
    """Accept tokens among the likeliest, if the likeliest is not much likelier (TensorRT-LLM's relaxed acceptance)."""

    name = "relaxed"

    def accepts(self, logp, drafted):
        power = looseness(self.settings.weight)
        rank, top = (logp > drafted[:, None]).sum(-1), logp.amax(-1)
        return (rank < float(TOP_K) ** power) & (drafted.exp() > top.exp() - (1 - (1 - TOP_DELTA) ** power))


class Ensemble(Lossy):
    """Verify with `weight` q + (1 - `weight`) p, as `assistant_ensemble_weight` = 1 - `weight` of transformers' `generate`.

    The mixture also gives the correction (DIVERSE, arXiv 2604.07622). Without q, it has the confidences of a node's drafted
    tokens, normalized.
    """

    name = "ensemble"

    def choose(self, logits, context, chance=None):
        pick = super().choose(logits, context, chance)
        return pick and replace(pick, q=self.process(logits[None], context)[0].softmax(-1))

    def scores(self, text, count, vocab):
        return None  # drafting in one call returns no q

    def relaxed(self, exact, logp, draft, positions):
        weight, below = self.settings.weight, children(draft.parents[: draft.tested])
        nodes = [node for node, rows in enumerate(below) if rows]
        q = torch.stack([_drafters(draft, below[node], logp[0]) for node in nodes])
        mixture = weight * q + (1 - weight) * logp[nodes].exp()
        predicted = self._predicted(mixture.log(), [positions[node] for node in nodes])
        written = list(exact)
        for node, token in zip(nodes, predicted, strict=True):
            written[node] = token
        return written


def _drafters(draft: Draft, siblings: Sequence[int], like: torch.Tensor) -> torch.Tensor:
    """Return the drafter's distribution over the tokens of `like` [vocab], from which these sibling rows were drafted."""
    out = torch.zeros_like(like)
    q = draft.q[siblings[0]] if draft.q else None
    if q is not None:
        shared = min(len(out), len(q))  # a draft model may have fewer tokens than its target, or more
        out[:shared] = q[:shared]
        return out
    chances = torch.tensor([draft.chances[row] if draft.chances else 1.0 for row in siblings], device=out.device)
    out[[draft.tokens[row] for row in siblings]] = chances / chances.sum()
    return out
