"""A recorded race: what every lane did, in JSON that can be checked, kept and played again.

The records mirror `Step` and add text: the piece each token contributed. They are pydantic
models, so one definition gives validation of foreign files, the published JSON schema
(`assets/trace.schema.json`) and a round trip. Statistics and the verdict are computed from the
records alone, so a file from someone else's machine tells the same story as a live race.

Knows records. It does not know models, clocks or pages; text arrives through `Recorder`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from . import verdict
from .events import ACCEPTED, REJECTED, WINDOW, Step, TraceError
from .tree import depths

SCHEMA = "lookahead-trace/1"
MOST_BYTES = 32 << 20
MOST_STEPS = 100_000
TIES = {"bfloat16": 0.5, "float16": 0.06}  # logits closer than this may swap by rounding
TIE = 0.01

Token = Annotated[int, Field(ge=0, lt=1 << 31)]
Row = Annotated[int, Field(ge=-1, lt=1 << 16)]
Text = Annotated[str, Field(max_length=10_000)]
Name = Annotated[str, Field(max_length=200)]
Real = Annotated[float, Field(allow_inf_nan=False, ge=-1e12, le=1e12)]
Seconds = Annotated[float, Field(allow_inf_nan=False, ge=0, le=1e7)]
Tokens = Annotated[list[Token], Field(max_length=200_000)]
Rows = Annotated[list[Row], Field(max_length=4096)]
Texts = Annotated[list[Text], Field(max_length=200_000)]


class Record(BaseModel):
    """Base of the records: nothing unknown passes, nothing changes afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DraftRecord(Record):
    """The drafted tree, with the text of every row; see `events.Draft`."""

    tokens: Tokens = []
    parents: Rows = []
    pieces: Texts = []
    sources: Annotated[list[Name], Field(max_length=4096)] = []
    chances: Annotated[list[Real], Field(max_length=4096)] = []
    window: Annotated[int, Field(ge=0, le=4096)] = 0
    births: Annotated[list[tuple[Row, Row] | None], Field(max_length=4096)] = []

    @model_validator(mode="after")
    def _is_tree(self) -> DraftRecord:
        n = len(self.tokens)
        if not n == len(self.parents) == len(self.pieces) == len(self.sources):
            raise ValueError("a draft needs one parent, piece and source for every token")
        if len(self.chances) not in (0, n) or len(self.births) not in (0, n) or self.window > n:
            raise ValueError("a draft's chances, births and window must fit its rows")
        if any(not -1 <= p < i for i, p in enumerate(self.parents)):
            raise ValueError("a drafted row must come after its parent")
        return self


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
    top: Annotated[list[tuple[Token, Text, Real]], Field(max_length=64)] = []
    margin: Real | None = None


class StepRecord(Record):
    """One pass; see `events.Step`."""

    kind: Literal["prefill", "verify"]
    index: Annotated[int, Field(ge=0, le=MOST_STEPS)]
    draft: DraftRecord = DraftRecord()
    statuses: Annotated[list[Literal["accepted", "rejected", "unvisited", "window"]], Field(max_length=4096)] = []
    path: Rows = []
    emitted: Tokens = []
    pieces: Texts = []
    origins: Annotated[list[Literal["accepted", "correction", "bonus"]], Field(max_length=4096)] = []
    tests: Annotated[list[TestRecord], Field(max_length=4096)] = []
    propose_s: Seconds = 0.0
    verify_s: Seconds = 0.0
    other_s: Seconds = 0.0
    finish: Literal["eos", "stop", "length", "context"] | None = None

    @model_validator(mode="after")
    def _agrees(self) -> StepRecord:
        if not len(self.emitted) == len(self.pieces) == len(self.origins):
            raise ValueError("a step needs one piece and one origin for every emitted token")
        if len(self.statuses) != len(self.draft.tokens):
            raise ValueError("a step needs one status for every drafted row")
        if any(not 0 <= row < len(self.draft.tokens) for row in self.path):
            raise ValueError("a step's path must name drafted rows")
        return self

    @property
    def seconds(self) -> float:
        """The step's own time."""
        return self.propose_s + self.verify_s + self.other_s


class LaneRecord(Record):
    """One lane: its method, the method's options, its steps. An opaque lane does not tell what it drafted."""

    method: Name
    opaque: bool = False
    options: dict[Name, bool | int | float | Name] = {}
    steps: Annotated[list[StepRecord], Field(max_length=MOST_STEPS)] = []

    @property
    def tokens(self) -> list[int]:
        """Ids of the generated text."""
        return [token for step in self.steps for token in step.emitted]

    @property
    def text(self) -> str:
        """The generated text."""
        return "".join(piece for step in self.steps for piece in step.pieces)

    @property
    def verified(self) -> list[StepRecord]:
        """The steps on the clock: all but prefill."""
        return [step for step in self.steps if step.kind == "verify"]

    @property
    def clock_s(self) -> float:
        """The lane's own time, prefill excluded."""
        return sum(step.seconds for step in self.verified)


