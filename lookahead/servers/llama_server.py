"""llama-server (llama.cpp): one token per event, each with the drafted and accepted tokens so far.

Both counts rise before the first token of a pass is sent. So a rise marks a pass, and as many tokens as it accepted follow the
first. The fields are those of build 11434, and `tests/fakeserver.py` answers the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .openai import OpenAI
from .reply import Answer, Pass, count_in, ids_in, text_in

REASONS = {"eos": "stop", "word": "stop", "limit": "length"}


class LlamaServer(OpenAI):
    """An answer of llama-server's own `/completion`."""

    name = "llama-server"
    generated = "llamacpp:tokens_predicted_total"
    reconnects = True  # build 11434 closes one in twenty of the connections that it had kept, with a text under way

    def __init__(self) -> None:
        super().__init__()
        self._timings: Mapping[str, Any] = {}
        self._due = 0  # tokens of the last pass that have not arrived yet

    @classmethod
    def requests(cls, model, prompt, most, chat):
        body = {
            "prompt": prompt, "n_predict": most, "temperature": 0, "stream": True, "return_tokens": True, "cache_prompt": False,
            "timings_per_token": True,
        }  # fmt: skip
        return [("/completion", body)]

    def read(self, event, at_s):
        before = self._counts()
        self._timings = event.get("timings") or self._timings
        drafted, accepted = (now - n for now, n in zip(self._counts(), before, strict=True))
        if event.get("stop"):
            reason = text_in(event.get("stop_type")) or "stop"
            self.finish = REASONS.get(reason, reason)
        text, ids = text_in(event["content"]), ids_in(event.get("tokens"))
        if event["content"] is None:
            raise TypeError(event)
        if not text and not ids:
            return
        pieces = (text, *[""] * (len(ids) - 1))
        if self._due and not drafted:
            self._due -= 1
            last = self.passes.pop()
            arrived = replace(last, text=last.text + text, ids=last.ids + ids, pieces=last.pieces + pieces)
        else:
            self._due = accepted
            arrived = Pass(at_s, text, ids, drafted or None, accepted if drafted else None, pieces)
        self.passes.append(arrived)

    def answer(self) -> Answer:
        answer, counts = super().answer(), self._counts()
        if not counts[0]:
            return answer
        steps = [part for part in self.passes if part.drafted]
        sums = sum(part.drafted for part in steps), sum(part.accepted for part in steps)
        differs = None if sums == counts else "its counts fell, so its passes are not known"
        return replace(answer, counts=(*counts, len(steps)), differs=differs)

    def _counts(self) -> tuple[int, int]:
        """Return the drafted and accepted tokens so far."""
        return count_in(self._timings.get("draft_n")), count_in(self._timings.get("draft_n_accepted"))
