"""Files above the limits are refused before they take time or memory. Real recordings are far below the limits."""

import gc
import json
import time
from functools import cache

import psutil
import pytest
from conftest import ROOT

from lookahead.core.acceptance import Acceptance
from lookahead.core.events import TraceError
from lookahead.page.race_tab import open_
from lookahead.servers.records import MAX_TOKENS, AcceptanceRecord, open_trace, read, summarize
from lookahead.trace import parsing
from lookahead.trace.schema import SCHEMA
from lookahead.trace.trace import Trace

TRACES = sorted((ROOT / "assets" / "traces").glob("*.json"))
SHORT = Trace.from_json((ROOT / "assets" / "traces" / "short.json").read_bytes()).to_json()
STEP = {"kind": "verify", "index": 1}
MB = 10**6


def spoilt(change):
    data = json.loads(SHORT)
    change(data)
    return json.dumps(data)


def filled(change, text):
    """Return a recording in which `text` replaces the HERE of `change`."""
    return spoilt(change).replace('"HERE"', text)


@cache
def names(number):
    """Return a JSON object with `number` names."""
    return "{" + ",".join(f'"k{n}":0' for n in range(number)) + "}"


def record(accepted, **changed):
    """Return the record of a text in which all passes but the last accepted their whole draft."""
    return {
        "engine": "vllm", "mean_acceptance_length": 2.0, "draft_acceptance_rate": 0.5, "num_spec_steps": len(accepted),
        "acceptance_histogram": {str(n): accepted.count(n) for n in set(accepted)}, "num_draft_tokens": sum(accepted) + 1,
        "num_accepted_draft_tokens": sum(accepted), "per_step_accepted": accepted,
        "per_step_drafted": [*accepted[:-1], accepted[-1] + 1], **changed,
    }  # fmt: skip


def in_trace(text):
    return f'{{"schema":"{SCHEMA}","a":{text}}}'


