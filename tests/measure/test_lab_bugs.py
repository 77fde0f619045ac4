"""The test that a bug names fails with the bug and passes without it. No bug remains after a run."""

import ast

import pytest
from agreement import assert_agrees, assert_badges
from conftest import ROOT, emitted, finished

import lookahead
from lookahead import LookaheadError, Trace
from lookahead.measure import bugs
from lookahead.measure.bugs import BUGS, catch
from lookahead.measure.checks import CHECKS

pytestmark = pytest.mark.long

TEXT_CHECKS = [name for name in CHECKS if not name.startswith(("self_", "samples_", "masked_"))]
PROMPT = "Name: Anna\nAge: 7\nCity: Denver\n\nName: Ben\nAge: 8\nCity: Miami\n\nName: Lily\nAge:"


@pytest.mark.parametrize("bug", BUGS.values(), ids=list(BUGS))
def test_every_bug_fails_the_test_that_it_names(bug):
    (finding,) = catch(bug)
    assert finding.test == bug.test
    assert not finding.passed, finding.sentence
    assert finding.sentence


def test_without_a_bug_every_test_passes():
    findings = list(catch(None))
    assert [finding.test for finding in findings] == list(CHECKS)
    assert all(finding.passed for finding in findings), findings


@pytest.mark.parametrize("bug", BUGS.values(), ids=list(BUGS))
def test_a_bug_has_the_stated_harm(bug):
    """Text bugs fail a test of the text. With speed and distribution bugs, greedy texts are correct."""
    text = [next(catch(bug, test)) for test in TEXT_CHECKS]
    if bug.harm == bugs.TEXT:
        assert not all(finding.passed for finding in text)
    else:
        assert all(finding.passed for finding in text), text
    if bug.harm == bugs.SPEED:
        assert next(catch(bug, "samples_follow_the_target_distribution")).passed


def test_the_tests_exist_under_their_names():
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    for bug in BUGS.values():
        assert any(f"\ndef test_{bug.test}(" in source for source in sources), bug.test


def test_bugs_replace_parts_and_change_nothing_of_the_engine():
    """The module has no setattr, no global and no assignment to other objects' attributes, so no bug outlives its run."""
    tree = ast.parse((ROOT / "lookahead" / "measure" / "bugs.py").read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        assert not isinstance(node, (ast.Global, ast.Nonlocal, ast.Delete))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("setattr", "exec", "eval", "vars", "globals")
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, (ast.AugAssign, ast.AnnAssign)) else targets
        for target in [t for group in targets for t in ast.walk(group)]:
            assert not isinstance(target, ast.Subscript)
            assert not isinstance(target, ast.Attribute) or target.value.id == "self"


def test_the_engine_does_not_import_bugs():
    package = ROOT / "lookahead"
    for path in package.rglob("*.py"):
        folder = path.relative_to(package).parts[0]
        if folder not in ("measure", "page"):
            source = path.read_text(encoding="utf-8")
            assert "bugs" not in ast_imports(source), path


def ast_imports(source):
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    return {(node.module or "").split(".")[0] for node in nodes} | {a.name for n in nodes for a in n.names}


def test_bugs_change_the_text_of_the_bundled_models_only_while_on(models):
    options = {"max_new_tokens": 32, "k": 4, "details": False}
    assert_agrees(models, PROMPT, "draft", **options)
    correct, naive_ids = (emitted(lookahead.decode(models, PROMPT, method=m, **options)) for m in ("draft", "naive"))
    for bug in BUGS.values():
        sampled = {"temperature": 0.8, "rule": "rejection"} if bug.rule else {}
        running = bugs.race(models, PROMPT, bug, **{**options, **sampled, "details": True})
        trace = Trace.from_json(finished(running).to_json())
        naive, broken = trace.lanes
        assert naive.tokens == naive_ids or bug.rule or bug.recurrent
        if bug.id in ("no-rollback", "prefix-dropped", "rows-misread"):
            assert broken.tokens != naive.tokens
            assert trace.agreement(1)["identical"] is False
        if bug.id == "bonus-lost":
            assert_badges(trace, bug.id)
            steps = lookahead.decode(models, PROMPT, method="draft", **options)
            assert len(broken.verified) > sum(1 for _ in steps) - 1, "more passes for the same text"
    assert emitted(lookahead.decode(models, PROMPT, method="draft", **options)) == correct


def test_an_ignored_stop_string_does_not_end_the_text(models):
    """The target is its own draft model, so drafts continue after the stop string."""
    import dataclasses

    self_drafting = dataclasses.replace(models, drafts={"draft": models.target})
    text = emitted(lookahead.decode(models, PROMPT, method="naive", max_new_tokens=30, details=False))
    stop = models.tokenizer.decode(text[10:12])
    running = bugs.race(self_drafting, PROMPT, BUGS["eos-ignored"], max_new_tokens=30, k=6, stop=(stop,))
    trace = finished(running)
    naive, broken = trace.lanes
    assert len(broken.tokens) > len(naive.tokens)
    identical, badge = broken.tokens[: len(naive.tokens)] == naive.tokens, trace.agreement(1)["badge"]
    assert identical or "a tie of" in badge, badge


def test_a_broken_race_may_be_closed_early(models):
    running = bugs.race(models, PROMPT, BUGS["no-rollback"], max_new_tokens=30, details=False)
    for _, _ in zip(running, range(6), strict=False):
        pass
    running.close()
    assert sum(len(lane.steps) for lane in running.result().lanes) >= 6
    assert emitted(lookahead.decode(models, PROMPT, method="draft", max_new_tokens=8))


def test_invalid_arguments_raise(models):
    with pytest.raises(LookaheadError, match="choose one of"):
        bugs.find("nope")
    with pytest.raises(LookaheadError, match="rejection"):
        bugs.race(models, PROMPT, BUGS["no-residual"])
    with pytest.raises(LookaheadError, match="transformers"):
        bugs.race(models, PROMPT, BUGS["bonus-lost"], ["naive", "hf-assisted"])
    assert bugs.find("bonus-lost") is BUGS["bonus-lost"]
