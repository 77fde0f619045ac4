"""The acceptance rules: which drafted tokens are accepted, and the target's token after them.

| rule      | at                       | guarantee                                                             |
|-----------|--------------------------|-----------------------------------------------------------------------|
| greedy    | temperature 0            | the emitted ids are those of naive greedy decoding                    |
| coupled   | temperature > 0, default | the target's token at position i is argmax(logits / T + gumbel(seed, i)): |
|           |                          | the text is the same with every drafter (Daliri et al. 2024)          |
| rejection | temperature > 0          | accept with min(1, p/q), else draw from the normalized residual       |
|           |                          | max(0, p - q): the target's distribution (Leviathan et al. 2023; with |
|           |                          | several candidates as in SpecInfer, Miao et al. 2024)                 |

A rule serves both sides: `choose` picks a drafter's token, `verify` tests a whole draft. Both process logits alike.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from .events import ACCEPTED, BONUS, CORRECTION, REJECTED, Draft, Settings, Test
from .noise import GumbelNoise
from .processing import above, process, require_finite
from .tree import children, depths


@dataclass(frozen=True, slots=True)
class Pick:
    """A drafter's token, how sure it is of it (0 to 1), and q if the token was sampled."""

    token: int
    chance: float
    q: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class Scores:
    """What decides a token if only logits do: the highest of `scale` times logits plus `noise` [positions, vocab]."""

    scale: float = 1.0
    noise: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class Verification:
    """The accepted rows in order, the target's own token after them, and the tests made."""

    path: tuple[int, ...]
    token: int
    tests: tuple[Test, ...]


class Rule(ABC):
    """What the rules share. Draws come from two streams keyed by the seed: the drafter's and the target's."""

    name = ""

    def __init__(self, settings: Settings):
        self.settings = settings
        self._drafting = random.Random(f"{settings.seed}:draft")
        self._testing = random.Random(f"{settings.seed}:test")

    def process(
        self, logits: torch.Tensor, context: Sequence[int], above: Sequence[Sequence[int]] = ((),)
    ) -> torch.Tensor:
        """Logits [n, vocab] after penalty, temperature, top-k and top-p; see `processing.process`."""
        return process(self.settings, logits, context, above)

    def _scored(self, logits: torch.Tensor, draft: Draft, context: Sequence[int]) -> torch.Tensor:
        """The target's processed logits [1 + tested rows, vocab]. Raises `ModelError` if they are not finite."""
        tested = logits[: 1 + draft.tested] if draft.window else logits
        require_finite(tested, "target")
        paths = above(draft) if self.settings.repetition_penalty != 1.0 else ()  # only the penalty reads them
        return self.process(tested, context, paths)

    @abstractmethod
    def choose(self, logits: torch.Tensor, context: Sequence[int], chance: float | None = None) -> Pick:
        """A drafter's next token from its own logits [vocab]. `chance` replaces the token's probability as its confidence."""

    def scores(self, position: int, count: int, vocab: int) -> Scores | None:
        """What decides the tokens of `choose` at `count` positions from this one on; None if it must see the text, or draws."""
        return None

    def top_k(
        self, logits: torch.Tensor, context: Sequence[int], above: Sequence[Sequence[int]], most: int
    ) -> list[list[tuple[int, float]]]:
        """A drafter's likeliest tokens at each row of its logits [n, vocab], with how sure it is of each."""
        scores = self.process(logits, context, above)
        decided = self.perturbed_scores(scores, [len(context) + len(path) for path in above])
        values, ids = (scores if decided is None else decided).softmax(-1).topk(most, dim=-1)
        return [list(zip(*pair, strict=True)) for pair in zip(ids.tolist(), values.tolist(), strict=True)]

    @abstractmethod
    def verify(self, logits: torch.Tensor, draft: Draft, context: Sequence[int]) -> Verification:
        """The target's answer; logits [1 + rows, vocab], row 0 being the last accepted token's."""

    def perturbed_scores(self, scores: torch.Tensor, positions: Sequence[int]) -> torch.Tensor | None:
        """The scores [n, vocab] whose highest wins at these absolute positions; None where a draw decides."""
        return scores


