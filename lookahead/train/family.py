"""The family, stage by stage: tokenizer, target, draft, off-domain draft, card.

    python -m lookahead train --corpus DIR --out DIR [--minutes M] [--resume]

Every stage writes its model and a checkpoint, so a run can be stopped at any time and resumed.

Knows the order of things. How a stage learns is in `fit`, what it learns from in `batches`.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from . import card, corpus, evaluate, losses, tokenizer
from .batches import Batches, Streams
from .fit import Budget, Report, Watch, fit
from .plan import Plan, Shape
from .writing import ROW, WrittenBatches, written_rows

SHARD = "9MB"  # hosting pushes refuse single files over 10 MB
# On a CPU written-out attention, compiled, takes two thirds of the time of the fused kernel there.
ATTENTION = "sdpa" if torch.cuda.is_available() else "eager"
ROLES = ("target", "draft", "offdomain")


@dataclass(frozen=True, slots=True)
class Job:
    """Where to read, where to write, and how long."""

    corpus: Path
    out: Path
    plan: Plan
    minutes: float | None = None
    tokens: int | None = None  # of the target; the other stages get theirs in proportion
    resume: bool = False
    compile: bool = False  # losses through torch.compile: a third faster, but a CPU needs a C++ compiler
    start_from: Path | None = None
    only: tuple[str, ...] = ROLES  # the others are taken from `start_from` as they are

    @property
    def work(self) -> Path:
        """Checkpoints, encoded text and measurements; not part of the family."""
        return self.out / "work"

    def budget(self, stage: str, share: float) -> Budget:
        """A stage's part of the whole; a draft sees more tokens in the same time."""
        if self.tokens is not None:
            quicker = 1 if stage == "target" else self.plan.drafts_quicker
            return Budget(tokens=max(1, int(self.tokens * quicker * share / self.plan.target_share)))
        plan = self.plan
        shares = {"target": plan.target_share, "draft": plan.drafts_share, "offdomain": plan.offdomain_share}
        whole = 1.0 if self.only == ROLES else sum(shares[role] for role in self.only)
        return Budget(minutes=(self.minutes or 120.0) * share / whole)


