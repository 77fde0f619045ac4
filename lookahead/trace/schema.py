"""Records of a race, which are saved as JSON, validated and played.

The records mirror `Step` and add the text of each token. One definition validates untrusted files, with limits on every
field, and generates the published JSON schema (`trace.schema.json`). Statistics and the verdict are computed from the records
alone. So a file from another machine gives the same numbers as a live race.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from ..core.acceptance import Acceptance
from ..core.costs import PassCosts, PricedRun
from ..core.events import WINDOW, Step, TraceError
from ..core.numbers import count
from ..core.schema import MAX_CHARACTERS
from ..core.tree import depths
from ..drafting import level_rows
from . import verdict
from .parsing import decode_text, first_error, max_entries, parse_json
from .results import Badge, Statistics, Verdict

SCHEMA = "lookahead-trace/1"
MAX_BYTES = 12_000_000
MAX_STEPS = 100_000
MAX_LANES = 8
MAX_PASSES = 16_000  # of all lanes in a file; four lanes of 2,000 tokens have at most half as many

Token = Annotated[int, Field(ge=0, lt=1 << 31)]
Row = Annotated[int, Field(ge=-1, lt=1 << 16)]
Text = Annotated[str, Field(max_length=10_000)]
Name = Annotated[str, Field(max_length=200)]
ModelSource = Annotated[str, Field(max_length=10_000)]  # a model: a hub name, or folders of any length
Real = Annotated[float, Field(allow_inf_nan=False, ge=-1e12, le=1e12)]
Seconds = Annotated[float, Field(allow_inf_nan=False, ge=0, le=1e7)]
Average = Annotated[float, Field(allow_inf_nan=False, ge=0, le=1e7)]
NonNegativeInt = Annotated[int, Field(ge=0, lt=1 << 63)]
Tokens = Annotated[list[Token], Field(max_length=200_000, fail_fast=True)]
T = TypeVar("T")
ByRow = Annotated[list[T], Field(max_length=4096, fail_fast=True)]
Rows = ByRow[Row]
Texts = Annotated[list[Text], Field(max_length=200_000, fail_fast=True)]
PASS_COSTS = TypeAdapter(PassCosts)
Option = bool | Annotated[int, Field(gt=-(1 << 53), lt=1 << 53)] | Real | Name


class Record(BaseModel):
    """Base of the records. They are frozen, and unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True)


class Machine(Record):
    """The machine and the device that ran the race."""

    cpu: Name
    cores: Annotated[int, Field(ge=1, le=1 << 20)]
    threads: Annotated[int, Field(ge=1, le=1 << 20)]
    device: Name
    dtype: Name
    torch: Name
    price: Annotated[float, Field(gt=0, le=1000)] = 1.0  # not used any more; older traces have it


class HeadRecord(Record):
    """A trained head. It reads the target's hidden states after layers `taps` of `layers` and drafts `slots` tokens per pass.

    In a `markov` head, each slot reads the token before it. A `confident` head predicts how likely each token is accepted.
    """

    name: Name
    taps: Annotated[list[NonNegativeInt], Field(max_length=4096, fail_fast=True)]
    layers: Annotated[NonNegativeInt, Field(ge=1)]
    slots: Annotated[NonNegativeInt, Field(ge=1)]
    markov: bool = False
    confident: bool = False


class RollbackRecord(Record):
    """The target's layers with keys, those of them with a sliding window, and its recurrent layers."""

    keys: NonNegativeInt
    windows: NonNegativeInt = 0
    recurrent: NonNegativeInt = 0


class ExpertsRecord(Record):
    """The target's layers with a mixture of experts, the experts of each, and those that one row activates."""

    layers: Annotated[NonNegativeInt, Field(ge=1)]
    total: Annotated[NonNegativeInt, Field(ge=1)]
    per_row: Annotated[NonNegativeInt, Field(ge=1)]


class ModelNames(Record):
    """The models of a race. `drafts` are draft models by role, `heads` trained heads by kind."""

    spec: ModelSource
    target: ModelSource
    drafts: Annotated[dict[Name, ModelSource], max_entries(64)] = {}
    heads: Annotated[dict[Name, HeadRecord], max_entries(64)] = {}
    rollback: RollbackRecord | None = None  # traces from before December 2026 lack it
    experts: ExpertsRecord | None = None


