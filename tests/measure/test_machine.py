"""This machine, measured on request: every combination has its numbers, nothing is left changed, the words are true, and the parts are the pass."""

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
    REST,
    WHOLE,
    Compared,
    Passes,
    PassParts,
    take_apart,
)
from lookahead.model.lm import CachedLM
from lookahead.page.lab.machine import _comparison, _parts

pytestmark = pytest.mark.models

QUICK = {"rows": (1, 2, 9), "visits": 3}


def passes(dtype, n, *ms, in_use=False, left_out=""):
    weights = 64_000_000 if dtype == "float32" else 32_000_000
    return Passes(dtype, n, in_use, weights, (1, 9), tuple(t / 1e3 for t in ms), left_out)


def found(*given, **known):
    return Compared(given, **{"visits": 9, **known})


BF2 = passes("bfloat16", 2, 4, 5)
F2 = passes("float32", 2, 5, 9)


def used(one):
    return replace(one, in_use=True)


# ------------------------------------------------------------------ measured


def test_every_combination_is_measured(models):
    laps = list(machine.compare(models, **QUICK))
    counts = machine.thread_counts(cores(), models.measured.threads)
    result = laps[-1].result
    assert [(one.dtype, one.threads) for one in result.passes] == [
        (dtype, n) for dtype in (models.dtype, "float32" if models.dtype == "bfloat16" else "bfloat16") for n in counts
    ]
    assert (result.in_use.dtype, result.in_use.threads) == (models.dtype, models.measured.threads)
    assert result.in_use.pass_s, "what is in use is never left out"
    for one in result.passes:
        assert bool(one.pass_s) != bool(one.left_out)
        assert one.rows == (1, 2, 9) and len(one.pass_s) in (0, 3) and all(s > 0 for s in one.pass_s)
        if one.pass_s:
            assert one.bytes_per_s == pytest.approx(one.weight_bytes / one.pass_s[0])
    assert result.visits == 3 and result.verdict()
    assert laps[-1].done == laps[-1].total and laps[0].result is None
    assert all(0 <= lap.done <= lap.total and lap.text for lap in laps)
    by_dtype = {one.dtype: one.weight_bytes for one in result.passes}
    assert by_dtype["float32"] == 2 * by_dtype["bfloat16"]


def test_nothing_is_left_changed(models):
    def race():
        return [emitted(lookahead.decode(models, "Once", method=m, max_new_tokens=12)) for m in ("naive", "draft")]

    passes, before = models.target.passes, race()
    weights = [(p.data_ptr(), p.dtype, p.detach().clone()) for p in passes.parameters()]
    kept, count = list(models.target.tokens), torch.get_num_threads()
    for closing_at in (1, 2, 4, 7, None):
        running = machine.compare(models, **QUICK)
        for i, _ in enumerate(running):
            assert torch.get_num_threads() == count, "also between two visits"
            if i == closing_at:
                break
        running.close()
    assert torch.get_num_threads() == count and models.target.tokens == kept and models.target.passes is passes
    for p, (place, dtype, values) in zip(passes.parameters(), weights, strict=True):
        assert (p.data_ptr(), p.dtype) == (place, dtype) and torch.equal(p, values)
    assert race() == before


def test_the_thread_count_is_restored_when_a_pass_fails(models, monkeypatch):
    count, running = torch.get_num_threads(), machine.compare(models, **QUICK)
    monkeypatch.setattr(machine, "thread_counts", lambda cores, used: sorted({1, used, used + 1}))
    for lap in running:
        if "thread" in lap.text and str(count) not in lap.text:
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
    rows = [CachedLM(one, family.target.vocab).forward(list(range(5, 20))).float() for one in (passes, copy)]
    assert not torch.equal(*rows), "another format rounds otherwise"
    assert torch.nn.functional.cosine_similarity(*rows).min() > 0.98
    reference = weakref.ref(copy)
    del copy
    gc.collect()
    assert reference() is None


def test_what_a_pass_reads(models, tmp_path):
    assert models.target.passes.read_bytes == models.target.passes.nbytes, "the embedding is the head's too"
    for kind in ("llama", "qwen3"):
        passes = lookahead.load(tiny(kind, tmp_path / kind, tie_word_embeddings=False)).target.passes
        embedding = passes.model.get_input_embeddings().weight
        assert passes.read_bytes == passes.nbytes - embedding.nbytes, kind