# A function that returns a file, and a word of the refusal.
HOSTILE = {
    "lanes": (lambda: spoilt(lambda d: d.update(lanes=[{}] * 3_300_000)), "12.0 MB"),
    "lanes in few bytes": (lambda: in_trace("[" + "{}," * 600_000 + "1]"), "1,000,000"),
    "names": (lambda: in_trace(names(250_000)[:-1] + ',"a":0' * 100_000 + "}"), "300,000"),
    "unknown names": (lambda: filled(lambda d: d.update(lanes=["HERE"]), names(250_000)), "errors"),
    "options": (lambda: filled(lambda d: d["lanes"][0].update(options="HERE"), names(250_000)), "at most 64"),
    "heads": (lambda: filled(lambda d: d["models"].update(heads="HERE"), names(250_000)), "at most 64"),
    "errors": (lambda: spoilt(lambda d: d["prompt"].update(tokens=["x"] * 200_000)), "prompt.tokens.0"),
    "errors in steps": (lambda: spoilt(lambda d: d["lanes"][0].update(steps=[{}] * 15_000)), "steps.0.kind"),
    "passes": (lambda: spoilt(lambda d: d["lanes"][0].update(steps=[STEP] * 100_000)), "at most 16,000"),
    "a string": (lambda: in_trace('"' + "x" * 33 * MB + '"'), "12.0 MB"),
    "a name": (lambda: filled(lambda d: d.update(HERE=0), '"' + "x" * 11 * MB + '"'), "not permitted"),
    "arrays in arrays": (lambda: in_trace("[" * 900_000), "recursion limit"),
    "objects in objects": (lambda: in_trace('{"a":' * 250_000), "recursion limit"),
    "a number of 5,000 digits": (lambda: in_trace("9" * 5000), "out of range"),
    "a number of 11 MB": (lambda: in_trace("9" * 11 * MB), "out of range"),
    "numbers of 4,000 digits": (lambda: in_trace("[" + ",".join(["9" * 4000] * 2800) + "]"), "created"),
    "infinity": (lambda: SHORT.replace('"temperature":0.0', '"temperature":1e400'), "finite"),
    "half a surrogate pair": (lambda: in_trace('"\ud800"'), "Unicode"),
    "an escaped half": (lambda: in_trace('"\\ud800"'), "hex escape"),
    "one name many times": (lambda: in_trace("{" + '"a":1,' * 450_000 + '"a":1}'), "300,000"),
    "spaces": (lambda: " " * 32 * MB, "AIPerf"),
    "lines": (lambda: "1\n" * 16 * MB, "at most 100,000"),
    "lines of names": (lambda: "\n".join([names(250_000)] * 3), "AIPerf"),
    "records": (lambda: "\n".join([json.dumps(record([1]))] * 20_001), "20,000"),
    "a record in many tokens": (lambda: json.dumps(record([4000] * 40_000)), "10,000"),
    "a histogram that counts to a billion": (
        lambda: json.dumps(record([40]) | {"acceptance_histogram": {"40": 10**9}, "num_spec_steps": 10**9}), "num_accepted_draft_tokens",
    ),
    "a histogram of long drafts": (lambda: json.dumps(record([1]) | {"acceptance_histogram": {str(10**12): 1}}), "4096"),
    "a histogram of many lengths": (
        lambda: json.dumps(record([1]) | {"acceptance_histogram": "HERE"}).replace('"HERE"', names(250_000)), "at most 4,097",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.timed
def test_a_hostile_file_is_refused_quickly_and_leaves_no_memory(name):
    make, word = HOSTILE[name]
    text = make()
    process = psutil.Process()
    before, started_at = process.memory_info().rss, time.thread_time()
    response = open_(text)
    assert time.thread_time() - started_at < 2
    assert process.memory_info().rss - before < 100 * MB
    assert word in json.loads(response)["error"] and len(response) < 500


def timed(function):
    """Return the seconds of this thread and the result."""
    started_at = time.thread_time()
    result = function()
    return time.thread_time() - started_at, result


@pytest.mark.timed
def test_the_largest_allowed_file_opens_in_time():
    data = json.loads(Trace.from_json((ROOT / "assets" / "traces" / "story.json").read_bytes()).to_json())
    for lane in data["lanes"]:
        lane["steps"] = [{**step, "finish": None} for step in lane["steps"]] * 16
    data["lanes"] *= 2
    text = json.dumps(data)
    assert text.count(":") > parsing.MAX_NAMES // 3
    seconds, reference = [], []
    for _ in range(3):  # noise only adds time
        reference.append(timed(lambda: sum(i * i for i in range(1_000_000)))[0])
        took, response = timed(lambda: open_(text))
        seconds.append(took)
        assert "error" not in json.loads(response)
    assert min(seconds) < 75 * min(reference), "half of this on a quiet machine, 1.5 s"


def test_real_recordings_are_far_below_the_limits():
    for path in TRACES:
        text = Trace.from_json(path.read_bytes()).to_json()
        assert 20 * sum(map(text.count, parsing.BEFORE_VALUES)) < parsing.MAX_VALUES, path.name
        assert 20 * text.count(parsing.AFTER_NAMES) < parsing.MAX_NAMES, path.name


def test_commas_in_texts_do_not_refuse_a_recording():
    text = spoilt(lambda d: d["prompt"].update(text="a, [b]: {c}, " * 10_000))
    assert Trace.from_json(text).prompt.text.count(",") == 20_000


def test_the_garbage_collector_runs_again_afterwards():
    for text in (SHORT, "{", in_trace("1")):
        open_(text)
        assert gc.isenabled()


def test_a_text_is_played_up_to_a_length():
    limit = MAX_TOKENS
    fits = json.dumps(record([1] * (limit // 2)))
    trace, caption = open_trace("\n".join([fits] * 3))
    assert len(trace.lanes) == 1 and len(trace.lanes[0].tokens) == limit and caption.endswith("The first 1 of 3 texts.")
    with pytest.raises(TraceError, match="at most 10,000"):
        open_trace(json.dumps(record([1] * (limit // 2 + 1))))


def test_long_records_are_judged_without_being_expanded():
    passes = [3] * 999_999 + [1]
    (summary,) = read(json.dumps(record([3, 1], acceptance_histogram={"3": 999_999, "1": 1}, num_spec_steps=10**6,
        num_accepted_draft_tokens=sum(passes), num_draft_tokens=3 * 10**6, per_step_accepted=None, per_step_drafted=None)))  # fmt: skip
    assert Acceptance.from_counts(summary.drafts) == Acceptance((10**6, 999_999, 999_999), (10**6, 10**6, 999_999))
    assert summarize([summary, summary])["by_position"][1] == {
        "position": 2,
        "accepted": 1_999_998,
        "tested": 2 * 10**6,
        "rate": 0.999999,
    }


def test_records_of_one_file_add_up():
    records = [AcceptanceRecord.model_validate(record(passes)) for passes in ([0, 1, 2], [2, 2], [3])]
    total = sum((Acceptance.from_counts(item.drafts) for item in records), Acceptance())
    rows = summarize(records)["by_position"]
    assert [(row["accepted"], row["tested"]) for row in rows] == [*zip(total.accepted, total.tested, strict=True)]


@pytest.mark.parametrize("seconds", [0, 5e-324, 1e-12])
@pytest.mark.parametrize("part", ["verify_s", "propose_s"])
def test_a_clock_that_did_not_run_gives_no_verdict(part, seconds):
    def stop(data):
        for lane in data["lanes"]:
            for step in lane["steps"]:
                step.update(dict.fromkeys(("verify_s", "propose_s", "other_s"), 0), **{part: seconds})

    end = json.loads(open_(spoilt(stop)))["ev"][-1]
    assert end["verdict"] is None and end["stats"][0]["tokens_per_second"] is None


def test_drafting_without_verifying_gives_no_verdict():
    def change(data):
        for lane in data["lanes"]:
            for step in lane["steps"]:
                step.update(verify_s=0, propose_s=1)

    assert json.loads(open_(spoilt(change)))["ev"][-1]["verdict"] is None
