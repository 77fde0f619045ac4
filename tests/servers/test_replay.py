"""Acceptance records as races that can be played."""

import json

import pytest

from lookahead.core.events import TraceError
from lookahead.servers.records import PASS_S, TOKEN, opened, played, read
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
