"""A block head that learns from random weights in slices of a fraction of a second, beside a target so small that it takes
minutes.

The target writes stories, many at once, half of them greedily; its hidden states and favourite tokens are kept as it writes,
so labels take no pass of their own. The head learns the favourites behind random places of the latest texts. Every few
seconds its drafts are verified behind held-out prompts: what counts are the tokens that a pass brings.

Knows a target, its tokenizer and clocks. It does not know who watches, nor what is computed between its slices.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, linear
from transformers import PreTrainedModel

from ..calibration import threads
from ..calibration.cost import interleaved
from ..family.models import Models
from ..measure.scenarios import BENCH
from ..model.heads.block import BlockNetwork
from ..model.heads.head import Head
from ..model.heads.shape import BLOCK
from .cache import growing_cache
from .heads import CONFIDENCE, new_head, weighted
from .optimizers import optimizers, scale_rates
from .verified import verified_passes

OPENINGS = (
    "Once upon a time", "One day", "There was a", "Once there was a", "Lily and", "Tom", "A little", "One sunny morning",
)  # fmt: skip
FIRST, TOGETHER, LENGTH = 16, 64, 112  # texts that are written at once, at first and later, and tokens of each
LOOSE = 10  # tokens behind an opening that are written at temperature 1, so that texts differ
WARM = 0.7  # the temperature of every second text from there on; the others go on greedily
REMEMBERED = 12  # batches of texts
WRITING = 0.4  # share of the time
LAYERS, SLOTS = 1, 5
TEXTS, ANCHORS = 6, 16  # of a training step
WARM_STEPS = 20  # in which the learning rates rise
SMOOTH = 0.9  # of the loss that is shown stays with every step
CHECK_S = 8.0  # what the head is worth is measured so often,
CHECKED, CHECKED_TOKENS = "story", 64  # behind these prompts
TRIALS = 5


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a head has come: seconds of computing, tokens that the target has written, steps of training, the loss in
    nats, and tokens a pass when they were last measured, for the `checks`-th time; None before."""

    seconds: float = 0.0
    tokens: int = 0
    steps: int = 0
    loss: float | None = None
    accepted: float | None = None
    checks: int = 0


class Text(NamedTuple):
    """What was written: ids [texts, tokens], the hidden states that the head reads of them [texts, tokens, fed], and the
    target's favourite behind each [texts, tokens]."""

    ids: torch.Tensor
    states: torch.Tensor
    favourites: torch.Tensor


