"""The bundled recordings: every scenario raced once and kept, so that a page has one to show at once.

A recording is an ordinary trace, made by the command that anyone can run: the scenario's methods
beside naive, its own settings, the fixed seed. It is kept small: decimals nobody reads are rounded
off and fields that hold their default are left out, which `Trace.from_json` puts back.

Knows races and files. It does not know who shows them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.events import SettingsError
from ..trace.assets import ASSETS
from ..trace.export import rounded
from ..trace.schema import SCHEMA
from ..trace.trace import Trace
from .scenarios import EVERY, Scenario

if TYPE_CHECKING:
    from ..family.models import Models

FOLDER = ASSETS / "traces"
MOST_NEW_TOKENS = 128
SEED = 0
Progress = Callable[[int, int, str], None]


def choose(ids: str | None, family: str) -> list[Scenario]:
    """A family's scenarios named in "id,id", in their own order; all of them for None. Raises `SettingsError`."""
    there = [scenario for scenario in EVERY if scenario.family == family]
    if ids is None:
        return there
    wanted, known = [part.strip() for part in ids.split(",")], [scenario.id for scenario in there]
    for name in wanted:
        if name not in known:
            raise SettingsError("only", name, f"choose from {', '.join(known)}.")
    return [scenario for scenario in there if scenario.id in wanted]


def record(models: Models, scenario: Scenario) -> Trace:
    """One scenario, raced here: its methods beside naive."""
    from ..trace.race import race  # reading a recording needs no torch

    options = {"seed": SEED, "chat": scenario.chat, **scenario.options}
    options["max_new_tokens"] = min(MOST_NEW_TOKENS, options.get("max_new_tokens", MOST_NEW_TOKENS))
    running = race(models, scenario.prompt, ["naive", *scenario.methods], **options)
    for _ in running:
        pass
    return running.result()


def compact(trace: Trace) -> str:
    """The trace as short JSON text; `Trace.from_json` reads it."""
    data = trace.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return json.dumps(rounded({"schema": SCHEMA, **data}), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def write(
    models: Models, out: Path, scenarios: Iterable[Scenario], progress: Progress = lambda done, total, text: None
) -> list[Path]:
    """Record scenarios into the folder `out`, a file each; returns the files.

    A first race that is not kept warms the models. Raises `SettingsError` if the folder cannot be written to.
    """
    scenarios, files = list(scenarios), []
    with _writing(out):
        out.mkdir(parents=True, exist_ok=True)
    if scenarios:
        record(models, scenarios[0])
    for done, scenario in enumerate(scenarios):
        progress(done, len(scenarios), scenario.label)
        text, path = compact(record(models, scenario)), out / f"{scenario.id}.json"
        with _writing(out):
            path.write_text(text + "\n", encoding="utf-8", newline="\n")
        files.append(path)
        progress(done + 1, len(scenarios), scenario.label)
    return files


@contextmanager
def _writing(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        mend = f"it cannot be written to ({error.__class__.__name__}); give another folder."
        raise SettingsError("out", str(out), mend) from None


def read(scenario: str, folder: Path = FOLDER) -> Trace | None:
    """The recording of the scenario with that id; None where there is none. Raises `TraceError` for a spoilt file."""
    path = folder / f"{scenario}.json"
    if not any(scenario == known.id for known in EVERY) or not path.is_file():
        return None
    return Trace.from_json(path.read_bytes())
