"""Run and record a race: the steps of its lanes become records with text, and the records become a trace."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Unpack

import torch

from ..core import processor
from ..core.events import MethodError, Settings, Step, Test
from ..core.version import VERSION
from ..engine.decode import PrefillProgress
from ..engine.lane import Lane, split_options
from ..engine.methods import option_names
from ..engine.scheduler import schedule
from ..engine.text import IncrementalDetokenizer
from . import schema
from .trace import Trace
from .wire import LaneStep, LaneSteps

if TYPE_CHECKING:
    from ..core.options import DecodeOptions
    from ..family.models import Models

MAX_LANES = 4
Method = str | tuple[str, Mapping[str, Any]]  # a name, or a name and its options


class Recorder:
    """Records the steps of one lane. `pieces` is a `text.IncrementalDetokenizer`; `decode_token` returns the text of one id."""

    def __init__(self, pieces: Any, decode_token: Callable[[int], str]):
        self._pieces, self._decode_token = pieces, decode_token
        self.steps: list[schema.StepRecord] = []

    def record(self, step: Step) -> schema.StepRecord:
        """Append a step with the text of its tokens, and return its record."""
        draft = step.draft
        drafted = self._pieces.decode_draft(draft.tokens, draft.parents) if draft.tokens else []
        pieces = [self._pieces.add(token) for token in step.emitted]
        if step.finish and pieces and not pieces[-1]:
            pieces[-1] = self._pieces.flush()
        self.steps.append(
            schema.StepRecord(
                **_copied(step, "kind", "index", "statuses", "path", "emitted", "origins", "finish", "satisfied"),
                **{name: round(getattr(step, name), 7) for name in ("propose_s", "verify_s", "other_s", "mask_s")},
                draft=schema.DraftRecord(
                    **_copied(draft, "tokens", "parents", "sources", "window", "ngram_origins"), pieces=drafted,
                    chances=[round(chance, 4) for chance in draft.chances],
                    translation=draft.translation and schema.TranslationRecord(**_copied(draft.translation, "pieces", "used")),
                ),
                pieces=pieces,
                tests=[self._test(test) for test in step.tests],
                experts=None if step.experts is None else round(step.experts, 2),
            )
        )  # fmt: skip
        return self.steps[-1]

    def _test(self, test: Test) -> schema.TestRecord:
        top = [(token, self._decode_token(token), round(p, 4)) for token, p in test.top]
        numbers = _copied(test, "p", "q", "draw", "entropy", "margin", "limit")
        rounded: dict[str, Any] = {name: value if value is None else round(value, 4) for name, value in numbers.items()}
        change = test.change and schema.ChangeRecord(
            token=test.change.token, piece=self._decode_token(test.change.token), p=round(test.change.p, 4), lost=round(test.change.lost, 4)
        )  # fmt: skip
        return schema.TestRecord(**_copied(test, "row", "token", "outcome"), top=top, change=change, **rounded)


def _copied(values: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(values, name) for name in names}


class Race(LaneSteps):
    """A race that yields `LaneStep`s. `result()` returns the trace so far. Set `on_prefill` before the first step."""

    on_prefill: PrefillProgress | None = None  # called while a long prompt is read; see `schedule`

    def __init__(self, models: Models, prompt: Any, methods: Sequence[Method], options: Mapping[str, Any]):
        named = _named(methods)
        settings, shared = split_options(options)
        accepted = {name: {"draft", *option_names(name)} for name, _ in named}
        if unused := shared.keys() - set().union(*accepted.values()):
            raise MethodError("option", sorted(unused)[0], "none of these methods takes it.")
        passed = {name: {option: shared[option] for option in shared if option in accepted[name]} for name in accepted}
        self._lanes = [self._lane(models, prompt, name, settings, passed[name] | {**extra}) for name, extra in named]
        self._models, self.settings = models, settings
        ids = self._lanes[0].prompt

        @cache
        def decode_token(token: int) -> str:
            return str(models.tokenizer.decode([token], clean_up_tokenization_spaces=False))

        self._recorders = [Recorder(IncrementalDetokenizer(models.tokenizer, ids), decode_token) for _ in self._lanes]
        self._created = datetime.now(UTC).isoformat(timespec="seconds")
        pieces = IncrementalDetokenizer(models.tokenizer)
        prompt_pieces = [pieces.add(token) for token in ids]
        prompt_pieces[-1] += pieces.flush() if not prompt_pieces[-1] else ""
        typed = prompt if isinstance(prompt, str) and settings.chat else None
        self._prompt = schema.PromptRecord(text="".join(prompt_pieces), tokens=ids, pieces=prompt_pieces, typed=typed)
        self._lane_steps = self._run()

    def _lane(self, models: Models, prompt: Any, method: str, settings: Settings, options: Mapping[str, Any]) -> Lane:
        return Lane(models, prompt, method, settings, options)

    @property
    def methods(self) -> list[str]:
        return [lane.method for lane in self._lanes]

    @property
    def prompt_text(self) -> str:
        return self._prompt.shown

    def _run(self) -> Generator[LaneStep | None]:
        for number, step, clock_s in schedule(
            self._lanes, lambda share: self.on_prefill(share) if self.on_prefill else None
        ):
            yield LaneStep(lane=number, clock_s=clock_s, step=self._recorders[number].record(step))

    def _head(self, kind: str) -> schema.HeadRecord:
        shape, layers = self._models.heads[kind].shape, self._models.target.passes.shape.layers
        return schema.HeadRecord(
            name=self._models.names[kind], taps=list(shape.taps), layers=layers, slots=shape.slots, markov=shape.rank > 0,
            confident=shape.confident,
        )  # fmt: skip

    def result(self) -> Trace:
        deciding: dict[str, Any] = {
            "rule": self.settings.acceptance,
            "costs": self._models.costs_kind(self.settings.costs),
        }
        names = [field.alias or name for name, field in schema.SettingsRecord.model_fields.items()]
        mixture = self._models.target.passes.mixture
        return Trace(
            created=self._created,
            version=VERSION,
            machine=describe_machine(self._models),
            models=schema.ModelNames(
                spec=self._models.spec,
                target=self._models.names["target"],
                drafts={role: name for role, name in self._models.names.items() if role in self._models.drafts},
                heads={kind: self._head(kind) for kind in self._models.heads},
                rollback=schema.RollbackRecord(**_copied(self._models.target.passes.rollback, *schema.RollbackRecord.model_fields)),
                experts=mixture and schema.ExpertsRecord(**mixture._asdict()),
            ),
            **_copied(self._models, "exactness"),
            settings=schema.SettingsRecord(**_copied(self.settings, *names) | deciding),
            prompt=self._prompt,
            costs=schema.Costs.from_pass_costs(self._models.costs),
            lanes=[
                schema.LaneRecord(
                    method=lane.method, opaque=not lane.reports_drafts, steps=recorder.steps,
                    options={name: value for name, value in lane.options.items() if isinstance(value, bool | int | float | str)},
                )
                for lane, recorder in zip(self._lanes, self._recorders, strict=True)
            ],
        )  # fmt: skip


def _named(methods: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """Return methods as (name, options), or raise `MethodError`."""
    if not isinstance(methods, (list, tuple)) or not 1 <= len(methods) <= MAX_LANES:
        raise MethodError("methods", methods, f"give a list of 1 to {MAX_LANES} methods.")
    named: list[Any] = [m if isinstance(m, tuple) else (m, {}) for m in methods]
    for method in named:
        if len(method) != 2 or not isinstance(method[1], Mapping):
            raise MethodError("methods", method, 'give a name, or a name and options: ("ngram", {"shortest": 3}).')
    return named


def race(
    models: Models, prompt: Any, methods: Sequence[Method] = ("naive", "draft"), **options: Unpack[DecodeOptions]
) -> Race:
    """Return a race of `methods` on one prompt. Iterate over it to run it.

    A method may have options: ("draft", {"draft": "offdomain"}). `options` are those of `Settings` (shared by all lanes) and
    those of any of the methods. Raises `LookaheadError` for bad input.
    """
    return Race(models, prompt, methods, options)


def describe_machine(models: Models) -> schema.Machine:
    """Return the machine and the device that run these models."""
    device = models.target.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    return schema.Machine(
        cpu=processor.name(), cores=processor.cores(), threads=models.measured.threads, device=name,
        dtype=models.dtype, torch=torch.__version__,
    )  # fmt: skip


def measured_on(models: Models) -> dict[str, Any]:
    """Return the machine, the models and the exactness: the first fields of every report on measurements."""
    machine, names = describe_machine(models).model_dump(), {"spec": models.spec, **models.names}
    return {"machine": machine, "models": names, "exactness": models.exactness}
