"""Training of a tiny family: stages, resuming, single roles, heads without a corpus, card."""

import dataclasses
import json

import pytest
import torch
from conftest import daily, emitted
from safetensors.torch import load_file
from small_training import FEW_DRILLS, SMALL, write_corpus

import lookahead
from lookahead.__main__ import main
from lookahead.model.heads import files
from lookahead.train import heads
from training import card, command, drills, evaluate, passages, tokenizer
from training.family import ROLES, Job, describe, train

pytestmark = [pytest.mark.models, pytest.mark.long]

FEW_TEXTS = dataclasses.replace(SMALL, texts_together=8, writing_tokens=800)


@pytest.fixture(scope="module")
def few_measurements():
    """Few drills, few prompts and short texts, because these tests do not measure quality."""
    few = {"PROMPTS_PER_DOMAIN": 3, "HEAD_PROMPTS": 3, "NEW_TOKENS": 24, "CHECKED_TOKENS": 16, "SAMPLE_TOKENS": 12}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drills, "COUNTS", FEW_DRILLS)
        for name, number in few.items():
            patch.setattr(evaluate, name, number)
        yield


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def family(corpus, few_measurements, tmp_path_factory):
    """A tiny family that was trained on the tiny corpus in all stages."""
    out, reports = tmp_path_factory.mktemp("family"), []
    job = Job(corpus, out, SMALL, tokens=8_000)
    train(job, reports.append)
    describe(job)
    return job, reports


def test_the_trained_family_loads_and_is_lossless(family):
    job, reports = family
    stages = ["target", "draft-plain", "draft-soft", "writing", "draft", "offdomain", "medusa", "mtp", "eagle", "block"]
    assert [*dict.fromkeys(r.stage for r in reports)] == stages
    models = lookahead.load("+".join(str(job.out / role) for role in ROLES))
    for prompt, chat in (("Once there was", False), ("Tell a tale about 7.", True)):
        naive = emitted(lookahead.decode(models, prompt, method="naive", max_new_tokens=30, chat=chat))
        for method in ("draft", "tree", "hybrid", "medusa", "mtp", "eagle", "block-tree"):
            assert emitted(lookahead.decode(models, prompt, method=method, max_new_tokens=30, chat=chat)) == naive
    losses = [r.loss for r in reports if r.stage == "target"]
    assert losses[-1] < losses[0] - 0.5, "the loss falls"
    assert not (job.out / "draft-plain").exists(), "drafts that are only measured are not part of the family"


def test_the_card_is_written_from_measurements(family):
    job, _ = family
    card = (job.out / "README.md").read_text(encoding="utf-8")
    assert card.startswith("# Llama-")
    assert "Built with Llama" in card
    for part in (
        "## Generations of drafters",
        "MTP module",
        "EAGLE-3 head",
        "## Budget",
        "## Held-out loss",
        "## Acceptance",
        "## Data",
        "## Limits",
        "## Samples",
        "**20.**",
    ):
        assert part in card
    report = json.loads((job.work / "evaluation.json").read_text(encoding="utf-8"))
    assert report["losses"]["target"]["stories"]["nats_per_token"] < 6.3
    assert 0 <= report["acceptance"]["draft"]["stories"] <= 1


def test_a_finished_family_is_not_trained_again(family):
    job, _ = family
    reports = []
    train(dataclasses.replace(job, resume=True), reports.append)
    assert reports == []


def test_the_draft_alone_is_trained_further(family, tmp_path):
    job, _ = family
    reports = []
    further = dataclasses.replace(job, out=tmp_path, tokens=2_000, start_from=job.out, only=("draft",))
    train(further, reports.append)
    assert [*dict.fromkeys(r.stage for r in reports)] == ["writing", "draft-further"]
    for role, same in (("target", True), ("draft", False), ("offdomain", True)):
        before, after = ((folder / role / "model.safetensors").read_bytes() for folder in (job.out, tmp_path))
        assert (before == after) is same, role


