"""Responses of servers: passes, and counts of drafted and accepted tokens, read from the events of each kind of server.

Servers report how many tokens were rejected, but not which, so a pass has counts and no draft. `OpenAI` reads the events of any
OpenAI-compatible server; the other kinds extend it. `tests/fakeserver.py` sends the same events.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ..core.events import SettingsError
from ..core.schema import JSON, Schema, as_text

# Raised for unexpected events.
UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
MAX_COUNT = 1 << 53  # larger integers are not exact as floats
REASONS = {"eos": "stop", "word": "stop", "limit": "length"}
SPEC_DETAILS = {"return_spec_tokens_details": True}
DRAFTED = ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")  # the newest name first
ACCEPTED = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num", "spec_num_accepted_drafts")
PASSES = ("spec_verify_ct",)
HISTOGRAM = ("spec_correct_drafts_histogram", "spec_accept_histogram")


@dataclass(frozen=True, slots=True)
class Pass:
    """The tokens of one event, received `at_s` seconds after the request.

    `ids` are empty if the server sends none. `drafted` and `accepted` are None if the server does not report them. `pieces` are
    the texts of single tokens, if the server reports them. `reasoning` is true if the event has reasoning only.
    """

    at_s: float
    text: str
    ids: tuple[int, ...] = ()
    drafted: int | None = None
    accepted: int | None = None
    pieces: tuple[str, ...] = ()
    reasoning: bool = False

    @property
    def tokens(self) -> int:
        """The number of tokens. Without ids, it is assumed to be 1."""
        return len(self.ids) or 1


@dataclass(frozen=True, slots=True)
class Completion:
    """A complete response.

    `finish` is the server's reason for the end, or None. `tokens` is the server's count. `counts` are drafted tokens, accepted
    tokens and passes with a draft, None if the server does not report them. `histogram` has the number of passes that accepted
    0, 1, 2, ... drafted tokens, up to the draft length, and is empty if it is not reported. `prompt_tokens` is 0 if it is not
    reported. `differs` is a sentence on how the counts differ from the received passes, or None.
    """

    passes: tuple[Pass, ...]
    finish: str | None = None
    tokens: int = 0
    counts: tuple[int, int, int] | None = None
    differs: str | None = None
    histogram: tuple[int, ...] = ()
    prompt_tokens: int = 0

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.passes)

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(token for part in self.passes for token in part.ids)

    @property
    def total_s(self) -> float:
        """Seconds from the request to the last token."""
        return self.passes[-1].at_s if self.passes else 0.0

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.total_s if self.total_s > 0 else 0.0


def text_in(value: Any) -> str:
    """Return the text of a field: a string, null, or a list of parts with text. Raises an error of `UNREADABLE`.

    Half of a surrogate pair becomes a replacement character, because it cannot be encoded as UTF-8.
    """
    if value is None:
        return ""
    if isinstance(value, list):
        parts = (part if isinstance(part, str) else part.get("text") or part.get("thinking") for part in value)
        return "".join(map(text_in, parts))
    if not isinstance(value, str):
        raise TypeError(value)
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def ids_in(value: Any) -> tuple[int, ...]:
    """Return the token ids of a field: a list, or null. Raises an error of `UNREADABLE`."""
    if not isinstance(value, (list, type(None))):
        raise TypeError(value)
    return tuple(map(int, value or ()))


def count_in(value: Any) -> int:
    """Return the count of a field, 0 for null. Raises an error of `UNREADABLE`."""
    count = int(value or 0)
    if not 0 <= count <= MAX_COUNT:
        raise ValueError(value)
    return count


def histogram_in(value: Any) -> tuple[int, ...]:
    """Return the counts of a field: a list, or null. Raises an error of `UNREADABLE`."""
    return tuple(map(count_in, ids_in(value)))


def json_schema(schema: Any) -> dict[str, Any] | None:
    """Return a JSON schema as an object; None for no schema, choices or a regular expression. Raises `SettingsError`."""
    try:
        text = as_text(schema or "")
    except ValueError as error:
        raise SettingsError("schema", schema, str(error)) from None
    return json.loads(text) if text and Schema.from_text(text).kind == JSON else None


class OpenAI:
    """Reads one response of any OpenAI-compatible server, event by event: text, and token ids if the chunks have them.

    Reasoning is part of the text. `name` is the kind of server. `generated` is the Prometheus counter of generated tokens, "" if
    there is none. `reconnects` is true if every text needs a new connection. `extra` are fields of the first request only.
    `draft_length` is the field of a request that sets the draft length, "" if there is none.
    """

    name = "openai"
    generated = ""
    reconnects = False
    draft_length = ""
    extra: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        self.passes: list[Pass] = []
        self.finish: str | None = None
        self.prompt_ids: tuple[int, ...] = ()  # empty if the server does not send them
        self._usage: Mapping[str, Any] = {}
        self._reported: Mapping[str, Any] = {}  # the newest counts of drafts, with the names of the kind of server

    @classmethod
    def requests(
        cls, model: str, prompt: str, most: int, chat: bool, schema: Mapping[str, Any] | None = None
    ) -> list[tuple[str, dict[str, Any]]]:
        """Return greedy requests (path, body), in the order to try: each has fewer fields than the one before."""
        body = {"model": model, "max_tokens": most, "temperature": 0, "stream": True}
        if schema:
            body["response_format"] = {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}
        if chat:
            path, body = "/v1/chat/completions", body | {"messages": [{"role": "user", "content": prompt}]}
        else:
            path, body = "/v1/completions", body | {"prompt": prompt}
        counted = body | {"stream_options": {"include_usage": True}}
        return [*([(path, counted | cls.extra)] if cls.extra else []), (path, counted), (path, body)]

    def read(self, event: Mapping[str, Any], at_s: float) -> None:
        """Append the passes of an event. Raises an error of `UNREADABLE` for an unexpected event."""
        self._usage = event.get("usage") or self._usage
        for choice in event.get("choices") or ():
            prompt = choice.get("prompt_token_ids") or event.get("prompt_token_ids")
            self.prompt_ids = ids_in(prompt) or self.prompt_ids
            fields = {**choice, **(choice.get("delta") or {})}
            reasoning = fields.get("reasoning_content") or fields.get("reasoning")  # if both are sent, they are equal
            text = "".join(map(text_in, (reasoning, fields.get("content"), fields.get("text"), fields.get("refusal"))))
            ids = ids_in(choice.get("token_ids"))
            self.finish = text_in(choice.get("finish_reason")) or self.finish
            if text or ids:
                self.passes.append(Pass(at_s, text, ids, reasoning=bool(reasoning) and text == text_in(reasoning)))

    def completion(self) -> Completion:
        """Return the received passes, with counts if they are reported. Raises an error of `UNREADABLE` for invalid counts."""
        completion = Completion(tuple(self.passes), self.finish, sum(part.tokens for part in self.passes))
        tokens, received, differs = _generated(self._usage) or completion.tokens, len(completion.ids), None
        if all(part.ids for part in self.passes) and tokens != received:
            differs = f"it counts {tokens} tokens, and {received} were received"
        prompt_tokens = count_in(self._usage.get("prompt_tokens"))
        return replace(completion, tokens=tokens, differs=differs, prompt_tokens=prompt_tokens)


def _generated(usage: Mapping[str, Any]) -> int:
    """Return the server's count of generated tokens, including reasoning; 0 if there is none."""
    tokens, prompt, total = (count_in(usage.get(f"{name}_tokens")) for name in ("completion", "prompt", "total"))
    with_reasoning = tokens + count_in((usage.get("completion_tokens_details") or {}).get("reasoning_tokens"))
    return with_reasoning if total == prompt + with_reasoning else tokens  # some servers count reasoning separately


