"""A recorded race: what every lane did, in JSON that can be checked, kept and played again.

The records mirror `Step` and add text: the piece each token contributed. They are pydantic
models, so one definition gives validation of foreign files, the published JSON schema
(`trace.schema.json` beside it) and a round trip. Statistics and the verdict are computed from the
records alone, so a file from someone else's machine tells the same story as a live race.

Knows records. It does not know models, clocks or pages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from ..core.acceptance import Acceptance
from ..core.costs import PricedRun
from ..core.events import ACCEPTED, REJECTED, WINDOW, TraceError
from ..core.numbers import count, significant
from ..core.tree import depths
from ..drafting import level_rows
from . import verdict
from .parsing import at_most, fault, parsed, text_of, uncollected
from .records import (
    MOST_STEPS,
    Costs,
    Machine,
    ModelNames,
    Name,
    PromptRecord,
    Real,
    Record,
    Row,
    Rows,
    Seconds,
    SettingsRecord,
    Text,
    Texts,
    Token,
    Tokens,
)

SCHEMA = "lookahead-trace/1"
MOST_BYTES = 12_000_000
MOST_LANES = 8
MOST_PASSES = 16_000  # of all lanes in a file; four lanes of 2,000 tokens have at most half of it
TIES = {"bfloat16": 0.5, "float16": 0.06}  # logits closer than this may swap by rounding
TIE = 0.01
Option = bool | Annotated[int, Field(gt=-(1 << 53), lt=1 << 53)] | Real | Name


class DraftRecord(Record):
    """The drafted tree, with the text of every row; see `events.Draft`."""

    tokens: Tokens = []
    parents: Rows = []
    pieces: Texts = []
    sources: Annotated[list[Name], Field(max_length=4096, fail_fast=True)] = []
    chances: Annotated[list[Real], Field(max_length=4096, fail_fast=True)] = []
    window: Annotated[int, Field(ge=0, le=4096)] = 0
    births: Annotated[list[tuple[Row, Row] | None], Field(max_length=4096, fail_fast=True)] = []

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
    top: Annotated[list[tuple[Token, Text, Real]], Field(max_length=64, fail_fast=True)] = []
    margin: Real | None = None


class StepRecord(Record):
    """One pass; see `events.Step`. `drafted` tokens a server drafted for it that does not tell which."""

    kind: Literal["prefill", "verify"]
    index: Annotated[int, Field(ge=0, le=MOST_STEPS)]
    draft: DraftRecord = DraftRecord()
    statuses: Annotated[
        list[Literal["accepted", "rejected", "unvisited", "window"]], Field(max_length=4096, fail_fast=True)
    ] = []
    path: Rows = []
    emitted: Tokens = []
    pieces: Texts = []
    origins: Annotated[list[Literal["accepted", "correction", "bonus"]], Field(max_length=4096, fail_fast=True)] = []
    tests: Annotated[list[TestRecord], Field(max_length=4096, fail_fast=True)] = []
    propose_s: Seconds = 0.0
    verify_s: Seconds = 0.0
    other_s: Seconds = 0.0
    finish: Literal["eos", "stop", "length", "context"] | None = None
    drafted: Annotated[int, Field(ge=0, le=4096)] | None = None

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

    @property
    def accepted(self) -> int:
        """How many drafted tokens were emitted."""
        return self.origins.count(ACCEPTED)

    @property
    def tested(self) -> int:
        """How many drafted rows, the first ones, were there to be tested."""
        return self.drafted or len(self.statuses) - self.statuses.count(WINDOW)

    @property
    def depth(self) -> int:
        """How deep in the draft those rows go."""
        return self.drafted or max(depths(self.draft.parents[: self.tested]), default=0)


class LaneRecord(Record):
    """One lane: its method, the method's options, its steps. An opaque lane does not tell what it drafted; of a `streamed`
    one no ids are known, and what arrived together counts as one token. `differs` says how a server's own counts differ from
    what arrived."""

    method: Name
    opaque: bool = False
    streamed: bool = False
    differs: Name = ""
    options: Annotated[dict[Name, Option], at_most(64)] = {}
    steps: Annotated[list[StepRecord], Field(max_length=MOST_STEPS, fail_fast=True)] = []

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


class RaceRecord(Record):
    """A whole race: what is kept of it, and what is computed from that."""

    format: Literal["lookahead-trace/1"] = Field(alias="schema", default=SCHEMA)
    created: Name
    version: Name
    machine: Machine
    models: ModelNames
    exactness: Literal["bit-exact", "tie-aware"]
    settings: SettingsRecord
    prompt: PromptRecord
    costs: Costs
    lanes: Annotated[list[LaneRecord], Field(max_length=MOST_LANES, fail_fast=True)]

    @model_validator(mode="before")
    @classmethod
    def _can_be_shown(cls, data: Any) -> Any:
        """Refuse more passes than a page can show before any of them is validated."""
        lanes = data.get("lanes") if isinstance(data, dict) else None
        steps = [lane.get("steps") for lane in lanes if isinstance(lane, dict)] if isinstance(lanes, list) else []
        if (passes := sum(len(of) for of in steps if isinstance(of, list))) > MOST_PASSES:
            raise ValueError(f"{count(passes)} passes, at most {count(MOST_PASSES)} are allowed")
        return data

    def to_json(self, indent: int | None = None) -> str:
        """The trace as JSON text."""
        return self.model_dump_json(by_alias=True, indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """A trace from JSON text, or a `TraceError` that says what is wrong with it."""
        text = text_of(text, "trace", MOST_BYTES)
        try:
            with uncollected():
                return cls.model_validate(parsed(text, "trace"))
        except ValidationError as error:
            where, words = fault(error)
        except TraceError:
            raise
        except ValueError as error:
            where, words = "", f"Invalid JSON: {error}"
        raise TraceError("trace", where or "file", f"{words}; give a file that Lookahead saved.")

    @classmethod
    def schema_json(cls) -> dict[str, Any]:
        """The published JSON schema."""
        return cls.model_json_schema(by_alias=True)

    def header(self) -> dict[str, Any]:
        """The trace without its steps, as plain data: what a player needs before the first step."""
        return self.model_dump(by_alias=True, mode="json", exclude={"lanes": {"__all__": {"steps"}}})

    def naive(self) -> LaneRecord | None:
        """The baseline lane, if there is one."""
        return next((lane for lane in self.lanes if lane.method == "naive"), None)

    def stats(self, lane: int) -> dict[str, Any]:
        """What lane number `lane` did, under the field's names. Times are seconds."""
        record, naive = self.lanes[lane], self.naive()
        steps = record.verified
        accepted = [s.accepted for s in steps]
        tokens, clock = len(record.tokens), record.clock_s
        rows = sum(s.tested for s in steps)
        rate = tokens / clock if clock >= verdict.LEAST_S else None
        base = len(naive.tokens) / naive.clock_s if naive and naive.clock_s >= verdict.LEAST_S else None
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
            "acceptance_rate_per_position": list(Acceptance.of(steps).rates),
            "accepted_histogram": histogram(accepted),
            "speedup": rate / base if rate and base else None,
            "finish": record.steps[-1].finish if record.steps else None,
            "other_fraction": sum(s.other_s for s in steps) / clock if clock >= verdict.LEAST_S else None,
        }

    def agreement(self, lane: int) -> dict[str, Any] | None:
        """Whether a lane printed naive's ids, and if not, where they part and by what margin."""
        record, naive = self.lanes[lane], self.naive()
        if naive is None or record is naive:
            return None
        if "server" in record.options:
            return _of_servers(record, naive)
        if self.settings.rule == "rejection":
            detail = "The rejection rule keeps the target's distribution, not its text."
            return {"identical": None, "badge": "same distribution, different text", "detail": detail}
        ids, base = record.tokens, naive.tokens
        shared = next((i for i, (a, b) in enumerate(zip(ids, base, strict=False)) if a != b), None)
        if shared is None:
            if len(ids) != len(base) and _ended(record) and _ended(naive):
                detail = f"{len(ids)} tokens against {len(base)}."
                return {"identical": False, "badge": "differs in length: a bug", "detail": detail}
            exact = self.exactness == "bit-exact"
            return {"identical": True, "badge": "identical, bit-exact" if exact else "identical", "detail": None}
        margin = _margin(naive, shared)
        if self.exactness == "bit-exact" and not record.opaque:  # a peer reads the prompt in passes of its own
            cause = "a bug"
        elif margin is None:
            cause = "its margin was not recorded"
        else:
            tie = margin <= TIES.get(self.machine.dtype, TIE)
            cause = f"{'a tie of' if tie else 'a bug, the margin is'} {significant(margin)} logits"
        number, rows = _pass_of(record, shared)
        apart = "" if margin is None else f" Naive's two favourites there were {significant(margin)} logits apart."
        detail = (
            f"Token {shared + 1}: naive wrote id {base[shared]}, this lane {ids[shared]}, in its pass {number} of {rows} "
            f'{"row" if rows == 1 else "rows"}.{apart} The Lab\'s "Why do bits differ?" shows which operator rounds a row '
            "differently in such a pass."
        )
        parts = {"position": shared, "margin": margin, "pass": number, "rows": rows}
        return {"identical": False, "badge": f"differs at token {shared + 1}: {cause}", "detail": detail, **parts}

    def predicted(self, lane: int) -> PricedRun | None:
        """What a lane's passes should have taken; None for a lane that is opaque or has not run."""
        record = self.lanes[lane]
        priced = self.costs.pass_costs().of_passes(
            record.verified, record.options.get("draft"), level_rows(record.options)
        )
        return None if record.opaque or not record.verified or min(priced.plain_s, priced.seconds) <= 0 else priced

    def verdict(self, lane: int = -1) -> dict[str, Any] | None:
        """One sentence on why a lane was fast or slow, and the arithmetic behind it."""
        return verdict.of(self, lane % len(self.lanes))


