"""A Dockerfile read: its instructions, what they say of the container, and which files a COPY means.

Only what this repository's file uses is known, and anything else is an error, so that whoever carries the steps out without
an engine (rootfs.py) or checks them (test_hosting.py) passes nothing over in silence.

Knows the text of a Dockerfile of one stage and of a .dockerignore. It runs nothing.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

KNOWN = ("FROM", "ARG", "WORKDIR", "COPY", "RUN", "USER", "ENV", "EXPOSE", "HEALTHCHECK", "CMD")
NONE: Mapping[str, str] = MappingProxyType({})
UNITS = {"ms": 1e-3, "s": 1, "m": 60, "h": 3600}


class StepError(Exception):
    """A step that cannot be carried out."""


@dataclass(frozen=True)
class Step:
    """One instruction: its line in the file, its word in capitals, and the rest."""

    line: int
    word: str
    rest: str


def parse(text: str) -> list[Step]:
    """The instructions, in order; comments are dropped and continued lines joined."""
    steps, held, first = [], [], 0
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if re.match(r"#\s*(escape|syntax|check)\s*=", stripped, re.I):
            raise StepError(f"line {number}: parser directives are not known here")
        if not stripped or stripped.startswith("#"):
            continue
        first = first or number
        held.append(stripped.removesuffix("\\").strip())
        if not stripped.endswith("\\"):
            steps.append(_step(first, " ".join(held)))
            held, first = [], 0
    if held:
        raise StepError(f"line {first}: the file ends inside an instruction")
    if not steps or [step.word for step in steps].count("FROM") != 1 or steps[0].word != "FROM":
        raise StepError("known here are files of one stage that begin with FROM")
    return steps


def _step(line: int, text: str) -> Step:
    word, _, rest = text.partition(" ")
    word, rest = word.upper(), rest.strip()
    if word not in KNOWN:
        raise StepError(f"line {line}: {word} is not known here; known are {', '.join(KNOWN)}")
    if not rest:
        raise StepError(f"line {line}: {word} says nothing")
    if word in ("RUN", "COPY", "FROM") and (rest.startswith("--") or "<<" in rest):
        raise StepError(f"line {line}: flags and here-documents of {word} are not known here")
    return Step(line, word, rest)


def command(rest: str) -> list[str]:
    """What CMD, RUN or a health check starts: a JSON list as it is, anything else through the shell."""
    if not rest.startswith("["):
        return ["/bin/sh", "-c", rest]
    try:
        made = json.loads(rest)
    except ValueError:
        made = None
    if not made or not all(isinstance(word, str) for word in made):
        raise StepError(f"not a list of words: {rest}")
    return made


def expand(text: str, values: Mapping[str, str]) -> str:
    """`$NAME`, `${NAME}`, `${NAME:-word}` and `${NAME:+word}` replaced as an engine does it."""

    def one(match: re.Match[str]) -> str:
        name, kind, word = match["plain"] or match["name"], match["kind"], match["word"] or ""
        value = values.get(name, "")
        return (value or word) if kind == ":-" else (word if value else "") if kind == ":+" else value

    return re.sub(r"\$(?:(?P<plain>\w+)|\{(?P<name>\w+)(?:(?P<kind>:[-+])(?P<word>[^}]*))?\})", one, text)


def pairs(rest: str) -> dict[str, str]:
    """Words of the form NAME=value, quoted where they need it."""
    made = {}
    for word in shlex.split(rest):
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise StepError(f"{word!r} is not NAME=value")
        made[name] = value
    return made


@dataclass
class Health:
    """How a container is asked whether it is well, and how often."""

    command: list[str]
    options: dict[str, str]

    @classmethod
    def of(cls, rest: str) -> Health:
        """From `--interval=30s ... CMD ...`."""
        options = {}
        while match := re.match(r"--([a-z-]+)=(\S+)\s+", rest):
            options[match[1]] = match[2]
            rest = rest[match.end() :]
        if unknown := options.keys() - {"interval", "timeout", "start-period", "start-interval", "retries"}:
            raise StepError(f"HEALTHCHECK has no option --{sorted(unknown)[0]}")
        if not rest.startswith("CMD "):
            raise StepError("HEALTHCHECK without CMD is not known here")
        return cls(command(rest.removeprefix("CMD ").strip()), options)

    def seconds(self, name: str, default: float) -> float:
        """An option such as 30s or 1m, in seconds."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)", self.options.get(name, ""))
        return float(match[1]) * UNITS[match[2]] if match else default


