"""What servers answer: passes as they arrive, and counts of drafted and accepted tokens, read from the events of each kind.

No server reports which tokens were rejected, only how many, so a pass has counts and no draft. `OpenAI` reads any
OpenAI-compatible server; the other kinds extend it. `tests/fakeserver.py` answers as they do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)  # of a foreign event
MOST_COUNT = 1 << 53  # beyond it a float is not exact
REASONS = {"eos": "stop", "word": "stop", "limit": "length"}
SPEC_DETAILS = {"return_spec_tokens_details": True}
DRAFTED = ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")  # the newest name first
ACCEPTED = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num", "spec_num_accepted_drafts")
PASSES = ("spec_verify_ct",)


@dataclass(frozen=True, slots=True)
class Pass:
    """What arrived together, `at_s` seconds after the request.

    `ids` are empty if the server sends none. `drafted` and `accepted` are None if it does not report them. `pieces` are the
    texts of the single tokens, if it reports those.
    """

    at_s: float
    text: str
    ids: tuple[int, ...] = ()
    drafted: int | None = None
    accepted: int | None = None
    pieces: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """The number of tokens. Without ids, one is assumed."""
        return len(self.ids) or 1


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer.

    `finish` is the server's reason for the end, None if it gave none. `tokens` is the server's own count. `counts` are drafted
    tokens, accepted tokens and passes with a draft, None if it does not report them. `differs` says how they differ from what
    arrived.
    """

    passes: tuple[Pass, ...]
    finish: str | None = None
    tokens: int = 0
    counts: tuple[int, int, int] | None = None
    differs: str | None = None

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.passes)

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(token for part in self.passes for token in part.ids)

    @property
    def whole_s(self) -> float:
        """Seconds from the request to the last token."""
        return self.passes[-1].at_s if self.passes else 0.0

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.whole_s if self.whole_s > 0 else 0.0


def text_in(value: Any) -> str:
    """Return the text of a field that holds a string, null, or a list of parts with text. Half of a surrogate pair becomes a
    replacement character, because no file can hold it. Raises an error of `UNREADABLE`."""
    if value is None:
        return ""
    if isinstance(value, list):
        return "".join(
            text_in(part if isinstance(part, str) else part.get("text") or part.get("thinking")) for part in value
        )
    if not isinstance(value, str):
        raise TypeError(value)
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def ids_in(value: Any) -> tuple[int, ...]:
    """Return the token ids of a field that holds a list of them, or null. Raises an error of `UNREADABLE`."""
    if not isinstance(value, (list, type(None))):
        raise TypeError(value)
    return tuple(map(int, value or ()))


def count_in(value: Any) -> int:
    """Return the count of a field, 0 for null. Raises an error of `UNREADABLE`."""
    count = int(value or 0)
    if not 0 <= count <= MOST_COUNT:
        raise ValueError(value)
    return count


class OpenAI:
    """Reads one answer of any OpenAI-compatible server, event by event: streamed text, and token ids if its chunks have them.

    Reasoning before the answer is text like any other. `name` is the kind of server. `generated` is its Prometheus counter of
    generated tokens, "" if it has none. `reconnects` is set if every text needs a connection of its own. `extra` are fields of
    the first request only.
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
        """Return greedy requests, each a path and a body. The next has fewer fields, for servers that refuse the last."""
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


class VLLM(OpenAI):
    """vLLM 0.32 and later: accepted runs as they stream, and at the end what every pass drafted and accepted.

    It reports passes if it is started with `--per-request-spec-decode-metrics detailed`. The fields are those of a real server
    (`tests/servers/answers`).
    """

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


class SGLang(OpenAI):
    """SGLang: text and ids with every event, and counts of drafted and accepted tokens and of passes.

    A plain prompt goes to its own `/generate`, which returns ids and counts in every version. A chat needs the server's
    template, so it goes to the OpenAI endpoint, and so does a plain prompt if `/generate` is closed. There, a last chunk has
    the counts in `sglext.spec_tokens_details`. This follows SGLang's source and documents; no server could be run here.
    """

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
        before = self._sums()
        details = (event.get("sglext") or {}).get("spec_tokens_details") or event.get("meta_info") or {}
        (details,) = details if isinstance(details, list) else [details]  # a list has one for each choice
        self._counts = details or self._counts
        if "meta_info" not in event:
            super().read(event, at_s)
            return
        meta = event["meta_info"]
        self._usage, reason = meta, meta.get("finish_reason")
        self.finish = text_in(reason.get("type") if isinstance(reason, dict) else reason) or self.finish
        text, ids = self._new(text_in(event.get("text")), ids_in(event.get("output_ids")))
        drafted, accepted, passes = ((now or 0) - (was or 0) for now, was in zip(self._sums(), before, strict=True))
        if drafted <= 0 or passes not in (1, len(ids) - accepted):  # of the whole text, in the last event
            drafted = accepted = None
        if text or ids:
            self.passes.append(Pass(at_s, text, ids, drafted, accepted))

    def _new(self, text: str, ids: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        """Return what is new in an event. It has all text so far, or the new text with `--incremental-streaming-output`."""
        tokens = count_in(self._usage.get("completion_tokens"))
        if len(ids) == tokens if ids and tokens else text.startswith(self._text):
            text, ids = text[len(self._text) :], ids[self._ids :]
        self._text, self._ids = self._text + text, self._ids + len(ids)
        return text, ids

    def _sums(self) -> list[int | None]:
        """Return the drafted tokens, accepted tokens and passes so far, each None if it is not reported."""
        named = ([self._counts.get(name) for name in names] for names in (DRAFTED, ACCEPTED, PASSES))
        return [next((count_in(value) for value in values if value is not None), None) for values in named]

    def answer(self) -> Answer:
        drafted, accepted, passes = self._sums()
        known = drafted is not None and accepted is not None
        return replace(super().answer(), counts=(drafted, accepted, passes or 0) if known else None)


class LlamaServer(OpenAI):
    """llama-server (llama.cpp, build 11434), by its own `/completion`: one token per event, and counts of tokens so far.

    The counts of drafted and accepted tokens rise before the first token of a pass is sent. So a rise marks a pass, and as many
    tokens as it accepted follow the first.
    """

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
        return count_in(self._timings.get("draft_n")), count_in(self._timings.get("draft_n_accepted"))
