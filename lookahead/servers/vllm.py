"""vLLM (0.32 and later): accepted runs as they stream, and at the end what every pass drafted and accepted.

vLLM reports passes if it is started with `--per-request-spec-decode-metrics detailed`; otherwise only the runs are known. The
fields are those of a real server (`tests/servers/answers`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from .openai import OpenAI
from .reply import Answer, Pass, count_in


class VLLM(OpenAI):
    """An answer of vLLM's OpenAI-compatible server."""

    name = "vllm"
    generated = "vllm:generation_tokens_total"
    extra: ClassVar = {"return_token_ids": True, "n": 1}

    def __init__(self) -> None:
        super().__init__()
        self._metrics: Mapping[str, Any] = {}

    def read(self, event, at_s):
        self._metrics = (event.get("metrics") or {}).get("speculative_decoding") or self._metrics
        super().read(event, at_s)

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


def with_counts(
    passes: Sequence[Pass], accepted: Sequence[int], drafted: Sequence[int]
) -> tuple[list[Pass], str | None]:
    """Return passes with the counts of the steps that had a draft, in order, and how the two differ (None if they agree).

    The first token comes from the prompt's pass, without a draft. A step brings its accepted tokens and one more; the last one
    may be cut. If several steps arrived together, their counts are added.
    """
    counted, step = [], 0
    for number, part in enumerate(passes):
        left, sums = part.tokens - (number == 0), [0, 0]
        last = number == len(passes) - 1
        while step < len(accepted) and left > 0 and (accepted[step] < left or last):
            left -= accepted[step] + 1
            sums = [sums[0] + drafted[step], sums[1] + accepted[step]]
            step += 1
        counted.append(replace(part, drafted=sums[0], accepted=sums[1]) if sums[0] else part)
    if step < len(accepted):
        return list(passes), f"it counts {len(accepted)} drafts, and what arrived has room for {step} of them"
    return counted, None
