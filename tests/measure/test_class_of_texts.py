"""A class of texts written together, twice, kept so that it can be played."""

import pytest

from lookahead.core.events import LookaheadError, SettingsError
from lookahead.measure import batches
from lookahead.measure.progress import questions


def test_a_class_is_written_twice_with_the_same_texts(models):
    laps = list(batches.play(models, questions()[:4], "draft", max_new_tokens=12, k=2))
    assert laps.count(None) > 20, "it may be closed at every pass"
    got = laps[-1].result
    naive, drafted = got["arms"]
    assert [arm["method"] for arm in got["arms"]] == ["naive", "draft"] and len(got["texts"]) == 4
    assert got["identical"] or models.exactness != "bit-exact"
    for arm in got["arms"]:
        pieces = [
            "".join("".join(words) for one in arm["passes"] for n, _, _, words in one["texts"] if n == i)
            for i in range(4)
        ]
        assert all(pieces) and arm["tokens"] == sum(len(ids) for ids in arm["ids"])
        assert arm["seconds"] == pytest.approx(sum(one["seconds"] for one in arm["passes"]))
    assert all(drafts == accepted == 0 for one in naive["passes"] for _, drafts, accepted, _ in one["texts"])
    assert any(accepted for one in drafted["passes"] for _, _, accepted, _ in one["texts"])
    assert len(drafted["passes"]) < len(naive["passes"])
    assert got["speedup"] == pytest.approx(naive["seconds"] / drafted["seconds"])


def test_what_cannot_share_a_pass_is_refused_before_a_second_is_spent(models):
    with pytest.raises(SettingsError, match="texts"):
        next(batches.play(models, questions()[:1], "draft"))
    with pytest.raises(LookaheadError, match="one text at a time"):
        next(batches.play(models, questions()[:2], "hf-generate"))
