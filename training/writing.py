"""The target's own writing, for its drafters to learn from (Zhou et al. 2024, DistillSpec).

A drafter continues text that the target wrote, so it is trained on such text. Openings come from the
training text, or where there is none are instructions, of a model that chats, or else what the target
writes behind the end of a text; it continues them, greedily and at several temperatures, many at once. Where it
ends a text the opening of another follows: a greedy target would otherwise begin the same few texts
over and over. The likeliest tokens of every position are stored beside the text, so that the draft can
be trained on it many times without another pass of the target.

Knows a model that generates; it does not know how the draft learns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle
from math import inf
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedModel,
)
from transformers.masking_utils import eager_mask

from lookahead.train.cache import growing_cache
from lookahead.train.rows import Rows

from .batches import Batches, Streams
from .fit import Report, Watch
from .plan import Plan
from .states import States
from .tokenizer import ANSWERS_ID, ASKS_ID, END_ID

OPENING, WRITTEN = 40, 217
ROW = OPENING + WRITTEN - 1  # as a training row: the last token is only a label
LIKELY = 16  # stored tokens of the target's distribution at every position, with their log-probabilities
Openings = Callable[[object], Iterator[list[int]]]  # ids of openings, for a seed
BEGINNING, LONGEST_QUESTION = (3, 16), 96  # tokens that open a plain text; of a question no more than so many


def row_type(written: int = WRITTEN, likely: int = LIKELY) -> np.dtype:
    """A row: `OPENING` and `written` tokens, and what the target made of the latter: `likely` favourites, likeliest first."""
    favourites = (written, likely)
    return np.dtype([
        ("ids", np.uint16, OPENING + written), ("likely", np.uint16, favourites), ("logp", np.float16, favourites),
    ])  # fmt: skip


def written_rows(
    target: PreTrainedModel, streams: Streams | None, plan: Plan, tokens: int, folder: Path, watch: Watch, resume: bool,
    *, end: int = END_ID, most_s: float = inf, instructed: Openings | None = None, written: int = WRITTEN, likely: int = LIKELY,
) -> np.ndarray:  # fmt: skip
    """Rows [rows] of `row_type(written, likely)`: openings of the mix, or without `streams` of `instructed` (which gives them anew for a
    seed), or the target's own, continued by the target. About `tokens` tokens, or fewer where they would take more than
    `most_s` seconds. `end` is the token that ends a text.

    A file in `folder` holds the rows that were written together; `resume` goes on after those that are there.
    """
    folder.mkdir(exist_ok=True)
    for stale in () if resume else folder.glob("*.npy"):
        stale.unlink()
    openings = Batches(streams.training, plan.mix, plan.seed + 7) if streams else None
    kind, row = row_type(written, likely), OPENING + written - 1  # as a training row: the last token is only a label
    together, start, done = plan.texts_together, perf_counter(), 0
    turns, writer, batches = -(-max(1, tokens // row) // together), writer_of(target), []
    for turn in range(turns):
        path = folder / f"{turn:05}.npy"
        if resume and path.is_file():
            batches.append(np.load(path))
            continue
        if batches and perf_counter() - start > most_s:
            break
        hot = plan.writing_temperatures[turn % len(plan.writing_temperatures)]
        torch.manual_seed(plan.seed + turn)
        if openings:
            given = openings.batch(turn * together, together, OPENING)[:, :OPENING].to(target.device)
            others = beginnings(streams.training, plan.mix, (plan.seed, turn))
            batches.append(_continued(writer, given, hot, others, end, kind))
        elif instructed:
            others = instructed((plan.seed, turn))
            begun = [next(others) for _ in range(together)]
            shared = min(OPENING, *map(len, begun))
            given = torch.tensor([ids[:shared] for ids in begun], device=target.device)
            rest = [ids[shared:] for ids in begun]
            batches.append(_continued(writer, given, hot, others, end, kind, rest))
        else:
            given = unprompted(writer, end, together)
            others = cycle(ids[1 : 1 + BEGINNING[1]] for ids in given.tolist())
            batches.append(_continued(writer, given, hot, others, end, kind))
        new = path.with_suffix(".new.npy")
        np.save(new, batches[-1])
        new.replace(path)
        done += together * row
        spent = perf_counter() - start
        watch(Report("own", sum(map(len, batches)) * row, turns * together * row, float("nan"), done / spent, spent))
    return np.concatenate(batches)


def writer_of(target: PreTrainedModel) -> PreTrainedModel:
    """A copy of a target that writes many texts at once."""
    writer = type(target)(target.config).to(target.device, torch.bfloat16).eval()
    writer.load_state_dict(target.state_dict())
    writer.set_attn_implementation(GROUPED)
    return writer


@torch.inference_mode()
def unprompted(writer: PreTrainedModel, end: int, texts: int) -> torch.Tensor:
    """What the target writes behind the end of a text, at temperature 1: [texts, OPENING]."""
    given = torch.full((texts, 1), end, device=writer.device)
    return writer.generate(
        given, attention_mask=torch.ones_like(given), do_sample=True, temperature=1.0, top_k=0, eos_token_id=None,
        max_new_tokens=OPENING - 1, min_new_tokens=OPENING - 1, past_key_values=growing_cache(writer),
    )  # fmt: skip


def _continued(
    writer: PreTrainedModel, given: torch.Tensor, hot: float, others: Iterator[Sequence[int]], end: int, row: np.dtype,
    rest: Sequence[Sequence[int]] = (),
) -> np.ndarray:  # fmt: skip
    """Rows of that type that begin with `given` and then the `rest` of each, at temperature `hot`; where a text ends one of
    `others` begins the next."""
    new, (written, likely) = row["ids"].shape[0] - given.shape[1], row["likely"].shape
    favourites = _Favourites(likely)
    processors = [favourites] if likely else []
    processors += [Sampled(hot)] if hot else []
    texts = writer.generate(
        given, attention_mask=torch.ones_like(given),  # the end marker is also the padding token, and stands inside rows
        max_new_tokens=new, min_new_tokens=new, eos_token_id=None, past_key_values=growing_cache(writer),
        logits_processor=LogitsProcessorList([*processors, NextOpening(others, end, rest)]), do_sample=False,
    )  # fmt: skip
    rows = np.zeros(len(given), row)
    rows["ids"] = texts.cpu().numpy()
    for name, steps in zip(("logp", "likely"), zip(*favourites.steps[-written:], strict=True), strict=False):
        rows[name] = torch.stack(steps, 1).cpu().numpy()
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
        is_question = ids[0] == ASKS_ID and ANSWERS_ID in ids
        yield ids[: ids.index(ANSWERS_ID) + 1 if is_question else draws.integers(*BEGINNING)]


GROUPED = "grouped"


def _grouped(module, query, key, value, attention_mask, scaling, **_kwargs):
    """Attention of [rows, heads, tokens, size] in which the queries of a key's group stand side by side: at one token a row
    a CPU is ten times as quick as with keys that are repeated, and four times as with `sdpa`."""
    rows, heads, tokens, size = query.shape
    groups = heads // key.shape[1]
    scores = query.reshape(rows, -1, groups * tokens, size) @ key.transpose(2, 3) * scaling
    if attention_mask is not None:
        scores = scores + attention_mask.repeat(1, 1, groups, 1)
    mixed = scores.softmax(-1, dtype=torch.float32).to(value.dtype) @ value
    return mixed.view(rows, heads, tokens, size).transpose(1, 2), None


AttentionInterface.register(GROUPED, _grouped)
AttentionMaskInterface.register(GROUPED, eager_mask)


class _Favourites(LogitsProcessor):
    """Keeps so many favourites of every step, the likeliest first; changes nothing."""

    def __init__(self, likely: int):
        self._likely = likely
        self.steps: list[tuple[torch.Tensor, ...]] = []  # log-probabilities in nats and ids, [rows, likely] each

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """The scores [rows, vocab] as they are."""
        self.steps.append(tuple(scores.log_softmax(-1).topk(self._likely)))
        return scores


class Sampled(LogitsProcessor):
    """Draws a token at a temperature, as `generate` would, in a quarter of its time on a CPU."""

    def __init__(self, temperature: float):
        self._temperature = temperature

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores [rows, vocab] that allow the drawn token of every row alone."""
        heaps = (scores / self._temperature).softmax(-1).cumsum(-1)
        drawn = torch.searchsorted(heaps, torch.rand_like(heaps[:, :1]) * heaps[:, -1:], right=True)
        return torch.full_like(scores, -torch.inf).scatter_(1, drawn.clamp_max(scores.shape[1] - 1), 0.0)