def new_model(shape: Shape, plan: Plan, seed: int) -> LlamaForCausalLM:
    """A Llama of that shape with random weights."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=plan.vocab, hidden_size=shape.width, intermediate_size=shape.inner, num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads, num_key_value_heads=shape.heads, max_position_embeddings=plan.context,
        tie_word_embeddings=True, bos_token_id=0, eos_token_id=0, pad_token_id=0, attn_implementation=ATTENTION,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def train(job: Job, watch: Watch) -> Path:
    """Run every stage; returns the folder of the family."""
    job.work.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    documents = corpus.read(job.corpus)
    words = _tokenizer(job, documents)
    streams = Streams.of(documents, words, job.plan.seed, job.work)
    stages = _Stages(job, words, streams, device, watch)
    stages.draft(stages.target())
    stages.offdomain()
    return job.out


def describe(job: Job) -> Path:
    """Measure the family and write its card; returns the card's path."""
    documents = corpus.read(job.corpus)
    words = PreTrainedTokenizerFast.from_pretrained(job.out / "target")
    held_out = Streams.held_out_of(documents, words)
    asides = {name: job.work / name for name in ("draft-plain", "draft-soft")}
    report = evaluate.whole(job.out, asides, documents, held_out, words)
    (job.work / "evaluation.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    notes = json.loads((job.work / "budget.json").read_text())
    arguments = f" --start-from {job.start_from.name}" if job.start_from else ""
    remark = (job.work / "remark.md").read_text(encoding="utf-8") if (job.work / "remark.md").is_file() else ""
    path = job.out / "README.md"
    path.write_text(card.write(report, notes, job.plan, arguments, remark), encoding="utf-8")
    return path


def _tokenizer(job: Job, documents: list[corpus.Document]) -> PreTrainedTokenizerFast:
    """The tokenizer of this run: an earlier one's, or a new one."""
    folder = job.work / "tokenizer"
    if job.resume and folder.is_dir():
        return PreTrainedTokenizerFast.from_pretrained(folder)
    if job.start_from:
        words = PreTrainedTokenizerFast.from_pretrained(job.start_from / "target")
    else:
        texts = (d.text for i, d in enumerate(documents) if not d.held_out and (i % 3 == 0 or d.domain == "stories"))
        words = tokenizer.train(texts, job.plan.vocab, job.plan.context)
    words.save_pretrained(folder)
    return words


class _Stages:
    """What the stages share."""

    def __init__(self, job, words, streams, device, watch):
        self.job, self.plan, self.words, self.streams, self.device = job, job.plan, words, streams, device
        self.watch: Watch = watch
        self._notes: Path = job.work / "budget.json"  # what every stage cost, for the card

    def target(self) -> LlamaForCausalLM:
        """Pre-training on the whole mix."""
        if done := self._finished("target"):
            return done
        start = self.job.start_from
        model = _read(start / "target") if start else new_model(self.plan.target, self.plan, self.plan.seed)
        batches = Batches(self.streams.training, self.plan.mix, self.plan.seed)
        scale = self.plan.refining if start else 1.0
        return self._stage("target", model, losses.next_token, batches, self.plan.target_share, scale=scale)

    def draft(self, target: LlamaForCausalLM) -> LlamaForCausalLM:
        """Distillation: the target's distributions, on the corpus first and then on its own writing.

        `draft-plain` learns from the corpus' tokens alone, as long as `draft-soft` does from the target's
        distributions over them; it is measured for the card and not shipped.
        """
        if done := self._finished("draft"):
            return done
        plan, soft, start = self.plan, losses.like(target), self.job.start_from
        if start and (start / "draft" / "config.json").is_file():
            model, stage, share = _read(start / "draft").to(self.device), "draft-further", plan.drafts_share
        else:
            batches = Batches(self.streams.training, plan.mix, plan.seed + 1)
            self._stage("draft-plain", self._beginner(target), losses.next_token, batches, plan.draft_share, aside=True)
            model = self._stage("draft-soft", self._beginner(target), soft, batches, plan.draft_share, aside=True)
            stage, share = "draft", plan.writing_share
        tokens, folder = plan.writing_tokens, self.job.work / "own"
        if "target" in self.job.only:
            tokens = min(tokens, self._noted()["target"]["tokens"] // 2)
        rows = WrittenBatches(written_rows(target, self.streams, plan, tokens, folder, self.watch, self.job.resume))
        plan, loss = replace(plan, rows=((1.0, ROW),)), losses.like_writing(plan.favourite)
        return self._stage(stage, model, loss, rows, share, into="draft", plan=plan, scale=plan.refining)

    def _beginner(self, target: LlamaForCausalLM) -> LlamaForCausalLM:
        """An untrained draft with its teacher's embeddings and first layer, where the shapes agree."""
        model = new_model(self.plan.draft, self.plan, self.plan.seed + 1)
        shapes = {name: weight.shape for name, weight in model.state_dict().items()}
        lent = {name: weight for name, weight in target.state_dict().items() if shapes.get(name) == weight.shape}
        model.load_state_dict(lent, strict=False)
        return model

    def offdomain(self) -> LlamaForCausalLM:
        """A draft of the same shape, trained on records, code and arithmetic only."""
        if done := self._finished("offdomain"):
            return done
        model = new_model(self.plan.draft, self.plan, self.plan.seed + 3)
        batches = Batches(self.streams.training, self.plan.offdomain_mix, self.plan.seed + 3)
        return self._stage("offdomain", model, losses.next_token, batches, self.plan.offdomain_share)

    def _stage(
        self, stage, model, loss, batches, share, *, aside=False, into=None, plan=None, scale=1.0
    ) -> LlamaForCausalLM:
        model = model.to(self.device)
        if self.job.compile:
            loss = torch.compile(loss, dynamic=False)
        report = fit(
            model, loss, batches, plan or self.plan, self.job.budget(stage, share),
            stage=stage, folder=self.job.work, watch=self.watch, resume=self.job.resume, scale=scale,
        )  # fmt: skip
        self._note(stage, report)
        save(model, self.words, (self.job.work if aside else self.job.out) / (into or stage))
        return model

    def _finished(self, role: str) -> LlamaForCausalLM | None:
        """The model of a stage that an earlier run completed, or that this run is not to train."""
        folder = self.job.out / role
        if role not in self.job.only:
            if self.job.start_from.resolve() != self.job.out.resolve():
                shutil.copytree(self.job.start_from / role, folder, dirs_exist_ok=True)
        elif not (self.job.resume and (folder / "config.json").is_file()):
            return None
        return _read(folder).to(self.device).eval()

    def _note(self, stage: str, report: Report) -> None:
        notes = self._noted()
        if report.tokens_per_second or stage not in notes:  # a stage that was complete keeps its note
            notes[stage] = asdict(report) | {"device": str(self.device)}
        self._notes.write_text(json.dumps(notes, indent=1))

    def _noted(self) -> dict[str, Any]:
        return json.loads(self._notes.read_text()) if self._notes.is_file() else {}


def _read(folder: Path) -> LlamaForCausalLM:
    """A model as it is trained: float32."""
    return LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation=ATTENTION)


def save(model: LlamaForCausalLM, words: PreTrainedTokenizerFast, folder: Path) -> None:
    """bfloat16, safetensors, in shards that hosting accepts."""
    for stale in folder.glob("model*"):
        stale.unlink()
    copy = LlamaForCausalLM(model.config).to(torch.bfloat16)
    copy.load_state_dict(model.state_dict())
    copy.generation_config.eos_token_id = copy.generation_config.pad_token_id = 0
    copy.save_pretrained(folder, max_shard_size=SHARD)
    words.save_pretrained(folder)