class Machine(Record):
    """Where the race ran."""

    cpu: Name
    cores: Annotated[int, Field(ge=1, le=1 << 20)]
    threads: Annotated[int, Field(ge=1, le=1 << 20)]
    device: Name
    dtype: Name
    torch: Name


class ModelNames(Record):
    """Which models raced."""

    spec: Name
    target: Name
    drafts: dict[Name, Name] = {}


class SettingsRecord(Record):
    """The settings in force; `rule` is the one applied, never "auto"."""

    max_new_tokens: Annotated[int, Field(ge=1, le=MOST_STEPS)]
    k: Literal["auto"] | Annotated[int, Field(ge=0, le=4096)]
    temperature: Real
    top_k: Annotated[int, Field(ge=0)]
    top_p: Real
    repetition_penalty: Real
    seed: Annotated[int, Field(ge=0, lt=1 << 63)]
    rule: Literal["greedy", "coupled", "rejection"]
    stop: Annotated[list[Name], Field(max_length=16)]
    chat: bool


class PromptRecord(Record):
    """What the lanes continued."""

    text: Annotated[str, Field(max_length=2_000_000)]
    tokens: Tokens
    pieces: Texts


class Costs(Record):
    """Seconds for a target pass of so many rows on that machine."""

    rows: Annotated[list[Annotated[int, Field(ge=1, le=1 << 20)]], Field(min_length=1, max_length=64)]
    seconds: Annotated[list[Seconds], Field(min_length=1, max_length=64)]