class NextOpening(LogitsProcessor):
    """Where a row's text has ended, the next tokens are another opening. `begun` are what is left of the rows' first."""

    def __init__(self, openings: Iterator[Sequence[int]], end: int, begun: Sequence[Sequence[int]] = ()):
        self._openings, self._end = openings, end
        # Row -> the tokens still to be written, last first.
        self._left: dict[int, list[int]] = {row: list(ids)[::-1] for row, ids in enumerate(begun)}

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores [rows, vocab] that allow a single token in rows where an opening is being written."""
        for row in (input_ids[:, -1] == self._end).nonzero().flatten().tolist():
            if not self._left.get(row):
                self._left[row] = list(next(self._openings))[::-1]
        forced = {row: left.pop() for row, left in self._left.items() if left}
        if forced:
            rows, ids = (torch.tensor(part, device=scores.device) for part in ([*forced], [*forced.values()]))
            scores[rows] = -torch.inf
            scores[rows, ids] = 0.0
        return scores


class WrittenBatches:
    """`batch` over whole rows of the target's writing, in one random order, again and again: rows that were written together
    resemble each other."""

    def __init__(self, rows: np.ndarray, states: States | None = None):
        self._rows, self._states, self.length = rows, states, rows["ids"].shape[1] - 1
        self._order = np.random.default_rng(len(rows)).permutation(len(rows))

    def batch(self, first_row: int, rows: int, length: int) -> Rows:
        """So many rows from there on."""
        assert length == self.length
        numbers = self._order[np.arange(first_row, first_row + rows) % len(self._rows)]
        picked = self._rows[numbers]
        ids, likely = (torch.from_numpy(picked[name].astype(np.int64)) for name in ("ids", "likely"))
        outputs = self._states.at(numbers) if self._states else None
        return Rows(ids, likely, torch.from_numpy(picked["logp"].astype(np.float32)), outputs)
