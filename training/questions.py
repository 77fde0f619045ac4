"""Questions that a chat model writes itself when it continues an empty user turn (Xu et al. 2024, Magpie).

They are more diverse than templates, because they follow the model's own training data.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import cycle, islice, repeat
from pathlib import Path
from time import perf_counter

import torch
from transformers import LogitsProcessorList, PreTrainedModel, PreTrainedTokenizerFast

from lookahead.engine.text import as_chat
from lookahead.train.cache import growing_cache

from . import writing
from .fit import Report, Watch
from .plan import Plan

# Beginnings of the questions; an empty one gives questions of any kind.
BEGINNINGS = (
    "", "", "", "", "Write", "Write a story", "Write a Python", "Write an HTML", "Explain", "Explain to", "Why", "How", "What", "List",
    "Give me", "Rewrite", "Rewrite the following text:", "Summarize", "Fix", "Correct", "Extract", "Convert", "Convert this", "Turn",
    "Copy", "Repeat", "Translate", "Tell me", "Create", "Describe", "Make a table", "Here is a text:",
)  # fmt: skip
TEMPERATURE = 0.8
ANSWERED = 1200  # tokens of the model's writing per question


def written_questions(
    target: PreTrainedModel, words: PreTrainedTokenizerFast, plan: Plan, tokens: int, path: Path, watch: Watch, resume: bool
) -> list[str]:  # fmt: skip
    """Write enough questions for `tokens` of answers and store them at `path`; `resume` reads them from there."""
    if resume and path.is_file():
        return json.loads(path.read_text())
    together, writer, start, out = plan.texts_together, writing.writer_of(target), perf_counter(), []
    turn, *begun = (
        words(text, add_special_tokens=False).input_ids
        for text in (as_chat(words, "\0", reply=False).partition("\0")[0], *BEGINNINGS)
    )
    begun = [*islice(cycle(begun), together)]
    turns, each = -(-tokens // (together * ANSWERED)), together * writing.LONGEST_QUESTION
    for number in range(1, turns + 1):
        ids = _written(writer, turn, begun, words.eos_token_id, plan.seed + number)
        texts = (text.strip() for text in words.batch_decode(ids))
        out += [text for text in texts if text and all(c.isprintable() or c in "\n\t" for c in text)]
        spent = perf_counter() - start
        watch(Report("questions", number * each, turns * each, float("nan"), number * each / spent, spent))
    path.write_text(json.dumps(out))
    return out


@torch.inference_mode()
def _written(
    writer: PreTrainedModel, turn: Sequence[int], begun: Sequence[Sequence[int]], end: int, seed: int
) -> list[list[int]]:
    """Continue each of `begun` after the tokens of a user's `turn`; return the ids of those that reach `end`."""
    torch.manual_seed(seed)
    given = torch.tensor([turn] * len(begun), device=writer.device)
    forced = writing.NextOpening(repeat([end]), end, begun)
    texts = writer.generate(
        given, attention_mask=torch.ones_like(given), max_new_tokens=writing.LONGEST_QUESTION, eos_token_id=end,
        pad_token_id=end, past_key_values=growing_cache(writer), do_sample=False,
        logits_processor=LogitsProcessorList([writing.Sampled(TEMPERATURE), forced]),
    )  # fmt: skip
    rows = [ids[len(turn) :].tolist() for ids in texts]
    return [ids[: ids.index(end)] for ids in rows if end in ids]
