"""Acceptance records as a race that the page plays, and the traces of all races without our own passes.

A record has counts for every pass, but no words and no times. Each token is shown as a box, and each pass takes `PASS_S`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import accumulate

from ..core.events import ACCEPTED, BONUS, CORRECTION, TraceError
from ..core.numbers import count, counted
from ..core.version import VERSION
from ..trace.schema import (
    MOST_LANES,
    SCHEMA,
    Costs,
    LaneRecord,
    Machine,
    ModelNames,
    PromptRecord,
    SettingsRecord,
    StepRecord,
)
from ..trace.trace import Trace
from .records import AcceptanceRecord, read

PASS_S = 0.1
MOST_TOKENS = 10_000  # that are played
TOKEN = "\u25af "  # a box, in place of a word
PROMPT = "A record has no words. "


def opened(text: str) -> tuple[Trace, str]:
    """Return the trace of a file that a reader opened, ours or made of acceptance records, and a sentence on its source.

    Raises `TraceError` for anything else.
    """
    if f'"{SCHEMA}"' in text:
        trace = Trace.from_json(text)
        return trace, f"An opened recording, made on {trace.machine.cpu}."
    records = read(text)
    trace = played(records)
    shown = len(trace.lanes)
    part = "" if shown == len(records) else f" The first {shown} of {counted(len(records), 'text')}."
    source = f"{trace.machine.cpu[0].upper()}{trace.machine.cpu[1:]}"
    return trace, (
        f"{source}: counts, no words and no times. Every box is a token, every pass takes a tenth of a second.{part}"
    )


def played(records: Sequence[AcceptanceRecord]) -> Trace:
    """Return a trace with a lane for each of the first records that list their passes. Raises `TraceError` if none does.

    All lanes together have at most `MOST_TOKENS` tokens. If the first one alone has more, it is refused.
    """
    detailed = [record for record in records if record.per_step_accepted and record.per_step_drafted][:MOST_LANES]
    lengths = accumulate(record.num_accepted_draft_tokens + record.num_spec_steps for record in detailed)
    playable = [record for record, tokens in zip(detailed, lengths, strict=True) if tokens <= MOST_TOKENS]
    if detailed and not playable:
        mend = f"what is played has at most {count(MOST_TOKENS)}. `python -m lookahead acceptance FILE` judges longer texts."
        raise TraceError("records", "a text of too many tokens", mend)
    if not playable:
        mend = (
            "they count passes and do not tell them one by one, so there is nothing to play. "
            "`python -m lookahead acceptance FILE` judges them."
        )
        raise TraceError("records", counted(len(records), "text"), mend)
    lanes = [_lane(record, number, len(playable)) for number, record in enumerate(playable, start=1)]
    engines = ", ".join(dict.fromkeys(record.engine for record in playable))[:150]
    models = ModelNames(spec=f"records:{engines}", target=engines)
    most = max(1, *(len(lane.tokens) for lane in lanes))
    prompt = PromptRecord(text=PROMPT, tokens=[], pieces=[])
    return trace_of(f"a record of {engines}", models, prompt, lanes, PASS_S, most)


def _lane(record: AcceptanceRecord, number: int, of: int) -> LaneRecord:
    """Return the lane of one text. Each pass also writes a token of the target's own."""
    name = record.engine[:150] + (f", text {number}" if of > 1 else "")
    passes = [*zip(record.per_step_accepted, record.per_step_drafted, strict=True)]
    steps = [
        StepRecord(
            kind="verify", index=index, emitted=[0] * (accepted + 1), pieces=[TOKEN] * (accepted + 1), verify_s=PASS_S,
            origins=origins(accepted + 1, accepted, drafted), drafted=drafted, finish="stop" if index == len(passes) else None,
        )
        for index, (accepted, drafted) in enumerate(passes, start=1)
    ]  # fmt: skip
    prefill = StepRecord(kind="prefill", index=0)
    return LaneRecord(method=name, opaque=True, options={"server": name}, steps=[prefill, *steps])


def origins(tokens: int, accepted: int, drafted: int | None) -> list[str]:
    """Return where a pass's tokens came from: `accepted` drafted ones, then the target's own."""
    extra = CORRECTION if drafted and accepted < drafted else BONUS
    return [*[ACCEPTED] * accepted, *[extra] * (tokens - accepted)]


def trace_of(
    source: str, models: ModelNames, prompt: PromptRecord, lanes: list[LaneRecord], pass_s: float, most: int, *,
    chat: bool = False, created: str | None = None,
) -> Trace:  # fmt: skip
    """Return the trace of a greedy race whose passes were not ours. `source` stands in place of the processor."""
    return Trace(
        created=created or now(), version=VERSION, exactness="tie-aware", models=models, prompt=prompt, lanes=lanes,
        machine=Machine(cpu=source, cores=1, threads=1, device="server", dtype="unknown", torch="unknown"),
        settings=SettingsRecord(
            max_new_tokens=most, k="auto", temperature=0, top_k=0, top_p=1, repetition_penalty=1, seed=0, rule="greedy", stop=[],
            chat=chat,
        ),
        costs=Costs(rows=[1], seconds=[pass_s]),
    )  # fmt: skip


def now() -> str:
    """Return the time, as a trace's `created`."""
    return datetime.now(UTC).isoformat(timespec="seconds")
