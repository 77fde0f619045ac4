"""Chains that are drafted in one compiled call: the tokens, confidences and ends that one token after the other gives."""

import pytest
import torch
from conftest import tiny

import lookahead
from lookahead import kernels
from lookahead.core.accept import rule_for
from lookahead.core.events import LEAST_DIVISOR, Settings
from lookahead.core.lm import DRAFTED_AT_ONCE, draft_tokens
from lookahead.core.policy import StopRule
from lookahead.core.tree import ancestors, depths
from lookahead.drafting.base import Resources
from lookahead.drafting.heads import BlockTree
from lookahead.drafting.tree import Tree
from lookahead.engine.fixed_length import FixedLength
from lookahead.model.lm import CachedLM

NEAR = 0.02  # confidences: bfloat16 logits are added up by other code
PROMPT = "Once upon a time there was a small frog who lived in a green pond. One day"
SAMPLED = {"temperature": 0.8, "seed": 3}


def drafter(models, name, read):
    """A drafter of the bundled family that is to draft behind `read`."""
    if name not in models.heads:
        return models.draft(name)
    target = models.target.fresh()
    lm = models.draft(name)
    lm.follow(target)
    target.reset()
    target.extend(read[:-1])
    return lm


def one_by_one(lm, rule, text, most, stop):
    """Tokens and confidences of a chain whose every token is picked outside."""
    text, unread, picks, reach = list(text), lm.sync(text), [], 1.0
    while True:
        pick = rule.choose(lm.extend(unread)[0], text, lm.confidence)
        picks.append(pick)
        text.append(pick.token)
        unread = text[-1:]
        reach *= pick.chance
        if len(picks) == most or stop.stops(reach, len(picks)):
            return picks


@pytest.mark.parametrize("settings", [{}, SAMPLED], ids=["greedy", "coupled"])
@pytest.mark.parametrize("name", ["draft", "offdomain", "self", "eagle", "block"])
def test_a_chain_is_what_one_token_after_the_other_gives(models, name, settings):
    rule, text = rule_for(Settings(**settings)), models.tokenizer.encode(PROMPT)
    for read in (len(text), len(text) - 3, 4):
        context = text[:read]
        lm, other = (drafter(models, name, context) for _ in range(2))
        picks = draft_tokens(lm, rule, lm.sync(context), context, 6, StopRule())
        singly = one_by_one(other, rule, context, 6, StopRule())
        assert len(picks) == 6
        assert [pick.token for pick in picks] == [pick.token for pick in singly]
        assert [pick.chance for pick in picks] == pytest.approx([pick.chance for pick in singly], abs=NEAR)


@pytest.mark.parametrize("name", ["draft", "eagle", "block"])
def test_it_ends_where_it_no_longer_pays(models, name):
    """By a drafter's confidence, with what was drafted before in account."""
    rule, context = rule_for(Settings()), models.tokenizer.encode(PROMPT)
    chances = [pick.chance for pick in one_by_one(drafter(models, name, context), rule, context, 7, StopRule())]
    lengths = set()
    for reach in (1.0, 0.5):
        for floors in ([0.01], [0.1], [0.3], [0.6], [0.99], [0.0, 0.0, 0.99], [0.9, 0.3, 0.01]):
            left, expected = reach, 0
            for chance in chances:
                left, expected = left * chance, expected + 1
                if left <= floors[min(expected, len(floors)) - 1]:
                    break
            before = [2.0, 2.0]  # what held of the tokens that were drafted before
            lm, stop = drafter(models, name, context), StopRule(before + floors).after(len(before))
            length = len(draft_tokens(lm, rule, lm.sync(context), context, 7, stop, reach))
            assert length == expected
            lengths.add(length)
    assert len(lengths) > 2, "the floors tell ends apart"


def test_a_long_chain_is_drafted_by_several_calls(models):
    """What a call leaves behind is what the next one goes on from."""
    rule, context = rule_for(Settings()), models.tokenizer.encode(PROMPT)
    for name in ("draft", "eagle"):
        lm, other = (drafter(models, name, context) for _ in range(2))
        unread, text = lm.sync(context), list(context)
        while len(text) < len(context) + 2 * DRAFTED_AT_ONCE + 3:
            text += [pick.token for pick in draft_tokens(lm, rule, unread, text, 3 * DRAFTED_AT_ONCE, StopRule())]
            unread = text[-1:]
        singly = one_by_one(other, rule, context, len(text) - len(context), StopRule())
        assert text[len(context) :] == [pick.token for pick in singly]
        assert other.sync([*context, 5]) == lm.sync([*context, 5]), "and a rejected chain leaves nothing"


