"""A lane: one method with its models and settings, checked and ready to run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Unpack

from ..core.events import MethodError, Settings, SettingsError, Step
from ..core.lm import Target
from ..core.masks import Masks
from ..core.numbers import count
from ..core.rules import rule_for
from ..drafting import Resources
from .decode import PrefillProgress, Request
from .decode import decode as loop
from .draft_length import AdaptiveLength
from .external import ExternalGenerator
from .fixed_length import FixedLength
from .methods import DRAFT, drafter_for, method_class, options_of, runs_with
from .stop_conditions import StopConditions
from .text import StopStrings, check_ids, encode_prompt

if TYPE_CHECKING:
    from ..core.options import DecodeOptions
    from ..family.models import Models

MAX_AUTO = 63  # most tokens per draft of `auto`: with the root, a pass has at most 64 rows
CONTEXT_STEP = 128  # tokens after which `auto` uses the costs of passes after a longer text


def split_options(options: Mapping[str, Any]) -> tuple[Settings, dict[str, Any]]:
    """Split options into the settings of a run and the options of its method."""
    known = Settings.names()
    settings = Settings(**{name: value for name, value in options.items() if name in known})
    return settings, {name: value for name, value in options.items() if name not in known}


class Lane:
    """One method with its models, prompt and settings, ready to run. Raises `LookaheadError` for invalid input."""

    def __init__(
        self, models: Models, prompt: Any, method: str, settings: Settings, options: Mapping[str, Any] | None = None
    ):  # fmt: skip
        method_options = dict(options or {})
        cls: Any = method_class(method)  # a `Drafter` or an `ExternalGenerator`, with the attributes that both have
        draft = drafter_for(method, method_options.pop("draft", DRAFT), {*models.drafts, *models.heads})
        self.models, self.method, self.settings = models, method, settings
        self.reports_drafts = not issubclass(cls, ExternalGenerator)
        self.options = {"draft": draft, **method_options} if cls.needs_draft else method_options
        self.draft: Any = models.draft(draft) if cls.needs_draft else None  # a draft model or a trained head
        self.costs = models.policy_costs(settings.costs)
        self._cls, self._method_options = cls, options_of(method, method_options)
        vocab, context_length, chat = models.target.vocab, models.target.context_length, settings.chat
        self.prompt = encode_prompt(models.tokenizer, prompt, chat=chat, vocab=vocab, context_length=context_length)
        self._masks = Masks(models.grammar(settings.schema), len(self.prompt)) if settings.schema else None
        self._rule = rule_for(settings, self._masks)
        if settings.max_new_tokens > context_length:
            hint = f"the model's context holds {count(context_length)} tokens; with this prompt choose at most {count(context_length - len(self.prompt))}."
            raise SettingsError("max_new_tokens", settings.max_new_tokens, hint)
        if not self.reports_drafts:
            self._check_external(context_length)
        check_ids(getattr(self._method_options, "earlier", ()), vocab)
        stopped = StopStrings(models.tokenizer, settings.stop, self.prompt) if settings.stop else None
        self._stop = StopConditions(models.eos, settings.max_new_tokens, context_length, stopped)

    def _check_external(self, context_length: int) -> None:
        """Raise `LookaheadError` if transformers would fail with these models."""
        if not runs_with(self._cls, self.models):
            hint = "transformers cannot roll back recurrent layers; choose draft or ngram, which can."
            raise MethodError("method", self.method, hint)
        self._check_external_rule()
        if not self.draft:
            return
        draft, most = self.draft, self.draft.context_length - len(self.prompt)
        same_size = draft.passes.shape.vocab == self.models.target.passes.shape.vocab
        translates, hint = bool(draft.tokenizers), ""
        if not same_size and not translates:
            hint = "transformers requires the same vocabulary size for both models"
        elif same_size and translates:
            hint = "transformers requires vocabularies of different sizes if the tokenizers differ"
        elif translates and self.settings.acceptance == "rejection":
            hint = "transformers changes the draft model's weights to sample with another tokenizer"
        if hint:
            raise MethodError("method", self.method, f"{hint}; choose draft, which does not.")
        if draft.context_length < context_length and self.settings.max_new_tokens > most:
            hint = f"the draft model's context holds {count(draft.context_length)} tokens; with this prompt choose at most {count(max(1, most))}."
            raise SettingsError("max_new_tokens", self.settings.max_new_tokens, hint)

    def _check_external_rule(self) -> None:
        """Raise `LookaheadError` if transformers does not have the acceptance rule, or not with these settings."""
        rule, weight = self.settings.acceptance, self.settings.weight
        if rule not in self._cls.rules:
            hint = f"transformers has no such rule for {self.method}; choose a method that runs in our loop, such as draft."
            raise MethodError("rule", rule, hint)
        if rule == "ensemble" and (weight == 1 or self.settings.temperature > 0):
            hint = f"with {self.method} it needs a weight below 1 and temperature 0; choose draft, which does not."
            raise MethodError("rule", rule, hint)

    @property
    def keeps_states(self) -> bool:
        """Whether the target stores hidden states for the drafter."""
        return self.draft is not None and self.draft.kind is not None

    def steps(self, others: list[Request] | None = None, on_prefill: PrefillProgress | None = None) -> Iterator[Step]:
        """Run the lane; the generator may be closed at any step. `others` are the requests of a race that share a prompt."""
        if self.reports_drafts:
            pass_s = cache(lambda step: cache(self.costs.at(step * CONTEXT_STEP).pass_s))
            request = self.request(lambda rows, branches: pass_s(len(request.context) // CONTEXT_STEP)(rows, branches))
            others = [] if others is None else others
            others.append(request)
            return loop(request, others, on_prefill)
        self.models.use_threads()
        self._target = self._fresh_target()
        external = self._cls(self._target, self.draft, self._rule, self.settings.k, self._method_options)
        return external.steps(self.prompt, self._stop)

    def request(self, pass_s: Callable[[int, int], float], drafting: int = 1) -> Request:
        """Return the lane's text as a `Request`. A pass takes `pass_s(rows, branches)` s; `drafting` texts draft in parallel."""
        self.models.use_threads()
        target = self._target = self._fresh_target()
        if self.keeps_states:
            self.draft.follow(target)
        costs = self.costs.at(len(self.prompt)).drafters.get(self.options.get("draft", ""))
        resources = Resources(self._rule, self.draft, self.costs.pass_s, costs and costs.scaled(1 / drafting))
        drafter, k = self._cls(resources, self._method_options), self.settings.k
        policy = AdaptiveLength(pass_s, MAX_AUTO, drafter.sources()) if k == "auto" else FixedLength(int(k))
        return Request(target, drafter, policy, self._rule, self.prompt, self._stop, details=self.settings.details)

    def _fresh_target(self) -> Target:
        """Return the target with a new cache. `measure.bugs` overrides this."""
        return self.models.target.fresh()

    def forward_seconds(self) -> float:
        """Return the seconds in passes of all models since `steps` was called."""
        return self._target.seconds + (self.draft.seconds if self.draft else 0.0)


def decode(models: Models, prompt: Any, method: str = "draft", **options: Unpack[DecodeOptions]) -> Iterator[Step]:
    """Continue `prompt` (text or ids) with one method; yield a `Step` per pass.

    Options are those of `Settings` and of the method. `draft` names the draft model. The call raises `LookaheadError` for
    bad input, before iteration.
    """
    settings, method_options = split_options(options)
    return Lane(models, prompt, method, settings, method_options).steps()
