"""transformers' own speculation as lanes: plain generation, assisted generation and prompt lookup.

`generate` reports only accepted tokens, once per pass. So the steps of these lanes have tokens and seconds, but no drafts. At
temperature 0 and with shared noise the acceptance rule is a logits processor of `generate`, so the text must equal naive's.
With the rejection rule `generate` samples in its own way, and it has its own ensemble rule. The call runs in a greenlet. It stops after every pass until its
lane is advanced, and can be ended there.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from time import perf_counter
from typing import Any, ClassVar

import torch
from greenlet import getcurrent, greenlet

from ..core.accept import Rule
from ..core.events import ACCEPTED, BONUS, SAME_TEXT, Cancelled, LookaheadError, MethodError, SettingsError, Step
from ..core.lm import Target
from ..core.processing import require_finite
from ..core.wording import short_error
from ..drafting.base import DRAFT_MODEL, LOOKUP, NO_DRAFT
from .stop_conditions import StopConditions

ATTENTIONS = ("exact", "sdpa")


class ExternalGenerator:
    """A mode of transformers' `generate`. Class attributes are those of a `Drafter`, and the settings of the bench."""

    name: ClassVar[str]
    summary: ClassVar[str]
    needs_draft: ClassVar[bool] = False
    draft_model: ClassVar[str | None] = None
    technique: ClassVar[str | None] = None
    rolls_back: ClassVar[bool] = True  # whether transformers cuts rejected tokens from the target's cache
    rules: ClassVar[tuple[str, ...]] = (*SAME_TEXT, "rejection")  # acceptance rules that transformers has
    bench_settings: ClassVar[tuple[str, ...]] = ()  # for the bench, as `NAME=VALUE,...`

    @dataclass(frozen=True, slots=True)
    class Options:
        """`attention`: "exact" as in other lanes, or "sdpa", transformers' default, in which rows depend on each other."""

        attention: str = "exact"

        def __post_init__(self) -> None:
            if self.attention not in ATTENTIONS:
                raise SettingsError("attention", self.attention, f"choose one of {', '.join(ATTENTIONS)}.")

    def __init__(self, target: Target, draft: Target | None, rule: Rule, k: int | str, options: Any):
        self.target, self.draft, self.rule, self.k, self.options = target, draft, rule, k, options

    def drafting(self) -> Mapping[str, Any]:
        """Return the generation configuration of the draft model while this lane computes."""
        return {}

    def configuration(self) -> Mapping[str, Any]:
        """Return further fields of the target's `GenerationConfig`."""
        return {}

    def steps(self, prompt: Sequence[int], stop: StopConditions) -> Iterator[Step]:
        """Continue `prompt`; yield `Step`s without drafts, timed without the work of other lanes.

        Raises `MethodError` if transformers fails, for example after a text that is too long for its draft model.
        """
        try:
            yield from self._steps(prompt, stop)
        except (LookaheadError, Cancelled):
            raise
        except Exception as error:  # transformers raises many types
            hint = f"transformers failed ({short_error(error)}); choose a method that runs in our loop, such as draft."
            raise MethodError("method", self.name, hint) from error

    def _steps(self, prompt: Sequence[int], stop: StopConditions) -> Iterator[Step]:
        with self._configured():
            start = perf_counter()
            for lm in (self.target, self.draft):
                if lm and len(prompt) > 1:
                    lm.read_with_transformers(prompt[:-1])
            reading = perf_counter() - start
        yield Step("prefill", 0, verify_s=reading)
        context, masks = list(prompt), self.rule.masks
        passes = _in_greenlet(lambda emit: self._generate(prompt, stop, emit))
        try:
            for index in count(1):
                with self._configured():
                    start, masked_s = perf_counter(), masks.seconds if masks else 0.0
                    tokens = next(passes, None)
                    mask_s = masks.seconds - masked_s if masks else 0.0
                    seconds = perf_counter() - start - mask_s
                if tokens is None:
                    return
                if index == 1:  # the first pass of `generate` reads the prompt, which no lane's clock counts
                    seconds = max(0.0, seconds - reading)
                kept, finish = stop.cut(len(prompt), context, tokens)
                context += tokens[:kept]
                origins = (ACCEPTED,) * (len(tokens) - 1) + (BONUS,)
                emitted = tuple(tokens[:kept])
                yield Step(
                    "verify", index, emitted=emitted, origins=origins[:kept], verify_s=seconds, finish=finish,
                    mask_s=mask_s, satisfied=masks.satisfied(context) if masks and finish else None,
                )  # fmt: skip
                if finish:
                    return
        finally:
            passes.close()

    def _configured(self) -> Any:
        """Return a context with this lane's configuration; other lanes share the models."""
        attention = "sdpa" if self.options.attention == "sdpa" else None
        return self.target.configured(self.draft, self.drafting(), attention)

    def _generate(self, prompt: Sequence[int], stop: StopConditions, emit: Callable[[list[int]], None]) -> None:
        self.target.generate(
            prompt, emit, self._scores, assistant=self.draft, eos=stop.eos,
            seed=self.rule.settings.seed if self.rule.name == "rejection" else None,
            max_new_tokens=stop.remaining_tokens(len(prompt), len(prompt)), options=self.configuration(),
        )  # fmt: skip

    def _scores(self, logits: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """Return the scores of the decoding loop, with the shared noise of the coupled rule."""
        require_finite(logits, "target")
        processed = self.rule.process(logits, context.tolist() if self.rule.reads_text else ())
        perturbed = self.rule.perturbed_scores(processed, [len(context)])
        return processed if perturbed is None else perturbed


class Plain(ExternalGenerator):
    """`generate` without drafting, to compare with the naive lane."""

    name = "hf-generate"
    summary = "transformers' own generate, without drafting"
    technique = NO_DRAFT
    rolls_back = False
    bench_settings = ("attention=sdpa",)


class Assisted(ExternalGenerator):
    """`generate(assistant_model=...)`. `k` is its `num_assistant_tokens`; "auto" is its dynamic default."""

    name = "hf-assisted"
    summary = "transformers' own assisted generation"
    needs_draft = True
    technique = DRAFT_MODEL
    rules = (*ExternalGenerator.rules, "ensemble")
    bench_settings = ("attention=sdpa", *(f"attention=sdpa,k={k}" for k in (3, 5, 8, 20)))

    def drafting(self):
        fixed = {"num_assistant_tokens_schedule": "constant", "assistant_confidence_threshold": 0.0}
        return {} if self.k == "auto" else {"num_assistant_tokens": max(1, self.k), **fixed}

    def configuration(self):
        weight = self.rule.settings.weight
        return {"assistant_ensemble_weight": 1 - weight} if weight else {}


class Lookup(ExternalGenerator):
    """`generate(prompt_lookup_num_tokens=k)`; "auto" is 10."""

    name = "hf-lookup"
    summary = "transformers' own prompt lookup"
    technique = LOOKUP
    bench_settings = tuple(f"attention=sdpa,k={k}" for k in (3, 5, 10))

    def configuration(self):
        return {"prompt_lookup_num_tokens": 10 if self.k == "auto" else max(1, self.k)}


EXTERNAL: dict[str, type[ExternalGenerator]] = {cls.name: cls for cls in (Plain, Assisted, Lookup)}


def _in_greenlet(work: Callable[[Callable[[Any], None]], None]) -> Iterator[Any]:
    """Run `work(emit)` as a generator of the emitted values, with its own grad mode. Closing the generator ends the work."""
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
