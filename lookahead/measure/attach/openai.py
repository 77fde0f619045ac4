"""Any OpenAI-compatible server: what streaming shows, a chunk at a time, and nothing of its drafts.

Knows the events that all of them share. It does not know HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .reply import Answer, Pass, Reply, text_in


class OpenAI(Reply):
    """An answer of which only the streamed text is known, and the token ids where its chunks have them."""

    name = "openai"

    def __init__(self) -> None:
        super().__init__()
        self._usage: Mapping[str, Any] = {}

    @staticmethod
    def request(model, prompt, most, chat):
        body = {
            "model": model, "max_tokens": most, "temperature": 0, "stream": True, "stream_options": {"include_usage": True}
        }  # fmt: skip
        if chat:
            return "/v1/chat/completions", body | {"messages": [{"role": "user", "content": prompt}]}
        return "/v1/completions", body | {"prompt": prompt}

    def read(self, event, at_s):
        self._usage = event.get("usage") or self._usage
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
        plain = super().answer()
        return replace(plain, tokens=int(self._usage.get("completion_tokens", plain.tokens)))
