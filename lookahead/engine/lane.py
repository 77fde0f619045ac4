"""One lane: a method, its models and its settings, checked and ready to run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Unpack

from ..core.accept import rule_for
from ..core.events import MethodError, Settings, SettingsError, Step
from ..core.lm import Target
from ..core.numbers import count
from ..drafting import Resources
from .decode import Reading, Request
from .decode import decode as loop
from .draft_length import AdaptiveLength
from .ends import Ends
from .external import ExternalGenerator
from .fixed_length import FixedLength
from .methods import DRAFT, drafter_for, method_class, options_of
from .text import StopStrings, check_ids, encode_prompt

if TYPE_CHECKING:
    from ..core.options import DecodeOptions
    from ..family.models import Models

MOST_AUTO = 63  # tokens of a chain, with the root 64 rows: what passes cost is measured up to there


def split_options(options: Mapping[str, Any]) -> tuple[Settings, dict[str, Any]]:
    """Split options into the settings of a run and the options of its method."""
    known = Settings.names()
    settings = Settings(**{name: value for name, value in options.items() if name in known})
    return settings, {name: value for name, value in options.items() if name not in known}


class Lane:
    """A run that has not started. Raises `LookaheadError` for invalid input."""

    def __init__(
        self, models: Models, prompt: Any, method: str, settings: Settings, options: Mapping[str, Any] | None = None
    ):  # fmt: skip
        given = dict(options or {})
        cls = method_class(method)
        draft = drafter_for(method, given.pop("draft", DRAFT), {*models.drafts, *models.heads})
        self.models, self.method, self.settings = models, method, settings
        self.reports_drafts = not issubclass(cls, ExternalGenerator)
        self.options = {"draft": draft, **given} if cls.needs_draft else given
        self.draft = models.draft(draft) if cls.needs_draft else None
        self.costs = models.policy_costs(settings.costs)
        self._rule = rule_for(settings)
        self._cls, self._method_options = cls, options_of(method, given)
        context_length = models.target.context_length
        self.prompt = encode_prompt(
            models.tokenizer, prompt, chat=settings.chat, vocab=models.target.vocab, room=context_length
        )
        if settings.max_new_tokens > context_length:
            hint = f"the model's context holds {count(context_length)} tokens; with this prompt ask for {count(context_length - len(self.prompt))} at most."
            raise SettingsError("max_new_tokens", settings.max_new_tokens, hint)
        if not self.reports_drafts and self.draft:
            self._check_external(context_length)
        check_ids(getattr(self._method_options, "earlier", ()), models.target.vocab)
        stopped = StopStrings(models.tokenizer, settings.stop, self.prompt) if settings.stop else None
        self._ends = Ends(models.eos, settings.max_new_tokens, context_length, stopped)

    def _check_external(self, context_length: int) -> None:
        """Raise `LookaheadError` if transformers would go on with a draft model that cannot follow."""
        draft, most = self.draft, self.draft.context_length - len(self.prompt)
        if draft.passes.shape.vocab != self.models.target.passes.shape.vocab:
            hint = "transformers requires both models to have equally many rows; choose draft, which does not."
            raise MethodError("method", self.method, hint)
        if draft.context_length < context_length and self.settings.max_new_tokens > most:
            hint = f"the draft model's context holds {count(draft.context_length)} tokens; with this prompt ask for {count(max(1, most))} at most."
            raise SettingsError("max_new_tokens", self.settings.max_new_tokens, hint)

    @property
    def keeps_states(self) -> bool:
        """Whether the target's hidden states are kept for its drafter."""
        return self.draft is not None and self.draft.kind is not None

    def steps(self, others: list[Request] | None = None, reading: Reading | None = None) -> Iterator[Step]:
        """Run it; the generator may be closed at any step. `others` are the texts of a race, which read the prompt once."""
        if self.reports_drafts:
            text, others = self.text(cache(self.costs.pass_s)), [] if others is None else others
            others.append(text)
            return loop(text, others, reading)
        self.models.use_threads()
        self._target = self._fresh_target()
        external = self._cls(self._target, self.draft, self._rule, self.settings.k, self._method_options)
        return external.steps(self.prompt, self._ends)

    def text(self, pass_s: Callable[[int, int], float], drafting: int = 1) -> Request:
        """The text of this lane. A pass takes `pass_s(rows, branches)` seconds; `drafting` texts draft at the same time."""
        self.models.use_threads()
        self._target = self._fresh_target()
        if self.keeps_states:
            self.draft.follow(self._target)
        costs = self.costs.drafters.get(self.options.get("draft", ""))
        resources = Resources(self._rule, self.draft, self.costs.pass_s, costs and costs.scaled(1 / drafting))
        drafter, k = self._cls(resources, self._method_options), self.settings.k
        policy = AdaptiveLength(pass_s, MOST_AUTO, drafter.sources()) if k == "auto" else FixedLength(k)
        return Request(
            self._target, drafter, policy, self._rule, self.prompt, self._ends, details=self.settings.details
        )

    def _fresh_target(self) -> Target:
        """The target with a cache of its own; `measure.bugs` puts a broken one in its place."""
        return self.models.target.fresh()

    def forward_seconds(self) -> float:
        """Seconds spent inside models since `steps` was called, drafting included."""
        return self._target.seconds + (self.draft.seconds if self.draft else 0.0)


def decode(models: Models, prompt: Any, method: str = "draft", **options: Unpack[DecodeOptions]) -> Iterator[Step]:
    """Continue `prompt` (text or ids) with one method; yields a `Step` per pass.

    Options are those of `Settings` and of the method; `draft` names the draft model. Raises `LookaheadError` for bad input
    at once.
    """
    settings, method_options = split_options(options)
    return Lane(models, prompt, method, settings, method_options).steps()
