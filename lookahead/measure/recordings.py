"""The bundled recordings: a trace of each scenario's race, which the page shows before anything has run.

Numbers are rounded, and fields with default values are omitted. `Trace.from_json` restores the defaults.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.events import SettingsError
from ..core.folders import ASSETS
from ..trace.export import round_floats
from ..trace.schema import SCHEMA
from ..trace.trace import Trace
from .scenarios import ALL_SCENARIOS, Scenario

if TYPE_CHECKING:  # the loading page reads recordings before models can be imported
    from ..family.models import Models
    from .progress import Progress

FOLDER = ASSETS / "traces"
MAX_NEW_TOKENS = 128
SEED = 0


def choose(ids: str | None, family: str) -> list[Scenario]:
    """Return a family's scenarios with ids in "id,id", or all for None, in the order of `ALL_SCENARIOS`. Raises `SettingsError`."""
    by_id = {scenario.id: scenario for scenario in ALL_SCENARIOS if scenario.family == family}
    chosen = [*by_id] if ids is None else [part.strip() for part in ids.split(",")]
    for id in chosen:
        if id not in by_id:
            raise SettingsError("only", id, f"choose from {', '.join(by_id)}.")
    return [scenario for id, scenario in by_id.items() if id in chosen]


def record(models: Models, scenario: Scenario) -> Trace:
    """Race a scenario's methods against naive, and return the trace."""
    from ..trace.race import race

    options = {"seed": SEED, "chat": scenario.chat, **scenario.options}
    options["max_new_tokens"] = min(MAX_NEW_TOKENS, options.get("max_new_tokens", MAX_NEW_TOKENS))
    running = race(models, scenario.prompt, ["naive", *scenario.methods], **options)
    for _ in running:
        pass
    return running.result()


def compact(trace: Trace) -> str:
    """Return the trace as short JSON text for `Trace.from_json`."""
    data = {"schema": SCHEMA, **trace.model_dump(mode="json", by_alias=True, exclude_defaults=True)}
    return json.dumps(round_floats(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def write(models: Models, out: Path, scenarios: Sequence[Scenario]) -> Iterator[Progress]:
    """Record each scenario to a file in the folder `out`; yields the files so far.

    A warm-up race runs first. Raises a `SettingsError` if the folder is not writable.
    """
    from .progress import Progress

    files: list[Path] = []
    with _writing(out):
        out.mkdir(parents=True, exist_ok=True)
    for scenario in scenarios:
        yield Progress(len(files), len(scenarios), scenario.label, files)
        if not files:
            record(models, scenario)
        text, path = compact(record(models, scenario)), out / f"{scenario.id}.json"
        with _writing(out):
            path.write_text(text + "\n", encoding="utf-8", newline="\n")
        files.append(path)
        yield Progress(len(files), len(scenarios), scenario.label, files)


@contextmanager
def _writing(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = f"it is not writable ({error.__class__.__name__}); give another folder."
        raise SettingsError("out", str(out), hint) from None


@cache
def tokens_per_pass(scenario: str, folder: Path = FOLDER) -> float | None:
    """Return the tokens per pass of the last lane of a scenario's recording; None if there is no recording."""
    path = folder / f"{scenario}.json"
    if not path.is_file():
        return None
    steps = json.loads(path.read_bytes())["lanes"][-1]["steps"]  # validating a trace takes longer
    passes = [len(step.get("emitted", ())) for step in steps if step.get("kind") != "prefill"]
    return sum(passes) / len(passes)


def read(scenario: str, folder: Path = FOLDER) -> Trace | None:
    """Return the recording of the scenario with this id, or None. Raises `TraceError` for an invalid file."""
    path = folder / f"{scenario}.json"
    if scenario not in (bundled.id for bundled in ALL_SCENARIOS) or not path.is_file():
        return None
    return Trace.from_json(path.read_bytes())
