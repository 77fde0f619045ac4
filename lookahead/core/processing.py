"""Process logits before a test: repetition penalty, mask, temperature, top-k and top-p. Check that they are finite."""

import math
from collections.abc import Sequence

import torch

from .events import Draft, ModelError, Settings
from .tree import ancestors

Paths = Sequence[Sequence[int]]  # for each row of a pass: the drafted tokens between the context and the row


def process(
    settings: Settings,
    logits: torch.Tensor,
    context: Sequence[int],
    above: Paths = ((),),
    forbidden: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return float32 logits [n, vocab] after the penalty for `context` and `above`, temperature, top-k and top-p.

    `forbidden` tokens [n, vocab] get -inf before the filters.
    """
    scores = logits.float()
    if settings.repetition_penalty != 1.0:
        seen = torch.zeros(scores.shape, dtype=torch.bool, device=scores.device)
        seen.index_fill_(1, torch.tensor(list(set(context)), device=scores.device), True)
        for row, tokens in enumerate(above):
            if tokens:
                seen[row].index_fill_(0, torch.tensor(tokens, device=scores.device), True)
        penalized = torch.where(scores < 0, scores * settings.repetition_penalty, scores / settings.repetition_penalty)
        scores = torch.where(seen, penalized, scores)
    if forbidden is not None:
        scores = scores.masked_fill(forbidden.to(scores.device), -math.inf)
    if settings.temperature > 0:
        scores = scores / settings.temperature
        if 0 < settings.top_k < scores.shape[-1]:
            lowest = scores.topk(settings.top_k, dim=-1).values[:, -1:]
            scores = scores.masked_fill(scores < lowest, -math.inf)
        if settings.top_p < 1.0:
            ordered, order = scores.sort(dim=-1, descending=True)
            beyond = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1) >= settings.top_p
            scores = scores.masked_fill(beyond.scatter(-1, order, beyond), -math.inf)
    return scores


def above(draft: Draft) -> list[list[int]]:
    """Return the drafted tokens on the path to each row of the pass. The first entry is the root's and empty."""
    return [[]] + [[draft.tokens[r] for r in ancestors(draft.parents, i)] for i in range(draft.tested)]


def require_finite(logits: torch.Tensor, model: str) -> None:
    """Raise `ModelError` if a row of the logits has a NaN or infinite maximum. Masked tokens may have minus infinity."""
    if not math.isfinite(float(logits.amax(-1).sum())):
        raise not_finite(model)


def not_finite(model: str) -> ModelError:
    """Return the error for a model with NaN or infinite logits."""
    hint = "no token can be chosen. Its weights may be damaged, or too large for this number format; try dtype float32."
    return ModelError(f"a logit of the {model}", math.nan, hint)