class SettingsRecord(Record):
    """The settings in force; `rule` and `costs` are the ones applied, never "auto"."""

    max_new_tokens: Annotated[int, Field(ge=1, le=MAX_STEPS)]
    k: Literal["auto"] | Annotated[int, Field(ge=0, le=4096)]
    temperature: Real
    top_k: NonNegativeInt
    top_p: Real
    repetition_penalty: Real
    seed: Annotated[int, Field(ge=0, lt=1 << 63)]
    rule: Literal["greedy", "coupled", "rejection", "block-verification", "typical", "relaxed", "ensemble"]
    stop: Annotated[list[Name], Field(max_length=16, fail_fast=True)]
    chat: bool
    grammar: Annotated[str, Field(alias="schema", max_length=MAX_CHARACTERS)] = (
        ""  # a JSON schema, choices or a regular expression
    )
    costs: Literal["typical", "measured"] = "measured"  # traces from before 28 November 2026 lack it
    weight: Annotated[float, Field(ge=0, le=1)] = 0.0  # traces from before December 2026 lack it


class PromptRecord(Record):
    """The text that the lanes continued. `typed` is the visitor's text if a chat template was applied to it."""

    text: Annotated[str, Field(max_length=2_000_000)]
    tokens: Tokens
    pieces: Texts
    typed: Annotated[str, Field(max_length=2_000_000)] | None = None  # traces from before 28 November 2026 lack it

    @property
    def shown(self) -> str:
        return self.text if self.typed is None else self.typed


class CurveRecord(Record):
    """Seconds of one model's pass by its number of rows, on that machine; see `costs.CostCurve`."""

    rows: Annotated[list[Annotated[int, Field(ge=1, le=1 << 20)]], Field(min_length=1, max_length=64, fail_fast=True)]
    seconds: Annotated[list[Seconds], Field(min_length=1, max_length=64, fail_fast=True)]
    branching_s: Seconds | None = None  # traces from before November 2026 lack it
    experts: Annotated[list[Average], Field(max_length=64, fail_fast=True)] = []
    context_s: Annotated[list[Seconds], Field(max_length=64, fail_fast=True)] = []  # new in December 2026

    @model_validator(mode="after")
    def _is_curve(self) -> CurveRecord:
        if len(self.rows) != len(self.seconds) or any(a >= b for a, b in pairwise(self.rows)):
            raise ValueError("a cost curve needs increasing row counts, and seconds for each")
        for name in ("experts", "context_s"):
            if len(getattr(self, name)) not in (0, len(self.rows)):
                raise ValueError(f"a cost curve needs {name} for each row count, or none")
        return self


class DrafterCostsRecord(Record):
    """The costs of drafting with a model; see `costs.DrafterCosts`."""

    curve: CurveRecord
    choose_s: Seconds = 0.0
    cold_s: Annotated[list[Seconds], Field(max_length=64, fail_fast=True)] = []
    return_s: Seconds = 0.0


class Costs(CurveRecord):
    """The pass costs of that machine, the target's curve first; see `costs.PassCosts`.

    In the first seconds after an app's first start, they are those of a typical machine, scaled to the speed of this one.
    Traces from before November 2026 have no costs of draft models.
    """

    drafters: Annotated[dict[Name, DrafterCostsRecord], max_entries(16)] = {}

    @classmethod
    def from_pass_costs(cls, costs: PassCosts) -> Self:
        return cls(**asdict(costs.target), drafters={name: asdict(drafter) for name, drafter in costs.drafters.items()})

    def pass_costs(self) -> PassCosts:
        target = self.model_dump(exclude_none=True)
        drafters = target.pop("drafters")
        return PASS_COSTS.validate_python({"target": target, "drafters": drafters})


class TranslationRecord(Record):
    """The text that a draft model with another tokenizer drafted; see `events.Translation`."""

    pieces: ByRow[Text]
    used: Annotated[int, Field(ge=0, le=4096)]


