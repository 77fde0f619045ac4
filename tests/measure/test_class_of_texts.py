"""One batch, written naively and with drafts, for playback."""

import pytest

from lookahead.core.events import LookaheadError, SettingsError
from lookahead.measure import batches
from lookahead.measure.progress import questions


def test_both_batches_write_the_same_texts(models):
    updates = list(batches.play(models, questions()[:4], "draft", max_new_tokens=12, k=2))
    assert updates.count(None) > 20, "it yields after each pass"
    document = updates[-1].result
    naive, drafted = document["arms"]
    assert [arm["method"] for arm in document["arms"]] == ["naive", "draft"] and len(document["texts"]) == 4
    assert document["identical"] or models.exactness != "bit-exact"
    for arm in document["arms"]:
        texts = [
            "".join("".join(pieces) for passed in arm["passes"] for n, _, _, pieces in passed["texts"] if n == i)
            for i in range(4)
        ]
        assert all(texts) and arm["tokens"] == sum(len(ids) for ids in arm["ids"])
        assert arm["seconds"] == pytest.approx(sum(passed["seconds"] for passed in arm["passes"]))
    assert all(drafts == accepted == 0 for passed in naive["passes"] for _, drafts, accepted, _ in passed["texts"])
    assert any(accepted for passed in drafted["passes"] for _, _, accepted, _ in passed["texts"])
    assert len(drafted["passes"]) < len(naive["passes"])
    assert document["speedup"] == pytest.approx(naive["seconds"] / drafted["seconds"])


def test_invalid_batches_raise_before_the_first_pass(models):
    with pytest.raises(SettingsError, match="texts"):
        next(batches.play(models, questions()[:1], "draft"))
    with pytest.raises(LookaheadError, match="one text at a time"):
        next(batches.play(models, questions()[:2], "hf-generate"))