class VLLM(OpenAI):
    """vLLM 0.32 and later: each event has the tokens of a pass, and the last event the drafted and accepted tokens of all passes.

    vLLM reports passes if it is started with `--per-request-spec-decode-metrics detailed`. The fields are those of recorded
    responses (`tests/servers/answers`).
    """

    name = "vllm"
    generated = "vllm:generation_tokens_total"
    extra: ClassVar = {"return_token_ids": True, "n": 1}

    def read(self, event, at_s):
        self._reported = (event.get("metrics") or {}).get("speculative_decoding") or self._reported
        super().read(event, at_s)

    def completion(self) -> Completion:
        completion, metrics = super().completion(), self._reported
        if not metrics:
            return completion
        names = ("num_draft_tokens", "num_accepted_draft_tokens", "num_spec_steps")
        counts = tuple(count_in(metrics[name]) for name in names)
        accepted = [*map(count_in, metrics.get("per_step_accepted") or ())]
        drafted = [*map(count_in, metrics.get("per_step_drafted") or ())]
        completion = replace(completion, counts=counts, histogram=histogram_in(metrics.get("acceptance_histogram")))
        if not all(part.ids for part in completion.passes) or not accepted or completion.differs:
            return completion
        if (sum(drafted), sum(accepted), len(accepted)) != counts:
            return replace(completion, differs="its totals differ from the sums over its passes")
        passes, differs = with_counts(completion.passes, accepted, drafted)
        return replace(completion, passes=tuple(passes), differs=differs)


