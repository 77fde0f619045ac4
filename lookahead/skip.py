"""The target's first layers as a draft model: sharing its weights, sized by measurement.

A model that was not trained to be cut short may say little after a few layers, so nothing is
assumed: for every depth in question the shortened model is asked, over text the target wrote
itself, how often it would have written the same token. The depth with the most expected tokens per
second is kept.

Knows transformers models; it does not know drafts or the loop.
"""

from __future__ import annotations

import copy

from accelerate import init_empty_weights
from transformers import PreTrainedModel

from .cost import CostCurve, quickest_s
from .events import ModelError
from .lm import CachedLM
from .theory import expected_tokens

ROLE = "self"
WRITTEN = 96  # tokens the target writes for the measurement
BEHIND = 60  # tokens behind which a pass of the shortened model is timed
LONGEST = 8


def first_layers(model: PreTrainedModel, layers: int) -> PreTrainedModel:
    """A model of the same architecture with only the first layers, made of the same tensors."""
    config = copy.deepcopy(model.config)
    config.num_hidden_layers = layers
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:layers]
    config._attn_implementation = model.config._attn_implementation
    with init_empty_weights(include_buffers=False):
        short = type(model)(config).requires_grad_(False)
    wanted = short.state_dict().keys()
    short.load_state_dict({name: value for name, value in model.state_dict().items() if name in wanted}, assign=True)
    short.tie_weights()
    return short.to(model.device).eval()


def choose(target: CachedLM, costs: CostCurve) -> CachedLM:
    """The shortened model that would pay most; a `ModelError` where the architecture cannot be cut."""
    layers = target.model.config.get_text_config().num_hidden_layers
    target.reset()
    token, text = 0, [0]
    for _ in range(min(WRITTEN, target.context_length - 2)):
        token = int(target.extend([token])[0].argmax())
        text.append(token)
    target.reset()
    best, best_rate = None, 0.0
    for depth in range(1, max(1, layers // 2) + 1):
        try:
            short = CachedLM(first_layers(target.model, depth), target.vocab, exact=False)
            guesses = short.forward(text[:-1]).argmax(-1).tolist()
            short.keep(range(min(len(guesses), BEHIND)))
            token_s = quickest_s(short)
        except (AttributeError, RuntimeError, TypeError, KeyError) as error:
            mend = "its first layers cannot be used alone; choose another method."
            raise ModelError("model", target.model.config.model_type, mend) from error
        short.reset()
        alpha = sum(a == b for a, b in zip(guesses, text[1:], strict=True)) / len(guesses)
        rate = max(expected_tokens(alpha, k) / (costs.pass_s(1 + k) + k * token_s) for k in range(1, LONGEST + 1))
        if rate > best_rate:
            best, best_rate = short, rate
    return best
