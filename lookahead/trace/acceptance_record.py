"""Acceptance that travels: one record a text, in the shape that AIPerf and vLLM share, read and written.

`AcceptanceRecord` has the fields of AIPerf's `SpecDecodeAcceptanceRecord` (0.13), which are those of vLLM's
`metrics.speculative_decoding` and the engine's name. `read` takes JSON or JSON lines of such records, of AIPerf's records
(`spec_decode_acceptance`), of vLLM's answers, and our own traces, whose lanes it turns into records.

Knows records. It does not know what is made of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ..core.acceptance import Acceptance
from ..core.events import TraceError
from ..core.numbers import size
from ..core.text_files import decoded, lines
from .records import Name
from .schema import MOST_BYTES, SCHEMA, LaneRecord, RaceRecord

MOST_RECORDS = 100_000
Number = Annotated[int, Field(ge=0, lt=1 << 40)]
Steps = Annotated[list[Annotated[int, Field(ge=0, le=4096)]], Field(max_length=200_000)]


class AcceptanceRecord(BaseModel):
    """How far the drafts of one text got. The histogram says how many passes accepted so many drafted tokens; `per_step_*` are in
    the order of the passes, where the engine tells; `num_spec_tokens` is the most a pass drafts, where there is a bound."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    engine: Name
    mean_acceptance_length: Annotated[float, Field(allow_inf_nan=False, ge=0, le=1e6)]
    draft_acceptance_rate: Annotated[float, Field(allow_inf_nan=False, ge=0, le=1)]
    acceptance_histogram: Annotated[dict[Number, Number], Field(max_length=4096)]
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
        """Some engines send a list: the count of passes that accepted none, one, two, ..."""
        return {n: count for n, count in enumerate(value) if count} if isinstance(value, list) else value

    @model_validator(mode="after")
    def _agrees(self) -> AcceptanceRecord:
        counts = self.acceptance_histogram
        if sum(counts.values()) != self.num_spec_steps:
            raise ValueError("the histogram's counts are not num_spec_steps")
        if sum(n * count for n, count in counts.items()) != self.num_accepted_draft_tokens:
            raise ValueError("the histogram's tokens are not num_accepted_draft_tokens")
        if self.num_accepted_draft_tokens > self.num_draft_tokens:
            raise ValueError("more tokens were accepted than drafted")
        if self.per_step_accepted is not None and Counter(self.per_step_accepted) != Counter(self._histogram()):
            raise ValueError("per_step_accepted is not what the histogram counts")
        if self.per_step_drafted is not None and len(self.per_step_drafted) != len(self.per_step_accepted or ()):
            raise ValueError("per_step_drafted and per_step_accepted must be of the same passes")
        return self

    def _histogram(self) -> Iterator[int]:
        return (n for n, count in self.acceptance_histogram.items() for _ in range(count))

    @classmethod
    def of_lane(cls, lane: LaneRecord, engine: str = "lookahead") -> AcceptanceRecord | None:
        """The record of a lane that has drafted; of trees, levels count."""
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
    def acceptance(self) -> Acceptance:
        """By position: from the passes where they are told, else from the histogram, where a pass that accepted as many as any
        pass may draft had nothing refused."""
        if self.per_step_accepted is not None and self.per_step_drafted is not None:
            pairs = zip(self.per_step_accepted, self.per_step_drafted, strict=True)
            return Acceptance.of_counts((accepted, accepted < drafted) for accepted, drafted in pairs)
        most = self.num_spec_tokens or max(self.acceptance_histogram, default=0)
        return Acceptance.of_counts((n, n < most) for n in self._histogram())


def read(text: str | bytes) -> list[AcceptanceRecord]:
    """The records in a file's text; lines that tell nothing of drafts are passed over. `TraceError` says what is wrong."""
    if len(text) > MOST_BYTES:
        raise TraceError("records", size(len(text)), f"a file of records has at most {size(MOST_BYTES)}.")
    try:
        text = decoded(text)
    except UnicodeError as error:
        raise TraceError("records", "file", str(error)) from None
    records: list[AcceptanceRecord] = []
    for where, data in _documents(text):
        try:
            records += _records(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(str(part) for part in first["loc"])
            raise TraceError("records", where, f"{field or 'record'}: {first['msg']}.") from None
        if len(records) > MOST_RECORDS:
            raise TraceError("records", where, "there are more than can be read.")
    if not records:
        raise TraceError("records", "none", "give AIPerf's records, vLLM's answers, or a trace of ours.")
    return records


def _documents(text: str) -> Iterator[tuple[str, Any]]:
    """One JSON document, or one on every line, each with where it stands."""
    try:
        yield "file", json.loads(text)
        return
    except (ValueError, RecursionError):
        pass  # it may be JSON lines
    for number, line in enumerate(lines(text), start=1):
        if line.strip():
            try:
                yield f"line {number}", json.loads(line)
            except (ValueError, RecursionError):
                raise TraceError("records", f"line {number}", "it is not JSON.") from None


def _records(data: Any) -> Sequence[AcceptanceRecord]:
    if isinstance(data, list):
        return [record for one in data for record in _records(one)]
    if not isinstance(data, dict):
        return []
    if data.get("schema") == SCHEMA:
        return [one for lane in RaceRecord.model_validate(data).lanes if (one := AcceptanceRecord.of_lane(lane))]
    if isinstance(nested := data.get("spec_decode_acceptance"), dict):
        return [AcceptanceRecord.model_validate(nested)]
    metrics = data.get("metrics")
    if isinstance(metrics, dict) and isinstance(counts := metrics.get("speculative_decoding"), dict):
        usage = data.get("usage")
        rest = {
            "engine": "vllm",
            "completion_tokens": usage.get("completion_tokens") if isinstance(usage, dict) else None,
        }
        return [AcceptanceRecord.model_validate(rest | counts)]
    return [AcceptanceRecord.model_validate(data)] if "acceptance_histogram" in data else []
