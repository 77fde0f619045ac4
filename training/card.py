"""The model card: data, licenses, budget, results, samples, limits.

Every number comes from `evaluate` or from the notes of the stages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lookahead.core.numbers import count, decimal, millions, percent, seconds
from lookahead.measure.tables import markdown_table

from .plan import Plan

HEAD = """# Llama-Pocket: a small family for speculative decoding

**Built with Llama.** A target and two draft models with one tokenizer, small enough to be bundled with Lookahead and to run
on two CPU cores. They were trained with this repository:

    python -m lookahead train --corpus DIR --out DIR{arguments}

This card was written by `python -m lookahead train --corpus DIR --out DIR --card`, which repeats all measurements.

{family}

bfloat16, safetensors; byte-level BPE of {vocab} tokens; markers `<|user|>`, `<|assistant|>`, `<|end|>` and a chat
template. Trained on rows of up to {longest} tokens; text beyond that position gets worse.
"""

DATA = """## Data

Public text that is not part of this repository. One document in fifty is held out, by a hash of its text. So is every
document that contains a prompt of the scenarios or of this card.

{sources}

GSM8K's test part, HumanEval and MBPP were not used. Part of the text was generated with Llama 3.1, whose Community
License asks that models trained on its output carry "Llama" at the start of their name and that "Built with Llama" is
shown. Llama 3.1 is licensed under the Llama 3.1 Community License, Copyright (c) Meta Platforms, Inc. All Rights Reserved.
"""

SOURCES = {  # by domain of the mix: sources of its texts, and their licenses
    "stories": (
        "samples of roneneldan/TinyStories kept in public repositories; African Storybook (global-asp/asp-source)",
        "CDLA-Sharing-1.0; CC-BY",
    ),
    "tales": (
        "erikhyrkas/snakes, training_data: child and bedtime stories with their instructions",
        "MIT repository, generated with Llama 3.1",
    ),
    "explain": (
        "the same: questions and answers, explanations for children (with five forms of the request), how-tos", "the same",
    ),
    "records": (
        "the same: format conversion, text to JSON, tables; and generated drills (`training/drills.py`)",
        "the same; ours",
    ),
    "code": ("ten MIT repositories of small Python files; the same collection's Python tasks; drills", "MIT; ours"),
    "arithmetic": ("openai/grade-school-math (training part), templated steps, spelling; drills", "MIT; ours"),
    "dialogue": (
        "google-research-datasets: schema-guided dialogue, Synthetic-Persona-Chat", "CC-BY-SA-4.0; CC-BY-4.0",
    ),
}  # fmt: skip

LIMITS = """## Limits

