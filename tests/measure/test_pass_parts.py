"""Where a pass's time goes: the parts are timed of the model itself, and together they are the pass."""

from dataclasses import replace

import pytest
from conftest import tiny

import lookahead
from lookahead.measure import charts
from lookahead.measure.pass_parts import ATTENTION, HEAD, LAYERS, READING, REST, PassParts, take_apart
from lookahead.page.lab.machine import _table

ONE = PassParts("target", 30_000_000, 15e9, 8e-3, layers_s=2.8e-3, attention_s=1e-3, head_s=0.4e-3)


def test_the_segments_are_the_pass():
    assert ONE.limit_s == 2e-3 and ONE.ratio == 4
    assert ONE.segments == pytest.approx({READING: 2e-3, LAYERS: 1.05e-3, ATTENTION: 1e-3, HEAD: 0.15e-3, REST: 3.8e-3})


@pytest.mark.parametrize(
    "changed", [{"pass_s": 1e-3}, {"pass_s": 2.5e-3}, {"layers_s": 1e-3}, {"layers_s": None, "head_s": None}], ids=str
)
def test_table_that_took_longer_alone_still_fit(changed):
    one = replace(ONE, **changed)
    assert sum(one.segments.values()) == pytest.approx(one.pass_s)
    assert all(seconds >= -1e-12 for seconds in one.segments.values())


@pytest.mark.timed
def test_every_model_of_the_family_is_taken_apart(models):
    laps = list(take_apart(models, turns=5))
    found = laps[-1].result
    assert [one.role for one in found] == ["target", *models.drafts]
    assert [lap.done for lap in laps] == list(range(len(found) + 1)) and laps[-1].total == len(found)
    for one, lm in zip(found, (models.target, *models.drafts.values()), strict=True):
        assert one.weight_bytes == lm.passes.read_bytes and one.bytes_per_s > 1e8
        assert set(one.segments) == {READING, LAYERS, ATTENTION, HEAD, REST}
        assert one.pass_s / 20 < one.layers_s < 3 * one.pass_s, (
            "both over all layers, on a machine that has other things to do"
        )
    assert models.target.tokens == []


def test_what_cannot_be_taken_apart_has_its_limit(tmp_path):
    (*_, last) = take_apart(lookahead.load(tiny("qwen3", tmp_path / "q")), turns=1)
    target = next(one for one in last.result if one.role == "target")
    assert set(target.segments) == {READING, REST} and target.ratio > 1


@pytest.mark.parametrize("dark", [False, True])
def test_the_bars_are_in_units_of_the_limit(dark):
    drawn = charts.pass_parts((ONE, replace(ONE, role="draft", layers_s=None)), dark)
    assert sum(bar.x[0] for bar in drawn.data) == pytest.approx(4)
    assert {bar.name: len(bar.y) for bar in drawn.data} == {READING: 2, LAYERS: 1, ATTENTION: 1, HEAD: 1, REST: 2}
    assert len({(bar.marker.color, bar.marker.pattern.shape) for bar in drawn.data}) == 5
    assert not charts.pass_parts(()).data


def test_the_table_says_what_the_bars_show():
    shown = _table((ONE, replace(ONE, role="draft", layers_s=None)))
    for words in ("30.0 MB", "15.0 GB/s", "2.00 ms", "8.00 ms", "4.00x", ATTENTION, "3.80 ms", "6.00 ms"):
        assert words in shown
