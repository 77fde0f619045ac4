"""Train a block head from random weights in slices of a fraction of a second; a small target needs minutes.

The target writes many stories at once, half of them greedily. Its hidden states and likeliest tokens are stored as it writes,
so labels take no extra pass. The head learns the likeliest tokens after random positions of the latest texts. Every few
seconds its drafts are verified after held-out prompts, which gives the tokens per pass.
"""

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

from ..family import threads
from ..family.cost import interleaved
from ..family.models import Models
from ..measure.scenarios import BENCH
from ..model.heads.head import Head
from ..model.heads.shape import BLOCK
from ..model.heads.slots import BlockNetwork
from .cache import growing_cache
from .heads import CONFIDENCE, new_head, weighted
from .optimizers import optimizers, scale_rates
from .verified import verified_passes

OPENINGS = (
    "Once upon a time", "One day", "There was a", "Once there was a", "Lily and", "Tom", "A little", "One sunny morning",
)  # fmt: skip
FIRST_BATCH, BATCH, LENGTH = 16, 64, 112  # texts written at once, in the first and in later batches; tokens per text
VARIED = 10  # tokens after an opening that are sampled at temperature 1, so that texts differ
TEMPERATURE = 0.7  # of every second text after that; the others are greedy
KEPT_BATCHES = 12  # latest batches of texts
WRITING = 0.4  # share of the time spent writing
LAYERS, SLOTS = 1, 5
TEXTS, ANCHORS = 6, 16  # per training step
WARM_STEPS = 20  # training steps in which the learning rates rise
SMOOTH = 0.9  # weight of the earlier losses in the reported loss
CHECK_S = 8.0  # seconds between measurements
CHECKED, CHECKED_TOKENS = "story", 64  # category of the prompts that measure a head, and new tokens of each
TRIALS = 5


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of training.

    `seconds` of computing, `tokens` that the target wrote, training `steps`, the `loss` in nats, measured tokens per pass
    (`accepted`), and the number of measurements (`checks`).
    """

    seconds: float = 0.0
    tokens: int = 0
    steps: int = 0
    loss: float | None = None
    accepted: float | None = None
    checks: int = 0


class TextBatch(NamedTuple):
    """A batch of texts: ids and likeliest next tokens [texts, tokens], hidden states [texts, tokens, taps * hidden]."""

    ids: torch.Tensor
    states: torch.Tensor
    likeliest: torch.Tensor


class BlockHeadTrainer:
    """A head in training, with its target and the latest texts; `slices` trains it.

    `seed` determines the initial weights and the random draws. The order of writing and training depends on the clock.
    Use it in one thread only.
    """

    def __init__(self, models: Models, seed: int = 0):
        self.progress = Progress()
        self._models, self._target = models, models.target.fresh()
        target = models.target.model
        self._end = min(models.eos, default=0)
        self._draws = torch.Generator().manual_seed(seed)
        self.network = new_head(BLOCK, target, self._end, seed, layers=LAYERS, slots=SLOTS).float().to(target.device)
        self._optimizers = optimizers(self.network)
        self._bfloat16 = _bfloat16_is_faster(target.device, self.network.shape.hidden)
        self._writer = _writer(target, torch.bfloat16 if self._bfloat16 else torch.float32)
        self._texts: list[TextBatch] = []
        self._openings = [models.tokenizer(text)["input_ids"] for text in OPENINGS]

    def slices(self) -> Iterator[Progress]:
        """Train until closed; yield the `Progress` after each slice."""
        work = self._work()
        while True:
            start = perf_counter()
            with threads.using(
                self._target.passes, 1
            ):  # more threads would wait for each other, and for a browser on the same machine
                next(work)
            self._update_progress(seconds=self.progress.seconds + perf_counter() - start)
            yield self.progress

    def copied(self) -> BlockNetwork:
        """Return a copy of the network in the target's number format."""
        passes = self._target.passes
        return copy.deepcopy(self.network).requires_grad_(False).to(passes.device, passes.dtype).eval()

    def _update_progress(self, **changes) -> None:
        self.progress = replace(self.progress, **changes)

    def _work(self) -> Iterator[None]:
        yield from self._measure()
        writing, spent_s, checked_s = self._write(), {"write": 0.0, "train": 0.0}, self.progress.seconds
        while True:
            writes = not self._texts or spent_s["write"] < WRITING * sum(spent_s.values())
            start = perf_counter()
            if writes:
                next(writing)
            else:
                self._train()
            if self._texts:  # time before the first step does not count
                spent_s["write" if writes else "train"] += perf_counter() - start
            yield
            if self.progress.seconds - checked_s > CHECK_S:
                yield from self._measure()
                checked_s = self.progress.seconds

    @torch.no_grad()
    def _write(self) -> Iterator[None]:
        """Write batches of texts, one token of each per slice."""
        device, taps = self._writer.device, self.network.shape.taps
        while True:
            texts = BATCH if self._texts else FIRST_BATCH
            temperatures = torch.where(torch.arange(texts) % 2 == 0, 0.0, TEMPERATURE)
            cache, planned = growing_cache(self._writer), torch.full((texts, LENGTH), -1)
            varied = torch.zeros(texts, dtype=torch.long)  # a text is sampled at temperature 1 up to this position
            ids = torch.full((texts,), self._end)
            steps: list[tuple[torch.Tensor, ...]] = []
            for position in range(LENGTH):
                for text in (ids == self._end).nonzero().flatten().tolist():
                    varied[text] = position + self._plan(planned[text, position:]) + VARIED
                fed = ids[:, None].to(device)
                out = self._writer(input_ids=fed, past_key_values=cache, output_hidden_states=True, use_cache=True)
                logits = out.logits[:, -1].float().cpu()
                states = torch.cat([out.hidden_states[tap][:, 0] for tap in taps], -1).to(torch.bfloat16)
                likeliest = logits.argmax(-1)
                steps.append((ids, states, likeliest))
                heat = torch.where(position < varied, 1.0, temperatures)
                drawn = (logits / heat.clamp_min(1e-2)[:, None]).softmax(-1).multinomial(1, generator=self._draws)[:, 0]
                ids = torch.where(heat > 0, drawn, likeliest)
                ids = torch.where(planned[:, position] >= 0, planned[:, position], ids)
                self._update_progress(tokens=self.progress.tokens + texts)
                yield
            ids, states, likeliest = (torch.stack(part, 1).to(device) for part in zip(*steps, strict=True))
            self._texts = [*self._texts[1 - KEPT_BATCHES :], TextBatch(ids, states, likeliest)]

    def _plan(self, planned: torch.Tensor) -> int:
        """Write an opening into `planned` [tokens]; return its length."""
        opening = self._openings[int(torch.randint(len(self._openings), (1,), generator=self._draws))]
        fitting = opening[: len(planned)]
        planned[: len(fitting)] = torch.tensor(fitting)
        return len(opening)

    def _train(self) -> None:
        network, device = self.network.train(), self._writer.device
        texts = [(batch, row) for batch in self._texts for row in range(len(batch.ids))]
        drawn = torch.randint(len(texts), (TEXTS,), generator=self._draws).tolist()
        chosen = [[part[row] for part in batch] for batch, row in map(texts.__getitem__, drawn)]
        ids, states, likeliest = map(torch.stack, zip(*chosen, strict=True))
        anchors = torch.randperm(LENGTH - SLOTS - 1, generator=self._draws)[:ANCHORS].sort().values.to(device) + 1
        with torch.autocast(device.type, torch.bfloat16, enabled=self._bfloat16):
            logits, acceptance = network(states.float(), ids, anchors)
        labels = likeliest[:, anchors[:, None] + torch.arange(SLOTS, device=device)]
        token_loss = cross_entropy(logits.float().flatten(0, -2), labels.flatten(), reduction="none").view(labels.shape)
        accepted = (logits.detach().argmax(-1) == labels).float()
        confidence_loss = binary_cross_entropy_with_logits(acceptance.float(), accepted, reduction="none")
        loss = weighted(token_loss + CONFIDENCE * confidence_loss)
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        steps = self.progress.steps + 1
        scale_rates(self._optimizers, min(1.0, steps / WARM_STEPS))
        for optimizer in self._optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        now, before = float(loss.detach()), self.progress.loss
        self._update_progress(steps=steps, loss=now if before is None else SMOOTH * before + (1 - SMOOTH) * now)

    def _measure(self) -> Iterator[None]:
        """Measure tokens per pass after held-out prompts, greedily, with one prompt per slice."""
        head, emitted, passes = Head.from_network(self.copied(), self._target.passes), 0, 0
        for scenario in (scenario for scenario in BENCH if scenario.category == CHECKED):
            ids = self._models.tokenizer(scenario.prompt)["input_ids"]
            more = verified_passes(head, self._target, ids, self._models.eos, CHECKED_TOKENS)
            emitted, passes = emitted + more[0], passes + more[1]
            yield
        self._update_progress(accepted=emitted / passes, checks=self.progress.checks + 1)


def _writer(target: PreTrainedModel, dtype: torch.dtype) -> PreTrainedModel:
    """Return a copy of the target with transformers' passes, which compute many texts at once."""
    writer = type(target)(target.config).to(target.device, dtype).eval().requires_grad_(False)
    writer.load_state_dict(target.state_dict())
    writer.set_attn_implementation("eager")  # twice as fast as sdpa at one token per row on a CPU, and as fast on a GPU
    return writer


def _bfloat16_is_faster(device: torch.device, width: int) -> bool:
    """Measure whether bfloat16 products are faster than float32; not every processor has instructions for them."""
    x, weight = torch.randn(256, width, device=device), torch.randn(4 * width, width, device=device)
    products: Sequence = [partial(linear, x.to(form), weight.to(form)) for form in (torch.bfloat16, torch.float32)]
    bfloat16_s, float32_s = interleaved(products, TRIALS, min)
    return bfloat16_s < float32_s