def with_counts(passes: Sequence[Pass], accepted: list[int], drafted: list[int]) -> tuple[list[Pass], str | None]:
    """Return the passes with the counts of the steps that had a draft, and a sentence on how the two differ, or None.

    The first token is the result of the prefill, without a draft. A step has its accepted tokens and one more; the last step
    may have fewer. If a pass has the tokens of several steps, their counts are added.
    """
    counted, step = [], 0
    for number, part in enumerate(passes):
        remaining, sums = part.tokens - (number == 0), [0, 0]
        last = number == len(passes) - 1
        while step < len(accepted) and remaining > 0 and (accepted[step] < remaining or last):
            remaining -= accepted[step] + 1
            sums = [sums[0] + drafted[step], sums[1] + accepted[step]]
            step += 1
        counted.append(replace(part, drafted=sums[0], accepted=sums[1]) if sums[0] else part)
    if step < len(accepted):
        return list(passes), f"it counts {len(accepted)} drafts, but the received tokens account for only {step}"
    return counted, None


class SGLang(OpenAI):
    """SGLang: text and ids in every event, and counts of drafted and accepted tokens and of passes.

    A plain prompt is sent to `/generate`, which returns ids and counts in every version. A chat needs the server's template, so
    it is sent to the OpenAI endpoint. So is a plain prompt with a schema, or if `/generate` is disabled. There, the last chunk has
    the counts in `sglext.spec_tokens_details`. Source: SGLang's code and documentation; no server could be run here.
    """

    name = "sglang"
    extra: ClassVar = SPEC_DETAILS | {"return_token_ids": True}

    def __init__(self) -> None:
        super().__init__()
        self._text, self._ids = "", 0

    @classmethod
    def requests(cls, model, prompt, most, chat, schema=None):
        openai = super().requests(model, prompt, most, chat, schema)
        path, counted = openai[1]
        openai.insert(1, (path, counted | SPEC_DETAILS))  # newer versions refuse `return_token_ids` in streams
        native = {"text": prompt, "sampling_params": {"temperature": 0, "max_new_tokens": most}, "stream": True}
        return openai if chat or schema else [("/generate", native | SPEC_DETAILS), ("/generate", native), *openai]

    def read(self, event, at_s):
        before = self._sums()
        details = (event.get("sglext") or {}).get("spec_tokens_details") or event.get("meta_info") or {}
        (details,) = details if isinstance(details, list) else [details]  # a list has one item per choice
        self._reported = details or self._reported
        if "meta_info" not in event:
            super().read(event, at_s)
            return
        meta = event["meta_info"]
        self._usage, reason = meta, meta.get("finish_reason")
        self.finish = text_in(reason.get("type") if isinstance(reason, dict) else reason) or self.finish
        text, ids = self._new(text_in(event.get("text")), ids_in(event.get("output_ids")))
        pairs = zip(self._sums(), before, strict=True)
        drafted, accepted, passes = ((after_n or 0) - (before_n or 0) for after_n, before_n in pairs)
        if drafted <= 0 or passes not in (1, len(ids) - accepted):  # the last event may have counts of the whole text
            drafted = accepted = None
        if text or ids:
            self.passes.append(Pass(at_s, text, ids, drafted, accepted))

    def _new(self, text: str, ids: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        """Return the new text and ids of an event, which has all so far without `--incremental-streaming-output`."""
        tokens = count_in(self._usage.get("completion_tokens"))
        if len(ids) == tokens if ids and tokens else text.startswith(self._text):
            text, ids = text[len(self._text) :], ids[self._ids :]
        self._text, self._ids = self._text + text, self._ids + len(ids)
        return text, ids

    def _sums(self) -> list[int | None]:
        """Return the drafted tokens, accepted tokens and passes so far, each None if it is not reported."""
        named = (self._newest(names) for names in (DRAFTED, ACCEPTED, PASSES))
        return [None if value is None else count_in(value) for value in named]

    def _newest(self, names: Sequence[str]) -> Any:
        return next((value for name in names if (value := self._reported.get(name)) is not None), None)

    def completion(self) -> Completion:
        drafted, accepted, passes = self._sums()
        completion, histogram = super().completion(), histogram_in(self._newest(HISTOGRAM))
        if drafted is None or accepted is None:
            return completion
        return replace(completion, counts=(drafted, accepted, passes or 0), histogram=histogram)


class TensorRTLLM(OpenAI):
    """trtllm-serve: text in every event. The last event of a choice has the counts of the text and a histogram.

    It reports them if `per_request_spec_decode_stats` is set in the file of its options, with the PyTorch backend. The fields are
    those that AIPerf 0.14 reads; no server could be run here.
    """

    name = "tensorrt-llm"

    def read(self, event, at_s):
        for choice in event.get("choices") or ():
            self._reported = choice.get("speculative_decoding") or self._reported
        super().read(event, at_s)

    def completion(self) -> Completion:
        completion, reported = super().completion(), self._reported
        if not reported:
            return completion
        names = ("total_draft_tokens", "total_accepted_draft_tokens", "num_spec_steps")
        counts = tuple(count_in(reported[name]) for name in names)
        return replace(completion, counts=counts, histogram=histogram_in(reported.get("acceptance_histogram")))


class LlamaServer(OpenAI):
    """llama-server (llama.cpp, build 11434), with its endpoint `/completion`: one token per event, and counts so far.

    The counts of drafted and accepted tokens increase before the first token of a pass is sent. So an increase marks a new pass,
    and its accepted tokens follow the first token.
    """

    name = "llama-server"
    generated = "llamacpp:tokens_predicted_total"
    draft_length = "speculative.n_max"  # older versions read it; newer versions ignore it
    reconnects = True  # build 11434 closes one in twenty of its kept-alive connections during a text

    def __init__(self) -> None:
        super().__init__()
        self._due = 0  # tokens of the last pass that are not received yet

    @classmethod
    def requests(cls, model, prompt, most, chat, schema=None):
        return [("/completion", {
            "prompt": prompt, "n_predict": most, "temperature": 0, "stream": True, "return_tokens": True, "cache_prompt": False,
            "timings_per_token": True, **({"json_schema": schema} if schema else {}),
        })]  # fmt: skip

    def read(self, event, at_s):
        before = self._counts()
        self._reported = event.get("timings") or self._reported
        drafted, accepted = (after_n - before_n for after_n, before_n in zip(self._counts(), before, strict=True))
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
            current = replace(last, text=last.text + text, ids=last.ids + ids, pieces=last.pieces + pieces)
        else:
            self._due = accepted
            current = Pass(at_s, text, ids, drafted or None, accepted if drafted else None, pieces)
        self.passes.append(current)

    def completion(self) -> Completion:
        completion, counts = super().completion(), self._counts()
        completion = replace(completion, prompt_tokens=count_in(self._reported.get("prompt_n")))
        if not counts[0]:
            return completion
        steps = [part for part in self.passes if part.drafted]
        sums = sum(part.drafted for part in steps), sum(part.accepted for part in steps)
        differs = None if sums == counts else "its counts decreased, so its passes are unknown"
        return replace(completion, counts=(*counts, len(steps)), differs=differs)

    def _counts(self) -> tuple[int, int]:
        return count_in(self._reported.get("draft_n")), count_in(self._reported.get("draft_n_accepted"))
