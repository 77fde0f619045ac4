"""SGLang: text and ids with every event, and counts of drafted and accepted tokens and of passes.

A plain prompt goes to SGLang's own `/generate`, which returns ids and counts in every version. A chat needs the server's
template, so it goes to the OpenAI endpoint, and so does a plain prompt if `/generate` is closed. There
`return_spec_tokens_details` requests the counts, and a last chunk has them in `sglext.spec_tokens_details`.

Names differ between versions. No SGLang server could be run here: this follows its source and documents, and
`tests/fakeserver.py` answers the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from .openai import OpenAI
from .reply import Answer, Pass, count_in, ids_in, text_in

SPEC_DETAILS = {"return_spec_tokens_details": True}
DRAFTED = ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")  # the newest name first
ACCEPTED = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num", "spec_num_accepted_drafts")
PASSES = ("spec_verify_ct",)


class SGLang(OpenAI):
    """An answer of SGLang's `/generate`, or of its OpenAI-compatible endpoints."""

    name = "sglang"
    extra: ClassVar = SPEC_DETAILS | {"return_token_ids": True}

    def __init__(self) -> None:
        super().__init__()
        self._counts: Mapping[str, Any] = {}
        self._text, self._ids = "", 0

    @classmethod
    def requests(cls, model, prompt, most, chat):
        usual = super().requests(model, prompt, most, chat)
        sampling = {"temperature": 0, "max_new_tokens": most}
        native = {"text": prompt, "sampling_params": sampling, "stream": True}
        return usual if chat else [("/generate", native | SPEC_DETAILS), ("/generate", native), *usual]

    def read(self, event, at_s):
        before = self._counts
        details = (event.get("sglext") or {}).get("spec_tokens_details") or event.get("meta_info") or {}
        (details,) = details if isinstance(details, list) else [details]  # a list has one for each choice
        self._counts = details or before
        if "meta_info" not in event:
            super().read(event, at_s)
            return
        meta = event["meta_info"]
        self._usage, reason = meta, meta.get("finish_reason")
        self.finish = text_in(reason.get("type") if isinstance(reason, dict) else reason) or self.finish
        text, ids = self._new(text_in(event.get("text")), ids_in(event.get("output_ids")))
        if text or ids:
            self.passes.append(Pass(at_s, text, ids, *self._of_pass(before, len(ids))))

    def _new(self, text: str, ids: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        """Return what is new in an event. It has all text so far, or the new text with `--incremental-streaming-output`."""
        tokens = count_in(self._usage.get("completion_tokens"))
        if len(ids) == tokens if ids and tokens else text.startswith(self._text):
            text, ids = text[len(self._text) :], ids[self._ids :]
        self._text, self._ids = self._text + text, self._ids + len(ids)
        return text, ids

    def _of_pass(self, before: Mapping[str, Any], tokens: int) -> tuple[int | None, int | None]:
        """Return the drafted and accepted tokens of one event, or None twice.

        Usually the counts are of the whole text: they come with the last event.
        """
        drafted, accepted, passes = (
            (_count(names, self._counts) or 0) - (_count(names, before) or 0) for names in (DRAFTED, ACCEPTED, PASSES)
        )
        return (drafted, accepted) if drafted > 0 and (passes == 1 or passes + accepted == tokens) else (None, None)

    def answer(self) -> Answer:
        drafted, accepted, passes = (_count(names, self._counts) for names in (DRAFTED, ACCEPTED, PASSES))
        known = drafted is not None and accepted is not None
        return replace(super().answer(), counts=(drafted, accepted, passes or 0) if known else None)


def _count(names: tuple[str, ...], counts: Mapping[str, Any]) -> int | None:
    return next((count_in(counts[name]) for name in names if counts.get(name) is not None), None)
