"""Acceptance records, one per text, in the common format of AIPerf and vLLM: read, summarized, and converted to a trace.

`AcceptanceRecord` has the fields of AIPerf's `SpecDecodeAcceptanceRecord` (0.13): those of vLLM's
`metrics.speculative_decoding`, and the engine's name. `read` accepts JSON or JSON lines of such records, of AIPerf's records
(`spec_decode_acceptance`), of responses of vLLM, SGLang and TensorRT-LLM, and of our traces, whose lanes become records. A record
has no text and no times. So `to_trace` shows each token as a box, and each pass takes `PASS_S`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ..core.acceptance import Acceptance
from ..core.events import ACCEPTED, BONUS, CORRECTION, TraceError
from ..core.numbers import count, counted
from ..core.text_files import lines
from ..core.version import VERSION
from ..measure.intervals import interval
from ..trace import schema
from ..trace.parsing import decode_text, first_error, max_entries, parse_json
from ..trace.trace import Trace
from .replies import UNREADABLE, OpenAI, SGLang, TensorRTLLM

MAX_RECORDS, MAX_LINES = 20_000, 100_000
Number = Annotated[int, Field(ge=0, lt=1 << 40)]
MAX_LENGTH = 4096
Length = Annotated[int, Field(ge=0, le=MAX_LENGTH)]  # of a draft, or of its accepted tokens
Steps = Annotated[list[Length], Field(max_length=200_000, fail_fast=True)]
ENGINES: dict[type[OpenAI], str] = {SGLang: "sglang", TensorRTLLM: "tensorrt_llm"}  # with AIPerf's names
PASS_S = 0.1
MAX_TOKENS = 10_000  # in a trace of records
TOKEN = "\u25af "  # a box instead of text
PROMPT = "A record has no text. "
FIXED = "tokens after a rejection were not tested; positions that no draft reached count as the average of all others"
VARYING = "there is no forecast of tokens per pass, because forecasts need one fixed draft length, and lengths vary or are unknown"


class AcceptanceRecord(BaseModel):
    """The acceptance of one text's drafts.

    `acceptance_histogram` maps a number of accepted tokens to the number of passes that accepted this many. `per_step_*` list the
    passes in order, if the engine reports them. `num_spec_tokens` is the largest draft length, if there is a limit.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    engine: schema.Name
    mean_acceptance_length: Annotated[float, Field(allow_inf_nan=False, ge=0, le=1e6)]
    draft_acceptance_rate: Annotated[float, Field(allow_inf_nan=False, ge=0, le=1)]
    acceptance_histogram: Annotated[dict[Length, Number], max_entries(MAX_LENGTH + 1)]
    num_accepted_draft_tokens: Number
    num_draft_tokens: Number
    num_spec_steps: Number
    num_spec_tokens: Number | None = None
    completion_tokens: Number | None = None
    per_step_accepted: Steps | None = None
    per_step_drafted: Steps | None = None

    @field_validator("acceptance_histogram", mode="before")
    @classmethod
    def _sparse(cls, value: Any) -> Any:
        """Convert a list, which some engines send: the number of passes that accepted 0, 1, 2, ... tokens."""
        return {n: count for n, count in enumerate(value) if count} if isinstance(value, list) else value

    @model_validator(mode="after")
    def _agrees(self) -> AcceptanceRecord:
        counts = self.acceptance_histogram
        if sum(counts.values()) != self.num_spec_steps:
            raise ValueError("the sum of the histogram's counts is not num_spec_steps")
        if sum(n * count for n, count in counts.items()) != self.num_accepted_draft_tokens:
            raise ValueError("the sum of the histogram's tokens is not num_accepted_draft_tokens")
        if self.num_accepted_draft_tokens > self.num_draft_tokens:
            raise ValueError("more tokens were accepted than drafted")
        if self.per_step_accepted is not None and Counter(self.per_step_accepted) != Counter(counts):
            raise ValueError("per_step_accepted does not match the histogram")
        if self.per_step_drafted is not None and len(self.per_step_drafted) != len(self.per_step_accepted or ()):
            raise ValueError("per_step_drafted and per_step_accepted must have the same length")
        return self

    @classmethod
    def from_lane(cls, lane: schema.LaneRecord, engine: str = "lookahead") -> AcceptanceRecord | None:
        """Return the record of a lane, None if it drafted nothing. The length of a tree is its depth."""
        drafted = [step for step in lane.verified if step.depth]
        if not drafted:
            return None
        accepted, depths = [step.accepted for step in drafted], [step.depth for step in drafted]
        return cls(
            engine=engine, mean_acceptance_length=1 + sum(accepted) / len(drafted),
            draft_acceptance_rate=sum(accepted) / sum(depths), acceptance_histogram=dict(sorted(Counter(accepted).items())),
            num_accepted_draft_tokens=sum(accepted), num_draft_tokens=sum(depths), num_spec_steps=len(drafted),
            completion_tokens=len(lane.tokens), per_step_accepted=accepted, per_step_drafted=depths,
        )  # fmt: skip

    @property
    def drafts(self) -> Counter[tuple[int, bool]]:
        """The number of drafts by (accepted tokens, whether the next token was rejected).

        In a histogram, only passes that accepted a draft of the full length had no rejected token.
        """
        if self.per_step_accepted is not None and self.per_step_drafted is not None:
            pairs = zip(self.per_step_accepted, self.per_step_drafted, strict=True)
            return Counter((accepted, accepted < drafted) for accepted, drafted in pairs)
        most = self.num_spec_tokens or max(self.acceptance_histogram, default=0)
        return Counter({(n, n < most): count for n, count in self.acceptance_histogram.items() if count})

    @property
    def has_fixed_length(self) -> bool:
        """Whether all passes drafted the same number of tokens. The last pass may have drafted fewer."""
        if self.per_step_drafted:
            *full, last = self.per_step_drafted
            return len({*full}) <= 1 and last <= max(full, default=last)
        return self.num_spec_tokens is not None and self.num_draft_tokens == self.num_spec_tokens * self.num_spec_steps


