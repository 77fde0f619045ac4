"""The acceptance rules: which drafted tokens are accepted, and the target's token after them.

| rule      | at                       | guarantee                                                             |
|-----------|--------------------------|-----------------------------------------------------------------------|
| greedy    | temperature 0            | the emitted ids are those of naive greedy decoding                    |
| coupled   | temperature > 0, default | the target's token at position i is argmax(logits / T + gumbel(seed, i)): |
|           |                          | the text is the same with every drafter (Daliri et al. 2024)          |
| rejection | temperature > 0          | accept with min(1, p/q), else draw from the normalized residual       |
|           |                          | max(0, p - q): the target's distribution (Leviathan et al. 2023; with |
|           |                          | several candidates as in SpecInfer, Miao et al. 2024)                 |

These rules are exact. `block_verification.py` has another exact rule, and `lossy.py` the rules that change the text.
A rule has two sides: `choose` picks a drafter's token, and `verify` tests a whole draft. Both process logits in the same way.
"""

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from .events import ACCEPTED, BONUS, CORRECTION, REJECTED, Draft, Settings, Test
from .masks import Masks
from .noise import GumbelNoise
from .processing import Paths, above, process, require_finite
from .tree import children, depths


@dataclass(frozen=True, slots=True)
class Pick:
    """A drafter's token, its confidence from 0 to 1, and its distribution `q` [vocab] if the token was sampled."""

    token: int
    chance: float
    q: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class Scores:
    """The next token has the highest score: `scale` times its logit, plus `noise` [positions, vocab] if not None."""

    scale: float = 1.0
    noise: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class Verification:
    """The accepted rows in order, the target's token after them (a correction or a bonus), and all tests."""

    path: tuple[int, ...]
    token: int
    tests: tuple[Test, ...]


class Rule(ABC):
    """The base of the rules. Random draws come from two streams keyed by the seed: the drafter's and the target's.

    With `masks`, both sides choose only tokens that a schema allows.
    """

    name = ""

    def __init__(self, settings: Settings, masks: Masks | None = None):
        self.settings, self.masks = settings, masks
        self._drafting = random.Random(f"{settings.seed}:draft")
        self._testing = random.Random(f"{settings.seed}:test")

    def process(self, logits: torch.Tensor, context: Sequence[int], above: Paths = ((),)) -> torch.Tensor:
        """Return logits [n, vocab] after penalty, mask, temperature, top-k and top-p; see `processing.process`."""
        forbidden = self.masks.forbidden(context, above, logits.shape[-1]) if self.masks else None
        return process(self.settings, logits, context, above, forbidden)

    @property
    def reads_text(self) -> bool:
        """Whether the scores of a token depend on the text before it, not only on the logits."""
        return self.settings.repetition_penalty != 1.0 or self.masks is not None

    def _needs(self, text: Sequence[int]) -> bool:
        """Return whether the scores of a draft after `text` depend on the drafted tokens."""
        return self.settings.repetition_penalty != 1.0 or (self.masks is not None and not self.masks.open(text))

    def _scored(self, logits: torch.Tensor, draft: Draft, context: Sequence[int]) -> torch.Tensor:
        """Return the target's processed logits [1 + tested rows, vocab]. Raises `ModelError` if they are not finite."""
        tested = logits[: 1 + draft.tested] if draft.window else logits
        require_finite(tested, "target")
        paths = above(draft) if self.reads_text else ()
        return self.process(tested, context, paths)

    @abstractmethod
    def choose(self, logits: torch.Tensor, context: Sequence[int], chance: float | None = None) -> Pick | None:
        """Return a drafter's token for its logits [vocab]. Its confidence is `chance`, or the highest probability.

        None if the drafter has none of the tokens that the masks allow.
        """

    def scores(self, text: Sequence[int], count: int, vocab: int) -> Scores | None:
        """Return the `Scores` of `choose` for `count` tokens after `text`; None if the choice also needs these tokens or a random draw.

        If most tokens may follow `text`, masks are left to `Masks.pruned`: one call without masks takes less time.
        """
        return None

    def top_k(
        self, logits: torch.Tensor, context: Sequence[int], above: Paths, most: int
    ) -> list[list[tuple[int, float]]]:
        """Return the `most` likeliest tokens of each row of a drafter's logits [n, vocab], with their confidences.

        With masks, a row may have fewer tokens.
        """
        scores = self.process(logits, context, above)
        perturbed = self.perturbed_scores(scores, [len(context) + len(path) for path in above])
        values, ids = (scores if perturbed is None else perturbed).softmax(-1).topk(most, dim=-1)
        rows = [[*zip(*row, strict=True)] for row in zip(ids.tolist(), values.tolist(), strict=True)]
        if not self.masks:
            return rows
        return [[pick for pick in row if pick[1] > 0] for row in rows]  # no comparison with NaN is true

    @abstractmethod
    def verify(self, logits: torch.Tensor, draft: Draft, context: Sequence[int]) -> Verification:
        """Verify a draft with the target's logits [1 + rows, vocab]. Row 0 predicts the token after the context."""

    def perturbed_scores(self, scores: torch.Tensor, positions: Sequence[int]) -> torch.Tensor | None:
        """Return scores [n, vocab] whose highest wins at these absolute positions; None if a random draw decides."""
        return scores


