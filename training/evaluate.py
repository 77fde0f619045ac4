"""Measurements of a trained family: held-out loss by domain, acceptance, tokens per pass, and samples."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from lookahead.core.acceptance import Acceptance
from lookahead.core.numbers import counted
from lookahead.engine.lane import decode
from lookahead.family.models import Models, load
from lookahead.measure.scenarios import BENCH
from lookahead.model.heads.head import Head
from lookahead.model.heads.shape import KINDS
from lookahead.model.lm import CachedLM
from lookahead.train.losses import cross_entropy_loss
from lookahead.train.verified import LONGEST, verified_passes

from .corpus import ASSISTANT, TEXT, Document
from .instructions import measuring
from .prompts import SAMPLES
from .tokenizer import has_markers

MAX_DOCUMENTS, ROW = 60, 512  # held-out documents per domain, and tokens of each
PROMPTS_PER_DOMAIN, NEW_TOKENS, K = 32, 96, 4
HEAD_PROMPTS = 12  # prompts per domain that compare the kinds of drafters
CHECKED_TOKENS = 64  # tokens per prompt when a head is measured during training
SAMPLE_TOKENS = 120
STORY_OPENING = 20  # first words of a held-out text, as a prompt


def losses(
    model: LlamaForCausalLM, held_out: Mapping[str, list[list[int]]], tokenizer: Any
) -> dict[str, dict[str, float]]:
    """Return nats per token and bits per byte over held-out documents, by domain."""
    out = {}
    for domain, documents in held_out.items():
        nats = tokens = size = 0.0
        for ids in documents[:MAX_DOCUMENTS]:
            row = ids[:ROW]
            if len(row) < 8:
                continue
            with torch.inference_mode():
                nats += float(cross_entropy_loss(model, torch.tensor([row]))) * (len(row) - 1)
            tokens += len(row) - 1
            size += len(tokenizer.decode(row[1:], skip_special_tokens=True).encode())
        if tokens:
            out[domain] = {"nats_per_token": nats / tokens, "bits_per_byte": nats / math.log(2) / max(size, 1)}
    return out


def prompts(documents: list[Document]) -> dict[str, list[tuple[str, bool]]]:
    """Return prompts (text, chat) from held-out documents, by domain."""
    out: dict[str, list[tuple[str, bool]]] = {}
    for document in documents:
        chosen = out.setdefault(document.domain, [])
        if not document.held_out or len(chosen) >= PROMPTS_PER_DOMAIN:
            continue
        role, text = document.turns[0]
        if role == TEXT:
            chosen.append((" ".join(text.split(" ")[:STORY_OPENING]), False))
        elif len(text) < 1500 and document.turns[1][0] == ASSISTANT:
            chosen.append((text, True))
    return out


def acceptance(models: Models, by_domain: Mapping[str, list[tuple[str, bool]]], draft: str) -> dict[str, float]:
    """Return the share of drafted tokens that greedy verification accepts with k = 4, by domain."""
    out = {}
    for domain, questions in by_domain.items():
        drafted = accepted = 0
        for prompt, chat in questions:
            options = {"k": K, "max_new_tokens": NEW_TOKENS, "details": False, "chat": chat, "draft": draft}
            for step in decode(models, prompt, "draft", **options):
                drafted += len(step.draft)
                accepted += step.accepted
        if drafted:
            out[domain] = accepted / drafted
    return out


def generation(models: Models, by_domain: Mapping[str, list[tuple[str, bool]]], method: str, k: int) -> dict[str, Any]:
    """Measure a drafter with greedy drafts of `k` tokens.

    Returns "tokens_per_pass" by domain, "by_position" (the accepted share of the first, second, ... drafted tokens that were
    tested), and the drafting seconds "first_s" and "next_s" of the first and of each further token.
    """
    tokens, steps = {}, []
    for domain, questions in by_domain.items():
        emitted = passes = 0
        for prompt, chat in questions[:HEAD_PROMPTS]:
            for step in decode(models, prompt, method, k=k, max_new_tokens=NEW_TOKENS, details=False, chat=chat):
                emitted, passes = emitted + len(step.emitted), passes + (step.kind == "verify")
                steps.append(step)
        if passes:
            tokens[domain] = emitted / passes
    costs = models.costs.drafters[method]
    return {
        "tokens_per_pass": tokens, "by_position": list(Acceptance.from_steps(steps).rates),
        "first_s": costs.token_s + sum(costs.cold_s[:1]), "next_s": costs.token_s,
    }  # fmt: skip


def generations(family: Path, documents: list[Document]) -> dict[str, dict[str, Any]]:
    """Measure the draft model of a family, if it has one, and every trained head, oldest kind first."""
    names = [name for name in ("draft", *KINDS) if (family / name / "config.json").is_file()]
    models = load("+".join(str(family / name) for name in ("target", *names)))
    if documents and has_markers(models.tokenizer):
        by_domain = prompts(documents)
    elif models.tokenizer.chat_template:
        by_domain = {kind: [(text, True) for text in texts] for kind, texts in measuring(HEAD_PROMPTS).items()}
    else:
        by_domain = {"stories": [(s.prompt, s.chat) for s in BENCH if s.category == "story"]}
    out = {}
    for name in names:
        k = min(models.draft(name).longest, LONGEST)
        size = models.heads[name].parameters if name in models.heads else models.drafts[name].passes.size
        out[name] = {"parameters": size, "k": k} | generation(models, by_domain, name, k)
    return out


def accepted_length(
    network: nn.Module,
    target: CachedLM,
    prompts: Sequence[Sequence[int]],
    eos: frozenset[int],
    known: torch.Tensor | None = None,
) -> float:
    """Return tokens per pass with a head's drafts after prompts of ids; it drafts `known` tokens, None for all."""
    head = Head.from_network(copy.deepcopy(network).to(target.device, target.passes.dtype), target.passes, known)
    counts = [verified_passes(head, target, prompt, eos, CHECKED_TOKENS) for prompt in prompts]
    emitted, passes = map(sum, zip(*counts, strict=True))
    return emitted / passes