def read(data: str | bytes) -> list[AcceptanceRecord]:
    """Return the records in a file. Lines without drafts are skipped. Raises `TraceError` with the number of an invalid line."""
    text = decode_text(data, "records")
    records: list[AcceptanceRecord] = []
    for position, document in _documents(text):
        try:
            records += _records(document)
        except ValidationError as error:
            field, message = first_error(error)
            raise TraceError("records", position, f"{field or 'record'}: {message}.") from None
        if len(records) > MAX_RECORDS:
            raise TraceError("records", position, f"a file has at most {counted(MAX_RECORDS, 'record')}.")
    if not records:
        raise TraceError("records", "none", "give AIPerf's records, responses of engines, or one of our traces.")
    return records


def _documents(text: str) -> Iterator[tuple[str, Any]]:
    """Yield one JSON document, or one per line, each with its position for error messages."""
    too_large = None
    try:
        yield "file", parse_json(text, "records")
        return
    except TraceError as error:
        too_large = error  # raised later, unless the text is JSON lines
    except ValueError:
        pass
    if (ends := text.count("\n") + text.count("\r")) > MAX_LINES:
        raise too_large or TraceError("records", counted(ends, "line"), f"a file has at most {count(MAX_LINES)}.")
    for number, line in enumerate(lines(text), start=1):
        if line.strip():
            try:
                document = parse_json(line, "records")
            except TraceError:
                raise
            except ValueError:
                raise too_large or TraceError("records", f"line {number}", "it is not JSON.") from None
            yield f"line {number}", document


