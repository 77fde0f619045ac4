"""Kinds of tokens, and the acceptance of each kind."""

import pytest

import lookahead
from lookahead.trace import charts
from lookahead.trace.charts import KINDS, counts_by_kind, kind


@pytest.mark.parametrize(
    ("piece", "before", "expected"),
    [
        (" frog", "a big", "start of a word"), ("gy", "a frog", "inside a word"), (" Tom", "and then", "name"),
        (" Tom", "the end.", "start of a word"), ("Once", "", "start of a word"), (" 42", "is", "digits"), (",", "frog", "punctuation"),
        ("...", "so", "punctuation"), ("()", "print", "code"), ("\n", "end.", "space"), (" x_1", "let", "code"), ("ed", "jump ", "start of a word"),
    ],
)  # fmt: skip
def test_a_piece_has_one_kind(piece, before, expected):
    assert kind(piece, before) == expected and expected in KINDS


def test_every_tested_token_counts_once(models):
    race = lookahead.race(models, "Once upon a time there was a frog named", ["naive", "draft"], max_new_tokens=48)
    for _ in race:
        pass
    trace = race.result()
    counts = counts_by_kind(trace.lanes[1])
    assert sum(accepted for accepted, _ in counts.values()) == trace.stats(1)["num_accepted_draft_tokens"]
    rejected = sum("correction" in step.origins for step in trace.lanes[1].verified)
    assert sum(tested - accepted for accepted, tested in counts.values()) == rejected
    assert counts_by_kind(trace.lanes[0]) == {}, "naive drafts nothing"
    (bars,) = charts.acceptance_by_kind(trace).data
    assert list(bars.x) == list(counts)
