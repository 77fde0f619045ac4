"""SGLang: text and ids so far with every event, and how many passes have verified how much.

Names drift between versions, and no server of it could be run here: this is its documented format, in which
`tests/fakeserver.py` answers.

Knows SGLang's events. It does not know HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .reply import Answer, Pass, Reply, text_in

DRAFTED = "spec_draft_token_num"
ACCEPTED = ("spec_accept_token_num", "spec_num_accepted_drafts")


class SGLang(Reply):
    """An answer of SGLang's own `/generate`."""

    name = "sglang"

    def __init__(self) -> None:
        super().__init__()
        self._meta: Mapping[str, Any] = {}
        self._text, self._ids = "", 0

    @staticmethod
    def request(model, prompt, most, chat):
        sampling = {"temperature": 0, "max_new_tokens": most}
        return "/generate", {"text": prompt, "sampling_params": sampling, "stream": True}

    def read(self, event, at_s):
        meta, before = event["meta_info"], self._meta
        text, ids = text_in(event["text"]), [int(token) for token in event.get("output_ids") or ()]
        reason = meta.get("finish_reason")
        self.finish = reason.get("type") if isinstance(reason, dict) else reason
        new_text, new_ids = text[len(self._text) :], tuple(ids[self._ids :])
        self._meta, self._text, self._ids = meta, text, max(self._ids, len(ids))
        if not new_text and not new_ids:
            return []
        drafted, accepted = (_rise(names, before, meta) for names in ((DRAFTED,), ACCEPTED))
        return self._arrived(Pass(at_s, new_text, new_ids, drafted, accepted if drafted else None))

    def answer(self) -> Answer:
        answer, meta = super().answer(), self._meta
        tokens = int(meta.get("completion_tokens", answer.tokens))
        answer = replace(answer, tokens=tokens)
        drafted, accepted = (_count(names, meta) for names in ((DRAFTED,), ACCEPTED))
        if drafted is None or accepted is None:
            return answer
        differs = None
        if self._ids and tokens != self._ids:
            differs = f"it counts {tokens} tokens, and {self._ids} arrived"
        return replace(answer, counts=(drafted, accepted, int(meta.get("spec_verify_ct", 0))), differs=differs)


def _count(names: tuple[str, ...], meta: Mapping[str, Any]) -> int | None:
    return next((int(meta[name]) for name in names if meta.get(name) is not None), None)


def _rise(names: tuple[str, ...], before: Mapping[str, Any], after: Mapping[str, Any]) -> int | None:
    now = _count(names, after)
    return None if now is None else now - (_count(names, before) or 0)
