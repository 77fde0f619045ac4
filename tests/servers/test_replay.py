"""Acceptance records as traces that can be played."""

import json

import pytest

from lookahead.core.events import TraceError
from lookahead.servers.records import PASS_S, TOKEN, open_trace, read, to_trace
from lookahead.trace.trace import Trace

RECORD = {
    "engine": "vllm", "mean_acceptance_length": 2.0, "draft_acceptance_rate": 1 / 3, "num_accepted_draft_tokens": 3,
    "acceptance_histogram": {"0": 1, "1": 1, "2": 1}, "num_draft_tokens": 9, "num_spec_steps": 3,
    "per_step_accepted": [0, 2, 1], "per_step_drafted": [3, 3, 3],
}  # fmt: skip


def test_a_record_becomes_a_trace_with_its_passes():
    trace, caption = open_trace(json.dumps(RECORD))
    (lane,) = Trace.from_json(trace.to_json()).lanes
    assert lane.method == "vllm" and lane.text == TOKEN * 6
    assert [(step.drafted, step.accepted) for step in lane.verified] == [(3, 0), (3, 2), (3, 1)]
    assert lane.clock_s == pytest.approx(3 * PASS_S)
    stats = trace.stats(0)
    assert stats["mean_acceptance_length"] == 2 and stats["draft_acceptance_rate"] == pytest.approx(1 / 3)
    assert stats["acceptance_rate_per_position"] == pytest.approx([2 / 3, 1 / 2, 0])
    assert trace.verdict() is None, "there is nothing to compare with"
    assert caption.startswith("An acceptance record of vllm, without text and times.")


def test_the_first_of_many_texts_are_shown():
    trace, caption = open_trace("\n".join([json.dumps(RECORD)] * 20))
    assert [lane.method for lane in trace.lanes] == [f"vllm, text {n}" for n in range(1, 9)]
    assert caption.endswith("The first 8 of 20 texts.")


def test_records_without_a_list_of_passes_are_refused():
    summary = {name: value for name, value in RECORD.items() if not name.startswith("per_step")}
    with pytest.raises(TraceError, match="nothing to play"):
        to_trace(read(json.dumps(summary)))
    for text in ("", "{}", "[1, 2]", "nonsense"):
        with pytest.raises(TraceError):
            open_trace(text)
