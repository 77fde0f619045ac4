"""The bench: entries, prompt files, predictions and the tables of its report."""

import itertools
import re

import pytest

from lookahead.core.events import LookaheadError
from lookahead.measure import bench, prompt_files, tables, timing
from lookahead.measure.timing import Timing, blocks, read_entry


def test_an_entry_is_a_method_with_settings_and_options():
    entry = bench.read_entry("hf-assisted:attention=sdpa,k=5")
    assert (entry.method, entry.settings, entry.options) == ("hf-assisted", {"k": 5}, {"attention": "sdpa"})
    assert bench.read_entry("draft:draft=offdomain").options == {"draft": "offdomain"}
    for bad in ("nope", "draft:k", "nope:k=3"):
        with pytest.raises(LookaheadError):
            bench.read_entry(bad)
    for label in (*bench.PEERS, *(f"draft:k={k}" for k in bench.FIXED)):
        assert bench.read_entry(label).label == label


def test_spec_bench_questions_are_read(tmp_path):
    path = tmp_path / "question.jsonl"
    lines = (
        '{"question_id": 81, "category": "writing", "turns": ["Compose a post.", "Rewrite it."]}',
        '{"id": "a", "category": "x", "prompt": "Once", "chat": false}',
    )
    path.write_text("\n".join(lines), encoding="utf-8")
    first, second = prompt_files.read(str(path))
    assert (first.id, first.category, first.prompt, first.chat) == ("81", "writing", "Compose a post.", True)
    assert (second.id, second.prompt, second.chat) == ("a", "Once", False)


def row(method, prompt, rate, identical=True):
    return {"method": method, "id": prompt, "tokens_per_second": rate, "speedup": rate / 100, "identical": identical}


def test_other_engines_are_compared_with_their_best_settings_for_each_prompt():
    rows = [
        row("draft", "a", 200), row("draft", "b", 300),
        row("hf-assisted:k=3", "a", 100, identical=False), row("hf-assisted:k=8", "a", 160),
        row("hf-assisted:k=3", "b", 150), row("hf-assisted:k=8", "b", 120),
    ]  # fmt: skip
    (line,) = bench._against(rows, {"hf-assisted": "draft model"})
    assert line["ratio_min"] == pytest.approx(200 / 160)
    assert line["ratio_max"] == pytest.approx(300 / 150)
    assert line["settings"] == 2
    assert line["rival_identical_share"] == 0.75


def test_auto_is_compared_with_the_best_length_and_with_an_oracle():
    rows = [
        row("draft", "a", 180), row("draft", "b", 200), row("draft:k=2", "a", 200), row("draft:k=2", "b", 100),
        row("draft:k=4", "a", 150), row("draft:k=4", "b", 220),
    ]  # fmt: skip
    (line,) = bench._fixed(rows)
    assert line["best_fixed"] == 4
    assert line["best_fixed_speedup"] == pytest.approx(1.85)
    assert line["of_oracle_min"] == pytest.approx(180 / 200)
    assert line["of_oracle_median"] == pytest.approx((180 / 200 + 200 / 220) / 2)


def test_each_block_of_lanes_has_a_naive_run(models, monkeypatch):
    """A machine that is slow for some time slows both. The order is reversed with each repetition."""
    labels = ["naive", "ngram", "suffix", "draft", "draft:k=1", "draft:k=2"]
    entries = [read_entry(label) for label in labels]
    assert [[entry.label for entry in block] for block in blocks(entries)] == [
        ["naive", "ngram", "suffix", "draft"], ["naive", "draft:k=1", "draft:k=2"]
    ]  # fmt: skip
    assert blocks(entries[:1]) == [[entries[0]]]
    clock = itertools.count(1)
    monkeypatch.setattr(timing, "time_lane", lambda lane: timed(next(clock)))
    questions = [bench.Question("q", "story", "Once upon a time", False, {})]
    samples = [s for s in timing.run_samples(models, entries, questions, 2, {"max_new_tokens": 4}) if s]
    runs = {s.timing.seconds: s.entry.label for s in samples}
    forward = [*labels[:4], "naive", *labels[4:]]
    backward = [*labels[:3:-1], "naive", *labels[3::-1]]
    assert [runs[seconds] for seconds in sorted(runs)] == forward + backward, "in the order in which they ran"
    first = min(runs)
    for label, naive_runs in (("draft", (0, 13)), ("draft:k=2", (4, 9)), ("draft:k=1", (4, 9))):
        assert [s.naive.seconds - first for s in samples if s.entry.label == label] == [*naive_runs]
    assert all(s.naive is s.timing for s in samples if s.entry.label == "naive")
    assert len([s for s in samples if s.entry.label == "naive"]) == 4


def timed(seconds):
    return Timing(tuple(range(4)), seconds, 4, 0, 0, 0, seconds, 0, 0.1, None)


def test_the_median_of_an_even_number_of_runs_is_the_slower_one():
    runs = [timed(seconds) for seconds in (3, 27, 5, 0)]
    assert timing.median_run(runs) is runs[2] and timing.median_run(runs[:1]) is runs[0]


def test_a_report_becomes_tables(models):
    questions = [bench.Question("q", "story", "Once upon a time", False, {})]
    methods = ["draft", "draft:k=2", "hf-assisted:attention=sdpa,k=3"]
    *_, last = bench.measure(models, methods, questions, repeat=1, max_new_tokens=10)
    report = last.result
    text = re.sub(" +", " ", tables.report_markdown(report, bench.tables(report)))
    assert "| `draft` |" in text
    assert "`hf-assisted`, 1 setting |" in text
    assert "k = 2" in text
    rows = {r["method"]: r for r in report["rows"]}
    assert rows["naive"]["predicted_speedup"] == pytest.approx(1.0)
    assert 0.2 < rows["draft"]["predicted_speedup"] < 10
    assert rows["hf-assisted:attention=sdpa,k=3"]["predicted_speedup"] is None
    assert rows["hf-assisted:attention=sdpa,k=3"]["overhead_fraction"] is None


def test_other_engines_are_refused_with_a_schema():
    question = timing.Question("a", "b", "Is it?", False, {"schema": ["yes", "no"]})
    with pytest.raises(LookaheadError, match="other engines are measured without a schema"):
        next(bench.measure(None, ["draft"], [question], others=[object()]))