A very small model. It invents facts, repeats itself with greedy decoding, and has almost no knowledge of the world. It
converts small tables. Small functions and sums are sometimes right. Explanations sound like answers, but are often wrong.
It writes English only. It was made to show how drafting works, not to answer questions.
"""


def write(report: Mapping[str, Any], notes: Mapping[str, Any], plan: Plan, arguments: str, remark: str) -> str:
    """Return the card as Markdown; `remark` is a paragraph after the budget."""
    head = HEAD.format(
        arguments=arguments, vocab=count(plan.vocab), longest=count(plan.rows[-1][1]), family=_family(report)
    )
    parts = [head, _budget(notes), remark, _losses(report["losses"]), _acceptance(report["acceptance"])]
    parts += [DATA.format(sources=_sources(plan)), LIMITS, _samples(report["samples"])]
    return "\n".join(part.strip() + "\n" for part in parts if part.strip())


def _family(report: Mapping[str, Any]) -> str:
    rows = [
        ["architecture", *report["shapes"].values()],
        ["parameters", *(millions(number) for number in report["parameters"].values())],
        ["trained on", "the whole mix", "the target's distributions on the mix and on text that the target wrote",
         "records, code and arithmetic only (the mismatched draft)"],
    ]  # fmt: skip
    return markdown_table(["", *report["shapes"]], rows)


def _sources(plan: Plan) -> str:
    rows = [[domain, percent(plan.mix[domain]), *SOURCES[domain]] for domain in SOURCES]
    return markdown_table(["domain", "share", "sources", "license"], rows)


def _budget(notes: Mapping[str, Any]) -> str:
    rows = [[stage, millions(n["tokens"]), seconds(n["seconds"]), str(n["device"])] for stage, n in notes.items()]
    return "## Budget\n\n" + markdown_table(["stage", "tokens", "time", "device"], rows)


def _losses(losses: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    rows = [
        [domain, *(f"{decimal(loss[domain]['nats_per_token'])} ({decimal(loss[domain]['bits_per_byte'])})" for loss in losses.values())]
        for domain in losses["target"]
    ]  # fmt: skip
    intro = "Nats per token and, in brackets, bits per byte, on documents that no model was trained on."
    return f"## Held-out loss\n\n{intro}\n\n" + markdown_table(["domain", *losses], rows)


NAMES = {
    "draft-plain": "only the tokens of the corpus",
    "draft-soft": "the target's distributions on the corpus (same training time)",
    "draft": "then text that the target wrote (bundled)",
    "offdomain": "offdomain (bundled)",
}


def _acceptance(shares: Mapping[str, Mapping[str, float]]) -> str:
    domains = list(next(iter(shares.values())))
    rows = [[name, *(decimal(shares[role][d]) for d in domains)] for role, name in NAMES.items() if role in shares]
    intro = "Share of drafted tokens that were accepted: greedy, k = 4, 96 tokens for each of up to 32 prompts from held-out documents."
    return f"## Acceptance\n\n{intro}\n\n" + markdown_table(["draft model trained on", *domains], rows)


HEADS = "## Generations of drafters"
GENERATIONS = {
    "draft": "draft model", "medusa": "Medusa heads", "mtp": "MTP module", "eagle": "EAGLE-3 head", "block": "block head (DSpark, causal)",
}  # fmt: skip


def heads(generations: Mapping[str, Mapping[str, Any]], notes: Mapping[str, Any]) -> str:
    """Return the section on trained heads: training effort, drafting time and tokens per pass of each kind."""
    domains = list(dict.fromkeys(domain for result in generations.values() for domain in result["tokens_per_pass"]))
    rows = []
    for name, result in generations.items():
        note = notes.get(name)
        learned = [millions(note["tokens"]), seconds(note["seconds"]), decimal(note["loss"])] if note else ["", "", ""]
        positions = " ".join(decimal(share) for share in result["by_position"])
        rows.append([
            GENERATIONS[name], millions(result["parameters"]), *learned, seconds(result["first_s"]), seconds(result["next_s"]),
            *(decimal(result["tokens_per_pass"][domain]) for domain in domains), positions,
        ])  # fmt: skip
    columns = [
        "", "parameters", "tokens", "time", "loss", "first token", "each further", *domains, "accepted, 1st 2nd ...",
    ]  # fmt: skip
    intro = (
        "Heads read the target's hidden states and were trained on text that the target wrote. Loss: divergence, total "
        "variation and half the cross-entropy of the target's likeliest token, in nats, with lower weights for later tokens. First "
        "and further tokens: drafting time between the target's passes. By domain: tokens per pass, greedy, with the longest "
        "drafts of the head, at most 8. Last column: share of the tested first, second, ... tokens that were accepted. Tokens "
        "after a rejection are not tested."
    )
    return f"{HEADS}\n\n{intro}\n\n" + markdown_table(columns, rows)


def with_heads(card: str, section: str) -> str:
    """Return the card with the section on heads. It replaces an older one; else it is added before the limits or at the end."""
    before, title, after = card.partition(HEADS)
    if title:
        next_section = after.find("\n## ")
        return before + section.strip() + "\n" + (after[next_section:] if next_section >= 0 else "")
    before, title, after = card.partition("## Limits")
    return (
        f"{before.rstrip()}\n\n{section.strip()}\n\n{title}{after}".lstrip()
        if title
        else f"{card.rstrip()}\n\n{section.strip()}\n".lstrip()
    )


def _samples(samples: list[Mapping[str, str]]) -> str:
    out = ["## Samples", "", "Twenty prompts that are in no training text; the first 120 tokens, unedited."]
    for i, sample in enumerate(samples, start=1):
        out += ["", f"**{i}.** {_quoted(sample['prompt'])}"]
        for name, label in (("greedy", "greedy"), ("coupled", "temperature 0.8")):
            out += ["", f"{label}:", "", "```text", sample[name].replace("```", "'''").strip("\n"), "```"]
    return "\n".join(out)


def _quoted(prompt: str) -> str:
    return "`" + prompt.replace("`", "'").replace("\n", "\u21b5 ") + "`"
