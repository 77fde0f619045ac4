"""Training text for drafters, written by the target (Zhou et al. 2024, DistillSpec).

A drafter continues text of the target, so it is trained on such text. Openings come from the training text. Without it they
are instructions for a chat model, or text that the target samples itself. The target continues many openings at once,
greedily and at several temperatures. After the end of a text another opening follows, because a greedy target would write
the same few texts repeatedly. The likeliest tokens of each position are stored with the text. So a draft can be trained on it
without another pass of the target.
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
ROW = OPENING + WRITTEN - 1  # tokens of a training row: the last token is only a label
LIKELY = 16  # likeliest tokens that are stored for every position, with their log-probabilities
Openings = Callable[[object], Iterator[list[int]]]  # seed -> ids of openings
BEGINNING = (3, 16)  # tokens of a plain text's opening: from 3 to 15
LONGEST_QUESTION = 96  # tokens


def row_type(written: int = WRITTEN, likely: int = LIKELY) -> np.dtype:
    """Return the type of a row: ids, and the `likely` likeliest tokens at each of the last `written` positions."""
    likeliest = (written, likely)
    return np.dtype([
        ("ids", np.uint16, OPENING + written), ("likely", np.uint16, likeliest), ("logp", np.float16, likeliest),
    ])  # fmt: skip


def written_rows(
    target: PreTrainedModel, streams: Streams | None, plan: Plan, tokens: int, folder: Path, watch: Watch, resume: bool,
    *, end: int = END_ID, most_s: float = inf, instructed: Openings | None = None, written: int = WRITTEN, likely: int = LIKELY,
) -> np.ndarray:  # fmt: skip
    """Write about `tokens` tokens with the target; return rows [rows] of `row_type(written, likely)`.

    Openings come from the mix of `streams`, else from `instructed`, else from the target itself. Writing stops early after
    `most_s` seconds. `end` is the token that ends a text. Each batch of rows is stored in a file in `folder`; `resume` reads
    existing files.
    """
    folder.mkdir(exist_ok=True)
    for stale in () if resume else folder.glob("*.npy"):
        stale.unlink()
    openings = Batches(streams.training, plan.mix, plan.seed + 7) if streams else None
    kind, row = row_type(written, likely), OPENING + written - 1
    batch_size, start, done = plan.texts_together, perf_counter(), 0
    count, writer, batches = -(-max(1, tokens // row) // batch_size), writer_of(target), []
    for number in range(count):
        path = folder / f"{number:05}.npy"
        if resume and path.is_file():
            batches.append(np.load(path))
            continue
        if batches and perf_counter() - start > most_s:
            break
        temperature = plan.writing_temperatures[number % len(plan.writing_temperatures)]
        torch.manual_seed(plan.seed + number)
        if openings:
            prefix = openings.batch(number * batch_size, batch_size, OPENING)[:, :OPENING].to(target.device)
            others = beginnings(streams.training, plan.mix, (plan.seed, number))
            batches.append(_continued(writer, prefix, temperature, others, end, kind))
        elif instructed:
            others = instructed((plan.seed, number))
            begun = [next(others) for _ in range(batch_size)]
            shared = min(OPENING, *map(len, begun))
            prefix = torch.tensor([ids[:shared] for ids in begun], device=target.device)
            remaining = [ids[shared:] for ids in begun]
            batches.append(_continued(writer, prefix, temperature, others, end, kind, remaining))
        else:
            prefix = unprompted(writer, end, batch_size)
            others = cycle(ids[1 : 1 + BEGINNING[1]] for ids in prefix.tolist())
            batches.append(_continued(writer, prefix, temperature, others, end, kind))
        new = path.with_suffix(".new.npy")
        np.save(new, batches[-1])
        new.replace(path)
        done += batch_size * row
        spent = perf_counter() - start
        watch(
            Report("writing", sum(map(len, batches)) * row, count * batch_size * row, float("nan"), done / spent, spent)
        )
    return np.concatenate(batches)


def writer_of(target: PreTrainedModel) -> PreTrainedModel:
    """Return a bfloat16 copy of a target with attention that is fast for many texts at once."""
    writer = type(target)(target.config).to(target.device, torch.bfloat16).eval()
    writer.load_state_dict(target.state_dict())
    writer.set_attn_implementation(GROUPED)
    return writer


@torch.inference_mode()
def unprompted(writer: PreTrainedModel, end: int, texts: int) -> torch.Tensor:
    """Sample openings from the target after the end of a text, at temperature 1: [texts, OPENING]."""
    prefix = torch.full((texts, 1), end, device=writer.device)
    return writer.generate(
        prefix, attention_mask=torch.ones_like(prefix), do_sample=True, temperature=1.0, top_k=0, eos_token_id=None,
        max_new_tokens=OPENING - 1, min_new_tokens=OPENING - 1, past_key_values=growing_cache(writer),
    )  # fmt: skip


def _continued(
    writer: PreTrainedModel, prefix: torch.Tensor, temperature: float, others: Iterator[Sequence[int]], end: int, row: np.dtype,
    remaining: Sequence[Sequence[int]] = (),
) -> np.ndarray:  # fmt: skip
    """Continue `prefix` and the `remaining` opening of each row; one of `others` follows the end of a text."""
    new, (written, likely) = row["ids"].shape[0] - prefix.shape[1], row["likely"].shape
    likeliest = _Likeliest(likely)
    processors = [likeliest] if likely else []
    processors += [Sampled(temperature)] if temperature else []
    texts = writer.generate(
        prefix, attention_mask=torch.ones_like(prefix),  # the end marker is also the padding token, and occurs inside rows
        max_new_tokens=new, min_new_tokens=new, eos_token_id=None, past_key_values=growing_cache(writer),
        logits_processor=LogitsProcessorList([*processors, NextOpening(others, end, remaining)]), do_sample=False,
    )  # fmt: skip
    rows = np.zeros(len(prefix), row)
    rows["ids"] = texts.cpu().numpy()
    for name, steps in zip(("logp", "likely"), zip(*likeliest.steps[-written:], strict=True), strict=False):
        rows[name] = torch.stack(steps, 1).cpu().numpy()
    return rows


def beginnings(
    streams: Mapping[str, np.ndarray], mix: Mapping[str, float], seed: tuple[int, int]
) -> Iterator[list[int]]:
    """Yield openings of random documents of the mix: a whole question, or the first tokens of a plain text."""
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
    """Compute attention of [rows, heads, tokens, size] with one product for all queries that share a key.

    For one token per row a CPU needs a tenth of the time of repeated keys, and a quarter of the time of `sdpa`.
    """
    rows, heads, tokens, size = query.shape
    groups = heads // key.shape[1]
    scores = query.reshape(rows, -1, groups * tokens, size) @ key.transpose(2, 3) * scaling
    if attention_mask is not None:
        scores = scores + attention_mask.repeat(1, 1, groups, 1)
    mixed = scores.softmax(-1, dtype=torch.float32).to(value.dtype) @ value
    return mixed.view(rows, heads, tokens, size).transpose(1, 2), None


AttentionInterface.register(GROUPED, _grouped)
AttentionMaskInterface.register(GROUPED, eager_mask)


class _Likeliest(LogitsProcessor):
    """Records the `likely` likeliest tokens of every step. Scores stay the same."""

    def __init__(self, likely: int):
        self._likely = likely
        self.steps: list[tuple[torch.Tensor, ...]] = []  # log-probabilities in nats and ids, [rows, likely] each

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores [rows, vocab] unchanged."""
        self.steps.append(tuple(scores.log_softmax(-1).topk(self._likely)))
        return scores


