"""transformers' own speculation, run for real as a lane: assisted generation and prompt lookup.

`model.generate` reports accepted tokens only, through a streamer, one call a pass, which is timed
there. So these lanes are opaque: their steps have tokens and seconds, and no draft. The race's rule
holds here too: at temperature 0 and under shared noise it is passed as a logits processor, so that
the text must be naive's; under the rejection rule `generate` samples in its own way.

The call runs in a greenlet of the same thread, which hands over every pass and computes the next
only when its lane is advanced; it can be dropped half way.

Knows transformers' `generate`. It does not know our loop, our drafts or our cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, ClassVar

import torch
from greenlet import getcurrent, greenlet
from transformers.generation.configuration_utils import GenerationConfig
from transformers.generation.logits_process import LogitsProcessor, LogitsProcessorList
from transformers.generation.streamers import BaseStreamer

from ..core.accept import Rule, require_finite
from ..core.events import ACCEPTED, BONUS, SettingsError, Step
from ..model.lm import CachedLM
from .decode import Ends

ATTENTIONS = ("exact", "sdpa")


class Peer:
    """One way of calling `generate`. The attributes are those of a `Drafter`."""

    name: ClassVar[str]
    summary: ClassVar[str]
    needs_draft: ClassVar[bool] = False
    draft_model: ClassVar[str | None] = None

    @dataclass(frozen=True, slots=True)
    class Options:
        """`attention` "exact" computes as our lanes do; "sdpa" is transformers' default, whose rows depend on their company."""

        attention: str = "exact"

        def __post_init__(self) -> None:
            if self.attention not in ATTENTIONS:
                raise SettingsError("attention", self.attention, f"choose one of {', '.join(ATTENTIONS)}.")

    def __init__(self, target: CachedLM, draft: CachedLM | None, rule: Rule, k: int | str, options: Any):
        self.target, self.draft, self.rule, self.k, self.options = target, draft, rule, k, options
        # The models' own generation_config.json may ask for beams, suppressed tokens or a time limit, which no other lane follows.
        self._configs = [
            (lm.model, config) for lm, config in ((target, GenerationConfig()), (draft, self.drafting())) if lm
        ]

    def drafting(self) -> GenerationConfig:
        """The configuration that the draft model has while this lane computes."""
        return GenerationConfig()

    def arguments(self) -> dict[str, Any]:
        """What this way of generating adds to the call."""
        return {}

    def configured(self) -> dict[str, Any]:
        """What this way of generating adds to the call's configuration."""
        return {}

    def steps(self, prompt: Sequence[int], ends: Ends) -> Iterator[Step]:
        """Continue `prompt`; the same `Step`s as the loop's, without drafts."""
        with self._borrowed():
            reading = self._reading_seconds(prompt)
        yield Step("prefill", 0, verify_s=reading)
        context = list(prompt)
        passes = _in_greenlet(lambda emit: self._generate(prompt, ends, emit))
        try:
            for index, (tokens, seconds) in enumerate(self._timed(passes), start=1):
                if index == 1:  # `generate` reads the prompt in its first pass; no lane's clock counts that
                    seconds = max(0.0, seconds - reading)
                kept, finish = ends.cut(len(prompt), context, tokens)
                context += tokens[:kept]
                origins = (ACCEPTED,) * (len(tokens) - 1) + (BONUS,)
                emitted = tuple(tokens[:kept])
                yield Step("verify", index, emitted=emitted, origins=origins[:kept], verify_s=seconds, finish=finish)
                if finish:
                    return
        finally:
            passes.close()

    def _timed(self, passes: Iterator[list[int]]) -> Iterator[tuple[list[int], float]]:
        """Every pass with the seconds it took, other lanes' and the consumer's time left out."""
        while True:
            with self._borrowed():
                start = perf_counter()
                tokens = next(passes, None)
                seconds = perf_counter() - start
            if tokens is None:
                return
            yield tokens, seconds

    @contextmanager
    def _borrowed(self) -> Iterator[None]:
        """This lane's attention and generation configurations while it computes, the models' own after: other lanes share the
        models."""
        models = [lm.model for lm in (self.target, self.draft) if lm] if self.options.attention == "sdpa" else []
        before = [model.config._attn_implementation for model in models]
        configs = [model.generation_config for model, _ in self._configs]
        try:
            for model, config in self._configs:
                model.generation_config = config
            for model in models:
                model.set_attn_implementation("sdpa")
            yield
        finally:
            for model, name in zip(models, before, strict=True):
                model.set_attn_implementation(name)
            for (model, _), config in zip(self._configs, configs, strict=True):
                model.generation_config = config

    def _reading_seconds(self, prompt: Sequence[int]) -> float:
        """What reading the prompt but for its last token takes, by every model that will."""
        start = perf_counter()
        for lm in (self.target, self.draft):
            if lm and len(prompt) > 1:
                with torch.no_grad():
                    lm.model(torch.tensor([prompt[:-1]], device=lm.device), use_cache=True, logits_to_keep=1)
        return perf_counter() - start

    def _generate(self, prompt: Sequence[int], ends: Ends, emit: Callable[[list[int]], None]) -> None:
        model, sampled = self.target.model, self.rule.name == "rejection"
        options = {"top_k": 0, "top_p": 1.0, "temperature": 1.0} if sampled else {}  # the rule has applied its own
        if sampled:
            torch.manual_seed(self.rule.settings.seed)
        config = GenerationConfig(
            max_new_tokens=ends.room(len(prompt), len(prompt)), do_sample=sampled, repetition_penalty=1.0,
            eos_token_id=sorted(ends.eos) or None, pad_token_id=min(ends.eos, default=0), **options, **self.configured(),
        )  # fmt: skip
        model.generate(
            torch.tensor([prompt], device=model.device), generation_config=config, streamer=_Streamer(emit),
            logits_processor=LogitsProcessorList([_Ruled(self.rule, self.target.vocab)]), **self.arguments(),
        )  # fmt: skip


