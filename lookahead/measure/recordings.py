"""The bundled recordings: a trace of every scenario's race, so that a page has one to show at once.

Numbers are rounded and fields with defaults are left out; `Trace.from_json` restores them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.events import SettingsError
from ..core.folders import ASSETS
from ..trace.export import round_floats
from ..trace.schema import SCHEMA
from ..trace.trace import Trace
from .scenarios import EVERY, Scenario

if TYPE_CHECKING:  # the loading page reads recordings before models can be imported
    from ..family.models import Models
    from .progress import Progress

FOLDER = ASSETS / "traces"
MOST_NEW_TOKENS = 128
SEED = 0


def choose(ids: str | None, family: str) -> list[Scenario]:
    """Return a family's scenarios named in "id,id", in their own order, or all for None. Raises `SettingsError`."""
    known = {scenario.id: scenario for scenario in EVERY if scenario.family == family}
    wanted = [*known] if ids is None else [part.strip() for part in ids.split(",")]
    for name in wanted:
        if name not in known:
            raise SettingsError("only", name, f"choose from {', '.join(known)}.")
    return [scenario for name, scenario in known.items() if name in wanted]


def record(models: Models, scenario: Scenario) -> Trace:
    """Race a scenario's methods and naive."""
    from ..trace.race import race

    options = {"seed": SEED, "chat": scenario.chat, **scenario.options}
    options["max_new_tokens"] = min(MOST_NEW_TOKENS, options.get("max_new_tokens", MOST_NEW_TOKENS))
    running = race(models, scenario.prompt, ["naive", *scenario.methods], **options)
    for _ in running:
        pass
    return running.result()


def compact(trace: Trace) -> str:
    """The trace as short JSON text; `Trace.from_json` reads it."""
    data = trace.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return json.dumps(
        round_floats({"schema": SCHEMA, **data}), ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )


def write(models: Models, out: Path, scenarios: Sequence[Scenario]) -> Iterator[Progress]:
    """Record scenarios into the folder `out`, a file each, after a race that warms the models; yields the files so far.
    Raises a `SettingsError` if the folder cannot be written to.
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
        hint = f"it cannot be written to ({error.__class__.__name__}); give another folder."
        raise SettingsError("out", str(out), hint) from None


def read(scenario: str, folder: Path = FOLDER) -> Trace | None:
    """Return the recording of the scenario with that id, or None. Raises `TraceError` for a broken file."""
    path = folder / f"{scenario}.json"
    if not any(scenario == known.id for known in EVERY) or not path.is_file():
        return None
    return Trace.from_json(path.read_bytes())
