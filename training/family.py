"""Train a family in stages: tokenizer, target, draft, off-domain draft, trained heads, card.

    python -m lookahead train --corpus DIR --out DIR [--minutes M] [--resume]
    python -m lookahead train --only medusa mtp eagle block --start-from FAMILY --out DIR

Heads can be trained for any Llama-like target. They need no corpus, because they are trained on text that the target writes. If
there is a corpus, a chat model with another tokenizer also answers instructions about its passages.

Every stage writes its model and a checkpoint, so a run can be stopped at any time and resumed. `fit` has the training loop,
`batches` and `writing` the rows, `evaluate` the measurements, and `card` the model card.
"""

from __future__ import annotations

import copy
import json
import logging
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from lookahead import kernels
from lookahead.core.events import SettingsError
from lookahead.core.numbers import decimal
from lookahead.engine.text import encode_prompt
from lookahead.family import hub, sources
from lookahead.family.models import load_tokenizer
from lookahead.measure.scenarios import BENCH
from lookahead.model.heads import files
from lookahead.model.heads.shape import BLOCK, EAGLE, KINDS
from lookahead.model.lm import CachedLM
from lookahead.train import heads, losses

from . import card, corpus, evaluate, instructions, passages
from . import tokenizer as tokenization
from .batches import Batches, Streams
from .fit import Budget, Report, Watch, fit
from .plan import Plan, Shape
from .questions import written_questions
from .states import States
from .writing import LIKELY, WRITTEN, WrittenBatches, written_rows

SHARD = "9MB"  # the hosting service rejects files over 10 MB
# On a CPU compiled eager attention takes two thirds of the time of the fused kernel.
ATTENTION = "sdpa" if torch.cuda.is_available() else "eager"
ROLES = ("target", "draft", "offdomain", *KINDS)
CHECKED = "story"  # category of the prompts that measure a head during training
CLEARLY_WORSE = 0.9  # share of the initial tokens per pass; smaller losses cannot be measured with a few prompts
BUDGET = "budget.json"
WRITING_SHARE = 0.4  # of the minutes of a run that trains heads only


@dataclass(frozen=True, slots=True)
class Job:
    """A training run: input and output folders, plan, budget and roles."""

    corpus: Path | None
    out: Path
    plan: Plan
    minutes: float | None = None
    tokens: int | None = None  # training tokens of the target; other stages get proportional numbers
    resume: bool = False
    compile: bool = False  # compile the losses: a third faster, but a CPU needs a C++ compiler
    start_from: Path | None = None
    only: tuple[str, ...] = ROLES  # the others are copied from `start_from`

    @property
    def work(self) -> Path:
        """The folder of checkpoints, encoded text and measurements; not part of the family."""
        return self.out / "work"

    @property
    def only_heads(self) -> bool:
        """Whether only heads are trained."""
        return set(self.only) <= set(KINDS)

    def budget(self, stage: str, share: float) -> Budget:
        """Return the budget of a stage; a draft gets more tokens, because it is faster."""
        if self.tokens is not None:
            speed = 1 if stage == "target" else self.plan.draft_speed
            return Budget(tokens=max(1, int(self.tokens * speed * share / self.plan.target_share)))
        plan = self.plan
        shares = {"target": plan.target_share, "draft": plan.drafts_share, "offdomain": plan.offdomain_share}
        shares |= plan.heads_share
        total = 1.0 if self.only == ROLES else sum(shares[role] for role in self.only)
        minutes = (self.minutes or 120.0) * (1 - WRITING_SHARE if self.only_heads else 1)
        return Budget(minutes=minutes * share / total)