def _surest(scores: torch.Tensor, chance: float | None) -> Pick:
    """The token with the highest of the scores [vocab], and its share of their softmax where no other chance is known."""
    if chance is not None:
        return Pick(*_highest(scores[None]), chance)
    chances = scores.softmax(-1)
    (token,) = _highest(chances[None])
    return Pick(token, float(chances[token]))


def _highest(scores: torch.Tensor) -> list[int]:
    # On a processor numpy's argmax takes a tenth of torch's time.
    return (scores.numpy() if scores.device.type == "cpu" else scores).argmax(-1).tolist()


def follow(draft: Draft, wanted: Sequence[int]) -> Verification:
    """Walk down the tree as long as a child has the target's token (`wanted`, a row)."""
    if not draft.tokens:
        return Verification((), wanted[0], (Test(None, wanted[0], BONUS),))
    path: list[int] = []
    tests: list[Test] = []
    below = children(draft.parents[: draft.tested])
    node = 0
    while True:
        token = wanted[node]
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
    """The token with the highest score: the target's most likely one."""

    name = "greedy"

    def choose(self, logits, context, chance=None):
        return _surest(self.perturbed_scores(self.process(logits[None], context), [len(context)])[0], chance)

    def scores(self, position, count, vocab):
        return None if self.settings.repetition_penalty != 1.0 else Scores()

    def verify(self, logits, draft, context):
        scores = self._scored(logits, draft, context)
        positions = [len(context), *(len(context) + d for d in depths(draft.parents[: draft.tested]))]
        return follow(draft, _highest(self.perturbed_scores(scores, positions)))


class Coupled(Greedy):
    """Sampling with noise that both sides share: gumbel(seed, position), one value per token, is added to the scores."""

    name = "coupled"

    def __init__(self, settings: Settings):
        super().__init__(settings)
        self.noise = GumbelNoise(settings.seed)

    def perturbed_scores(self, scores, positions):
        noise = torch.stack([self.noise(p, scores.shape[-1]) for p in positions])
        return scores + noise.to(scores.device)

    def scores(self, position, count, vocab):
        s = self.settings
        if s.repetition_penalty != 1.0 or 0 < s.top_k < vocab or s.top_p < 1.0:
            return None
        return Scores(1 / s.temperature, torch.stack([self.noise(position + i, vocab) for i in range(count)]))


class Rejection(Rule):
    """Classic speculative sampling over any tree: siblings are tried in order.

    A rejected sibling leaves the residual max(0, p - q), normalized, for the next one. A row that was not sampled has a
    point mass as its q.
    """

    name = "rejection"

    def perturbed_scores(self, scores, positions):
        return None

    def choose(self, logits, context, chance=None):
        q = self.process(logits[None], context)[0].softmax(-1)
        return Pick(at_quantile(q, self._drafting.random()), float(q.max()) if chance is None else chance, q)

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
    """What the target samples from after a rejection: max(0, p - q), normalized. A q of None is a point mass on the token.

    If p equals q up to rounding nothing is left, and this returns p.
    """
    rest = p.clone()
    if q is None:
        rest[token] = 0.0
    else:
        known = min(len(rest), len(q))  # a draft model may have fewer tokens than its target, or more
        rest[:known] -= q[:known]
        rest.clamp_min_(0.0)
    total = rest.sum()
    return rest / total if float(total) > 1e-12 else p


def at_quantile(p: torch.Tensor, u: float) -> int:
    """The token at quantile u of p: one uniform number, no rounding past the last token with mass."""
    steps = p.double().cumsum(0)
    token = int(torch.searchsorted(steps, u * float(steps[-1]), right=True))
    return token if token < len(p) else int(p.nonzero()[-1])


def rule_for(settings: Settings) -> Rule:
    """The rule that the settings name."""
    return {"greedy": Greedy, "coupled": Coupled, "rejection": Rejection}[settings.acceptance](settings)
