"""Acceptance records as a race that can be played: a lane for each text, counts in place of words.

A record has neither words nor times. A token is drawn as a box, a pass lasts `PASS_S`, and what the record does tell, how
many tokens a pass drafted and how many of them were accepted, is drawn and judged as in any race.

Knows records. It does not know how a race is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import accumulate

from ..core.events import ACCEPTED, BONUS, CORRECTION, TraceError
from ..core.numbers import count, counted
from ..core.version import VERSION
from .acceptance_record import AcceptanceRecord, read
from .records import Costs, Machine, ModelNames, PromptRecord, SettingsRecord
from .schema import MOST_LANES, SCHEMA, LaneRecord, StepRecord
from .trace import Trace

PASS_S = 0.1
MOST_TOKENS = 10_000  # that are played
TOKEN = "\u25af "  # a box, in place of a word
PROMPT = "A record has no words. "


def opened(text: str) -> tuple[Trace, str]:
    """What is in a file that a reader has opened, a trace of ours or records of others, and a sentence on where it is from.

    Raises `TraceError` for anything else.
    """
    if f'"{SCHEMA}"' in text:
        trace = Trace.from_json(text)
        return trace, f"An opened recording, made on {trace.machine.cpu}."
    records = read(text)
    trace = played(records)
    shown = (
        "" if len(trace.lanes) == len(records) else f" The first {len(trace.lanes)} of {counted(len(records), 'text')}."
    )
    return trace, (
        f"{trace.machine.cpu[0].upper()}{trace.machine.cpu[1:]}: counts, no words and no times. Every box is a token, every pass takes a tenth of a "
        f"second.{shown}"
    )


def played(records: Sequence[AcceptanceRecord]) -> Trace:
    """A lane for each of the first records that tell their passes one by one; `TraceError` where none does.

    Of texts that have more than `MOST_TOKENS` together only the first are played; a first one that has more is refused.
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
    return Trace(
        created=datetime.now(UTC).isoformat(timespec="seconds"), version=VERSION,
        machine=Machine(cpu=f"a record of {engines}", cores=1, threads=1, device="server", dtype="unknown", torch="unknown"),
        models=ModelNames(spec=f"records:{engines}", target=engines), exactness="tie-aware",
        settings=SettingsRecord(
            max_new_tokens=max(1, *(len(lane.tokens) for lane in lanes)), k="auto", temperature=0, top_k=0, top_p=1,
            repetition_penalty=1, seed=0, rule="greedy", stop=[], chat=False,
        ),
        prompt=PromptRecord(text=PROMPT, tokens=[], pieces=[]), costs=Costs(rows=[1], seconds=[PASS_S]), lanes=lanes,
    )  # fmt: skip


def _lane(record: AcceptanceRecord, number: int, of: int) -> LaneRecord:
    """A text's passes; each also writes a token of the target's own."""
    name = record.engine[:150] + (f", text {number}" if of > 1 else "")
    passes = [*zip(record.per_step_accepted, record.per_step_drafted, strict=True)]
    steps = [
        StepRecord(
            kind="verify", index=index, emitted=[0] * (accepted + 1), pieces=[TOKEN] * (accepted + 1), verify_s=PASS_S,
            origins=[*[ACCEPTED] * accepted, CORRECTION if accepted < drafted else BONUS], drafted=drafted,
            finish="stop" if index == len(passes) else None,
        )
        for index, (accepted, drafted) in enumerate(passes, start=1)
    ]  # fmt: skip
    prefill = StepRecord(kind="prefill", index=0)
    return LaneRecord(method=name, opaque=True, options={"server": name}, steps=[prefill, *steps])