def _records(data: Any) -> Sequence[AcceptanceRecord]:
    if isinstance(data, list):
        return [record for item in data for record in _records(item)]
    if not isinstance(data, dict):
        return []
    if data.get("schema") == schema.SCHEMA:
        return [record for lane in Trace.model_validate(data).lanes if (record := AcceptanceRecord.from_lane(lane))]
    if isinstance(nested := data.get("spec_decode_acceptance"), dict):
        return [AcceptanceRecord.model_validate(nested)]
    metrics = data.get("metrics")
    if isinstance(metrics, dict) and isinstance(counts := metrics.get("speculative_decoding"), dict):
        usage = data.get("usage")
        tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
        return [AcceptanceRecord.model_validate({"engine": "vllm", "completion_tokens": tokens} | counts)]
    if "acceptance_histogram" in data:
        return [AcceptanceRecord.model_validate(data)]
    try:
        return [record for kind in ENGINES if (record := _response_record(kind, data))]
    except ValidationError:  # the counts contradict each other
        raise
    except UNREADABLE:
        return []


def _response_record(kind: type[OpenAI], data: dict[str, Any]) -> AcceptanceRecord | None:
    """Return the record of a complete response, None if it has no histogram. Raises an error of `UNREADABLE`."""
    reply = kind()
    reply.read(data, 0.0)
    completion = reply.completion()
    if not completion.counts or not completion.histogram:
        return None
    drafted, accepted, passes = completion.counts
    return AcceptanceRecord(
        engine=ENGINES[kind], mean_acceptance_length=1 + accepted / max(1, passes), draft_acceptance_rate=accepted / max(1, drafted),
        acceptance_histogram=dict(enumerate(completion.histogram)), num_accepted_draft_tokens=accepted, num_draft_tokens=drafted,
        num_spec_steps=passes, num_spec_tokens=len(completion.histogram) - 1, completion_tokens=completion.tokens or None,
    )  # fmt: skip


def summarize(records: Sequence[AcceptanceRecord]) -> dict[str, Any]:
    """Return the acceptance of all texts, with 90% intervals over texts, by position, and forecasts of tokens per pass.

    There are forecasts only if all drafts had a fixed length. Drafts that end at low confidence would make them too high.
    """
    drafts: Counter[tuple[int, bool]] = Counter()
    for record in records:
        drafts.update(record.drafts)
    acceptance = Acceptance.from_counts(drafts)
    fixed = all(record.has_fixed_length for record in records)
    return {
        "texts": len(records), "engines": sorted({record.engine for record in records}),
        "num_spec_steps": sum(record.num_spec_steps for record in records),
        "mean_acceptance_length": _length(records), "interval": interval(records, _length),
        "draft_acceptance_rate": sum(r.num_accepted_draft_tokens for r in records) / max(1, sum(r.num_draft_tokens for r in records)),
        "by_position": [
            {"position": position, "accepted": accepted, "tested": tested, "rate": accepted / tested}
            for position, (accepted, tested) in enumerate(zip(acceptance.accepted, acceptance.tested, strict=True), start=1)
        ],
        "tokens_per_pass": [{"k": k, "tokens": _tokens(acceptance, k)} for k in range(1, 17)] if fixed else [],
        "note": FIXED if fixed else VARYING,
    }  # fmt: skip


def _length(records: Sequence[AcceptanceRecord]) -> float:
    steps = sum(record.num_spec_steps for record in records)
    return 1 + sum(record.num_accepted_draft_tokens for record in records) / max(1, steps)


def _tokens(acceptance: Acceptance, k: int) -> float:
    return sum(chance * (1 + n) for n, chance in enumerate(acceptance.chances(k)))


def open_trace(text: str) -> tuple[Trace, str]:
    """Return the trace in a file, or a trace of its acceptance records, and a sentence on its source. Raises `TraceError`."""
    if f'"{schema.SCHEMA}"' in text:
        trace = Trace.from_json(text)
        return trace, f"A recording from a file, made on {trace.machine.cpu}."
    records = read(text)
    trace = to_trace(records)
    shown = len(trace.lanes)
    part = "" if shown == len(records) else f" The first {shown} of {counted(len(records), 'text')}."
    source = f"An acceptance record of {trace.models.target}, without text and times."
    return trace, f"{source} Each box is a token, and each pass takes a tenth of a second.{part}"