class Trace(Record):
    """A whole race."""

    format: Literal["lookahead-trace/1"] = Field(alias="schema", default=SCHEMA)
    created: Name
    version: Name
    machine: Machine
    models: ModelNames
    exactness: Literal["bit-exact", "tie-aware"]
    settings: SettingsRecord
    prompt: PromptRecord
    costs: Costs
    lanes: Annotated[list[LaneRecord], Field(max_length=8)]

    def to_json(self, indent: int | None = None) -> str:
        """The trace as JSON text."""
        return self.model_dump_json(by_alias=True, indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> Trace:
        """A trace from JSON text, or a `TraceError` that says what is wrong with it."""
        if len(text) > MOST_BYTES:
            raise TraceError("trace", f"{len(text):,} bytes", f"a trace has at most {MOST_BYTES:,} bytes.")
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "file"
            raise TraceError("trace", where, f"{first['msg']}; give a file that Lookahead saved.") from None

    def to_csv(self) -> str:
        """One row a pass of every lane; see `export.to_csv`."""
        from . import export  # it builds on this module

        return export.to_csv(self)

    def replay_html(self, caption: str | None = None) -> str:
        """One self-contained page that plays the race, offline; see `export.replay_html`."""
        from . import export

        return export.replay_html(self, caption)

    @classmethod
    def schema_json(cls) -> dict[str, Any]:
        """The published JSON schema."""
        return cls.model_json_schema(by_alias=True)

    def header(self) -> dict[str, Any]:
        """The trace without its steps, as plain data: what a player needs before the first step."""
        data = self.model_dump(by_alias=True, mode="json", exclude={"lanes": {"__all__": {"steps"}}})
        return data

    def naive(self) -> LaneRecord | None:
        """The baseline lane, if there is one."""
        return next((lane for lane in self.lanes if lane.method == "naive"), None)

    def stats(self, lane: int) -> dict[str, Any]:
        """What lane number `lane` did, under the field's names. Times are seconds."""
        record, naive = self.lanes[lane], self.naive()
        steps, drafted = record.verified, [s for s in record.verified if s.draft.tokens]
        accepted = [s.origins.count(ACCEPTED) for s in steps]
        tokens, clock = len(record.tokens), record.clock_s
        rows = sum(len(s.statuses) - s.statuses.count(WINDOW) for s in steps)
        rate = tokens / clock if clock > 0 else None
        base = len(naive.tokens) / naive.clock_s if naive and naive.clock_s > 0 else None
        return {
            "method": record.method,
            "new_tokens": tokens,
            "clock_s": clock,
            "tokens_per_second": rate,
            "prefill_s": sum(s.seconds for s in record.steps if s.kind == "prefill"),
            "num_spec_steps": len(steps),
            "num_draft_tokens": rows,
            "num_accepted_draft_tokens": sum(accepted),
            "mean_acceptance_length": 1 + sum(accepted) / len(steps) if steps else None,
            "draft_acceptance_rate": sum(accepted) / rows if rows else None,
            "acceptance_rate_per_position": _per_position(drafted),
            "accepted_histogram": [accepted.count(n) for n in range(max(accepted, default=0) + 1)],
            "speedup": rate / base if rate and base else None,
            "finish": record.steps[-1].finish if record.steps else None,
            "other_fraction": sum(s.other_s for s in steps) / clock if clock > 0 else None,
        }

    def agreement(self, lane: int) -> dict[str, Any] | None:
        """Whether a lane printed naive's ids, and if not, where they part and by what margin."""
        record, naive = self.lanes[lane], self.naive()
        if naive is None or record is naive:
            return None
        if self.settings.rule == "rejection":
            detail = "The rejection rule keeps the target's distribution, not its text."
            return {"identical": None, "badge": "same distribution, different text", "detail": detail}
        ours, base = record.tokens, naive.tokens
        shared = next((i for i, (a, b) in enumerate(zip(ours, base, strict=False)) if a != b), None)
        if shared is None:
            if len(ours) != len(base) and _ended(record) and _ended(naive):
                return {
                    "identical": False,
                    "badge": "differs in length: a bug",
                    "detail": f"{len(ours)} tokens against {len(base)}.",
                }
            exact = self.exactness == "bit-exact"
            return {"identical": True, "badge": "identical, bit-exact" if exact else "identical", "detail": None}
        margin = _margin(naive, shared)
        if self.exactness == "bit-exact":
            told = "a bug"
        elif margin is None:
            told = "its margin was not recorded"
        else:
            tie = margin <= TIES.get(self.machine.dtype, TIE)
            told = f"a tie of {margin:.3g} logits" if tie else f"a bug, the margin is {margin:.3g} logits"
        detail = f"Position {shared}: naive wrote id {base[shared]}, this lane {ours[shared]}."
        return {"identical": False, "badge": f"differs at token {shared + 1}: {told}", "detail": detail}

    def verdict(self, lane: int = -1) -> dict[str, Any] | None:
        """One sentence on why a lane was fast or slow, and the arithmetic behind it."""
        lane %= len(self.lanes)
        record, naive = self.lanes[lane], self.naive()
        if naive is None or record is naive or not record.verified or not naive.verified:
            return None
        base = self.stats(self.lanes.index(naive))
        return verdict.of(record, naive, self.stats(lane), base, self.settings.k == "auto")


def _ended(lane: LaneRecord) -> bool:
    return bool(lane.steps) and lane.steps[-1].finish is not None


def _per_position(drafted: Sequence[StepRecord]) -> list[float]:
    """Share of the passes that drafted to a depth whose token at that depth was accepted."""
    tried: dict[int, int] = {}
    stood: dict[int, int] = {}
    for step in drafted:
        reach = [d for d, status in zip(depths(step.draft.parents), step.statuses, strict=True) if status != WINDOW]
        for depth in range(1, max(reach, default=0) + 1):
            tried[depth] = tried.get(depth, 0) + 1
            stood[depth] = stood.get(depth, 0) + (step.origins.count(ACCEPTED) >= depth)
    return [stood[d] / tried[d] for d in sorted(tried)]


def _margin(naive: LaneRecord, position: int) -> float | None:
    """How far naive's token led the runner-up at `position`, in the scores that decided."""
    tests = [t for step in naive.verified for t in step.tests if t.outcome != REJECTED]
    return tests[position].margin if position < len(tests) else None


class Recorder:
    """Turns one lane's steps into records. `pieces` adds text: see `text.Pieces`; `word` names an id."""

    def __init__(self, pieces: Any, word: Callable[[int], str]):
        self._pieces, self._word = pieces, word

    def record(self, step: Step) -> StepRecord:
        """The step with the text of every token in it."""
        draft = step.draft
        drafted = self._pieces.drafted(draft.tokens, draft.parents) if draft.tokens else []
        pieces = [self._pieces.add(token) for token in step.emitted]
        if step.finish and pieces:
            pieces[-1] += self._pieces.flush() if not pieces[-1] else ""
        return StepRecord(
            kind=step.kind,
            index=step.index,
            draft=DraftRecord(
                tokens=draft.tokens,
                parents=draft.parents,
                pieces=drafted,
                sources=draft.sources,
                chances=[round(chance, 4) for chance in draft.chances],
                window=draft.window,
                births=draft.births,
            ),
            statuses=step.statuses,
            path=step.path,
            emitted=step.emitted,
            pieces=pieces,
            origins=step.origins,
            tests=[self._test(t) for t in step.tests],
            propose_s=round(step.propose_s, 7),
            verify_s=round(step.verify_s, 7),
            other_s=round(step.other_s, 7),
            finish=step.finish,
        )

    def _test(self, test: Any) -> TestRecord:
        top = [(token, self._word(token), round(p, 4)) for token, p in test.top]
        small = {
            name: None if getattr(test, name) is None else round(getattr(test, name), 4)
            for name in ("p", "q", "draw", "entropy", "margin")
        }
        return TestRecord(row=test.row, token=test.token, outcome=test.outcome, top=top, **small)
