"""The target's own writing, for its draft to learn from (Zhou et al. 2024, DistillSpec).

A draft is asked to continue what the target wrote, so that is what it should have seen. Openings
come from the training text; the target continues them, greedily and at several temperatures, many
at once. Where it ends a text it is given the opening of another: left to itself a greedy target would
begin the same few texts over and over. What it thought of every next token is kept beside the text, so
that the draft can go over it many times without asking again.

Knows a model that generates; it does not know how the draft learns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import pad
from transformers import LlamaForCausalLM, LogitsProcessor, LogitsProcessorList, StaticCache
from transformers.cache_utils import StaticLayer

from .batches import Batches, Streams
from .fit import Report, Watch
from .plan import Plan
from .tokenizer import ANSWERS_ID, ASKS_ID, END_ID

TOGETHER, OPENING, WRITTEN = 256, 40, 217
ROW = OPENING + WRITTEN - 1  # as a training row: the last token is only a label
LIKELY = 16  # of what the target thought of a token: so many favourites, with their log-probabilities
ROWS = np.dtype(
    [("ids", np.uint16, ROW + 1), ("likely", np.uint16, (WRITTEN, LIKELY)), ("logp", np.float16, (WRITTEN, LIKELY))]
)
BLOCK = 32  # positions by which the writer's cache grows
BEGINNING, LONGEST_QUESTION = (3, 16), 96  # tokens that open a plain text; of a question no more than so many


def own_rows(
    target: LlamaForCausalLM, streams: Streams, plan: Plan, tokens: int, folder: Path, watch: Watch, resume: bool
) -> np.ndarray:
    """Rows [rows] of `ROWS`: openings of the mix, continued by the target. About `tokens` tokens.

    A file in `folder` holds what was written together; `resume` goes on after those that are there.
    """
    folder.mkdir(exist_ok=True)
    for stale in () if resume else folder.glob("*.npy"):
        stale.unlink()
    openings = Batches(streams.training, plan.mix, plan.seed + 7)
    turns, start, done = -(-max(1, tokens // ROW) // TOGETHER), perf_counter(), 0
    writer = LlamaForCausalLM(target.config).to(target.device, torch.bfloat16).eval()
    writer.load_state_dict(target.state_dict())
    writer.set_attn_implementation("eager")  # twice as quick as sdpa at one token a row on a CPU, and as quick on a GPU
    held = []
    for turn in range(turns):
        kept = folder / f"{turn:05}.npy"
        if resume and kept.is_file():
            held.append(np.load(kept))
            continue
        given = openings.batch(turn * TOGETHER, TOGETHER, OPENING)[:, :OPENING].to(target.device)
        others = beginnings(streams.training, plan.mix, (plan.seed, turn))
        hot = plan.own_temperatures[turn % len(plan.own_temperatures)]
        torch.manual_seed(plan.seed + turn)
        held.append(_continued(writer, given, hot, others))
        new = kept.with_suffix(".new.npy")
        np.save(new, held[-1])
        new.replace(kept)
        done += TOGETHER * ROW
        spent = perf_counter() - start
        watch(Report("own", len(held) * TOGETHER * ROW, turns * TOGETHER * ROW, float("nan"), done / spent, spent))
    return np.concatenate(held)


def _continued(writer: LlamaForCausalLM, given: torch.Tensor, hot: float, others: Iterator[list[int]]) -> np.ndarray:
    """Rows of `ROWS` that begin with `given`, at temperature `hot`."""
    sampling = {"do_sample": True, "temperature": hot, "top_k": 0} if hot else {"do_sample": False}
    thoughts = _Thoughts()
    written = writer.generate(
        given, attention_mask=torch.ones_like(given),  # the end marker is also the padding token, and stands inside rows
        max_new_tokens=WRITTEN, min_new_tokens=WRITTEN, eos_token_id=None, past_key_values=_cache(writer),
        logits_processor=LogitsProcessorList([thoughts, _Again(others)]), **sampling,
    )  # fmt: skip
    rows = np.zeros(len(given), ROWS)
    rows["ids"] = written.cpu().numpy()
    rows["likely"], rows["logp"] = thoughts.ids.cpu().numpy(), thoughts.logp.cpu().numpy()
    return rows


def beginnings(
    streams: Mapping[str, np.ndarray], mix: Mapping[str, float], seed: tuple[int, int]
) -> Iterator[list[int]]:
    """Openings of random documents of the mix: a question to its end, or a plain text's first few tokens."""
    draws = np.random.default_rng(seed)
    domains = [domain for domain in mix if len(streams.get(domain, ()))]
    starts = {domain: np.append(0, np.flatnonzero(streams[domain][:-1] == END_ID) + 1) for domain in domains}
    shares = np.array([mix[domain] for domain in domains])
    while True:
        domain = domains[draws.choice(len(domains), p=shares / shares.sum())]
        start = draws.choice(starts[domain])
        ids = streams[domain][start : start + LONGEST_QUESTION].tolist()
        asked = ids[0] == ASKS_ID and ANSWERS_ID in ids
        yield ids[: ids.index(ANSWERS_ID) + 1 if asked else draws.integers(*BEGINNING)]


