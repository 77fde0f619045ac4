"""vLLM (0.32 and later): accepted runs as they stream, and at the end what every pass drafted and accepted.

Start it with `--per-request-spec-decode-metrics detailed`; without, only the runs are known. The fields are those of a
server that was asked here (`tests/measure/attach/answers`).

Knows vLLM's events. It does not know HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .openai import OpenAI
from .reply import Answer, count_in, with_counts


class VLLM(OpenAI):
    """An answer of vLLM's OpenAI-compatible server."""

    name = "vllm"

    def __init__(self) -> None:
        super().__init__()
        self._metrics: Mapping[str, Any] = {}

    @staticmethod
    def requests(model, prompt, most, chat):
        first, *plain = OpenAI.requests(model, prompt, most, chat)
        path, body = first
        return [(path, body | {"return_token_ids": True, "n": 1}), first, *plain]

    def read(self, event, at_s):
        self._metrics = (event.get("metrics") or {}).get("speculative_decoding") or self._metrics
        return super().read(event, at_s)

    def answer(self) -> Answer:
        answer, metrics = super().answer(), self._metrics
        if not metrics:
            return answer
        counts = tuple(
            count_in(metrics[name]) for name in ("num_draft_tokens", "num_accepted_draft_tokens", "num_spec_steps")
        )
        accepted, drafted = (
            list(map(count_in, metrics.get(f"per_step_{name}") or ())) for name in ("accepted", "drafted")
        )
        answer = replace(answer, counts=counts)
        if not all(part.ids for part in answer.passes) or not accepted or answer.differs:
            return answer
        if (sum(drafted), sum(accepted), len(accepted)) != counts:
            return replace(answer, differs="its sums are not those of its passes")
        passes, differs = with_counts(answer.passes, accepted, drafted)
        return replace(answer, passes=tuple(passes), differs=differs)
