"""Traces: the published schema, the round trip, statistics that add up, hostile files."""

import json
import math

import jsonschema
import pytest
from conftest import ROOT, finished

import lookahead
from lookahead import Trace, TraceError
from lookahead.trace import wire

PROMPT = "Once upon a time there was a small frog who"


@pytest.fixture(scope="module")
def traces(models):
    """A few real races."""

    def run(*methods, **options):
        return finished(lookahead.race(models, PROMPT, methods=methods, max_new_tokens=48, **options))

    return {
        "greedy": run("naive", "draft", k=4),
        "coupled": run("naive", "draft", "ngram", temperature=0.9, seed=3),
        "rejection": run("naive", "draft", temperature=0.9, rule="rejection", k=3),
        "emoji": run("naive", "ngram", stop=("never",), repetition_penalty=1.2),
    }


def test_round_trip_and_schema(traces):
    schema = json.loads((ROOT / "lookahead" / "trace" / "trace.schema.json").read_text(encoding="utf-8"))
    assert schema == Trace.model_json_schema(), "run: python -m lookahead schema > lookahead/trace/trace.schema.json"
    for trace in traces.values():
        text = trace.to_json()
        jsonschema.validate(json.loads(text), schema)
        assert Trace.from_json(text) == trace
        assert Trace.from_json(trace.to_json(indent=1)) == trace


def test_bundled_recordings_are_valid():
    paths = list((ROOT / "assets" / "traces").glob("*.json"))
    assert paths
    for path in paths:
        trace = Trace.from_json(path.read_bytes())
        assert trace.lanes[0].method == "naive"
        assert trace.lanes[0].text == trace.lanes[1].text


def test_statistics_add_up(traces):
    for trace in traces.values():
        for i, lane in enumerate(trace.lanes):
            stats, steps = trace.stats(i), lane.verified
            histogram = stats["accepted_histogram"]
            assert sum(histogram) == len(steps) == stats["num_spec_steps"]
            assert sum(n * count for n, count in enumerate(histogram)) == stats["num_accepted_draft_tokens"]
            assert stats["new_tokens"] == len(lane.tokens) == sum(len(s.emitted) for s in steps)
            assert stats["num_draft_tokens"] == sum(len(s.draft.tokens) for s in steps)
            assert stats["mean_acceptance_length"] == pytest.approx(1 + stats["num_accepted_draft_tokens"] / len(steps))
            assert stats["tokens_per_second"] == pytest.approx(stats["new_tokens"] / stats["clock_s"])
            assert all(0 <= rate <= 1 for rate in stats["acceptance_rate_per_position"])
            assert stats["speedup"] == pytest.approx(stats["tokens_per_second"] / trace.stats(0)["tokens_per_second"])


def test_texts_and_verdicts(traces):
    for name, trace in traces.items():
        for i in range(1, len(trace.lanes)):
            agreement = trace.agreement(i)
            if name == "rejection":
                assert agreement["identical"] is None
            else:
                assert agreement["identical"] is True
                assert trace.lanes[i].text == trace.lanes[0].text
        assert trace.agreement(0) is None
        verdict = trace.verdict()
        assert "x" in verdict["sentence"]
        assert len(verdict["arithmetic"]) >= 5
    sentence = traces["greedy"].verdict()["sentence"]
    assert f"{traces['greedy'].stats(1)['speedup']:.2f}x" in sentence


def test_the_cost_model_is_stored_completely(traces, models):
    trace = Trace.from_json(traces["greedy"].to_json())
    stored, drafter = trace.costs.pass_costs(), models.costs.drafters["draft"]
    assert stored.pass_s(7, 2) == pytest.approx(models.costs.pass_s(7, 2))
    assert stored.drafters["draft"].switch_s(3) == pytest.approx(drafter.switch_s(3))
    assert stored.predict(0.7, 4, "draft").speedup == pytest.approx(models.costs.predict(0.7, 4, "draft").speedup)
    sums = trace.verdict()["arithmetic"]
    assert any(line.startswith("predicted") and f"{trace.predicted(1).speedup:.2f}x" in line for line in sums)


def test_a_trace_from_before_the_cost_model_is_read(traces):
    data = json.loads(traces["greedy"].to_json())
    data["costs"] = {"rows": [1, 5], "seconds": [0.005, 0.006]}
    old = Trace.from_json(json.dumps(data))
    draft_s = sum(step.propose_s for step in old.lanes[1].verified)
    assert old.predicted(1).draft_s == pytest.approx(draft_s), "its measured time, because the costs are not known"
    assert old.verdict()["sentence"] and old.costs.branching_s is None
    for rows in ([5, 1], [1, 1], [1]):
        data["costs"]["rows"] = rows
        with pytest.raises(TraceError, match="increasing"):
            Trace.from_json(json.dumps(data))