class DraftRecord(Record):
    """The drafted tree, with the text of every row; see `events.Draft`."""

    tokens: Tokens = []
    parents: Rows = []
    pieces: Texts = []
    sources: ByRow[Name] = []
    chances: ByRow[Real] = []
    window: Annotated[int, Field(ge=0, le=4096)] = 0
    ngram_origins: ByRow[tuple[Row, Row] | None] = Field([], alias="births")
    translation: TranslationRecord | None = None  # traces from before December 2026 lack it

    @model_validator(mode="after")
    def _is_tree(self) -> DraftRecord:
        n = len(self.tokens)
        if not n == len(self.parents) == len(self.pieces) == len(self.sources):
            raise ValueError("a draft needs one parent, piece and source for every token")
        if len(self.chances) not in (0, n) or len(self.ngram_origins) not in (0, n) or self.window > n:
            raise ValueError("a draft's chances, n-gram origins and window must match its rows")
        if any(not -1 <= p < i for i, p in enumerate(self.parents)):
            raise ValueError("a drafted row must come after its parent")
        return self


class ChangeRecord(Record):
    """Naive's token in the place of a written one; see `events.Change`."""

    token: Token
    piece: Text
    p: Real
    lost: Real


class TestRecord(Record):
    """One test of one token; see `events.Test`."""

    __test__ = False

    row: Row | None
    token: Token
    outcome: Literal["accepted", "rejected", "correction", "bonus"]
    p: Real | None = None
    q: Real | None = None
    draw: Real | None = None
    entropy: Real | None = None
    top: Annotated[list[tuple[Token, Text, Real]], Field(max_length=64, fail_fast=True)] = []
    margin: Real | None = None
    limit: Real | None = None
    change: ChangeRecord | None = None


class StepRecord(Record):
    """One pass; see `events.Step`. `drafted` is a server's number of drafted tokens if it does not report the tokens."""

    kind: Literal["prefill", "verify"]
    index: Annotated[int, Field(ge=0, le=MAX_STEPS)]
    draft: DraftRecord = DraftRecord()
    statuses: ByRow[Literal["accepted", "rejected", "unvisited", "window"]] = []
    path: Rows = []
    emitted: Tokens = []
    pieces: Texts = []
    origins: ByRow[Literal["accepted", "correction", "bonus"]] = []
    tests: ByRow[TestRecord] = []
    propose_s: Seconds = 0.0
    verify_s: Seconds = 0.0
    other_s: Seconds = 0.0
    finish: Literal["eos", "stop", "length", "context"] | None = None
    drafted: Annotated[int, Field(ge=0, le=4096)] | None = None
    experts: Average | None = None
    mask_s: Seconds = 0.0
    satisfied: bool | None = None

    @model_validator(mode="after")
    def _agrees(self) -> StepRecord:
        if not len(self.emitted) == len(self.pieces) == len(self.origins):
            raise ValueError("a step needs one piece and one origin for every emitted token")
        if len(self.statuses) != len(self.draft.tokens):
            raise ValueError("a step needs one status for every drafted row")
        if any(not 0 <= row < len(self.draft.tokens) for row in self.path):
            raise ValueError("a step's path must name drafted rows")
        return self

    seconds, accepted = Step.seconds, Step.accepted  # properties of the same fields

    @property
    def tested(self) -> int:
        """The number of drafted rows that can be tested: all rows before those of the window."""
        return self.drafted or len(self.statuses) - self.statuses.count(WINDOW)

    @property
    def depth(self) -> int:
        """The length of the longest path of testable rows in the draft."""
        return self.drafted or max(depths(self.draft.parents[: self.tested]), default=0)


class LaneRecord(Record):
    """One lane: its method, the method's options, its steps.

    An opaque lane does not report its drafts. A `streamed` lane has no token ids; each received part counts as one token.
    `differs` describes how a server's counts differ from the received text.
    """

    method: Name
    opaque: bool = False
    streamed: bool = False
    differs: Name = ""
    options: Annotated[dict[Name, Option], max_entries(64)] = {}
    steps: Annotated[list[StepRecord], Field(max_length=MAX_STEPS, fail_fast=True)] = []

    @property
    def tokens(self) -> list[int]:
        return [token for step in self.steps for token in step.emitted]

    @property
    def text(self) -> str:
        return "".join(piece for step in self.steps for piece in step.pieces)

    @property
    def verified(self) -> list[StepRecord]:
        """All steps except prefill, which is not on the clock."""
        return [step for step in self.steps if step.kind == "verify"]

    @property
    def changes(self) -> list[ChangeRecord]:
        """The changes of a lossy rule, in the order of the text."""
        return [test.change for step in self.steps for test in step.tests if test.change]

    @property
    def clock_s(self) -> float:
        """The lane's time without prefill."""
        return sum(step.seconds for step in self.verified)