def samples(models: Models) -> list[dict[str, str]]:
    """Return continuations of the twenty prompts of the card, "greedy" and "coupled" at temperature 0.8."""
    out = []
    for prompt, chat in SAMPLES:
        row = {"prompt": prompt}
        for name, changes in (("greedy", {}), ("coupled", {"temperature": 0.8})):
            steps = decode(models, prompt, "draft", max_new_tokens=SAMPLE_TOKENS, chat=chat, details=False, **changes)
            ids = [token for step in steps for token in step.emitted]
            row[name] = models.tokenizer.decode(ids, skip_special_tokens=True)
        out.append(row)
    return out


def evaluate_family(
    out: Path, asides: Mapping[str, Path], documents: list[Document], held_out: Mapping[str, list[list[int]]],
    tokenizer: PreTrainedTokenizerFast,
) -> dict[str, Any]:  # fmt: skip
    """Return all measurements for the card."""
    report: dict[str, Any] = {"losses": {}, "acceptance": {}, "parameters": {}, "shapes": {}}
    for role in ("target", "draft", "offdomain"):
        model = LlamaForCausalLM.from_pretrained(out / role, dtype=torch.float32).eval()
        report["losses"][role] = losses(model, held_out, tokenizer)
        report["parameters"][role] = sum(p.numel() for p in model.parameters())
        layers = counted(model.config.num_hidden_layers, "layer")
        report["shapes"][role] = f"Llama, {layers} x {model.config.hidden_size}"
    by_domain = prompts(documents)
    for role, folder in {"draft": out / "draft", "offdomain": out / "offdomain", **asides}.items():
        if folder.is_dir():
            models = load(f"{out / 'target'}+{folder}")
            report["acceptance"][role] = acceptance(models, by_domain, "draft")
            if role == "draft":
                report["samples"] = samples(models)
    return report