class Growing:
    """A head beside a Llama-like target, and all that it learns from; `slices` makes it learn. `seed` is of its first weights
    and of what is drawn; how writing and training take turns depends on the clock. For one thread."""

    def __init__(self, models: Models, seed: int = 0):
        self.progress = Progress()
        self._models, self._target = models, models.target.fresh()
        target = models.target.model
        self._end = min(models.eos, default=0)
        self._draws = torch.Generator().manual_seed(seed)
        self.network = new_head(BLOCK, target, self._end, seed, layers=LAYERS, slots=SLOTS).float().to(target.device)
        self._optimizers = optimizers(self.network)
        self._quick = _quicker_in_bfloat16(target.device, self.network.shape.hidden)
        self._writer = _writer(target, torch.bfloat16 if self._quick else torch.float32)
        self._texts: list[Text] = []
        self._openings = [models.tokenizer(text)["input_ids"] for text in OPENINGS]

    def slices(self) -> Iterator[Progress]:
        """Learn, a slice at a time, without an end. May be closed at any slice."""
        work = self._work()
        while True:
            start = perf_counter()
            with threads.using(1):  # more would wait for each other, and for the browser that shares the machine
                next(work)
            self._note(seconds=self.progress.seconds + perf_counter() - start)
            yield self.progress

    def copied(self) -> BlockNetwork:
        """The head's network as it is now, in the target's number format."""
        passes = self._target.passes
        return copy.deepcopy(self.network).requires_grad_(False).to(passes.device, passes.dtype).eval()

    def _note(self, **changes) -> None:
        self.progress = replace(self.progress, **changes)

    def _work(self) -> Iterator[None]:
        """Write, then train and write in turns."""
        yield from self._measure()
        writing, spent_s, checked_s = self._write(), {"write": 0.0, "train": 0.0}, self.progress.seconds
        while True:
            writes = not self._texts or spent_s["write"] < WRITING * sum(spent_s.values())
            start = perf_counter()
            if writes:
                next(writing)
            else:
                self._train()
            if self._texts:  # what came before the first step does not count
                spent_s["write" if writes else "train"] += perf_counter() - start
            yield
            if self.progress.seconds - checked_s > CHECK_S:
                yield from self._measure()
                checked_s = self.progress.seconds

    # ---------------------------------------------------------------- writing

    @torch.no_grad()
    def _write(self) -> Iterator[None]:
        """A token of every text at a time, one batch of texts after the other."""
        device, taps = self._writer.device, self.network.shape.taps
        while True:
            texts = TOGETHER if self._texts else FIRST
            hot = torch.where(torch.arange(texts) % 2 == 0, 0.0, WARM)
            cache, planned = growing_cache(self._writer), torch.full((texts, LENGTH), -1)
            loose = torch.zeros(texts, dtype=torch.long)  # until which token a text is written at temperature 1
            ids = torch.full((texts,), self._end)
            steps: list[tuple[torch.Tensor, ...]] = []
            for place in range(LENGTH):
                for row in (ids == self._end).nonzero().flatten().tolist():
                    loose[row] = place + self._plan(planned[row, place:]) + LOOSE
                out = self._writer(
                    input_ids=ids[:, None].to(device), past_key_values=cache, output_hidden_states=True, use_cache=True
                )
                logits = out.logits[:, -1].float().cpu()
                states = torch.cat([out.hidden_states[tap][:, 0] for tap in taps], -1).to(torch.bfloat16)
                favourites = logits.argmax(-1)
                steps.append((ids, states, favourites))
                heat = torch.where(place < loose, 1.0, hot)
                drawn = (logits / heat.clamp_min(1e-2)[:, None]).softmax(-1).multinomial(1, generator=self._draws)[:, 0]
                ids = torch.where(heat > 0, drawn, favourites)
                ids = torch.where(planned[:, place] >= 0, planned[:, place], ids)
                self._note(tokens=self.progress.tokens + texts)
                yield
            ids, states, favourites = (torch.stack(part, 1).to(device) for part in zip(*steps, strict=True))
            self._texts = [*self._texts[1 - REMEMBERED :], Text(ids, states, favourites)]

    def _plan(self, planned: torch.Tensor) -> int:
        """Plan an opening from here on, [tokens]; how long it is."""
        opening = self._openings[int(torch.randint(len(self._openings), (1,), generator=self._draws))]
        fitting = opening[: len(planned)]
        planned[: len(fitting)] = torch.tensor(fitting)
        return len(opening)

    # ---------------------------------------------------------------- training

    def _train(self) -> None:
        """One step."""
        network, device = self.network.train(), self._writer.device
        places = [(batch, row) for batch in self._texts for row in range(len(batch.ids))]
        drawn = torch.randint(len(places), (TEXTS,), generator=self._draws).tolist()
        chosen = [[part[row] for part in batch] for batch, row in map(places.__getitem__, drawn)]
        ids, states, favourites = map(torch.stack, zip(*chosen, strict=True))
        anchors = torch.randperm(LENGTH - SLOTS - 1, generator=self._draws)[:ANCHORS].sort().values + 1
        anchors = anchors.to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=self._quick):
            logits, sure = network(states.float(), ids, anchors)
        wanted = favourites[:, anchors[:, None] + torch.arange(SLOTS, device=device)]
        surprise = cross_entropy(logits.float().flatten(0, -2), wanted.flatten(), reduction="none").view(wanted.shape)
        agrees = (logits.detach().argmax(-1) == wanted).float()
        doubt = binary_cross_entropy_with_logits(sure.float(), agrees, reduction="none")
        loss = weighted(surprise + CONFIDENCE * doubt)
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        steps = self.progress.steps + 1
        scale_rates(self._optimizers, min(1.0, steps / WARM_STEPS))
        for optimizer in self._optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        now, before = float(loss.detach()), self.progress.loss
        self._note(steps=steps, loss=now if before is None else SMOOTH * before + (1 - SMOOTH) * now)

    # ---------------------------------------------------------------- measuring

    def _measure(self) -> Iterator[None]:
        """Tokens a pass behind held-out prompts, greedy; a prompt is a slice."""
        head, emitted, passes = Head.of(self.copied(), self._target.passes), 0, 0
        for prompt in [scenario.prompt for scenario in BENCH if scenario.category == CHECKED]:
            ids = self._models.tokenizer(prompt)["input_ids"]
            more = verified_passes(head, self._target, ids, self._models.eos, CHECKED_TOKENS)
            emitted, passes = emitted + more[0], passes + more[1]
            yield
        self._note(accepted=emitted / passes, checks=self.progress.checks + 1)


def _writer(target: PreTrainedModel, dtype: torch.dtype) -> PreTrainedModel:
    """The same model in transformers' own passes, which take many texts at once."""
    writer = type(target)(target.config).to(target.device, dtype).eval().requires_grad_(False)
    writer.load_state_dict(target.state_dict())
    writer.set_attn_implementation("eager")  # twice as quick as sdpa at one token a row on a CPU, and as quick on a GPU
    return writer


def _quicker_in_bfloat16(device: torch.device, width: int) -> bool:
    """Whether products are: not every processor has instructions for it."""
    x, weight = torch.randn(256, width, device=device), torch.randn(4 * width, width, device=device)
    products: Sequence = [partial(linear, x.to(form), weight.to(form)) for form in (torch.bfloat16, torch.float32)]
    quick_s, plain_s = interleaved(products, TRIALS, min)
    return quick_s < plain_s