def test_thread_counts():
    assert machine.thread_counts(1, 1) == [1]
    assert machine.thread_counts(2, 2) == [1, 2]
    assert machine.thread_counts(8, 8) == [1, 2, 4, 8]
    assert machine.thread_counts(16, 8) == [1, 4, 8, 16], "the one in use is among them, and they are four"
    assert machine.thread_counts(2, 1) == [1, 2]


def test_what_is_far_slower_is_tried_twice_and_left_out(models, monkeypatch):
    real, tries = machine._timed, []

    def timed(lm, tokens):
        if lm.model is models.target.model:
            return real(lm, tokens)
        tries.append(len(tokens))
        return 60.0

    monkeypatch.setattr(machine, "_timed", timed)
    *_, last = machine.compare(models, **QUICK)
    left = [one for one in last.result.passes if one.dtype != models.dtype]
    assert all(one.left_out == machine.FAR_SLOWER and not one.pass_s for one in left)
    assert tries == [1] * 2 * len(left), "at its first pass, and once more"
    assert all(one.dtype == models.dtype for one in last.result.measured)


@pytest.mark.timed
def test_a_moment_of_noise_leaves_nothing_out(models, monkeypatch):
    real, noisy = machine._timed, [60.0]
    monkeypatch.setattr(
        machine,
        "_timed",
        lambda lm, tokens: noisy.pop() if noisy and lm.model is not models.target.model else real(lm, tokens),
    )
    *_, last = machine.compare(models, **QUICK)
    assert not noisy and not any(one.left_out for one in last.result.passes)


def test_where_no_copy_fits_the_format_in_use_is_measured_alone(models, monkeypatch):
    monkeypatch.setattr(machine.memory, "free", lambda: 1000)
    *_, last = machine.compare(models, **QUICK)
    assert {one.left_out for one in last.result.passes if one.dtype != models.dtype} == {machine.NO_ROOM}
    assert last.result.in_use.pass_s


def test_a_short_context_is_enough(tmp_path):
    family = lookahead.load(tiny("llama", tmp_path / "short", max_position_embeddings=66))
    *_, last = machine.compare(family, **{**QUICK, "rows": (1, 2, 5, 9)})
    assert last.result.in_use.rows == (1, 2) and last.result.in_use.pass_s
    assert last.result.verdict() == "", "of nine rows nothing is known"
    assert "bfloat16" in _comparison(last.result).replace("\u00a0", " ")


# ------------------------------------------------------------------ words


def test_the_quickest_is_in_use():
    assert found(used(BF2), F2).verdict() == (
        "Fastest here is bfloat16 with 2 threads (4.00 ms for one row, 5.00 ms for nine), and that is what is in use."
    )
    assert "no" not in found(used(BF2), replace(F2, pass_s=(), left_out="skipped")).verdict(), "nothing to compare with"
    told = found(used(passes("bfloat16", 2, 2, 10)), passes("float32", 2, 5, 8)).verdict()
    assert told.startswith("Fastest here is bfloat16"), "one row and nine together"
    assert found(used(BF2), F2, visits=machine.LEAST - 1).verdict() == "", "nothing is said too soon"


def test_a_little_quicker_is_not_quicker():
    told = found(used(BF2), passes("bfloat16", 1, 3.9, 4.9)).verdict()
    assert told == "In use is bfloat16 with 2 threads, and nothing here is faster by more than measurements vary (5%)."


def test_why_the_quickest_is_not_in_use():
    told = found(BF2, used(F2)).verdict()
    assert "1.56 times as fast as float32 with 2 threads, which is in use" in told
    assert "bfloat16 is used where our kernels compute the passes, else float32" in told
    told = found(used(replace(BF2, pass_s=(0.02, 0.03))), F2).verdict()
    assert "float32 with 2 threads (5.00" in told and "LOOKAHEAD_DTYPE" in told
    told = found(used(BF2), passes("bfloat16", 1, 2, 3)).verdict()
    assert "OMP_NUM_THREADS=1" in told
    gpu = [replace(one, threads=None) for one in (used(BF2), passes("float32", 2, 1, 2))]
    assert "float32 (1.00" in found(*gpu).verdict() and "on a GPU" in found(*gpu).verdict()


def test_the_table_marks_what_is_in_use_and_what_was_skipped():
    skipped = replace(F2, pass_s=(), left_out=machine.FAR_SLOWER)
    told = _comparison(found(used(BF2), passes("bfloat16", 1, 0.5, 1), skipped)).replace("\u00a0", " ")
    assert told.count("in use</td>") == 1 and "<td>bfloat16, in use</td><td>2</td><td>4.00 ms</td><td>1.25</td>" in told
    assert "skipped, far slower" in told and "8.00 GB/s" in told and "64.0 GB/s" in told


