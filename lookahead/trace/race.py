"""A race with its recording: laps of the scheduled lanes as they come, and the trace of what has run.

`race` is the entry point of the library, of the page and of the command line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from ..core import processor
from ..core.events import TIE_AWARE, MethodError, Settings, Step
from ..core.tree import is_chain
from ..core.version import VERSION
from ..race.decode import Reading
from ..race.lane import Lane, split_options
from ..race.methods import option_names
from ..race.scheduler import schedule
from ..race.text import Pieces
from .recorder import Recorder
from .records import Costs, HeadRecord, Machine, ModelNames, PromptRecord, SettingsRecord
from .schema import LaneRecord, StepRecord
from .trace import Trace

if TYPE_CHECKING:
    from ..family.models import Models

MOST_LANES = 4


@dataclass(frozen=True, slots=True)
class Lap:
    """One step of one lane, with that lane's clock (seconds, prefill excluded) at its end."""

    lane: int
    step: Step
    record: StepRecord
    clock_s: float


class Race:
    """Iterate for laps; `result()` is the trace of what has run so far. May be closed at any lap.

    `reading` may be set before the first lap; see `schedule`.
    """

    reading: Reading | None = None

    def __init__(
        self,
        models: Models,
        prompt: Any,
        methods: Sequence[str | tuple[str, Mapping[str, Any]]],
        options: Mapping[str, Any],
    ):
        named = _named(methods)
        settings, shared = split_options(options)
        self._used: set[str] = set()
        self._lanes = [
            self._lane(models, prompt, name, settings, self._options(name, shared, extra)) for name, extra in named
        ]
        if unused := shared.keys() - self._used:
            raise MethodError("option", sorted(unused)[0], "none of these methods takes it.")
        self._models, self.settings = models, settings
        ids = self._lanes[0].prompt
        self._word = _words(models)
        self._recorders = [Recorder(Pieces(models.tokenizer, ids), self._word) for _ in self._lanes]
        self._steps: list[list[StepRecord]] = [[] for _ in self._lanes]
        self._created = datetime.now(UTC).isoformat(timespec="seconds")
        typed = prompt if isinstance(prompt, str) and settings.chat else None
        self._prompt = _prompt_record(models, ids, typed)
        self._laps = self._run()

    def _lane(self, models: Models, prompt: Any, method: str, settings: Settings, options: Mapping[str, Any]) -> Lane:
        """One lane of this race."""
        return Lane(models, prompt, method, settings, options)

    def _options(self, method: str, shared: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
        """A lane's options: those given with its method, and the shared ones that the method takes."""
        takes = {"draft", *option_names(method)}
        self._used |= shared.keys() & takes
        return {**{name: value for name, value in shared.items() if name in takes}, **extra}

    def __iter__(self) -> Iterator[Lap]:
        return self._laps

    @property
    def methods(self) -> list[str]:
        """The lanes' methods, in order."""
        return [lane.method for lane in self._lanes]

    @property
    def prompt_text(self) -> str:
        """What the lanes continue, as it was typed."""
        return self._prompt.shown

    def _run(self) -> Iterator[Lap]:
        for number, step, clock_s in schedule(self._lanes, lambda share: self.reading(share) if self.reading else None):
            record = self._recorders[number].record(step)
            self._steps[number].append(record)
            yield Lap(number, step, record, clock_s)

    def close(self) -> None:
        """Stop early; what has run stays in `result()`."""
        self._laps.close()

    def _exactness(self) -> str:
        """What holds for this race: passes as wide as they come, a text that is too long, or on some devices trees, are not
        exact."""
        probe, longest = self._models.probe, len(self._prompt.tokens) + self.settings.max_new_tokens
        drafted = (step.draft.parents for steps in self._steps for step in steps)
        trees = probe.tree_rows == 1 and not all(map(is_chain, drafted))
        return TIE_AWARE if self.settings.wide or trees else probe.kind_for(longest)

    def _head(self, kind: str) -> HeadRecord:
        """What is recorded of a trained head."""
        shape, layers = self._models.heads[kind].shape, self._models.target.passes.shape.layers
        return HeadRecord(
            name=self._models.names[kind], taps=list(shape.taps), layers=layers, slots=shape.slots, markov=shape.rank > 0,
            confident=shape.confident,
        )  # fmt: skip

    def result(self) -> Trace:
        """The trace so far."""
        s = self.settings
        return Trace(
            created=self._created,
            version=VERSION,
            machine=describe_machine(self._models),
            models=ModelNames(
                spec=self._models.spec,
                target=self._models.names["target"],
                drafts={role: name for role, name in self._models.names.items() if role in self._models.drafts},
                heads={kind: self._head(kind) for kind in self._models.heads},
            ),
            exactness=self._exactness(),
            settings=SettingsRecord(
                max_new_tokens=s.max_new_tokens, k=s.k, temperature=s.temperature, top_k=s.top_k, top_p=s.top_p,
                repetition_penalty=s.repetition_penalty, seed=s.seed, rule=s.acceptance, stop=list(s.stop), chat=s.chat,
                costs=self._models.deciding(s.costs),
            ),
            prompt=self._prompt,
            costs=Costs.of(self._models.costs),
            lanes=[
                LaneRecord(method=lane.method, opaque=lane.opaque, options=_plain(lane.options), steps=steps)
                for lane, steps in zip(self._lanes, self._steps, strict=True)
            ],
        )  # fmt: skip


def _named(methods: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """Methods as (name, options), or a `MethodError`."""
    if not isinstance(methods, (list, tuple)) or not 1 <= len(methods) <= MOST_LANES:
        raise MethodError("methods", methods, f"give a list of 1 to {MOST_LANES} methods.")
    named = [m if isinstance(m, tuple) else (m, {}) for m in methods]
    for one in named:
        if len(one) != 2 or not isinstance(one[1], Mapping):
            raise MethodError(
                "methods", one, 'give a name, or a name and its options: ("draft", {"draft": "offdomain"}).'
            )
    return named


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options a record keeps: single values, not whole texts."""
    return {name: value for name, value in options.items() if isinstance(value, (bool, int, float, str))}


def race(
    models: Models,
    prompt: Any,
    methods: Sequence[str | tuple[str, Mapping[str, Any]]] = ("naive", "draft"),
    **options: Any,
) -> Race:
    """Race `methods` on one prompt. A method may be ("draft", {"draft": "offdomain"}).

    Options are those of `Settings`, shared by all lanes, plus options of any of the methods.
    Bad input raises a `LookaheadError` at once.
    """
    return Race(models, prompt, methods, options)


def describe_machine(models: Models) -> Machine:
    """Where these models run."""
    device = models.target.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    return Machine(
        cpu=processor.name(), cores=processor.cores(), threads=models.measured.threads, device=name,
        dtype=models.dtype, torch=torch.__version__,
    )  # fmt: skip


def measured_on(models: Models) -> dict[str, Any]:
    """What stands at the head of every document of measurements."""
    return {
        "machine": describe_machine(models).model_dump(),
        "models": {"spec": models.spec, **models.names},
        "exactness": models.exactness,
    }


def _prompt_record(models: Models, ids: list[int], typed: str | None) -> PromptRecord:
    pieces = Pieces(models.tokenizer)
    words = [pieces.add(token) for token in ids]
    words[-1] += pieces.flush() if not words[-1] else ""
    return PromptRecord(text="".join(words), tokens=ids, pieces=words, typed=typed)


def _words(models: Models):
    """A function from one id to its text, cached."""
    return cache(lambda token: models.tokenizer.decode([token], clean_up_tokenization_spaces=False))