@dataclass
class Image:
    """What the steps so far have said of the container."""

    base: str = ""
    arguments: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "root"
    ports: list[int] = field(default_factory=list)
    health: Health | None = None
    cmd: list[str] = field(default_factory=list)

    def values(self) -> dict[str, str]:
        """What `$NAME` means at this point."""
        return {**self.arguments, **self.environment}

    def take(self, step: Step, given: Mapping[str, str] = NONE) -> None:
        """Take a step in; COPY and RUN say nothing of the container. `given` are build arguments."""
        rest = (
            step.rest if step.word in ("RUN", "CMD", "HEALTHCHECK", "ARG", "ENV") else expand(step.rest, self.values())
        )
        if step.word == "FROM":
            self.base = rest
        elif step.word == "ARG":
            name, _, default = rest.partition("=")
            self.arguments[name] = given.get(name, expand(default.strip("\"'"), self.values()))
        elif step.word == "ENV":
            values = self.values()  # those from before this instruction
            self.environment |= {name: expand(value, values) for name, value in pairs(rest).items()}
        elif step.word == "WORKDIR":
            self.folder = os.path.normpath(os.path.join(self.folder, rest))
        elif step.word == "USER":
            self.user = rest
        elif step.word == "EXPOSE":
            self.ports += [int(port) for port in rest.split()]
        elif step.word == "HEALTHCHECK":
            self.health = Health.of(rest)
        elif step.word == "CMD":
            self.cmd = command(rest)


def image(steps: Sequence[Step], given: Mapping[str, str] = NONE) -> Image:
    """The container that all steps describe."""
    made = Image()
    for step in steps:
        made.take(step, given)
    if unknown := given.keys() - made.arguments.keys():
        raise StepError(f"the Dockerfile has no ARG {sorted(unknown)[0]}")
    return made


class Ignored:
    """The patterns of a .dockerignore; the last one that matches a file or a folder above it decides."""

    def __init__(self, text: str):
        lines = [line.strip() for line in text.splitlines()]
        self._patterns = [
            (line.startswith("!"), self._compiled(line.removeprefix("!")))
            for line in lines
            if line and not line.startswith("#")
        ]

    @staticmethod
    def _compiled(pattern: str) -> re.Pattern[str]:
        parts = re.split(r"(\*\*/|\*\*|\*|\?)", os.path.normpath(pattern.strip()).strip("/"))
        wild = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
        return re.compile("".join(wild.get(part, re.escape(part)) for part in parts))

    def __call__(self, path: str) -> bool:
        """Whether a path, relative to the context, is left out."""
        parts = path.split("/")
        above = ["/".join(parts[: i + 1]) for i in range(len(parts))]
        out = False
        for keep, pattern in self._patterns:
            if any(pattern.fullmatch(folder) for folder in above):
                out = not keep
        return out


def sources(
    step: Step, context: Path, ignored: Ignored, values: Mapping[str, str] = NONE
) -> tuple[dict[str, str], str]:
    """What a COPY copies: {file in the context: its place below the destination}, and the destination.

    The place is empty where the destination names the file itself. Raises `StepError` where a source is not there.
    """
    *wanted, to = shlex.split(expand(step.rest, values))
    into = to.endswith("/") or to == "."
    if not wanted or (len(wanted) > 1 and not into):
        raise StepError(
            f"line {step.line}: COPY needs a source and a destination; of several sources, one that ends with /"
        )
    files: dict[str, str] = {}
    for pattern in wanted:
        found = [context] if pattern == "." else sorted(context.glob(pattern.strip("/")))
        inside = {}
        for path in found:
            for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                name = file.relative_to(context).as_posix()
                if (file.is_symlink() or not file.is_dir()) and not ignored(name):
                    inside[name] = file.relative_to(path).as_posix() if path.is_dir() else path.name if into else ""
        if not inside:
            raise StepError(f"line {step.line}: there is no {pattern}, or .dockerignore leaves it out")
        files |= inside
    return files, to
