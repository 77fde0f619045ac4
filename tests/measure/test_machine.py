"""Measurements of this machine: numbers for each combination, restored settings, correct sentences and parts of a pass."""

import gc
import weakref
from dataclasses import replace

import pytest
import torch
from conftest import emitted, tiny

import lookahead
from lookahead.core.processor import cores
from lookahead.measure import charts, machine
from lookahead.measure.machine import (
    ATTENTION,
    HEAD,
    LAYERS,
    OTHER,
    TOTAL,
    Combination,
    Comparison,
    PassParts,
    time_parts,
)
from lookahead.model.lm import CachedLM
from lookahead.page.lab.machine import _comparison, _parts

pytestmark = pytest.mark.models

SHORT = {"rows": (1, 2, 9), "visits": 3}


def combination(dtype, n, *ms, in_use=False, skipped=""):
    weights = 64_000_000 if dtype == "float32" else 32_000_000
    return Combination(dtype, n, in_use, weights, (1, 9), tuple(t / 1e3 for t in ms), skipped)


def comparison(*combinations, visits=9):
    return Comparison(combinations, visits)


BF2 = combination("bfloat16", 2, 4, 5)
F2 = combination("float32", 2, 5, 9)


def used(c):
    return replace(c, in_use=True)


# ------------------------------------------------------------------ measured


def test_every_combination_is_measured(models):
    updates = list(machine.compare(models, **SHORT))
    counts = machine.thread_counts(cores(), models.measured.threads)
    result = updates[-1].result
    assert [(c.dtype, c.threads) for c in result.combinations] == [
        (dtype, n) for dtype in (models.dtype, "float32" if models.dtype == "bfloat16" else "bfloat16") for n in counts
    ]
    assert (result.in_use.dtype, result.in_use.threads) == (models.dtype, models.measured.threads)
    assert result.in_use.pass_s, "the combination in use is never skipped"
    for c in result.combinations:
        assert bool(c.pass_s) != bool(c.skipped)
        assert c.rows == (1, 2, 9) and len(c.pass_s) in (0, 3) and all(s > 0 for s in c.pass_s)
        if c.pass_s:
            assert c.bytes_per_s == pytest.approx(c.weight_bytes / c.pass_s[0])
    assert result.visits == 3 and result.verdict()
    assert updates[-1].done == updates[-1].total and updates[0].result is None
    assert all(0 <= update.done <= update.total and update.text for update in updates)
    by_dtype = {c.dtype: c.weight_bytes for c in result.combinations}
    assert by_dtype["float32"] == 2 * by_dtype["bfloat16"]


def test_settings_and_weights_are_restored(models):
    def race():
        return [emitted(lookahead.decode(models, "Once", method=m, max_new_tokens=12)) for m in ("naive", "draft")]

    passes, before = models.target.passes, race()
    weights = [(p.data_ptr(), p.dtype, p.detach().clone()) for p in passes.parameters()]
    tokens, count = list(models.target.tokens), torch.get_num_threads()
    for closing_at in (1, 2, 4, 7, None):
        running = machine.compare(models, **SHORT)
        for i, _ in enumerate(running):
            assert torch.get_num_threads() == count, "between two visits, too"
            if i == closing_at:
                break
        running.close()
    assert torch.get_num_threads() == count and models.target.tokens == tokens and models.target.passes is passes
    for p, (pointer, dtype, values) in zip(passes.parameters(), weights, strict=True):
        assert (p.data_ptr(), p.dtype) == (pointer, dtype) and torch.equal(p, values)
    assert race() == before