class _Growing(StaticLayer):
    """Keys and values that grow a block of positions at a time.

    A cache of its full size from the start reads what is not there yet (a quarter more time), and one
    that grows with every token copies itself each time (twice the time).
    """

    is_compileable = False
    filled = 0

    def update(self, key_states, value_states, *args, **kwargs):
        new = key_states.shape[-2]
        more = self.get_mask_sizes(new)[0] - self.max_cache_len
        if more and self.is_initialized:
            self.keys, self.values = (pad(held, (0, 0, 0, more)) for held in (self.keys, self.values))
        self.max_cache_len += more
        self.filled += new
        return super().update(key_states, value_states, *args, **kwargs)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return -(-(self.filled + query_length) // BLOCK) * BLOCK, 0


def _cache(model: LlamaForCausalLM) -> StaticCache:
    cache = StaticCache(config=model.config, max_cache_len=BLOCK)
    cache.layers = [_Growing(BLOCK) for _ in cache.layers]
    return cache


class _Thoughts(LogitsProcessor):
    """Keeps the favourites of every step; changes nothing."""

    def __init__(self):
        self._steps: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """The scores [rows, vocab] as they are."""
        logp, ids = scores.log_softmax(-1).topk(LIKELY)
        self._steps.append((ids, logp))
        return scores

    @property
    def ids(self) -> torch.Tensor:
        """[rows, steps, LIKELY], the likeliest first."""
        return torch.stack([ids for ids, _ in self._steps], 1)

    @property
    def logp(self) -> torch.Tensor:
        """Their log-probabilities, in nats."""
        return torch.stack([logp for _, logp in self._steps], 1)


class _Again(LogitsProcessor):
    """Where a row's text has ended, the next tokens are another opening."""

    def __init__(self, openings: Iterator[list[int]]):
        self._openings = openings
        self._left: dict[int, list[int]] = {}  # row -> what is still to be given, last first

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores [rows, vocab] that leave no choice to the rows that are being given an opening."""
        for row in (input_ids[:, -1] == END_ID).nonzero().flatten().tolist():
            if not self._left.get(row):
                self._left[row] = next(self._openings)[::-1]
        for row, left in self._left.items():
            if left:
                scores[row] = -torch.inf
                scores[row, left.pop()] = 0.0
        return scores


class Rows(NamedTuple):
    """Some of the target's writing: ids [rows, ROW + 1], and of the last WRITTEN the favourites [rows, WRITTEN, LIKELY]."""

    ids: torch.Tensor
    likely: torch.Tensor
    logp: torch.Tensor

    def to(self, device: torch.device) -> Rows:
        """The same on a device."""
        return Rows(*(part.to(device) for part in self))


class OwnBatches:
    """`batch` over whole rows of the target's writing, in the order they were written, again and again."""

    def __init__(self, rows: np.ndarray):
        self._rows = rows

    def batch(self, first_row: int, rows: int, length: int) -> Rows:
        """So many rows from there on."""
        assert length == ROW
        picked = self._rows[np.arange(first_row, first_row + rows) % len(self._rows)]
        ids, likely = (torch.from_numpy(picked[name].astype(np.int64)) for name in ("ids", "likely"))
        return Rows(ids, likely, torch.from_numpy(picked["logp"].astype(np.float32)))