@pytest.mark.parametrize(
    "settings",
    [{"repetition_penalty": 1.2}, {**SAMPLED, "top_k": 5}, {**SAMPLED, "top_p": 0.9}, {**SAMPLED, "rule": "rejection"}],
    ids=["penalty", "top-k", "top-p", "rejection"],
)
def test_where_more_than_logits_decide_tokens_are_picked_singly(models, settings):
    lm, context = models.draft("draft"), models.tokenizer.encode(PROMPT)
    picks = draft_tokens(lm, rule_for(Settings(**settings)), lm.sync(context), context, 5, StopRule())
    assert len(picks) == 1


@pytest.mark.parametrize("method", ["draft", "block"])
def test_the_least_temperature_and_penalty_are_numbers_still(models, method):
    for changes in (
        {"temperature": LEAST_DIVISOR},
        {"repetition_penalty": LEAST_DIVISOR, "temperature": LEAST_DIVISOR},
    ):
        race = lookahead.race(models, PROMPT, methods=["naive", method], max_new_tokens=12, **changes)
        for _ in race:
            pass
        trace = race.result()
        naive, drafted = ([token for step in lane.steps for token in step.emitted] for lane in trace.lanes)
        assert trace.to_json() and naive == drafted


def test_float32_drafts_chains_too(tmp_path):
    folder = tiny("llama", tmp_path / "m")
    rule, context = rule_for(Settings()), list(range(5, 25))
    lm, other = (CachedLM(kernels.read(folder, torch.float32), exact=False) for _ in range(2))
    picks = draft_tokens(lm, rule, lm.sync(context), context, 6, StopRule())
    assert [pick.token for pick in picks] == [pick.token for pick in one_by_one(other, rule, context, 6, StopRule())]


def made(strategy, rule, lm, policy):
    """A drafter of this strategy, ready to propose."""
    drafter = strategy(Resources(rule, lm), strategy.Options())
    drafter.policy = policy
    return drafter


def by_path(draft):
    """The chances of a tree's rows, by the tokens that lead to each."""
    return {
        tuple(draft.tokens[above] for above in ancestors(draft.parents, row)): chance
        for row, chance in enumerate(draft.chances)
    }


@pytest.mark.parametrize("floor", [-1.0, 0.95], ids=["whole", "as far as it pays"])
@pytest.mark.parametrize("settings", [{}, SAMPLED], ids=["greedy", "coupled"])
@pytest.mark.parametrize("name", ["draft", "self", "block"])
def test_a_tree_is_what_one_level_after_the_other_gives(models, monkeypatch, name, settings, floor):
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
            drafts.append(made(BlockTree, rule, lm, Policy(8)).propose(context, 8))
        grown, by_level = map(by_path, drafts)
        both = grown.keys() & by_level.keys()
        assert [grown[path] for path in both] == pytest.approx([by_level[path] for path in both], abs=NEAR)
        alone = [
            sorted(tree[path] for path in tree.keys() - both if path[:-1] in {(), *both}) for tree in (grown, by_level)
        ]
        assert alone[0] == pytest.approx(alone[1], abs=NEAR) and len(alone[0]) <= 2, "of equally likely rows either"
        assert len(grown) == 24 if floor < 0 else 3 <= len(grown) < 24


def test_of_a_tree_what_became_text_is_not_read_again(models):
    """A tree behind it is what a model that has read nothing grows there, and only what it had not read is read."""
    rule, context, branch = rule_for(Settings()), models.tokenizer.encode(PROMPT), 0
    lm, policy = models.draft("draft"), FixedLength(6)
    tree = made(Tree, rule, lm, policy)
    for turn in range(4):
        draft = tree.propose(context, 6)
        fresh = made(Tree, rule, models.draft("draft"), policy).propose(context, 6)
        assert by_path(draft) == pytest.approx(by_path(fresh), abs=NEAR)
        tips = [row for row in range(len(draft)) if row not in draft.parents]
        path = ancestors(draft.parents, tips[turn % len(tips)])
        accepted = [draft.tokens[row] for row in path][: 1 + turn]
        branch += list(path) != list(range(len(path)))
        context = [*context, *accepted, 5]
        read, deepest = len(lm.tokens), max(depths(draft.parents))  # the last level has not been read
        tree._keep_accepted(context)
        assert len(lm.tokens) == read + min(len(accepted), deepest - 1)
    assert branch, "a row that lay elsewhere has been moved"
