"""Any OpenAI-compatible server. Its streams show chunks of text, and nothing about drafts. Other kinds of servers extend this.

Reasoning that a model writes before its answer is text like any other: it is timed, counted and compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from .reply import Answer, Pass, count_in, ids_in, text_in


class OpenAI:
    """Reads one answer, event by event: streamed text, and token ids if its chunks have them.

    `name` is the kind of server. `generated` is the name of its Prometheus counter of generated tokens, "" if it has none.
    `reconnects` is set if every text needs a connection of its own. `extra` are fields of the first request only.
    """

    name = "openai"
    generated = ""
    reconnects = False
    extra: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        self.passes: list[Pass] = []
        self.finish: str | None = None
        self.prompt_ids: tuple[int, ...] = ()  # empty if the server does not send them
        self._usage: Mapping[str, Any] = {}

    @classmethod
    def requests(cls, model: str, prompt: str, most: int, chat: bool) -> list[tuple[str, dict[str, Any]]]:
        """Return the requests, each a path and a body, that continue a prompt greedily by at most `most` tokens.

        The first has the most fields. If a server refuses it as malformed, the next one is sent, which has fewer.
        """
        body = {"model": model, "max_tokens": most, "temperature": 0, "stream": True}
        if chat:
            path, body = "/v1/chat/completions", body | {"messages": [{"role": "user", "content": prompt}]}
        else:
            path, body = "/v1/completions", body | {"prompt": prompt}
        counted = body | {"stream_options": {"include_usage": True}}
        return [*([(path, counted | cls.extra)] if cls.extra else []), (path, counted), (path, body)]

    def read(self, event: Mapping[str, Any], at_s: float) -> None:
        """Append the passes of an event, none if it only counts. Raises an error of `UNREADABLE` for a foreign event."""
        self._usage = event.get("usage") or self._usage
        for choice in event.get("choices") or ():
            prompt = choice.get("prompt_token_ids") or event.get("prompt_token_ids")
            self.prompt_ids = ids_in(prompt) or self.prompt_ids
            fields = {**choice, **(choice.get("delta") or {})}
            reasoning = fields.get("reasoning_content") or fields.get("reasoning")  # servers that send both repeat it
            text = "".join(map(text_in, (reasoning, fields.get("content"), fields.get("text"), fields.get("refusal"))))
            ids = ids_in(choice.get("token_ids"))
            self.finish = text_in(choice.get("finish_reason")) or self.finish
            if text or ids:
                self.passes.append(Pass(at_s, text, ids))

    def answer(self) -> Answer:
        """Return what has arrived, with counts if they are known. Raises an error of `UNREADABLE` for foreign counts."""
        answer = Answer(tuple(self.passes), self.finish, sum(part.tokens for part in self.passes))
        tokens, arrived, differs = _written(self._usage) or answer.tokens, len(answer.ids), None
        if all(part.ids for part in self.passes) and tokens != arrived:
            differs = f"it counts {tokens} tokens, and {arrived} arrived"
        return replace(answer, tokens=tokens, differs=differs)


def _written(usage: Mapping[str, Any]) -> int:
    """Return the tokens that a server counts, with those of reasoning; 0 if it does not count."""
    tokens, prompt, total = (count_in(usage.get(f"{name}_tokens")) for name in ("completion", "prompt", "total"))
    with_reasoning = tokens + count_in((usage.get("completion_tokens_details") or {}).get("reasoning_tokens"))
    return with_reasoning if total == prompt + with_reasoning else tokens  # a few servers count reasoning apart
