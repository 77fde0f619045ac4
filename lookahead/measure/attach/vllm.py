"""vLLM (0.32 and later): accepted runs as they stream, and at the end what every pass drafted and accepted.

Start it with `--per-request-spec-decode-metrics detailed`; without, only the runs are known. The fields are those of a
server that was asked here (`tests/attach/answers`).

Knows vLLM's events. It does not know HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .reply import Answer, Pass, Reply, text_in, with_counts


class VLLM(Reply):
    """An answer of vLLM's OpenAI-compatible server."""

    name = "vllm"

    def __init__(self) -> None:
        super().__init__()
        self._usage: Mapping[str, Any] = {}
        self._metrics: Mapping[str, Any] = {}

    @staticmethod
    def request(model, prompt, most, chat):
        body = {
            "model": model, "max_tokens": most, "temperature": 0, "stream": True, "return_token_ids": True, "n": 1,
            "stream_options": {"include_usage": True},
        }  # fmt: skip
        if chat:
            return "/v1/chat/completions", body | {"messages": [{"role": "user", "content": prompt}]}
        return "/v1/completions", body | {"prompt": prompt}

    def read(self, event, at_s):
        self._usage = event.get("usage") or self._usage
        self._metrics = (event.get("metrics") or {}).get("speculative_decoding") or self._metrics
        arrived = []
        for choice in event["choices"]:
            prompt = choice.get("prompt_token_ids") or event.get("prompt_token_ids")
            self.prompt_ids = tuple(map(int, prompt or self.prompt_ids))
            text = text_in(choice["text"] if "text" in choice else choice["delta"].get("content") or "")
            ids = tuple(map(int, choice.get("token_ids") or ()))
            self.finish = choice.get("finish_reason") or self.finish
            if text or ids:
                arrived += self._arrived(Pass(at_s, text, ids))
        return arrived

    def answer(self) -> Answer:
        plain, metrics = super().answer(), self._metrics
        tokens = int(self._usage.get("completion_tokens", plain.tokens))
        answer = replace(plain, tokens=tokens)
        has_ids = all(part.ids for part in plain.passes)
        if has_ids and self._usage and tokens != plain.tokens:
            answer = replace(answer, differs=f"it counts {tokens} tokens, and {plain.tokens} arrived")
        if not metrics:
            return answer
        counts = tuple(
            int(metrics[name]) for name in ("num_draft_tokens", "num_accepted_draft_tokens", "num_spec_steps")
        )
        accepted, drafted = (list(map(int, metrics.get(f"per_step_{name}") or ())) for name in ("accepted", "drafted"))
        answer = replace(answer, counts=counts)
        if not has_ids or not accepted or answer.differs:
            return answer
        if (sum(drafted), sum(accepted), len(accepted)) != counts:
            return replace(answer, differs="its sums are not those of its passes")
        passes, differs = with_counts(plain.passes, accepted, drafted)
        return replace(answer, passes=tuple(passes), differs=differs)