# ------------------------------------------------------------------ the figure


@pytest.mark.parametrize("dark", [False, True])
def test_the_lines_are_told_apart_by_more_than_colour(dark):
    every = [
        passes(dtype, n, 4 + n, 5 + n, in_use=(dtype, n) == ("bfloat16", 4))
        for dtype in ("bfloat16", "float32")
        for n in (1, 2, 4, 8)
    ]
    figure = charts.formats(found(*every), dark)
    assert len(figure.data) == 8 and list(figure.data[0].y) == [5.0, 6.0] and list(figure.data[0].x) == [1, 9]
    looks = {(trace.line.dash, trace.marker.symbol) for trace in figure.data}
    assert len(looks) == 8 and len({trace.line.dash for trace in figure.data}) == 2
    (thick,) = [trace for trace in figure.data if trace.line.width > 2]
    assert thick.name == "bfloat16 with 4 threads, in use"
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")


def test_before_anything_was_measured_the_figure_says_so():
    figure = charts.formats(found(used(replace(BF2, pass_s=()))))
    assert charts.NOTHING in " ".join(note.text for note in figure.layout.annotations)


# ------------------------------------------------------------------ the parts of a pass

ONE = PassParts("target", 30_000_000, 15e9, 8e-3, layers_s=2.8e-3, attention_s=1e-3, head_s=0.4e-3)


def test_the_segments_are_the_pass():
    assert ONE.limit_s == 2e-3 and ONE.ratio == 4
    assert ONE.segments == pytest.approx({LAYERS: 2.8e-3, ATTENTION: 1e-3, HEAD: 0.4e-3, REST: 3.8e-3})


def test_parts_that_took_longer_alone_leave_no_rest():
    assert replace(ONE, pass_s=2.5e-3).segments[REST] == 0
    assert replace(ONE, layers_s=None).segments == {WHOLE: 8e-3}


@pytest.mark.parametrize(
    ("pass_s", "words"),
    [(4e-3, "50% of the 15.0 GB/s that memory gives: it mostly waits"), (8e-3, "reading alone would take 2.00 ms of the 8.00 ms")],
)  # fmt: skip
def test_what_a_pass_makes_of_memory(pass_s, words):
    one = replace(ONE, pass_s=pass_s)
    assert words in one.sentence and one.sentence in _parts((one,)).replace("&#x27;", "'")


@pytest.mark.timed
def test_every_model_of_the_family_is_taken_apart(models):
    laps = list(take_apart(models, turns=5))
    found = laps[-1].result
    assert [one.role for one in found] == ["target", *models.drafts]
    assert [lap.done for lap in laps] == list(range(len(found) + 1)) and laps[-1].total == len(found)
    for one, lm in zip(found, (models.target, *models.drafts.values()), strict=True):
        assert one.weight_bytes == lm.passes.read_bytes and one.bytes_per_s > 1e8
        assert set(one.segments) == {LAYERS, ATTENTION, HEAD, REST}
        assert one.pass_s / 20 < one.layers_s < 3 * one.pass_s, (
            "both over all layers, on a machine that has other things to do"
        )
    assert models.target.tokens == []


def test_what_cannot_be_taken_apart_has_its_limit(tmp_path):
    (*_, last) = take_apart(lookahead.load(tiny("qwen3", tmp_path / "q")), turns=1)
    target = next(one for one in last.result if one.role == "target")
    assert set(target.segments) == {WHOLE} and target.ratio > 1


@pytest.mark.parametrize("dark", [False, True])
def test_the_bars_are_in_units_of_the_limit(dark):
    drawn = charts.pass_parts((ONE, replace(ONE, role="draft", layers_s=None)), dark)
    assert sum(bar.x[0] for bar in drawn.data if bar.name != WHOLE) == pytest.approx(4)
    assert {bar.name: len(bar.y) for bar in drawn.data} == {LAYERS: 1, ATTENTION: 1, HEAD: 1, REST: 1, WHOLE: 1}
    assert len({(bar.marker.color, bar.marker.pattern.shape) for bar in drawn.data}) == 5
    assert not charts.pass_parts(()).data


def test_the_table_says_what_the_bars_show():
    shown = _parts((ONE, replace(ONE, role="draft", layers_s=None)))
    for words in ("30.0 MB", "15.0 GB/s", "2.00 ms", "8.00 ms", "4.00x", ATTENTION, "3.80 ms", WHOLE):
        assert words in shown
