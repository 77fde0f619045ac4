"""Records of others as races that can be played, and how far a race's clock can be trusted."""

import json

import pytest

from lookahead.core.events import TraceError
from lookahead.servers.records import read
from lookahead.servers.replay import PASS_S, TOKEN, opened, played
from lookahead.trace import trust
from lookahead.trace.schema import LaneRecord, StepRecord
from lookahead.trace.trace import Trace

RECORD = {
    "engine": "vllm", "mean_acceptance_length": 2.0, "draft_acceptance_rate": 1 / 3, "num_accepted_draft_tokens": 3,
    "acceptance_histogram": {"0": 1, "1": 1, "2": 1}, "num_draft_tokens": 9, "num_spec_steps": 3,
    "per_step_accepted": [0, 2, 1], "per_step_drafted": [3, 3, 3],
}  # fmt: skip


def test_a_record_is_played_pass_by_pass_and_judged_like_any_race():
    trace, caption = opened(json.dumps(RECORD))
    (lane,) = Trace.from_json(trace.to_json()).lanes
    assert lane.method == "vllm" and lane.text == TOKEN * 6
    assert [(step.drafted, step.accepted) for step in lane.verified] == [(3, 0), (3, 2), (3, 1)]
    assert lane.clock_s == pytest.approx(3 * PASS_S)
    stats = trace.stats(0)
    assert stats["mean_acceptance_length"] == 2 and stats["draft_acceptance_rate"] == pytest.approx(1 / 3)
    assert stats["acceptance_rate_per_position"] == pytest.approx([2 / 3, 1 / 2, 0])
    assert trace.verdict() is None, "there is nothing to compare with"
    assert caption.startswith("A record of vllm: counts, no words and no times.")


def test_of_many_texts_the_first_are_played():
    trace, caption = opened("\n".join([json.dumps(RECORD)] * 20))
    assert [lane.method for lane in trace.lanes] == [f"vllm, text {n}" for n in range(1, 9)]
    assert caption.endswith("The first 8 of 20 texts.")


def test_counts_without_an_order_are_not_played():
    whole = {name: value for name, value in RECORD.items() if not name.startswith("per_step")}
    with pytest.raises(TraceError, match="nothing to play"):
        played(read(json.dumps(whole)))
    for text in ("", "{}", "[1, 2]", "nonsense"):
        with pytest.raises(TraceError):
            opened(text)


def race_of(times, drafted=()):
    """A race of a naive lane with these seconds a pass, and a lane that writes two tokens a pass."""
    naive = [
        StepRecord(kind="verify", index=i, emitted=[1], pieces=["a"], origins=["bonus"], verify_s=s)
        for i, s in enumerate(times)
    ]
    other = [
        StepRecord(kind="verify", index=i, emitted=[1, 1], pieces=["a", "a"], origins=["accepted", "bonus"], verify_s=s)
        for i, s in enumerate(drafted)
    ]
    trace, _ = opened(json.dumps(RECORD))
    lanes = [LaneRecord(method="naive", steps=naive), *([LaneRecord(method="draft", steps=other)] if drafted else [])]
    return trace.model_copy(update={"lanes": lanes})


def test_a_steady_clock_is_told_from_a_busy_machine():
    steady = trust.of(race_of([0.004, 0.0041, 0.0042] * 10, [0.005] * 15))
    assert steady == {"steady": True, "sentence": "Steady clock: naive's passes took 4.00 ms to 4.20 ms."}
    busy = trust.of(race_of([0.04] * 20 + [0.39] * 10, [0.05] * 15))
    assert not busy["steady"] and busy["sentence"] == (
        "Busy machine: naive's passes took 40.0 ms to 390 ms, so the seconds say little. By passes alone: 2.00x fewer."
    )
    assert trust.of(race_of([0.004] * 30 + [0.1]))["steady"], "a single slow pass disturbs nobody"
    assert trust.of(race_of([0.004] * 5)) is None, "too few to judge by"
