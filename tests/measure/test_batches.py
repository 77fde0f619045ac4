"""Batches: the document of a measurement, its command, and errors for invalid input."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lookahead.__main__ import main
from lookahead.core.costs import CostCurve, DrafterCosts, PassCosts
from lookahead.core.events import LookaheadError
from lookahead.measure import batches, published
from lookahead.measure.progress import questions

PROMPTS = [q for q in questions() if not q.settings][:4]


def measured(models, methods=("ngram", "draft"), sizes=(1, 3), **options):
    *_, last = batches.measure(models, PROMPTS, methods, sizes, max_new_tokens=8, **options)
    return last


def test_every_method_is_measured_at_every_size(models):
    last = measured(models)
    assert last.done == last.total
    rows = last.result["rows"]
    assert [(row["texts"], row["method"]) for row in rows] == [(n, m) for n in (1, 3) for m in ("ngram", "draft")]
    for row in rows:
        assert row["identical"] and row["speedup"] == pytest.approx(
            row["tokens_per_second"] / row["naive_tokens_per_second"]
        )
        low, high = row["interval"]
        assert 0 < low <= row["speedup"] <= high
        assert (
            row["rows_per_pass"] >= row["texts"]
            and row["mean_acceptance_length"] >= 1
            and min(row["pass_s"], row["naive_pass_s"]) > 0
        )
        assert row["theory"] > 0 and 0 < len(row["passes"]) <= batches.SHOWN_PASSES
        for texts in row["passes"]:
            assert len(texts) == row["texts"] and all(drafted >= accepted >= 0 for drafted, accepted in texts)


def test_theory_assumes_the_drafts_of_the_smallest_batch(models):
    """On this cost curve, a few rows are almost free, and many are not."""
    costs = PassCosts(CostCurve((1, 5, 320), (0.010, 0.012, 0.400)), {"draft": DrafterCosts(CostCurve((1,), (0.001,)))})
    models = replace(models, measured=replace(models.measured, costs=costs))
    row = {"method": "draft", "drafted_per_text": 4.0, "mean_acceptance_length": 3.0}
    single, many = (batches.theory(models, row, texts) for texts in (1, 1024))
    assert single == pytest.approx(3 * 0.010 / (0.012 + 4 * 0.001))
    assert many < 1, "in a large batch, each drafted row is expensive"
    assert (
        batches.theory(models, row | {"drafted_per_text": 0.0, "mean_acceptance_length": 1.0, "method": "ngram"}, 8)
        == 1
    )


def test_a_batch_of_one_text_has_drafts(models):
    (row,) = measured(models, ["draft:k=4"], [1]).result["rows"]
    assert row["method"] == "draft:k=4" and row["mean_acceptance_length"] > 1.5
    assert row["draft_acceptance_rate"] == pytest.approx((row["mean_acceptance_length"] - 1) / row["drafted_per_text"])


def test_only_full_passes_count(models):
    writing, passes = batches.write(models, PROMPTS, 3, batches.read_entry("naive"), {"max_new_tokens": 8}), 0
    while True:
        try:
            next(writing)
            passes += 1
        except StopIteration as end:
            run = end.value
            break
    assert passes > run.passes, "it yields after each pass, including prefill"
    assert run.steps == 3 * run.passes == run.tokens == run.rows
    assert run.tokens < sum(map(len, run.texts)) == 32


def test_the_median_repetition_counts():
    def run(seconds):
        return batches.BatchRun((), seconds, tokens=10, passes=5, rows=10, drafted=0, accepted=0, steps=10, shown=())

    runs = [(run(drafted), run(naive)) for drafted, naive in ((2.0, 4.0), (2.1, 40.0), (20.0, 4.2))]
    assert [median.seconds for median in batches.medians(runs)] == [2.1, 4.2]
    assert batches.speedup([batches.medians(runs)]) == 2


def test_a_measurement_may_be_closed_between_two_passes(models):
    measuring = batches.measure(models, PROMPTS, ["draft"], [2], max_new_tokens=8)
    assert [next(measuring) for _ in range(5)] == [None] * 5
    measuring.close()


@pytest.mark.parametrize(
    ("methods", "sizes"),
    [(["draft"], []), (["draft"], [0]), (["draft"], [1000]), (["nothing"], [1]), (["hf-lookup"], [1])],
)
def test_invalid_input_raises_before_the_first_measurement(models, methods, sizes):
    with pytest.raises(LookaheadError):
        next(batches.measure(models, PROMPTS, methods, sizes))


@pytest.mark.models
def test_the_command_prints_one_document(capsys, tmp_path):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"id": "a", "category": "c", "prompt": "Once upon a time"}\n')
    main(
        ["batch", "--methods", "ngram", "--texts", "1,2", "--prompts", str(prompts), "--max-new-tokens", "6", "--json"]
    )
    document = json.loads(capsys.readouterr().out)
    assert [row["texts"] for row in document["rows"]] == [1, 2]
    needed = {"texts", "method", "tokens_per_second", "naive_tokens_per_second", "speedup", "identical"}
    assert all(needed <= set(row) for row in document["rows"]) and set(document["advice"]) == {"ngram"}


@pytest.mark.parametrize("arguments", [["--texts", "0"], ["--texts", "x"], ["--methods", "nothing"], ["--repeat", "0"]])
def test_invalid_arguments_print_one_line(capsys, arguments):
    assert main(["batch", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.models
def test_the_table_is_written_between_the_markers_of_a_file(tmp_path, capsys):
    readme = tmp_path / "table.md"
    readme.write_text("\n".join(["before", "<!-- batch -->", "<!-- /batch -->", "after"]), encoding="utf-8")
    arguments = ["batch", "--methods", "suffix", "--texts", "1,2", "--max-new-tokens", "6", "--update", str(readme)]
    assert main([*arguments, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    levels, machine = published.batches(readme)
    assert [level.at_once for level in levels["suffix"]] == [1, 2] and "cores" in machine
    for level, row in zip(levels["suffix"], rows, strict=True):
        assert level.speedup == pytest.approx(row["speedup"], abs=0.006)
    text = readme.read_text(encoding="utf-8")
    assert text.startswith("before\n") and text.endswith("after")
    assert main([*arguments[:-1], str(tmp_path / "none.md")]) == 2
