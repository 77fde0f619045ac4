"""Acceptance records: from recorded vLLM responses, AIPerf and our traces; inconsistent records are refused."""

import json
from pathlib import Path

import pytest
from conftest import finished

import lookahead
from lookahead.__main__ import main
from lookahead.core.acceptance import Acceptance
from lookahead.core.events import TraceError
from lookahead.servers.records import AcceptanceRecord, read, summarize

ANSWERS = Path(__file__).parent / "answers"
RECORD = {
    "engine": "vllm", "mean_acceptance_length": 2.5, "draft_acceptance_rate": 0.5, "acceptance_histogram": {"0": 1, "1": 1, "2": 1, "3": 1},
    "num_accepted_draft_tokens": 6, "num_draft_tokens": 12, "num_spec_steps": 4, "num_spec_tokens": 3,
}  # fmt: skip


def metrics_event(name):
    """Return the event with the metrics of a recorded vLLM response."""
    lines = (ANSWERS / name).read_text().splitlines()
    return next(line.removeprefix("data: ") for line in lines if "speculative_decoding" in line)


@pytest.mark.parametrize("name", ["vllm-completions.txt", "vllm-chat-completions.txt"])
def test_a_recorded_vllm_response_is_read(name):
    (record,) = read(metrics_event(name))
    assert record.engine == "vllm" and record.completion_tokens == 48 and record.num_spec_tokens == 4
    assert record.mean_acceptance_length == pytest.approx(1 + record.num_accepted_draft_tokens / record.num_spec_steps)
    acceptance = Acceptance.from_counts(record.drafts)
    assert sum(acceptance.accepted) == record.num_accepted_draft_tokens
    assert acceptance.tested[0] == record.num_spec_steps


def test_a_histogram_with_a_limit_has_the_same_acceptance_as_the_passes():
    (record,) = read(metrics_event("vllm-completions.txt"))
    summary = record.model_copy(update={"per_step_accepted": None, "per_step_drafted": None})
    assert Acceptance.from_counts(summary.drafts) == Acceptance.from_counts(record.drafts)


def test_aiperf_records_are_read_and_written(tmp_path, capsys):
    lines = [json.dumps({"metadata": {"n": n}, "spec_decode_acceptance": RECORD}) for n in range(3)]
    file, out = tmp_path / "records.jsonl", tmp_path / "out.jsonl"
    file.write_text("\n".join([*lines, json.dumps({"metadata": {}, "spec_decode_acceptance": None}), ""]))
    assert main(["acceptance", str(file), "--records", str(out), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["texts"] == 3 and report["mean_acceptance_length"] == 2.5 and report["interval"] == [2.5, 2.5]
    assert [(row["accepted"], row["tested"]) for row in report["by_position"]] == [(9, 12), (6, 9), (3, 6)]
    assert read(out.read_text()) == read(file.read_text())
    assert main(["acceptance", str(file)]) == 0 and "12 passes with a draft" in " ".join(
        capsys.readouterr().out.split()
    )


def test_the_lanes_of_a_trace_become_records(models, tmp_path, capsys):
    race = lookahead.race(models, "Once upon a time", ["naive", "draft", "tree"], max_new_tokens=24)
    for _ in race:
        pass
    trace = race.result()
    file = tmp_path / "race.json"
    file.write_text(trace.to_json())
    chain, tree = read(file.read_text())
    assert chain.per_step_accepted and chain.num_accepted_draft_tokens == trace.stats(1)["num_accepted_draft_tokens"]
    assert chain.completion_tokens == 24 and tree.engine == "lookahead"
    assert not summarize([tree])["tokens_per_pass"], "auto ends drafts at low confidence, so there is no forecast"
    fixed = finished(lookahead.race(models, "Once upon a time", ["draft"], max_new_tokens=24, k=3))
    assert summarize(read(fixed.to_json()))["tokens_per_pass"][0]["tokens"] > 1
    assert main(["schema", "--acceptance"]) == 0
    assert "per_step_accepted" in json.loads(capsys.readouterr().out)["properties"]


TENSORRT_LLM = {
    "total_draft_tokens": 12, "total_accepted_draft_tokens": 6, "num_spec_steps": 4, "num_spec_tokens": 3, "acceptance_rate": 0.5,
    "acceptance_histogram": [1, 1, 1, 1],
}  # fmt: skip
SGLANG = {
    "spec_num_proposed_drafts": 12, "spec_num_correct_drafts": 6, "spec_verify_ct": 4,
    "spec_correct_drafts_histogram": [1, 1, 1, 1],
}  # fmt: skip


@pytest.mark.parametrize(
    ("engine", "response"),
    [
        ("tensorrt_llm", {"choices": [{"message": {"content": "So"}, "speculative_decoding": TENSORRT_LLM}]}),
        ("sglang", {"choices": [{"message": {"content": "So"}}], "sglext": {"spec_tokens_details": SGLANG}}),
        ("sglang", {"text": "So", "meta_info": {**SGLANG, "completion_tokens": 10}}),
    ],
)
def test_responses_of_other_engines_are_read(engine, response):
    (record,) = read(json.dumps(response))
    assert record.engine == engine and record.drafts == AcceptanceRecord.model_validate(RECORD).drafts
    assert record.num_spec_tokens == 3 and record.draft_acceptance_rate == 0.5


@pytest.mark.parametrize(
    "changes",
    [
        {"num_spec_steps": 5}, {"num_accepted_draft_tokens": 7}, {"num_draft_tokens": 5}, {"acceptance_histogram": "none"},
        {"per_step_accepted": [0, 1, 2, 2]}, {"per_step_drafted": [3]}, {"mean_acceptance_length": float("nan")}, {"num_spec_steps": -1},
    ],
)  # fmt: skip
def test_inconsistent_records_are_refused(changes):
    with pytest.raises(TraceError, match="records"):
        read(json.dumps(RECORD | changes))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_all_line_endings_are_read(end):
    line = json.dumps({"text": "a\u2028b\u2029c\u0085d", **RECORD, "engine": "e\u2028f"}, ensure_ascii=False)
    text = f"\ufeff{line}{end}{line}{end}"
    for data in (text, text.encode(), line.encode("utf-8-sig")):
        assert {record.engine for record in read(data)} == {"e\u2028f"}
    assert len(read(text)) == 2


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "latin-1"])
def test_another_encoding_is_refused_with_a_hint(tmp_path, encoding, capsys):
    file = tmp_path / "records.json"
    file.write_bytes(json.dumps({**RECORD, "engine": "für"}, ensure_ascii=False).encode(encoding))
    with pytest.raises(TraceError, match="save it as UTF-8"):
        read(file.read_bytes())
    with pytest.raises(TraceError, match="save it as UTF-8"):
        lookahead.Trace.from_json(file.read_bytes())
    assert main(["acceptance", str(file)]) == 2 and "save it as UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        "[]",
        '{"metrics": null}',
        '{"choices": [3]}',
        '{"meta_info": 3}',
        '{"a": 1}\nnot json',
        "[" * 100_000,
    ],
)
def test_a_text_without_records_is_refused(text):
    with pytest.raises(TraceError):
        read(text)


def test_records_without_drafts_are_summarized():
    empty = RECORD | {"acceptance_histogram": {}, "num_spec_steps": 0, "num_accepted_draft_tokens": 0, "num_draft_tokens": 0,
                      "mean_acceptance_length": 1.0, "draft_acceptance_rate": 0.0}  # fmt: skip
    report = summarize([AcceptanceRecord.model_validate(empty)])
    assert report["mean_acceptance_length"] == 1.0 and report["by_position"] == []