class Sampled(LogitsProcessor):
    """Samples a token at a temperature, in a quarter of the time that `generate` takes on a CPU."""

    def __init__(self, temperature: float):
        self._temperature = temperature

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return scores [rows, vocab] that allow only the sampled token of each row."""
        cumulative = (scores / self._temperature).softmax(-1).cumsum(-1)
        draws = torch.rand_like(cumulative[:, :1]) * cumulative[:, -1:]
        drawn = torch.searchsorted(cumulative, draws, right=True)
        return torch.full_like(scores, -torch.inf).scatter_(1, drawn.clamp_max(scores.shape[1] - 1), 0.0)


class NextOpening(LogitsProcessor):
    """Forces another opening after the end of a text. `begun` are the remaining tokens of the rows' first openings."""

    def __init__(self, openings: Iterator[Sequence[int]], end: int, begun: Sequence[Sequence[int]] = ()):
        self._openings, self._end = openings, end
        # Row -> tokens still to force, last first.
        self._left: dict[int, list[int]] = {row: list(ids)[::-1] for row, ids in enumerate(begun)}

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return scores [rows, vocab] that allow a single token in rows with an unfinished opening."""
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
    """Rows that the target wrote, repeated in one random order, because rows of one batch resemble each other."""

    def __init__(self, rows: np.ndarray, states: States | None = None):
        self._rows, self._states, self.length = rows, states, rows["ids"].shape[1] - 1
        self._order = np.random.default_rng(len(rows)).permutation(len(rows))

    def batch(self, first_row: int, rows: int, length: int) -> Rows:
        """Return rows from `first_row` on, modulo the number of rows; `length` must be `self.length`."""
        assert length == self.length
        numbers = self._order[np.arange(first_row, first_row + rows) % len(self._rows)]
        picked = self._rows[numbers]
        ids, likely = (torch.from_numpy(picked[name].astype(np.int64)) for name in ("ids", "likely"))
        outputs = self._states.at(numbers) if self._states else None
        return Rows(ids, likely, torch.from_numpy(picked["logp"].astype(np.float32)), outputs)