def new_model(shape: Shape, plan: Plan, seed: int) -> LlamaForCausalLM:
    """Return a Llama of a shape with random weights."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=plan.vocab, hidden_size=shape.width, intermediate_size=shape.inner, num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads, num_key_value_heads=shape.heads, max_position_embeddings=plan.context,
        tie_word_embeddings=True, bos_token_id=0, eos_token_id=0, pad_token_id=0, attn_implementation=ATTENTION,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def train(job: Job, watch: Watch) -> Path:
    """Run every stage; return the folder of the family."""
    job.work.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    job = replace(job, plan=job.plan.on_a_gpu()) if device.type == "cuda" else job
    documents = corpus.read(job.corpus) if job.corpus else []
    tokenizer, streams = load_tokenizer(_role_folder(job.start_from, "target")) if job.only_heads else None, None
    if not (documents or tokenizer):
        raise SettingsError("corpus", None, "only heads can be trained without one; give the folder of the text.")
    if documents and (tokenizer is None or tokenization.has_markers(tokenizer)):
        tokenizer = _tokenizer(job, documents)
        streams = Streams.from_documents(documents, tokenizer, job.plan.seed, job.work)
    stages = _Stages(job, tokenizer, streams, documents, device, watch)
    target = stages.target()
    if not job.only_heads or (job.start_from / "draft").is_dir():
        stages.draft(target)
        stages.offdomain()
    for kind in KINDS:
        stages.head(kind, target)
    return job.out


def describe(job: Job) -> Path:
    """Measure the family and write its card; return the path of the card."""
    documents = corpus.read(job.corpus) if job.corpus else []
    notes, path = _notes(job), job.out / "README.md"
    section = card.heads(evaluate.generations(job.out, documents), notes)
    if job.only_heads:
        earlier = next((file for file in (path, job.start_from / "README.md") if file.is_file()), None)
        path.write_text(
            card.with_heads(earlier.read_text(encoding="utf-8") if earlier else "", section), encoding="utf-8"
        )
        return path
    tokenizer = PreTrainedTokenizerFast.from_pretrained(job.out / "target")
    held_out = Streams.held_out_ids(documents, tokenizer)
    asides = {name: job.work / name for name in ("draft-plain", "draft-soft")}
    report = evaluate.evaluate_family(job.out, asides, documents, held_out, tokenizer)
    (job.work / "evaluation.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    arguments = f" --start-from {job.start_from.name}" if job.start_from else ""
    remark = (job.work / "remark.md").read_text(encoding="utf-8") if (job.work / "remark.md").is_file() else ""
    path.write_text(card.with_heads(card.write(report, notes, job.plan, arguments, remark), section), encoding="utf-8")
    return path


def _tokenizer(job: Job, documents: list[corpus.Document]) -> PreTrainedTokenizerFast:
    """Return the tokenizer of an earlier run or of `start_from`, or a new one."""
    folder = job.work / "tokenizer"
    if job.resume and folder.is_dir():
        return PreTrainedTokenizerFast.from_pretrained(folder)
    if job.start_from:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(_role_folder(job.start_from, "target"))
    else:
        texts = (d.text for i, d in enumerate(documents) if not d.held_out and (i % 3 == 0 or d.domain == "stories"))
        tokenizer = tokenization.train(texts, job.plan.vocab, job.plan.context)
    tokenizer.save_pretrained(folder)
    return tokenizer


class _Stages:
    """The stages of a run, with their shared models and rows."""

    def __init__(self, job, tokenizer, streams, documents, device, watch):
        self.job, self.plan, self.tokenizer, self.streams, self.device = job, job.plan, tokenizer, streams, device
        self.documents: list[corpus.Document] = documents
        self.watch: Watch = watch
        self._rows: np.ndarray | None = None
        self._questions: list[str] = []

    def target(self) -> LlamaForCausalLM:
        """Train the target on the whole mix."""
        if model := self._finished("target"):
            return model
        start = self.job.start_from
        model = (
            _read(_role_folder(start, "target")) if start else new_model(self.plan.target, self.plan, self.plan.seed)
        )
        batches = Batches(self.streams.training, self.plan.mix, self.plan.seed)
        scale = self.plan.refining if start else 1.0
        return self._stage("target", model, losses.cross_entropy_loss, batches, self.plan.target_share, scale=scale)

    def draft(self, target: LlamaForCausalLM) -> LlamaForCausalLM:
        """Train the draft on the target's distributions, first on the corpus and then on text that the target wrote.

        `draft-plain` is trained only on the tokens of the corpus, and `draft-soft` for the same time on the target's
        distributions. Both are measured for the card and are not part of the family.
        """
        if model := self._finished("draft"):
            return model
        plan, soft, start = self.plan, losses.distillation_loss(target), self.job.start_from
        if start and (start / "draft" / "config.json").is_file():
            model, stage, share = _read(start / "draft").to(self.device), "draft-further", plan.drafts_share
        else:
            batches = Batches(self.streams.training, plan.mix, plan.seed + 1)
            self._stage(
                "draft-plain", self._beginner(target), losses.cross_entropy_loss, batches, plan.draft_share, aside=True
            )
            model = self._stage("draft-soft", self._beginner(target), soft, batches, plan.draft_share, aside=True)
            stage, share = "draft", plan.writing_share
        rows = WrittenBatches(self._written(target))
        plan, loss = replace(plan, rows=((1.0, rows.length),)), losses.stored_distillation_loss(plan.likeliest_weight)
        return self._stage(stage, model, loss, rows, share, into="draft", plan=plan, scale=plan.refining)

    def head(self, kind: str, target: LlamaForCausalLM) -> None:
        """Train a head on text that the target wrote. If a trained head gets clearly worse, discard the result."""
        if self._left_out(kind) or (self.job.resume and files.config_of(self.job.out / kind)):
            return
        plan, start, end = self.plan, self.job.start_from, self.tokenizer.eos_token_id
        target.requires_grad_(False)
        written = self._written(target)
        further = bool(start and files.config_of(start / kind))
        if further:
            network, known = files.network(start / kind, heads.sizes(target), *heads.tables(target), kind)
            network, scale = network.float(), plan.refining
        else:
            known = heads.frequent(written, target.config.vocab_size, end) if kind in (EAGLE, BLOCK) else None
            network, scale = heads.new_head(kind, target, end, plan.seed + 4, known), 1.0
        rows = WrittenBatches(written, self._states(kind, target, written, network))
        loss = heads.LOSSES[kind](target, plan.likeliest_weight)
        plan = replace(plan, rows=((1.0, rows.length),), step_tokens=plan.head_step_tokens)
        network, check = network.to(self.device), self._check(target, known)
        before, initial = (check(network), copy.deepcopy(network)) if further else (0.0, network)
        report = self._fit(kind, network, loss, rows, plan.heads_share[kind], plan, scale=scale, check=check)
        if report.accepted < CLEARLY_WORSE * before:
            change = f"{kind} ended with {decimal(report.accepted)} tokens per pass and began with {decimal(before)}"
            logging.getLogger(__name__).warning("%s: the initial head is kept.", change)
            network = initial
        else:
            self._note(kind, report)
        architectures = target.config.architectures or [type(target).__name__]
        files.write(network, self.job.out / kind, self._verifier(), architectures, known)

    def _states(self, kind: str, target: LlamaForCausalLM, written: np.ndarray, network: nn.Module) -> States | None:
        """Return the stored outputs of the target.

        Returns None if a head reads each row less than twice and nothing is stored yet, or if the disk budget is too small.
        """
        folder = self.job.work / "states"
        ids, budget = written["ids"][:, :-1], self.job.budget(kind, self.plan.heads_share[kind]).tokens
        if (
            not budget
            or (budget < 2 * ids.size and not folder.is_dir())
            or States.nbytes(target, ids, network.shape.taps) > self.plan.states_bytes
        ):
            return None
        states = States(folder, network.shape.taps)
        states.fill(target, ids, self.watch, self.job.compile)
        return states

    def _verifier(self) -> str:
        """Return the target's name for the file of a head: its repository or folder name, not its path."""
        start = self.job.start_from
        source = sources.read_source(start) if start else None
        return source.repo if source else sources.display_name(str(_role_folder(start or self.job.out, "target")))

    def _written(self, target: LlamaForCausalLM) -> np.ndarray:
        """Return the rows that the target wrote. They are written once for all drafters."""
        if self._rows is None:
            job, tokens = self.job, self.plan.writing_tokens
            if "target" in job.only:
                tokens = min(tokens, _notes(job)["target"]["tokens"] // 2)
            most_s = 60 * WRITING_SHARE * job.minutes if job.minutes and job.only_heads else inf
            folder, end = job.work / "own", self.tokenizer.eos_token_id
            if not job.resume:
                shutil.rmtree(job.work / "states", ignore_errors=True)  # new rows need new outputs
            chats = self.streams is None and self.tokenizer.chat_template
            if chats:
                self._questions = written_questions(
                    target, self.tokenizer, self.plan, tokens, job.work / "questions.json", self.watch, job.resume
                )
            self._rows = written_rows(
                target, self.streams, self.plan, tokens, folder, self.watch, job.resume, end=end, most_s=most_s,
                instructed=self._instructions if chats else None, written=self.plan.answer_tokens if chats else WRITTEN,
                likely=0 if chats else LIKELY,
            )  # fmt: skip
        return self._rows

    def _instructions(self, seed: object) -> Iterator[list[int]]:
        """Yield the ids of instructions in the chat template."""
        about = passages.about(self.documents, seed)
        return (self._encoded(text, True) for text in instructions.training(seed, self._questions, about))

    def _encoded(self, prompt: str, chat: bool) -> list[int]:
        vocab, context_length = len(self.tokenizer), self.tokenizer.model_max_length
        return encode_prompt(self.tokenizer, prompt, chat=chat, vocab=vocab, context_length=context_length)

    def _check(self, target: LlamaForCausalLM, known: torch.Tensor | None) -> Callable[[nn.Module], float]:
        """Return a function that measures a head: tokens per pass after held-out prompts."""
        if self.streams is None and self.tokenizer.chat_template:
            prompts = [self._encoded(text, True) for texts in instructions.measuring(1).values() for text in texts]
        else:
            prompts = [self._encoded(scenario.prompt, False) for scenario in BENCH if scenario.category == CHECKED]
        passes = kernels.read(str(self.job.out / "target"), torch.bfloat16) if self.device.type == "cpu" else None
        lm = CachedLM(passes or copy.deepcopy(target).to(torch.bfloat16))
        ends = frozenset({self.tokenizer.eos_token_id})
        return lambda network: evaluate.accepted_length(network, lm, prompts, ends, known)

    def _beginner(self, target: LlamaForCausalLM) -> LlamaForCausalLM:
        """Return an untrained draft. It gets those weights of the target that have the same name and shape."""
        model = new_model(self.plan.draft, self.plan, self.plan.seed + 1)
        shapes = {name: weight.shape for name, weight in model.state_dict().items()}
        shared = {name: weight for name, weight in target.state_dict().items() if shapes.get(name) == weight.shape}
        model.load_state_dict(shared, strict=False)
        return model

    def offdomain(self) -> LlamaForCausalLM:
        """Train a draft on records, code and arithmetic only."""
        if model := self._finished("offdomain"):
            return model
        model = new_model(self.plan.offdomain, self.plan, self.plan.seed + 3)
        batches = Batches(self.streams.training, self.plan.offdomain_mix, self.plan.seed + 3)
        return self._stage("offdomain", model, losses.cross_entropy_loss, batches, self.plan.offdomain_share)

    def _stage(
        self, stage, model, loss, batches, share, *, aside=False, into=None, plan=None, scale=1.0
    ) -> LlamaForCausalLM:
        model = model.to(self.device)
        self._note(stage, self._fit(stage, model, loss, batches, share, plan or self.plan, scale=scale))
        save(model, self.tokenizer, (self.job.work if aside else self.job.out) / (into or stage))
        return model

    def _fit(self, stage, model, loss, batches, share, plan, **options) -> Report:
        """Train one stage; return the last report."""
        loss = torch.compile(loss, dynamic=False) if self.job.compile else loss
        return fit(
            model, loss, batches, plan, self.job.budget(stage, share), stage=stage, folder=self.job.work, watch=self.watch,
            resume=self.job.resume, **options,
        )  # fmt: skip

    def _left_out(self, role: str) -> bool:
        """Return whether this run skips a role. A skipped role is copied from `start_from`, if it exists there."""
        if role in self.job.only:
            return False
        source, folder = _role_folder(self.job.start_from, role), self.job.out / role
        if source.is_dir() and source.resolve() != folder.resolve():
            shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*ROLES, "work"))
        return True

    def _finished(self, role: str) -> LlamaForCausalLM | None:
        """Return the model of a role if an earlier run completed it or this run skips it, else None."""
        folder = self.job.out / role
        if self._left_out(role) or (self.job.resume and (folder / "config.json").is_file()):
            return _read(folder).to(self.device).eval()
        return None

    def _note(self, stage: str, report: Report) -> None:
        notes = _notes(self.job)
        if report.tokens_per_second or stage not in notes:  # a stage that was already complete keeps its note
            notes[stage] = asdict(report) | {"device": str(self.device)}
        (self.job.work / BUDGET).write_text(json.dumps(notes, indent=1))


def _notes(job: Job) -> dict[str, Any]:
    """Return the notes of all stages for the card: tokens, seconds, loss, device."""
    path = job.work / BUDGET
    return json.loads(path.read_text()) if path.is_file() else {}


def _role_folder(family: Path, role: str) -> Path:
    """Return the folder of a role. The family may be a single model, and its target may be elsewhere."""
    if role == "target" and sources.read_source(family):
        return hub.fetch(family.name)[1]
    return family if role == "target" and (family / "config.json").is_file() else family / role


def _read(folder: Path) -> LlamaForCausalLM:
    """Read a model in float32, for training."""
    return LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation=ATTENTION)


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write a model as bfloat16 safetensors, in shards that hosting accepts."""
    for stale in folder.glob("model*"):
        stale.unlink()
    copy = LlamaForCausalLM(model.config).to(torch.bfloat16)
    copy.load_state_dict(model.state_dict())
    copy.generation_config.eos_token_id = copy.generation_config.pad_token_id = 0
    copy.save_pretrained(folder, max_shard_size=SHARD)
    tokenizer.save_pretrained(folder)