class Plain(Peer):
    """`generate` without any drafting: what our naive lane is measured against."""

    name = "hf-generate"
    summary = "transformers' own generate, no drafting"


class Assisted(Peer):
    """`generate(assistant_model=...)`; k is its `num_assistant_tokens`, "auto" its own dynamic default."""

    name = "hf-assisted"
    summary = "transformers' own assisted generation, opaque"
    needs_draft = True

    def arguments(self):
        return {"assistant_model": self.draft.model}

    def drafting(self):
        if self.k == "auto":
            return GenerationConfig()
        # As arguments of the call these are ignored: transformers reads them from the assistant's own configuration.
        return GenerationConfig(
            num_assistant_tokens=max(1, self.k),
            num_assistant_tokens_schedule="constant",
            assistant_confidence_threshold=0.0,
        )


class Lookup(Peer):
    """`generate(prompt_lookup_num_tokens=...)`; k is that number, "auto" its usual 10."""

    name = "hf-lookup"
    summary = "transformers' own prompt lookup, opaque"

    def configured(self):
        return {"prompt_lookup_num_tokens": 10 if self.k == "auto" else max(1, self.k)}


PEERS: dict[str, type[Peer]] = {p.name: p for p in (Plain, Assisted, Lookup)}


class _Ruled(LogitsProcessor):
    """The rule's scores, as our loop computes them, and with the shared noise where it decides."""

    def __init__(self, rule: Rule, vocab: int):
        self.rule, self.vocab = rule, vocab

    def __call__(self, input_ids, scores):
        require_finite(scores, "target")
        context = input_ids[0].tolist() if self.rule.settings.repetition_penalty != 1.0 else ()
        processed = self.rule.process(scores[:, : self.vocab], context)
        decided = self.rule.decisive(processed, [input_ids.shape[1]])
        padding = scores.shape[1] - self.vocab
        out = processed if decided is None else decided
        return torch.nn.functional.pad(out, (0, padding), value=-torch.inf) if padding > 0 else out


class _Streamer(BaseStreamer):
    """Hands over what every pass accepted; the first call brings the prompt."""

    def __init__(self, emit: Callable[[list[int]], None]):
        self._emit, self._begun = emit, False

    def put(self, value):
        if self._begun:
            self._emit(value.flatten().tolist())
        self._begun = True

    def end(self):
        pass


def _in_greenlet(work: Callable[[Callable[[Any], None]], None]) -> Iterator[Any]:
    """Run `work(emit)` as a generator of what it emits, with its grad mode; closing the generator ends the work."""
    inner = greenlet(lambda: work(lambda value: inner.parent.switch(value)))
    inner_grad = torch.is_grad_enabled()
    try:
        while True:
            outer_grad, inner.parent = torch.is_grad_enabled(), getcurrent()
            torch.set_grad_enabled(inner_grad)
            try:
                value = inner.switch()
            finally:
                inner_grad = torch.is_grad_enabled()
                torch.set_grad_enabled(outer_grad)
            if inner.dead:
                return
            yield value
    finally:
        if not inner.dead:
            inner.parent = getcurrent()
            inner.throw()