def _likeliest(scores: torch.Tensor, chance: float | None) -> Pick | None:
    """Return the token with the highest of the scores [vocab]; None if all are -inf. By default, `chance` is its softmax."""
    ranked = scores.softmax(-1) if chance is None else scores
    (token,) = argmax(ranked[None])
    return None if scores[token] == -math.inf else Pick(token, float(ranked[token]) if chance is None else chance)


def argmax(scores: torch.Tensor) -> list[int]:
    """Return the token with the highest score in each row [n, vocab]."""
    # On a CPU, numpy's argmax is ten times as fast as torch's.
    return (scores.numpy() if scores.device.type == "cpu" else scores).argmax(-1).tolist()


def follow(draft: Draft, predicted: Sequence[int]) -> Verification:
    """Accept rows that equal the target's tokens: `predicted[0]` after the root, `predicted[i + 1]` after row i."""
    if not draft.tokens:
        return Verification((), predicted[0], (Test(None, predicted[0], BONUS),))
    path: list[int] = []
    tests: list[Test] = []
    below = children(draft.parents[: draft.tested])
    node = 0
    while True:
        token = predicted[node]
        for row in below[node]:
            if draft.tokens[row] == token:
                break
            tests.append(Test(row, draft.tokens[row], REJECTED))
        else:
            tests.append(Test(None, token, CORRECTION if below[node] else BONUS))
            return Verification(tuple(path), token, tuple(tests))
        tests.append(Test(row, token, ACCEPTED))
        path.append(row)
        node = row + 1


class Greedy(Rule):
    """Emit the target's most likely token."""

    name = "greedy"

    def choose(self, logits, context, chance=None):
        return _likeliest(self.perturbed_scores(self.process(logits[None], context), [len(context)])[0], chance)

    def scores(self, text, count, vocab):
        return None if self._needs(text) else Scores()

    def verify(self, logits, draft, context):
        scores = self._scored(logits, draft, context)
        positions = [len(context), *(len(context) + d for d in depths(draft.parents[: draft.tested]))]
        return follow(draft, argmax(self.perturbed_scores(scores, positions)))


class Coupled(Greedy):
    """Sampling with noise that both sides share: gumbel(seed, position) is added to the scores, one value per token."""

    name = "coupled"

    def __init__(self, settings: Settings, masks: Masks | None = None):
        super().__init__(settings, masks)
        self.noise = GumbelNoise(settings.seed)

    def perturbed_scores(self, scores, positions):
        noise = torch.stack([self.noise(p, scores.shape[-1]) for p in positions])
        return scores + noise.to(scores.device)

    def scores(self, text, count, vocab):
        s = self.settings
        if self._needs(text) or 0 < s.top_k < vocab or s.top_p < 1.0:
            return None
        return Scores(1 / s.temperature, torch.stack([self.noise(len(text) + i, vocab) for i in range(count)]))


class Rejection(Rule):
    """Classic speculative sampling over any tree: siblings are tried in order.

    After a rejection p becomes the residual max(0, p - q), normalized. The next sibling is tested with it. A row that was
    not sampled has a point mass as its q.
    """

    name = "rejection"

    def perturbed_scores(self, scores, positions):
        return None

    def choose(self, logits, context, chance=None):
        q = self.process(logits[None], context)[0].softmax(-1)
        highest = float(q.max())
        if self.masks and math.isnan(highest):
            return None
        return Pick(at_quantile(q, self._drafting.random()), highest if chance is None else chance, q)

    def verify(self, logits, draft, context):
        probabilities = self._scored(logits, draft, context).softmax(-1)
        path: list[int] = []
        tests: list[Test] = []
        below = children(draft.parents[: draft.tested])
        node = 0
        while True:
            p = probabilities[node]
            for row in below[node]:
                token = draft.tokens[row]
                q = draft.q[row] if draft.q else None
                token_p, token_q = float(p[token]), 1.0 if q is None else float(q[token])
                draw = self._testing.random()
                if draw * token_q < token_p:
                    break
                tests.append(Test(row, token, REJECTED, p=token_p, q=token_q, draw=draw))
                p = residual(p, q, token)
            else:
                draw = self._testing.random()
                token = at_quantile(p, draw)
                outcome = CORRECTION if below[node] else BONUS
                tests.append(Test(None, token, outcome, p=float(p[token]), draw=draw))
                return Verification(tuple(path), token, tuple(tests))
            tests.append(Test(row, token, ACCEPTED, p=token_p, q=token_q, draw=draw))
            path.append(row)
            node = row + 1


def residual(p: torch.Tensor, q: torch.Tensor | None, token: int) -> torch.Tensor:
    """Return the distribution after a rejection: max(0, p - q), normalized. If `q` is None, q is a point mass on `token`.

    If p equals q up to rounding, the residual is zero, and p is returned.
    """
    difference = p.clone()
    if q is None:
        difference[token] = 0.0
    else:
        shared = min(len(p), len(q))  # a draft model may have fewer tokens than its target, or more
        difference[:shared] -= q[:shared]
        difference.clamp_min_(0.0)
    total = difference.sum()
    return difference / total if float(total) > 1e-12 else p


def at_quantile(p: torch.Tensor, u: float) -> int:
    """Return the token at quantile u of p. If rounding leads past the end, it is the last token with p > 0."""
    steps = p.double().cumsum(0)
    token = int(torch.searchsorted(steps, u * float(steps[-1]), right=True))
    return token if token < len(p) else int(p.nonzero()[-1])