def to_trace(records: Sequence[AcceptanceRecord]) -> Trace:
    """Return a trace of the first records that list their passes, within the limits. Raises `TraceError` for none."""
    detailed = [record for record in records if record.per_step_accepted and record.per_step_drafted]
    lengths = accumulate(record.num_accepted_draft_tokens + record.num_spec_steps for record in detailed)
    fitting = [record for record, tokens in zip(detailed, lengths, strict=True) if tokens <= MAX_TOKENS]
    playable = fitting[: schema.MAX_LANES]
    if not playable:
        fault = f"none lists its passes and has at most {count(MAX_TOKENS)} tokens, so there is nothing to play"
        hint = f"{fault}. `python -m lookahead acceptance FILE` summarizes them."
        raise TraceError("records", counted(len(records), "text"), hint)
    lanes = [_lane(record, number, len(playable)) for number, record in enumerate(playable, start=1)]
    engines = ", ".join(dict.fromkeys(record.engine for record in playable))[:150]
    models = schema.ModelNames(spec=f"records:{engines}", target=engines)
    most = max(1, *(len(lane.tokens) for lane in lanes))
    prompt = schema.PromptRecord(text=PROMPT, tokens=[], pieces=[])
    return build_trace(f"a record of {engines}", models, prompt, lanes, PASS_S, most)


def _lane(record: AcceptanceRecord, number: int, lanes: int) -> schema.LaneRecord:
    name = record.engine[:150] + (f", text {number}" if lanes > 1 else "")
    passes = [*zip(record.per_step_accepted, record.per_step_drafted, strict=True)]
    steps = [
        schema.StepRecord(
            kind="verify", index=index, emitted=[0] * (accepted + 1), pieces=[TOKEN] * (accepted + 1), verify_s=PASS_S,
            origins=origins(accepted + 1, accepted, drafted), drafted=drafted, finish="stop" if index == len(passes) else None,
        )
        for index, (accepted, drafted) in enumerate(passes, start=1)
    ]  # fmt: skip
    prefill = schema.StepRecord(kind="prefill", index=0)
    return schema.LaneRecord(method=name, opaque=True, options={"server": name}, steps=[prefill, *steps])


def origins(tokens: int, accepted: int, drafted: int | None) -> list[str]:
    """Return the origins of a pass's tokens: `accepted` drafted tokens, then the target's."""
    from_target = CORRECTION if drafted and accepted < drafted else BONUS
    return [*[ACCEPTED] * accepted, *[from_target] * (tokens - accepted)]


def build_trace(
    source: str, models: schema.ModelNames, prompt: schema.PromptRecord, lanes: list[schema.LaneRecord], pass_s: float, most: int, *,
    chat: bool = False, created: str | None = None,
) -> Trace:  # fmt: skip
    """Return the trace of a greedy race of other engines. `source` is recorded as the processor."""
    return Trace(
        created=created or now(), version=VERSION, exactness="tie-aware", models=models, prompt=prompt, lanes=lanes,
        machine=schema.Machine(cpu=source, cores=1, threads=1, device="server", dtype="unknown", torch="unknown"),
        settings=schema.SettingsRecord(
            max_new_tokens=most, k="auto", temperature=0, top_k=0, top_p=1, repetition_penalty=1, seed=0, rule="greedy", stop=[],
            chat=chat,
        ),
        costs=schema.Costs(rows=[1], seconds=[pass_s]),
    )  # fmt: skip


def now() -> str:
    """Return the current time in the format of a trace's `created`."""
    return datetime.now(UTC).isoformat(timespec="seconds")