def test_the_thread_count_is_restored_when_a_pass_fails(models, monkeypatch):
    count, running = torch.get_num_threads(), machine.compare(models, **SHORT)
    monkeypatch.setattr(machine, "thread_counts", lambda cores, used: sorted({1, used, used + 1}))
    for update in running:
        if "thread" in update.text and str(count) not in update.text:
            break
    monkeypatch.setattr(machine, "_timed", lambda lm, tokens: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        list(running)
    assert torch.get_num_threads() == count


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gpt2"])
def test_the_copy_is_another_format_and_computes_the_same(kind, tmp_path):
    family = lookahead.load(tiny(kind, tmp_path / kind))
    passes = family.target.passes
    other = torch.float32 if passes.dtype == torch.bfloat16 else torch.bfloat16
    copy = passes.converted(other)
    assert {p.dtype for p in copy.parameters()} == {other}
    assert not {p.data_ptr() for p in copy.parameters()} & {p.data_ptr() for p in passes.parameters()}
    rows = [CachedLM(model, family.target.vocab).forward(list(range(5, 20))).float() for model in (passes, copy)]
    assert not torch.equal(*rows), "another format rounds differently"
    assert torch.nn.functional.cosine_similarity(*rows).min() > 0.98
    reference = weakref.ref(copy)
    del copy
    gc.collect()
    assert reference() is None


def test_the_bytes_that_a_pass_reads(models, tmp_path):
    assert models.target.passes.read_bytes == models.target.passes.nbytes, "the embedding is also the head"
    for kind in ("llama", "qwen3", "gemma"):
        passes = lookahead.load(tiny(kind, tmp_path / kind, tie_word_embeddings=False)).target.passes
        embedding = passes.model.get_input_embeddings().weight
        assert passes.read_bytes == passes.nbytes - embedding.nbytes, kind


def test_thread_counts():
    assert machine.thread_counts(1, 1) == [1]
    assert machine.thread_counts(2, 2) == [1, 2]
    assert machine.thread_counts(8, 8) == [1, 2, 4, 8]
    assert machine.thread_counts(16, 8) == [1, 4, 8, 16], "four counts, with the one in use"
    assert machine.thread_counts(2, 1) == [1, 2]


def test_a_much_slower_format_is_tried_twice_and_skipped(models, monkeypatch):
    real, tries = machine._timed, []

    def timed(lm, tokens):
        if lm.model is models.target.model:
            return real(lm, tokens)
        tries.append(len(tokens))
        return 60.0

    monkeypatch.setattr(machine, "_timed", timed)
    *_, last = machine.compare(models, **SHORT)
    others = [c for c in last.result.combinations if c.dtype != models.dtype]
    assert all(c.skipped == machine.SKIPPED_SLOW and not c.pass_s for c in others)
    assert tries == [1] * 2 * len(others), "two one-row passes of each"
    assert all(c.dtype == models.dtype for c in last.result.measured)


@pytest.mark.timed
def test_one_slow_pass_skips_no_format(models, monkeypatch):
    real, noisy = machine._timed, [60.0]
    monkeypatch.setattr(
        machine,
        "_timed",
        lambda lm, tokens: noisy.pop() if noisy and lm.model is not models.target.model else real(lm, tokens),
    )
    *_, last = machine.compare(models, **SHORT)
    assert not noisy and not any(c.skipped for c in last.result.combinations)


def test_without_memory_for_a_copy_only_the_format_in_use_is_measured(models, monkeypatch):
    monkeypatch.setattr(machine.memory, "free", lambda: 1000)
    *_, last = machine.compare(models, **SHORT)
    assert {c.skipped for c in last.result.combinations if c.dtype != models.dtype} == {machine.SKIPPED_MEMORY}
    assert last.result.in_use.pass_s


def test_a_short_context_has_fewer_rows(tmp_path):
    family = lookahead.load(tiny("llama", tmp_path / "short", max_position_embeddings=66))
    *_, last = machine.compare(family, **{**SHORT, "rows": (1, 2, 5, 9)})
    assert last.result.in_use.rows == (1, 2) and last.result.in_use.pass_s
    assert last.result.verdict() == "", "nine rows were not measured"
    assert "bfloat16" in _comparison(last.result).replace("\u00a0", " ")


# ------------------------------------------------------------------ sentences


def test_the_fastest_is_in_use():
    assert comparison(used(BF2), F2).verdict() == (
        "bfloat16 with 2 threads (4.00 ms for one row, 5.00 ms for nine) is in use. It is the fastest here."
    )
    skipped = replace(F2, pass_s=(), skipped="skipped")
    assert not comparison(used(BF2), skipped).verdict(), "no second combination was measured"
    verdict = comparison(used(combination("bfloat16", 2, 2, 10)), combination("float32", 2, 5, 8)).verdict()
    assert verdict.startswith("bfloat16 with 2 threads"), "the sum of one row and nine rows counts"
    assert comparison(used(BF2), F2, visits=machine.MIN_VISITS - 1).verdict() == "", "too few visits"


def test_differences_within_noise_are_ignored():
    verdict = comparison(used(BF2), combination("bfloat16", 1, 3.9, 4.9)).verdict()
    assert verdict == "bfloat16 with 2 threads is in use. No other is faster by more than measurement noise (5%)."


def test_the_reason_if_the_fastest_is_not_in_use():
    verdict = comparison(BF2, used(F2)).verdict()
    assert "1.56 times as fast as float32 with 2 threads, which is in use" in verdict
    assert "The app uses bfloat16 if its kernels compute the passes, else float32" in verdict
    verdict = comparison(used(replace(BF2, pass_s=(0.02, 0.03))), F2).verdict()
    assert "float32 with 2 threads (5.00" in verdict and "LOOKAHEAD_DTYPE" in verdict
    verdict = comparison(used(BF2), combination("bfloat16", 1, 2, 3)).verdict()
    assert "LOOKAHEAD_THREADS=1" in verdict
    gpu = [replace(c, threads=None) for c in (used(BF2), combination("float32", 2, 1, 2))]
    assert "float32 (1.00" in comparison(*gpu).verdict() and "On a GPU" in comparison(*gpu).verdict()


def test_the_table_marks_combinations_in_use_and_skipped_ones():
    skipped = replace(F2, pass_s=(), skipped=machine.SKIPPED_SLOW)
    table = _comparison(comparison(used(BF2), combination("bfloat16", 1, 0.5, 1), skipped)).replace("\u00a0", " ")
    assert table.count("in use</td>") == 1
    assert "<td>bfloat16, in use</td><td>2</td><td>4.00 ms</td><td>1.25</td>" in table
    assert "skipped: much slower" in table and "8.00 GB/s" in table and "64.0 GB/s" in table


# ------------------------------------------------------------------ the figure


@pytest.mark.parametrize("dark", [False, True])
def test_the_lines_differ_in_more_than_color(dark):
    combinations = [
        combination(dtype, n, 4 + n, 5 + n, in_use=(dtype, n) == ("bfloat16", 4))
        for dtype in ("bfloat16", "float32")
        for n in (1, 2, 4, 8)
    ]
    figure = charts.formats(comparison(*combinations), dark)
    assert len(figure.data) == 8 and list(figure.data[0].y) == [5.0, 6.0] and list(figure.data[0].x) == [1, 9]
    styles = {(trace.line.dash, trace.marker.symbol) for trace in figure.data}
    assert len(styles) == 8 and len({trace.line.dash for trace in figure.data}) == 2
    (thick,) = [trace for trace in figure.data if trace.line.width > 2]
    assert thick.name == "bfloat16 with 4 threads, in use"
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")


def test_a_figure_without_results_has_a_note():
    figure = charts.formats(comparison(used(replace(BF2, pass_s=()))))
    assert charts.NOTHING in " ".join(note.text for note in figure.layout.annotations)


# ------------------------------------------------------------------ the parts of a pass

TARGET = PassParts("target", 30_000_000, 15e9, 8e-3, layers_s=2.8e-3, attention_s=1e-3, head_s=0.4e-3)


def test_the_segments_add_up_to_the_pass():
    assert TARGET.limit_s == 2e-3 and TARGET.ratio == 4
    assert TARGET.segments == pytest.approx({LAYERS: 2.8e-3, ATTENTION: 1e-3, HEAD: 0.4e-3, OTHER: 3.8e-3})


def test_other_time_is_never_negative():
    assert replace(TARGET, pass_s=2.5e-3).segments[OTHER] == 0
    assert replace(TARGET, layers_s=None).segments == {TOTAL: 8e-3}


@pytest.mark.parametrize(
    ("pass_s", "sentence"),
    [(4e-3, "50% of the memory bandwidth (15.0 GB/s). The pass is memory-bound"), (8e-3, "Reading alone would take 2.00 ms of its 8.00 ms")],
)  # fmt: skip
def test_the_share_of_memory_bandwidth(pass_s, sentence):
    parts = replace(TARGET, pass_s=pass_s)
    assert sentence in parts.sentence and parts.sentence in _parts((parts,)).replace("&#x27;", "'")


@pytest.mark.timed
def test_the_parts_of_every_model_are_timed(models):
    updates = list(time_parts(models, repeats=5))
    result = updates[-1].result
    assert [parts.role for parts in result] == ["target", *models.drafts]
    assert [update.done for update in updates] == list(range(len(result) + 1)) and updates[-1].total == len(result)
    for parts, lm in zip(result, (models.target, *models.drafts.values()), strict=True):
        assert parts.weight_bytes == lm.passes.read_bytes and parts.bytes_per_s > 1e8
        assert set(parts.segments) == {LAYERS, ATTENTION, HEAD, OTHER}
        assert parts.pass_s / 20 < parts.layers_s < 3 * parts.pass_s, (
            "the limits are wide because the machine may be busy"
        )
    assert models.target.tokens == []


def test_a_model_without_parts_has_the_time_of_its_pass(tmp_path):
    (*_, last) = time_parts(lookahead.load(tiny("gemma", tmp_path / "q")), repeats=1)
    target = next(parts for parts in last.result if parts.role == "target")
    assert set(target.segments) == {TOTAL} and target.ratio > 1


@pytest.mark.parametrize("dark", [False, True])
def test_the_bars_are_in_units_of_the_limit(dark):
    drawn = charts.pass_parts((TARGET, replace(TARGET, role="draft", layers_s=None)), dark)
    assert sum(bar.x[0] for bar in drawn.data if bar.name != TOTAL) == pytest.approx(4)
    assert {bar.name: len(bar.y) for bar in drawn.data} == {LAYERS: 1, ATTENTION: 1, HEAD: 1, OTHER: 1, TOTAL: 1}
    assert len({(bar.marker.color, bar.marker.pattern.shape) for bar in drawn.data}) == 5
    assert not charts.pass_parts(()).data


def test_the_table_has_the_numbers_of_the_bars():
    table = _parts((TARGET, replace(TARGET, role="draft", layers_s=None)))
    for cell in ("30.0 MB", "15.0 GB/s", "2.00 ms", "8.00 ms", "4.00x", ATTENTION, "3.80 ms", TOTAL):
        assert cell in table
