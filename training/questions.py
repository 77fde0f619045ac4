"""Questions that a chat model writes when it continues an empty user turn (Xu et al. 2024, Magpie).

They are more diverse than templates, because they resemble the model's training data.
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

# Beginnings of the questions. An empty one leads to questions of any kind.
BEGINNINGS = (
    "", "", "", "", "Write", "Write a story", "Write a Python", "Write an HTML", "Explain", "Explain to", "Why", "How", "What", "List",
    "Give me", "Rewrite", "Rewrite the following text:", "Summarize", "Fix", "Correct", "Extract", "Convert", "Convert this", "Turn",
    "Copy", "Repeat", "Translate", "Tell me", "Create", "Describe", "Make a table", "Here is a text:",
)  # fmt: skip
TEMPERATURE = 0.8
ANSWERED = 1200  # tokens to write per question


def written_questions(
    target: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, plan: Plan, tokens: int, path: Path, watch: Watch, resume: bool
) -> list[str]:  # fmt: skip
    """Return enough questions for `tokens` of answers, and store them at `path`; `resume` reads them from there."""
    if resume and path.is_file():
        return json.loads(path.read_text())
    batch_size, writer, start, out = plan.texts_together, writing.writer_of(target), perf_counter(), []
    turn, *begun = (
        tokenizer(text, add_special_tokens=False).input_ids
        for text in (as_chat(tokenizer, "\0", reply=False).partition("\0")[0], *BEGINNINGS)
    )
    begun = [*islice(cycle(begun), batch_size)]
    batches, batch_tokens = -(-tokens // (batch_size * ANSWERED)), batch_size * writing.LONGEST_QUESTION
    for number in range(1, batches + 1):
        ids = _written(writer, turn, begun, tokenizer.eos_token_id, plan.seed + number)
        texts = (text.strip() for text in tokenizer.batch_decode(ids))
        out += [text for text in texts if text and all(c.isprintable() or c in "\n\t" for c in text)]
        spent, done = perf_counter() - start, number * batch_tokens
        watch(Report("questions", done, batches * batch_tokens, float("nan"), done / spent, spent))
    path.write_text(json.dumps(out))
    return out


@torch.inference_mode()
def _written(
    writer: PreTrainedModel, turn: Sequence[int], begun: Sequence[Sequence[int]], end: int, seed: int
) -> list[list[int]]:
    """Continue each of `begun` after the tokens of a user's `turn`; return the ids of texts that reach `end`."""
    torch.manual_seed(seed)
    prefix = torch.tensor([turn] * len(begun), device=writer.device)
    forced = writing.NextOpening(repeat([end]), end, begun)
    texts = writer.generate(
        prefix, attention_mask=torch.ones_like(prefix), max_new_tokens=writing.LONGEST_QUESTION, eos_token_id=end,
        pad_token_id=end, past_key_values=growing_cache(writer), do_sample=False,
        logits_processor=LogitsProcessorList([writing.Sampled(TEMPERATURE), forced]),
    )  # fmt: skip
    rows = [ids[len(turn) :].tolist() for ids in texts]
    return [ids[: ids.index(end)] for ids in rows if end in ids]
