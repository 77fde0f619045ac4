"""Acceptance that travels: one record a text, in the shape that AIPerf and vLLM share, read and written.

`AcceptanceRecord` has the fields of AIPerf's `SpecDecodeAcceptanceRecord` (0.13), which are those of vLLM's
`metrics.speculative_decoding` and the engine's name. `read` takes JSON or JSON lines of such records, of AIPerf's records
(`spec_decode_acceptance`), of vLLM's answers, and our own traces, whose lanes it turns into records.

Knows records. It does not know what is made of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ..core.acceptance import Acceptance
from ..core.events import TraceError
from ..core.numbers import count, counted
from ..core.text_files import lines
from .parsing import at_most, fault, parsed, text_of, uncollected
from .records import Name
from .schema import SCHEMA, LaneRecord, RaceRecord

MOST_RECORDS, MOST_LINES = 20_000, 100_000
Number = Annotated[int, Field(ge=0, lt=1 << 40)]
MOST_LENGTH = 4096
Length = Annotated[int, Field(ge=0, le=MOST_LENGTH)]  # of a draft, or of its accepted beginning
Steps = Annotated[list[Length], Field(max_length=200_000, fail_fast=True)]


class AcceptanceRecord(BaseModel):
    """How far the drafts of one text got. The histogram says how many passes accepted so many drafted tokens; `per_step_*` are in
    the order of the passes, where the engine tells; `num_spec_tokens` is the most a pass drafts, where there is a bound."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    engine: Name
    mean_acceptance_length: Annotated[float, Field(allow_inf_nan=False, ge=0, le=1e6)]
    draft_acceptance_rate: Annotated[float, Field(allow_inf_nan=False, ge=0, le=1)]
    acceptance_histogram: Annotated[dict[Length, Number], at_most(MOST_LENGTH + 1)]
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
        if self.per_step_accepted is not None and Counter(self.per_step_accepted) != Counter(counts):
            raise ValueError("per_step_accepted is not what the histogram counts")
        if self.per_step_drafted is not None and len(self.per_step_drafted) != len(self.per_step_accepted or ()):
            raise ValueError("per_step_drafted and per_step_accepted must be of the same passes")
        return self

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
    def drafts(self) -> Counter[tuple[int, bool]]:
        """Count drafts by (accepted tokens, whether the next token was rejected).

        The counts come from the passes if the record has them, else from the histogram. There, a pass that accepted the most
        tokens a pass can draft had no rejected token.
        """
        if self.per_step_accepted is not None and self.per_step_drafted is not None:
            pairs = zip(self.per_step_accepted, self.per_step_drafted, strict=True)
            return Counter((accepted, accepted < drafted) for accepted, drafted in pairs)
        most = self.num_spec_tokens or max(self.acceptance_histogram, default=0)
        return Counter({(n, n < most): count for n, count in self.acceptance_histogram.items() if count})

    @property
    def has_fixed_length(self) -> bool:
        """Whether every pass drafted equally many tokens. The last pass may have drafted fewer, because the text ended."""
        if self.per_step_drafted:
            return len({*self.per_step_drafted[:-1]}) <= 1 and self.per_step_drafted[-1] <= max(
                self.per_step_drafted[:-1], default=MOST_LENGTH
            )
        return self.num_spec_tokens is not None and self.num_draft_tokens == self.num_spec_tokens * self.num_spec_steps

    @property
    def acceptance(self) -> Acceptance:
        """Return acceptance by position."""
        return Acceptance.of_counts(self.drafts)


def read(data: str | bytes) -> list[AcceptanceRecord]:
    """The records in a file's text; lines that tell nothing of drafts are passed over. `TraceError` says what is wrong."""
    text = text_of(data, "records")
    records: list[AcceptanceRecord] = []
    with uncollected():
        for where, document in _documents(text):
            try:
                records += _records(document)
            except ValidationError as error:
                field, words = fault(error)
                raise TraceError("records", where, f"{field or 'record'}: {words}.") from None
            if len(records) > MOST_RECORDS:
                raise TraceError("records", where, f"a file has at most {counted(MOST_RECORDS, 'record')}.")
    if not records:
        raise TraceError("records", "none", "give AIPerf's records, vLLM's answers, or a trace of ours.")
    return records


def _documents(text: str) -> Iterator[tuple[str, Any]]:
    """One JSON document, or one on every line, each with where it stands."""
    too_large = None
    try:
        yield "file", parsed(text, "records")
        return
    except TraceError as error:
        too_large = error  # unless it is JSON lines
    except ValueError:
        pass
    if (ends := text.count("\n") + text.count("\r")) > MOST_LINES:
        raise too_large or TraceError("records", counted(ends, "line"), f"a file has at most {count(MOST_LINES)}.")
    for number, line in enumerate(lines(text), start=1):
        if line.strip():
            try:
                document = parsed(line, "records")
            except TraceError:
                raise
            except ValueError:
                raise too_large or TraceError("records", f"line {number}", "it is not JSON.") from None
            yield f"line {number}", document


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
