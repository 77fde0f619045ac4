"""Chains and trees that one compiled call drafts equal those drafted token by token.

They have the same tokens, confidences and ends.
"""

import pytest
import torch
from conftest import tiny

import lookahead
from lookahead import kernels
from lookahead.core.events import MIN_DIVISOR, Settings
from lookahead.core.lm import DRAFTED_AT_ONCE, draft_tokens
from lookahead.core.policy import StopRule
from lookahead.core.rules import rule_for
from lookahead.core.tree import ancestors, depths
from lookahead.drafting.base import Resources
from lookahead.drafting.heads import BlockTree
from lookahead.drafting.tree import Tree
from lookahead.engine.fixed_length import FixedLength
from lookahead.model.lm import CachedLM

TOLERANCE = 0.02  # of confidences: different code sums bfloat16 logits
PROMPT = "Once upon a time there was a small frog who lived in a green pond. One day"
SAMPLED = {"temperature": 0.8, "seed": 3}


def drafter(models, name, read):
    """Return a drafter of the bundled family, ready to draft after the tokens `read`."""
    if name not in models.heads:
        return models.draft(name)
    target = models.target.fresh()
    lm = models.draft(name)
    lm.follow(target)
    target.reset()
    target.extend(read[:-1])
    return lm


def draft_singly(lm, rule, text, max_tokens, stop):
    """Return tokens and confidences of a chain, each token chosen outside the compiled call."""
    text, unread, picks, reach = list(text), lm.sync(text), [], 1.0
    while True:
        pick = rule.choose(lm.extend(unread)[0], text, lm.confidence)
        picks.append(pick)
        text.append(pick.token)
        unread = text[-1:]
        reach *= pick.chance
        if len(picks) == max_tokens or stop.stops(reach, len(picks)):
            return picks


@pytest.mark.parametrize("settings", [{}, SAMPLED], ids=["greedy", "coupled"])
@pytest.mark.parametrize("name", ["draft", "offdomain", "self", "mtp", "eagle", "block"])
def test_a_chain_equals_token_by_token_drafting(models, name, settings):
    rule, text = rule_for(Settings(**settings)), models.tokenizer.encode(PROMPT)
    for read in (len(text), len(text) - 3, 4):
        context = text[:read]
        lm, other = (drafter(models, name, context) for _ in range(2))
        picks = draft_tokens(lm, rule, lm.sync(context), context, 6, StopRule())
        expected = draft_singly(other, rule, context, 6, StopRule())
        assert len(picks) == 6
        assert [pick.token for pick in picks] == [pick.token for pick in expected]
        assert [pick.chance for pick in picks] == pytest.approx([pick.chance for pick in expected], abs=TOLERANCE)


@pytest.mark.parametrize("name", ["draft", "mtp", "eagle", "block"])
def test_drafting_ends_when_it_no_longer_pays(models, name):
    """The end depends on the drafter's confidence and on the tokens drafted before."""
    rule, context = rule_for(Settings()), models.tokenizer.encode(PROMPT)
    chances = [pick.chance for pick in draft_singly(drafter(models, name, context), rule, context, 7, StopRule())]
    lengths = set()
    for reach in (1.0, 0.5):
        for floors in ([0.01], [0.1], [0.3], [0.6], [0.99], [0.0, 0.0, 0.99], [0.9, 0.3, 0.01]):
            remaining, expected_length = reach, 0
            for chance in chances:
                remaining, expected_length = remaining * chance, expected_length + 1
                if remaining <= floors[min(expected_length, len(floors)) - 1]:
                    break
            before = [2.0, 2.0]  # thresholds of the tokens that were drafted before
            lm, stop = drafter(models, name, context), StopRule(before + floors).after(len(before))
            length = len(draft_tokens(lm, rule, lm.sync(context), context, 7, stop, reach))
            assert length == expected_length
            lengths.add(length)
    assert len(lengths) > 2, "the floors give several different ends"


def test_a_long_chain_is_drafted_by_several_calls(models):
    """Each call continues from the cache of the call before."""
    rule, context = rule_for(Settings()), models.tokenizer.encode(PROMPT)
    for name in ("draft", "mtp", "eagle"):
        lm, other = (drafter(models, name, context) for _ in range(2))
        unread, text = lm.sync(context), list(context)
        while len(text) < len(context) + 2 * DRAFTED_AT_ONCE + 3:
            text += [pick.token for pick in draft_tokens(lm, rule, unread, text, 3 * DRAFTED_AT_ONCE, StopRule())]
            unread = text[-1:]
        expected = draft_singly(other, rule, context, len(text) - len(context), StopRule())
        assert text[len(context) :] == [pick.token for pick in expected]
        assert other.sync([*context, 5]) == lm.sync([*context, 5]), "a rejected chain leaves nothing in the cache"


