"""One lane: a method, its models and its settings, checked and ready to run.

This is where a caller's words (a prompt, a method's name, options) become the loop's: ids, a
proposer, a pace, a rule and an end. `decode` runs one lane; a race runs several.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .accept import rule_for
from .decode import Ends
from .decode import decode as loop
from .events import Settings, SettingsError, Step
from .lm import CachedLM
from .methods import method_class, options_of
from .models import Models
from .pace import Auto, Fixed
from .peers import Peer
from .proposers import Means
from .text import StopStrings, encode_prompt

MOST_AUTO = 16
MODEL_SOURCES = ("draft", "tree", "self")  # drafters whose tokens cost a pass of a small model each


def split_options(options: Mapping[str, Any]) -> tuple[Settings, dict[str, Any]]:
    """Options as given -> (settings of the run, options of the method)."""
    known = Settings.names()
    settings = Settings(**{name: value for name, value in options.items() if name in known})
    return settings, {name: value for name, value in options.items() if name not in known}


class Lane:
    """A run that has not started. Raises `LookaheadError` for whatever is wrong with it."""

    def __init__(
        self, models: Models, prompt: Any, method: str, settings: Settings, options: Mapping[str, Any] | None = None
    ):
        own = dict(options or {})
        cls = method_class(method)
        draft = cls.draft_model or own.pop("draft", "draft")
        own.pop("draft", None)
        self.models, self.method, self.settings = models, method, settings
        self.opaque = issubclass(cls, Peer)
        self.options = {"draft": draft, **own} if cls.needs_draft else own
        self.draft = models.draft(draft) if cls.needs_draft else None
        self._rule = rule_for(settings)
        self._cls, self.own = cls, options_of(method, own)
        context_length = min(lm.context_length for lm in (models.target, self.draft) if lm)
        self.prompt = encode_prompt(
            models.tokenizer, prompt, chat=settings.chat, vocab=models.target.vocab, room=context_length
        )
        if settings.max_new_tokens > context_length:
            mend = f"the model's context holds {context_length:,} tokens; with this prompt ask for {context_length - len(self.prompt):,} at most."
            raise SettingsError("max_new_tokens", settings.max_new_tokens, mend)
        stopped = StopStrings(models.tokenizer, settings.stop) if settings.stop else None
        self._ends = Ends(models.eos, settings.max_new_tokens, context_length, stopped)

    def steps(self) -> Iterator[Step]:
        """Run it. The generator may be closed at any step."""
        self._target = self._fresh_target()
        k, costs = self.settings.k, self.models.costs
        if self.opaque:
            peer = self._cls(self._target, self.draft, self._rule, k, self.own)
            return peer.steps(self.prompt, self._ends)
        known = self.models.draft_costs.get(self.options.get("draft", ""))
        token_s = dict.fromkeys(MODEL_SOURCES, known.token_s) if known else {}
        pace = Auto(costs.pass_s, MOST_AUTO, token_s) if k == "auto" else Fixed(k)
        proposer = self._cls(Means(self._rule, self.draft, costs.pass_s), self.own)
        return loop(self._target, proposer, pace, self._rule, self.prompt, self._ends, details=self.settings.details)

    def _fresh_target(self) -> CachedLM:
        """The target with a cache of its own."""
        return CachedLM(self.models.target.model, self.models.target.vocab)

    def forward_seconds(self) -> float:
        """Time spent inside models since `steps` was called, drafting included."""
        return self._target.seconds + (self.draft.seconds if self.draft else 0.0)


def decode(models: Models, prompt: Any, method: str = "draft", **options: Any) -> Iterator[Step]:
    """Continue `prompt` (text or ids) with one method; yields a `Step` a pass.

    Options are those of `Settings` plus the method's own; `draft="draft"` names the draft model, for methods that
    use one.
    Bad input raises a `LookaheadError` at once, before the first step is asked for.
    """
    settings, method_options = split_options(options)
    return Lane(models, prompt, method, settings, method_options).steps()
