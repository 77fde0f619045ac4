"""llama-server (llama.cpp): a token an event, each with how many were drafted and accepted so far.

Both counts rise before the first token of a pass is sent, so a rise marks a pass, and as many tokens as it accepted follow
the first. The fields are those of build 11434, and `tests/fakeserver.py` answers in them.

Knows llama-server's events. It does not know HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .reply import Answer, Pass, Reply, count_in, ids_in, text_in

REASONS = {"eos": "stop", "word": "stop", "limit": "length"}


class LlamaServer(Reply):
    """An answer of llama-server's own `/completion`."""

    name = "llama-server"
    reconnects = True  # build 11434 ends one in twenty of the connections that it had kept, with a text on the way

    def __init__(self) -> None:
        super().__init__()
        self._timings: Mapping[str, Any] = {}
        self._due = 0  # tokens of the last pass that are still to come

    @staticmethod
    def requests(model, prompt, most, chat):
        body = {
            "prompt": prompt, "n_predict": most, "temperature": 0, "stream": True, "return_tokens": True, "cache_prompt": False,
            "timings_per_token": True,
        }  # fmt: skip
        return [("/completion", body)]

    def read(self, event, at_s):
        before = [self._count(name) for name in ("draft_n", "draft_n_accepted")]
        self._timings = event.get("timings") or self._timings
        drafted, accepted = (
            self._count(name) - n for name, n in zip(("draft_n", "draft_n_accepted"), before, strict=True)
        )
        if event.get("stop"):
            reason = text_in(event.get("stop_type")) or "stop"
            self.finish = REASONS.get(reason, reason)
        text, ids = text_in(event["content"]), ids_in(event.get("tokens"))
        if event["content"] is None:
            raise TypeError(event)
        if not text and not ids:
            return []
        pieces = (text, *[""] * (len(ids) - 1))
        if self._due and not drafted:
            self._due -= 1
            last = self.passes[-1]
            self.passes[-1] = replace(last, text=last.text + text, ids=last.ids + ids, pieces=last.pieces + pieces)
            return [Pass(at_s, text, ids)]
        self._due = accepted
        counts = (drafted, accepted) if drafted else (None, None)
        self.passes.append(Pass(at_s, text, ids, *counts, pieces))
        return [self.passes[-1]]

    def answer(self) -> Answer:
        answer = super().answer()
        drafted, accepted = self._count("draft_n"), self._count("draft_n_accepted")
        if not drafted:
            return answer
        steps = [part for part in self.passes if part.drafted]
        sums = sum(part.drafted for part in steps), sum(part.accepted for part in steps)
        differs = None if sums == (drafted, accepted) else "its counts fell, so its passes are not known"
        return replace(answer, counts=(drafted, accepted, len(steps)), differs=differs)

    def _count(self, name: str) -> int:
        return count_in(self._timings.get(name))
