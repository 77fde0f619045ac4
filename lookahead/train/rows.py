"""Training rows: text that a target wrote, its likeliest tokens, and its outputs for a head to learn from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from transformers import PreTrainedModel

TOKENS = 256  # positions per call of the output head: the logits of a large vocabulary need much memory


class TargetOutputs(NamedTuple):
    """A target's outputs for ids [texts, tokens].

    `states` [texts, tokens, taps * hidden] are the tapped hidden states, `last` [texts, tokens, hidden] the output head's
    input, and `sums` [texts, tokens] the log-sum-exp of its logits, in nats.
    """

    states: torch.Tensor
    last: torch.Tensor
    sums: torch.Tensor

    def to(self, device: torch.device) -> TargetOutputs:
        """Return a copy on a device."""
        return TargetOutputs(*(part.to(device) for part in self))


@torch.no_grad()
def target_outputs(target: PreTrainedModel, ids: torch.Tensor, taps: Sequence[int]) -> TargetOutputs:
    """Run one pass of the target over ids [texts, tokens]; `taps` index its `hidden_states`."""
    body = target.base_model(input_ids=ids, use_cache=False, output_hidden_states=True)
    head, last = target.get_output_embeddings(), body.last_hidden_state
    sums = [head(part).float().logsumexp(-1) for part in last.flatten(0, 1).split(TOKENS)]
    states = torch.cat([body.hidden_states[tap] for tap in taps], -1)
    return TargetOutputs(states, last, torch.cat(sums).view(ids.shape))


class Rows(NamedTuple):
    """Rows of text that the target wrote.

    `ids` are [rows, tokens + 1]. `likely` and `logp` [rows, written, k] are the likeliest tokens of the last `written`
    positions, with their log-probabilities in nats. `outputs` cover all tokens but the last, if they were stored.
    """

    ids: torch.Tensor
    likely: torch.Tensor
    logp: torch.Tensor
    outputs: TargetOutputs | None = None

    def to(self, device: torch.device) -> Rows:
        """Return a copy on a device."""
        return Rows(*(part if part is None else part.to(device) for part in self))
