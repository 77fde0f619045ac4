"""Questions that a chat model asks itself (Xu et al. 2024, Magpie): what it writes behind the beginning of a user's turn.

They are as various as what the model was trained on, which no templates of ours are.

Knows chat templates and a model that generates. It does not know what learns from the answers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import cycle, islice, repeat
from pathlib import Path
from time import perf_counter

import torch
from transformers import LogitsProcessorList, PreTrainedModel, PreTrainedTokenizerFast

from lookahead.race.text import as_chat
from lookahead.train.cache import growing_cache

from . import writing
from .fit import Report, Watch
from .plan import Plan

# With what a question begins that the model writes itself; with nothing, it is of any kind.
BEGINNINGS = (
    "", "", "", "", "Write", "Write a story", "Write a Python", "Write an HTML", "Explain", "Explain to", "Why", "How", "What", "List",
    "Give me", "Rewrite", "Rewrite the following text:", "Summarize", "Fix", "Correct", "Extract", "Convert", "Convert this", "Turn",
    "Copy", "Repeat", "Translate", "Tell me", "Create", "Describe", "Make a table", "Here is a text:",
)  # fmt: skip
TEMPERATURE = 0.8  # at which they are written
ANSWERED = 1200  # tokens of the model's writing for each question that it asks itself


def written_questions(
    target: PreTrainedModel, words: PreTrainedTokenizerFast, plan: Plan, tokens: int, path: Path, watch: Watch, resume: bool
) -> list[str]:  # fmt: skip
    """So many that `tokens` of writing answer each about twice. They are kept in a file, from which `resume` takes them."""
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
    """Ids of those that came to their `end`: one for each of `begun`, behind the tokens that begin a user's `turn`."""
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