def test_a_difference_is_reported_with_its_margin(traces):
    data = json.loads(traces["greedy"].to_json())
    last = data["lanes"][1]["steps"][-1]
    last["emitted"][-1] = (last["emitted"][-1] + 1) % 4096
    agreement = Trace.from_json(json.dumps(data)).agreement(1)
    assert agreement["identical"] is False
    assert "a bug" in agreement["badge"], "bit-exact rows cannot tie"
    data["exactness"] = "tie-aware"
    data["lanes"][0]["steps"][-1]["tests"][-1]["margin"] = 0.004
    agreement = Trace.from_json(json.dumps(data)).agreement(1)
    assert agreement["badge"] == "differs at token 48: a tie of 0.004 logits"
    data["lanes"][0]["steps"][-1]["tests"][-1]["margin"] = 3.0
    assert "a bug" in Trace.from_json(json.dumps(data)).agreement(1)["badge"]
    data["lanes"][0]["steps"][-1]["tests"][-1]["margin"] = None
    assert "not recorded" in Trace.from_json(json.dumps(data)).agreement(1)["badge"]


def test_margins_are_those_of_the_deciding_scores(traces):
    """With shared noise, the second-best score decides, not the second-highest probability."""
    for name in ("greedy", "coupled", "rejection"):
        settled = [t for s in traces[name].lanes[0].verified for t in s.tests if t.outcome != "rejected"]
        if name == "rejection":
            assert all(t.margin is None for t in settled)
        else:
            assert all(t.margin >= 0 for t in settled)
    for test in (t for s in traces["greedy"].lanes[0].verified for t in s.tests):
        p, q = test.top[0][2], test.top[1][2] if len(test.top) > 1 else 0
        if q > 0.05:
            assert math.log(p / q) == pytest.approx(test.margin, abs=0.02)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: d.pop("lanes"),
        lambda d: d.update(schema="other/9"),
        lambda d: d.update(extra=1),
        lambda d: d["lanes"][1]["steps"][1]["draft"].update(parents=[5]),
        lambda d: d["lanes"][1]["steps"][1].update(emitted=[1, 2, 3, 4, 5, 6, 7]),
        lambda d: d["lanes"][1]["steps"][1].update(propose_s=1e300),
        lambda d: d["lanes"][1]["steps"][1].update(propose_s=-1),
        lambda d: d["lanes"][1]["steps"][1].update(statuses=["accepted"] * 9),
        lambda d: d["lanes"][1]["steps"][1].update(path=[77]),
        lambda d: d["lanes"][1]["steps"][1].update(kind="other"),
        lambda d: d["prompt"].update(tokens=["x"]),
        lambda d: d["settings"].update(temperature="hot"),
        lambda d: d.update(lanes=d["lanes"] * 9),
        lambda d: d["machine"].update(cores=10**30),
    ],
)
def test_files_that_are_not_traces_are_refused(traces, spoil):
    data = json.loads(traces["greedy"].to_json())
    spoil(data)
    with pytest.raises(TraceError, match="give a file that Lookahead saved"):
        Trace.from_json(json.dumps(data))


@pytest.mark.parametrize("text", ["", "null", "[]", "{", '{"a":' * 5000, "[" * 100_000, "NaN", '"x"', b"\xff\xfe"])
def test_text_that_is_not_a_trace_is_refused(text):
    with pytest.raises(TraceError):
        Trace.from_json(text)


def test_a_huge_file_is_refused_unread():
    with pytest.raises(TraceError, match="at most"):
        Trace.from_json(" " * (33 << 20))


def test_the_log_of_a_recording_is_ordered_and_complete(traces):
    for trace in traces.values():
        events = [event.to_dict() for event in wire.events(trace, "caption")]
        assert [e["kind"] for e in events[:1]] == ["begin"]
        assert events[-1]["kind"] == "end"
        assert "steps" not in events[0]["trace"]["lanes"][0]
        steps = [e for e in events if e["kind"] == "step"]
        assert len(steps) == sum(len(lane.steps) for lane in trace.lanes)
        for i, lane in enumerate(trace.lanes):
            clocks = [e["clock_s"] for e in steps if e["lane"] == i]
            assert clocks == sorted(clocks)
            assert clocks[-1] == pytest.approx(lane.clock_s, abs=1e-5)
        json.dumps(events, allow_nan=False)
