"""The exactness microscope: every operator of a pass, in our kernels and in torch's, and the answer in a sentence."""

from dataclasses import replace

from conftest import tiny

import lookahead
from lookahead.measure.bits import Changed, Examined, examine
from lookahead.model.attention import WIDEST


def test_our_operators_change_nothing_and_torchs_are_shown_beside_them(tmp_path):
    folder = tiny("llama", tmp_path / "m")
    models = lookahead.load(folder)
    *laps, last = examine(models)
    assert [lap.done for lap in laps] == list(range(last.total)) and last.done == last.total
    found = last.result
    ours = [one for one in found.operators if one.format == models.dtype]
    theirs = {one.format: one for one in found.operators if one.format != models.dtype}
    assert ours and all((one.most, one.rows, one.units) == (WIDEST, None, None) for one in ours)
    assert set(theirs) == {"bfloat16 by torch", "float32 by torch"}
    assert f"no operator changes a row in passes of up to {WIDEST} rows" in found.sentence


def test_the_answer_names_the_first_that_changes():
    one = Changed("bfloat16", "scores", 1000, 32, 33, 2)
    other = replace(one, format="bfloat16 by torch", name="product 320 x 960", keys=0)
    found = Examined("bfloat16", (replace(one, name="norm", most=WIDEST, rows=None, units=None), one, other))
    assert "first to change a row is the scores behind 1,000 keys, from 33 rows on, by up to 2 units" in found.sentence
    assert "up to 32 rows all bits are those of a row alone" in found.sentence
    assert found.sentence.replace("2 units", "") != replace(found, in_use="float32").sentence
    ours = Examined("float32", (other,)).sentence
    assert "no bit differs here" in ours and "Of torch's the first that would is the product 320 x 960" in ours