def histogram(values: Sequence[int]) -> list[int]:
    """How many of the values are 0, 1, 2 and so on, up to the largest."""
    counts = Counter(values)
    return [counts[n] for n in range(max(values, default=0) + 1)]


def _pass_of(lane: LaneRecord, position: int) -> tuple[int, int]:
    """The number of the pass that wrote the token at a position, from 1, and how many rows it had."""
    written = 0
    for number, step in enumerate(lane.verified, start=1):
        written += len(step.emitted)
        if written > position:
            return number, 1 + len(step.draft.tokens)
    return len(lane.verified), 1


def _of_servers(record: LaneRecord, naive: LaneRecord) -> dict[str, Any]:
    """Whether two servers wrote the same ids, or the same text where one gives none."""
    as_text = record.streamed or naive.streamed
    text, other = (lane.text if as_text else lane.tokens for lane in (record, naive))
    if not text or not other:
        which = "Neither server" if not text and not other else "One of the two servers"
        return {"identical": None, "badge": "no text to compare", "detail": f"{which} sent no text."}
    unit = "character" if as_text else "token"
    short = min(len(text), len(other))
    place = next((i for i in range(short) if text[i] != other[i]), None)
    if place is None and (len(text) == len(other) or not (_ended(record) and _ended(naive))):
        return {"identical": True, "badge": "identical", "detail": None}
    place = short if place is None else place
    detail = (
        f"The two texts part at {unit} {place + 1}. Engines round a row differently in company of others, so where two tokens "
        "are nearly as likely either may win."
    )
    return {"identical": False, "badge": f"parts at {unit} {place + 1}", "detail": detail, "position": place}


def _ended(lane: LaneRecord) -> bool:
    return bool(lane.steps) and lane.steps[-1].finish is not None


def _margin(naive: LaneRecord, position: int) -> float | None:
    """How far naive's token led the runner-up at `position`, in the scores that decided."""
    tests = [t for step in naive.verified for t in step.tests if t.outcome != REJECTED]
    return tests[position].margin if position < len(tests) else None