@pytest.mark.parametrize(
    "settings",
    [{"repetition_penalty": 1.2}, {**SAMPLED, "top_k": 5}, {**SAMPLED, "top_p": 0.9}, {**SAMPLED, "rule": "rejection"}],
    ids=["penalty", "top-k", "top-p", "rejection"],
)
def test_tokens_are_drafted_singly_if_more_than_logits_decide(models, settings):
    lm, context = models.draft("draft"), models.tokenizer.encode(PROMPT)
    picks = draft_tokens(lm, rule_for(Settings(**settings)), lm.sync(context), context, 5, StopRule())
    assert len(picks) == 1


@pytest.mark.parametrize("method", ["draft", "block"])
def test_minimal_temperature_and_penalty_give_finite_numbers(models, method):
    for changes in (
        {"temperature": MIN_DIVISOR},
        {"repetition_penalty": MIN_DIVISOR, "temperature": MIN_DIVISOR},
    ):
        race = lookahead.race(models, PROMPT, methods=["naive", method], max_new_tokens=12, **changes)
        for _ in race:
            pass
        trace = race.result()
        naive, drafted = ([token for step in lane.steps for token in step.emitted] for lane in trace.lanes)
        assert trace.to_json() and naive == drafted


@pytest.mark.models
def test_float32_drafts_chains_too(tmp_path):
    folder = tiny("llama", tmp_path / "m")
    rule, context = rule_for(Settings()), list(range(5, 25))
    lm, other = (CachedLM(kernels.read(folder, torch.float32), exact=False) for _ in range(2))
    picks = draft_tokens(lm, rule, lm.sync(context), context, 6, StopRule())
    assert [pick.token for pick in picks] == [pick.token for pick in draft_singly(other, rule, context, 6, StopRule())]


def new_drafter(strategy, rule, lm, policy):
    """Return a drafter of this strategy, ready to propose."""
    drafter = strategy(Resources(rule, lm), strategy.Options())
    drafter.policy = policy
    return drafter


def chances_by_path(draft):
    """Return the chances of a tree's rows, by the tokens on the path to each."""
    return {
        tuple(draft.tokens[ancestor] for ancestor in ancestors(draft.parents, row)): chance
        for row, chance in enumerate(draft.chances)
    }


@pytest.mark.parametrize("floor", [-1.0, 0.95], ids=["full", "until it no longer pays"])
@pytest.mark.parametrize("settings", [{}, SAMPLED], ids=["greedy", "coupled"])
@pytest.mark.parametrize("name", ["draft", "self", "block"])
def test_a_tree_equals_level_by_level_drafting(models, monkeypatch, name, settings, floor):
    class Policy(FixedLength):
        """Levels up to the one after which another would not pay."""

        def stop_rule(self, source):
            return StopRule((floor,))

    rule, text = rule_for(Settings(**settings)), models.tokenizer.encode(PROMPT)
    for read in (len(text), len(text) - 3, 4):
        context, drafts = text[:read], []
        for compiled in (True, False):
            lm = drafter(models, name, context)
            if not compiled:
                monkeypatch.setattr(lm, "draft_tree", lambda *_: None)
            drafts.append(new_drafter(BlockTree, rule, lm, Policy(8)).propose(context, 8))
        compiled_tree, by_level = map(chances_by_path, drafts)
        shared = compiled_tree.keys() & by_level.keys()
        assert [compiled_tree[path] for path in shared] == pytest.approx(
            [by_level[path] for path in shared], abs=TOLERANCE
        )
        unshared = [
            sorted(tree[path] for path in tree.keys() - shared if path[:-1] in {(), *shared})
            for tree in (compiled_tree, by_level)
        ]
        assert unshared[0] == pytest.approx(unshared[1], abs=TOLERANCE) and len(unshared[0]) <= 2, (
            "either of two equally probable rows"
        )
        assert len(compiled_tree) == 24 if floor < 0 else 3 <= len(compiled_tree) < 24


def test_accepted_rows_of_a_tree_are_not_read_again(models):
    """The next tree equals that of a model without a cache.

    Only tokens that the cache does not hold are read.
    """
    rule, context, moved_branches = rule_for(Settings()), models.tokenizer.encode(PROMPT), 0
    lm, policy = models.draft("draft"), FixedLength(6)
    tree = new_drafter(Tree, rule, lm, policy)
    for round_index in range(4):
        draft = tree.propose(context, 6)
        fresh = new_drafter(Tree, rule, models.draft("draft"), policy).propose(context, 6)
        assert chances_by_path(draft) == pytest.approx(chances_by_path(fresh), abs=TOLERANCE)
        leaves = [row for row in range(len(draft)) if row not in draft.parents]
        path = ancestors(draft.parents, leaves[round_index % len(leaves)])
        accepted = [draft.tokens[row] for row in path][: 1 + round_index]
        moved_branches += list(path) != list(range(len(path)))
        context = [*context, *accepted, 5]
        read, deepest = len(lm.tokens), max(depths(draft.parents))  # the last level has not been read
        tree._keep_accepted(context)
        assert len(lm.tokens) == read + min(len(accepted), deepest - 1)
    assert moved_branches, "at least one accepted row was moved"