class RaceRecord(Record):
    """A recorded race, with the results that are computed from it."""

    format: Literal["lookahead-trace/1"] = Field(alias="schema", default=SCHEMA)
    created: Name
    version: Name
    machine: Machine
    models: ModelNames
    exactness: Literal["bit-exact", "tie-aware"]
    settings: SettingsRecord
    prompt: PromptRecord
    costs: Costs
    lanes: Annotated[list[LaneRecord], Field(max_length=MAX_LANES, fail_fast=True)]

    @model_validator(mode="before")
    @classmethod
    def _can_be_shown(cls, data: Any) -> Any:
        """Raise `ValueError` for more passes than a page can show, before any of them is validated."""
        lanes = data.get("lanes") if isinstance(data, dict) else None
        steps = [lane.get("steps") for lane in lanes if isinstance(lane, dict)] if isinstance(lanes, list) else []
        if (passes := sum(len(entries) for entries in steps if isinstance(entries, list))) > MAX_PASSES:
            raise ValueError(f"{count(passes)} passes, at most {count(MAX_PASSES)} are allowed")
        return data

    def to_json(self, indent: int | None = None) -> str:
        return self.model_dump_json(by_alias=True, indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return the trace in a JSON text. Raises `TraceError` with the first error."""
        text = decode_text(text, "trace", MAX_BYTES)
        try:
            return cls.model_validate(parse_json(text, "trace"))
        except ValidationError as error:
            path, message = first_error(error)
        except TraceError:
            raise
        except ValueError as error:
            path, message = "", f"Invalid JSON: {error}"
        raise TraceError("trace", path or "file", f"{message}; give a file that Lookahead saved.")

    def naive(self) -> LaneRecord | None:
        return next((lane for lane in self.lanes if lane.method == "naive"), None)

    def stats(self, lane: int) -> Statistics:
        """Return the counts and rates of lane number `lane`. Times are seconds."""
        record, naive = self.lanes[lane], self.naive()
        steps = record.verified
        accepted = [s.accepted for s in steps]
        tokens, clock = len(record.tokens), record.clock_s
        rows = sum(s.tested for s in steps)
        rate = tokens / clock if clock >= verdict.MIN_S else None
        base = len(naive.tokens) / naive.clock_s if naive and naive.clock_s >= verdict.MIN_S else None
        return Statistics(
            method=record.method,
            new_tokens=tokens,
            clock_s=clock,
            tokens_per_second=rate,
            prefill_s=sum(s.seconds for s in record.steps if s.kind == "prefill"),
            num_spec_steps=len(steps),
            num_draft_tokens=rows,
            num_accepted_draft_tokens=sum(accepted),
            mean_acceptance_length=1 + sum(accepted) / len(steps) if steps else None,
            draft_acceptance_rate=sum(accepted) / rows if rows else None,
            acceptance_rate_per_position=list(Acceptance.from_steps(steps).rates),
            accepted_histogram=histogram(accepted),
            speedup=rate / base if rate and base else None,
            finish=record.steps[-1].finish if record.steps else None,
            other_fraction=sum(s.other_s for s in steps) / clock if clock >= verdict.MIN_S else None,
            mask_fraction=sum(s.mask_s for s in steps) / clock
            if self.settings.grammar and clock >= verdict.MIN_S
            else None,
        )

    def agreement(self, lane: int) -> Badge | None:
        """Return whether lane number `lane` wrote naive's text; see `verdict.agreement`."""
        return verdict.agreement(self, lane)

    def predicted(self, lane: int) -> PricedRun | None:
        """Return the predicted times of a lane's passes; None for an opaque lane, and for one that has not run."""
        record, costs = self.lanes[lane], self.costs.pass_costs()
        rows, prompt = level_rows(record.options), len(self.prompt.tokens)
        priced = costs.price_passes(record.verified, record.options.get("draft"), rows, prompt)
        return None if record.opaque or not record.verified or min(priced.naive_s, priced.seconds) <= 0 else priced

    def verdict(self, lane: int = -1) -> Verdict | None:
        """Return one sentence on why a lane was fast or slow, with the arithmetic."""
        return verdict.explain(self, lane % len(self.lanes))


def histogram(values: Sequence[int]) -> list[int]:
    """Return how many of the values are 0, 1, 2 and so on, up to the largest."""
    counts = Counter(values)
    return [counts[n] for n in range(max(values, default=0) + 1)]