def test_heads_are_trained_for_any_llama_without_a_corpus(family, tmp_path, capsys, monkeypatch):
    """Heads are trained on text that the target writes: new heads, then a trained head further."""
    shares = {"medusa": 0.1, "eagle": 0.03, "block": 0.03}
    plan, reports = dataclasses.replace(FEW_TEXTS, heads_share=shares), []
    model, kinds = family[0].out / "target", ("medusa", "eagle", "block")
    job = Job(None, tmp_path / "out", plan, tokens=20_000, start_from=model, only=kinds)
    train(job, reports.append)
    assert [*dict.fromkeys(r.stage for r in reports)] == [
        "questions", "writing", "states", "medusa", "eagle", "block"
    ]  # fmt: skip
    for kind in job.only:
        losses = [r.loss for r in reports if r.stage == kind]
        assert losses[-1] < losses[0], kind
        assert [r.accepted for r in reports if r.stage == kind][-1] >= 1
    (job.out / "README.md").write_text(f"# Heads of mine\n\n{card.HEADS}\n\nan older table\n", encoding="utf-8")
    text = describe(job).read_text(encoding="utf-8")
    assert text.startswith("# Heads of mine") and "block head" in text
    assert text.count(card.HEADS) == 1 and "an older table" not in text, "the new section replaces the old one"
    before = (job.out / "block" / "model.safetensors").read_bytes()
    train(dataclasses.replace(job, resume=True), reports.append)
    assert before == (job.out / "block" / "model.safetensors").read_bytes(), "a complete head is not trained again"
    monkeypatch.setattr(command, "Plan", lambda: plan)
    monkeypatch.setenv("COLUMNS", "200")  # a narrow terminal cuts the progress bar
    further = tmp_path / "further"
    options = ["--out", str(further), "--start-from", str(job.out), "--tokens", "2000", "--only", "block"]
    assert main(["train", *options]) == 0
    output = capsys.readouterr()
    assert output.out.split() == [str(further / "README.md")] and "tokens per pass" in output.err
    assert before != (further / "block" / "model.safetensors").read_bytes()
    models = lookahead.load("+".join(str(job.out / name) for name in ("target", *job.only)))
    assert set(models.heads) == set(job.only)


@pytest.mark.parametrize(("after", "discarded"), [(1.7, True), (1.9, False)])
def test_a_head_that_gets_clearly_worse_is_discarded(family, tmp_path, caplog, monkeypatch, after, discarded):
    lengths = iter((2.0, after))
    monkeypatch.setattr(evaluate, "accepted_length", lambda *_: next(lengths))
    source = family[0].out
    job = Job(None, tmp_path, FEW_TEXTS, tokens=1000, start_from=source, only=("medusa",))
    train(job, lambda report: None)
    old, new = (load_file(folder / "medusa" / "model.safetensors") for folder in (source, job.out))
    same = all(torch.equal(weights, new[name]) for name, weights in old.items())
    assert (same, "the initial head is kept" in caplog.text) == (discarded, discarded)
    budget = job.work / "budget.json"
    assert ("medusa" in budget.read_text() if budget.exists() else False) is not discarded, (
        "the card describes the head that is kept"
    )


def test_another_chat_model_gets_instructions_about_passages(family, corpus, tmp_path, monkeypatch):
    """Its tokenizer has no markers of the corpus, so the corpus is not used as openings."""
    monkeypatch.setattr(tokenizer, "has_markers", lambda tokenizer: False)
    used, about = [], passages.about
    monkeypatch.setattr(passages, "about", lambda *args: (used.append(text) or text for text in about(*args)))
    plan = dataclasses.replace(FEW_TEXTS, texts_together=12, heads_share={"block": 0.03})
    job = Job(corpus, tmp_path / "out", plan, tokens=2000, start_from=family[0].out / "target", only=("block",))
    reports = []
    train(job, reports.append)
    assert next(r.stage for r in reports) == "questions" and len(used) > 2
    assert files.config_of(job.out / "block")


@pytest.mark.parametrize("kind", daily(["eagle", "block"], 2))
def test_a_head_of_a_large_vocabulary_has_only_frequent_tokens(family, tmp_path, monkeypatch, kind):
    """It drafts only these tokens, is saved in several files, can be trained further, and is lossless."""
    monkeypatch.setattr(heads, "LARGE_VOCAB", 100)
    monkeypatch.setattr(heads, "KNOWN", 60)
    monkeypatch.setattr(files, "LARGEST_FILE", 20_000)
    plan = dataclasses.replace(FEW_TEXTS, heads_share={kind: 0.03})
    job = Job(None, tmp_path / "out", plan, tokens=10_000, start_from=family[0].out / "target", only=(kind,))
    reports = []
    train(job, reports.append)
    losses = [r.loss for r in reports if r.stage == kind]
    assert losses[-1] < losses[0]
    weights = sorted((job.out / kind).glob("model-*.safetensors"))
    assert len(weights) > 1 and (job.out / kind / "model.safetensors.index.json").is_file()
    models = lookahead.load(f"{job.out / 'target'}+{job.out / kind}")
    known = set(models.heads[kind].ids.tolist())
    assert len(known) == 60 and models.tokenizer.eos_token_id in known
    naive = emitted(lookahead.decode(models, "Once there was", method="naive", max_new_tokens=30))
    for options in ({"k": 3}, {"k": 3, "temperature": 0.8}, {"k": 3, "temperature": 0.8, "rule": "rejection"}):
        steps = [*lookahead.decode(models, "Once there was", method=kind, max_new_tokens=30, **options)]
        assert {token for step in steps for token in step.draft.tokens} <= known
        assert len(options) > 1 or emitted(steps) == naive
    further = dataclasses.replace(job, out=tmp_path / "further", start_from=job.out, tokens=2000)
    train(further, reports.append)
    assert set(lookahead.load(f"{job.out / 'target'}+{further.out / kind}").heads[kind].ids.tolist()) == known
