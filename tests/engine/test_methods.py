"""The methods that a family can run: those whose draft model or trained head is loaded."""

from types import SimpleNamespace

import pytest

import lookahead
from lookahead import METHODS, LookaheadError
from lookahead.engine.lane import Lane
from lookahead.engine.methods import methods_for, needed_by

ALONE = ("naive", "ngram", "suffix", "grammar", "lookahead", "hf-generate", "hf-lookup")
WITH_DRAFT = ("hybrid", "draft", "tree", "hf-assisted")


def family(drafts=(), heads=()):
    target = SimpleNamespace(is_recurrent=False)
    return SimpleNamespace(target=target, drafts=dict.fromkeys(drafts), heads=dict.fromkeys(heads))


@pytest.mark.parametrize(
    ("models", "methods"),
    [
        (family(), ALONE),
        (family(["draft"]), (*ALONE, *WITH_DRAFT)),
        (family(["other"]), ALONE),  # it must be selected by name
        (family(["self"]), (*ALONE, "self")),
        (family(heads=["eagle"]), (*ALONE, "hybrid", "eagle", "eagle-tree")),
        (family(["draft", "self"], ["medusa", "mtp", "eagle", "block"]), METHODS),
    ],
)
def test_methods_need_their_draft_model(models, methods):
    assert methods_for(models) == tuple(method for method in METHODS if method in methods)


def test_listed_methods_can_run_and_others_raise(models):
    listed = methods_for(models)
    for method in METHODS:
        if method in listed:
            Lane(models, "Once", method, lookahead.Settings())
        else:
            with pytest.raises(LookaheadError, match="load"):
                Lane(models, "Once", method, lookahead.Settings())


def test_needed_by_names_the_draft_model():
    assert [needed_by(method) for method in ("block-tree", "hybrid", "self", "ngram")] == [
        "block",
        "draft",
        "self",
        None,
    ]
