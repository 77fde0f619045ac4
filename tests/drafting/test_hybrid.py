"""hybrid: merge two drafts into one tree, and select the source that drafts."""

import pytest

from lookahead.core.events import Draft, Settings, Step
from lookahead.core.policy import DraftCost
from lookahead.core.rules import rule_for
from lookahead.core.table import TableLM
from lookahead.core.tree import depths
from lookahead.drafting.base import Drafter, Resources
from lookahead.drafting.hybrid import Hybrid, merge_drafts
from lookahead.engine.draft_length import AdaptiveLength
from lookahead.engine.lane import decode

STORY = "Once upon a time there was a small frog who"
RECORDS = "Name: Anna\nAge: 23\nCity: Denver\n\nName: Ben\nAge: 31\nCity: Miami\n\nName: Lily\nAge:"


def paths(draft):
    """Return every path from the root as tokens, with the source and the chance of its last row."""
    out = []
    for row, parent in enumerate(draft.parents):
        above = out[parent][0] if parent >= 0 else ()
        out.append(((*above, draft.tokens[row]), draft.sources[row], round(draft.chances[row], 3)))
    return out


def test_two_drafts_are_merged_without_duplicates():
    tree = Draft((5, 6, 7, 8), (-1, -1, 0, 2), None, ("head",) * 4, (0.6, 0.2, 0.5, 0.4))
    chain = Draft.chain((5, 7, 9), "suffix", None, (0.9, 0.3, 0.8))
    assert [(path, source) for path, source, _ in paths(merge_drafts(tree, chain))] == [
        ((5,), "suffix"), ((6,), "head"), ((5, 7), "head"), ((5, 7, 8), "head"), ((5, 7, 9), "suffix"),
    ]  # fmt: skip


def test_drafts_without_common_rows_become_two_branches():
    both = merge_drafts(Draft.chain((1, 2), "head", None, (0.5, 0.5)), Draft.chain((3, 4), "suffix", None, (0.5, 0.5)))
    assert both.tokens == (1, 2, 3, 4) and both.parents == (-1, 0, -1, 2) and depths(both.parents) == [1, 2, 1, 2]


def test_agreement_increases_the_chance():
    both = merge_drafts(Draft.chain((1, 2), "head", None, (0.6, 0.3)), Draft.chain((1,), "suffix", None, (0.8,)))
    agreeing = 0.6 * 0.8 / (0.6 * 0.8 + 0.4 * 0.2)
    assert paths(both) == [((1,), "suffix", round(agreeing, 3)), ((1, 2), "head", 0.3)], (
        "only the head drafts the second token"
    )


def test_disagreement_decreases_both_chances():
    both = merge_drafts(Draft.chain((1,), "head", None, (0.9,)), Draft.chain((2, 3), "suffix", None, (0.6, 0.7)))
    first, second, neither = 0.9 * 0.4, 0.6 * 0.1, 0.1 * 0.4
    total = first + second + neither
    assert paths(both) == [
        ((1,), "head", round(first / total, 3)), ((2,), "suffix", round(second / total, 3)), ((2, 3), "suffix", 0.7),
    ]  # fmt: skip


def test_two_certain_drafters_that_disagree_get_equal_chances():
    both = merge_drafts(Draft.chain((1,), "head", None, (1.0,)), Draft.chain((2,), "suffix", None, (1.0,)))
    assert 0 < both.chances[0] == both.chances[1] < 0.5


class Part(Drafter):
    """A source of a hybrid that always proposes `draft` and counts the calls."""

    def __init__(self, name, draft):
        self.name, self.draft, self.calls = name, draft, 0

    def propose(self, context, limit):
        self.calls += 1
        return self.draft


def hybrid_of(suffix, policy):
    """Return a hybrid with `suffix` as the draft of its suffix matches, and with a fixed draft of its model."""
    hybrid = Hybrid(Resources(rule_for(Settings()), TableLM()), Hybrid.Options())
    hybrid._suffix, hybrid._model = (
        Part("suffix", suffix),
        Part("draft", Draft.chain((7, 8), "draft", None, (0.9, 0.9))),
    )
    hybrid.policy = policy
    return hybrid


@pytest.mark.parametrize(("confidence", "source"), [(0.95, "suffix"), (0.1, "draft")])
def test_the_source_with_more_expected_tokens_drafts(confidence, source):
    policy = AdaptiveLength(lambda rows, branches: 1.0 + 0.01 * rows, 8, {"draft": DraftCost(0.01, 0.1)})
    hybrid = hybrid_of(Draft.chain((1, 2, 3), "suffix", None, (confidence,) * 3), policy)
    assert hybrid.propose([1, 2], 8).sources[0] == source
    assert hybrid._model.calls == (source == "draft"), "a model that is not needed is not called"


def test_a_model_that_loses_time_is_paused_and_suffix_matches_continue():
    policy = AdaptiveLength(lambda rows, branches: 1.0, 8, {"draft": DraftCost(1.0, 1.0)})
    hybrid = hybrid_of(Draft.chain((1,), "suffix", None, (0.1,)), policy)
    assert [hybrid.propose([1, 2], 8).sources[0] for _ in range(6)] == ["suffix"] * 6
    assert not hybrid._model.calls


def chance(policy, source):
    """Return the chance of a token of this source with the confidence 0.5."""
    return policy.reaches(Draft.chain((1,), source, None, (0.5,)))[0]


def test_each_drafter_is_corrected_by_its_own_rows():
    policy = AdaptiveLength(lambda rows, branches: 1.0, 8, {"head": DraftCost(0.1, 0.1)})
    before = chance(policy, "head"), chance(policy, "suffix")
    draft = Draft((1, 2), (-1, -1), None, ("suffix", "head"), (0.5, 0.5))
    for index in range(20):
        policy.observe(
            Step("verify", index, draft, ("rejected", "accepted"), (1,), (2, 3), ("accepted", "bonus"), propose_s=0.2, verify_s=1.0)
        )  # fmt: skip
    assert chance(policy, "head") > before[0] and chance(policy, "suffix") < before[1]
    assert policy.recent_speedup("head") > 1.3 and policy.recent_speedup("suffix") < 1.9, (
        "the time of the pass counts for the head"
    )


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.8}, {"k": 4}], ids=["greedy", "coupled", "fixed"])
@pytest.mark.parametrize("prompt", [STORY, RECORDS], ids=["story", "records"])
def test_with_a_head_the_text_is_the_same_as_naive(models, prompt, settings):
    naive, hybrid = (
        list(decode(models, prompt, method, max_new_tokens=48, **settings, **options))
        for method, options in (("naive", {}), ("hybrid", {"draft": "block"}))
    )
    assert [t for step in naive for t in step.emitted] == [t for step in hybrid for t in step.emitted]
    sources = {source for step in hybrid for source in step.draft.sources}
    assert "block-tree" in sources if prompt == STORY else sources == {"suffix", "block-tree"}
