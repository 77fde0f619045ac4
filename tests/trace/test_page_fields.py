"""Scripts of the page against the schema of events: each field of an event that a script reads exists."""

import re

import pytest

from lookahead.core.folders import ASSETS
from lookahead.trace import wire

SCRIPTS = sorted([*ASSETS.glob("timeline/*.js"), *ASSETS.glob("inspector/*.js")])
SCHEMA = wire.EVENT.json_schema()


def defined(name):
    return {"$ref": f"#/$defs/{name}"}


# Names of variables that are parts of an event.
VARIABLES = {
    "step": defined("StepRecord"), "draft": defined("DraftRecord"), "test": defined("TestRecord"), "settled": defined("TestRecord"),
    "header": defined("RaceRecord"), "trace": defined("RaceRecord"), "costs": defined("Costs"), "verdict": defined("Verdict"),
}  # fmt: skip
LISTS = {"steps": defined("StepRecord"), "rejected": defined("TestRecord")}
OF_LOG = {"header": defined("RaceRecord"), "end": defined("Requested")}  # `log.header`, `log.end`
OF_FILES = {"log.js": {"event": SCHEMA}, "scoreboard.js": {"agreement": defined("Badge")}}
OF_LISTS = {"at", "find", "findLast"}  # methods that return an element

TOKEN = re.compile(
    r"""(?P<skip>/\*.*?\*/|//[^\n]*|\s+|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
    r"""|(?P<regex>(?:(?<=[(,=:\[!&|?])|(?<=[(,=:\[!&|?]\s))/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n])+/\w*)"""
    r"""|(?P<name>[A-Za-z_$#][\w$]*)|(?P<mark>\?\.|\.\.\.|.)""",
    re.DOTALL,
)


def tokens(source):
    """Return the names and marks of a script, without comments, strings and regular expressions, and `${...}` of templates."""
    source = re.sub(
        r"`(?:\\.|[^`\\])*`", lambda text: " ".join(re.findall(r"\$\{((?:[^{}]|\{[^{}]*\})*)\}", text[0])), source
    )
    return [match[0] for match in TOKEN.finditer(source) if match.lastgroup in ("name", "mark")]


def kinds(schema):
    """Return the alternatives of a schema, without references and null."""
    if "$ref" in schema:
        return kinds(SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]])
    return [
        kind
        for option in schema.get("anyOf", [schema])
        for kind in ([option] if option is schema else kinds(option))
        if kind.get("type") != "null"
    ]


def field(schema, name):
    """Return the schema of a field: {} for a value without known fields, None if it has no such field."""
    options = kinds(schema)
    if not all("properties" in kind for kind in options):
        return {}
    return next((kind["properties"][name] for kind in options if name in kind["properties"]), None)


def element(schema):
    """Return the schema of a list's elements."""
    return next((kind["items"] for kind in kinds(schema) if "items" in kind), {})


def closing(words, at):
    """Return the index of the bracket that closes the one at `at`."""
    depth = 0
    for index in range(at, len(words)):
        depth += (words[index] in "([{") - (words[index] in ")]}")
        if depth == 0:
            return index
    return len(words)


def destructured(words):
    """Yield the fields that a destructuring reads: a, b, d and e of `a, b: c, d = 1, e: {f}`."""
    depth = 0
    for before, word in zip([",", *words], words, strict=False):
        if depth == 0 and before == "," and re.match(r"\w", word):
            yield word
        depth += (word in "([{") - (word in ")]}")


def schema_of_name(words, at, variables):
    """Return the schema of the name at `at`; {} if it is no part of an event."""
    name, before = words[at], words[at - 1] if at else ""
    if name in LISTS and (before != "..." or name != "steps"):
        return {"type": "array", "items": LISTS[name]}
    if before in (".", "?."):
        return OF_LOG.get(name, {}) if words[at - 2] == "log" else {}
    return variables.get(name, {})


def follow(words, at, schema, name):
    """Follow a chain such as `.tests[0]?.p`. Yields (field, whether it exists), and last (None, the schema of the chain)."""
    while schema and at + 1 < len(words):
        at += words[at] == "?." and words[at + 1] == "["
        if words[at] == "[":
            at, schema = closing(words, at) + 1, element(schema)
        elif words[at] not in (".", "?."):
            break
        elif words[at + 1] in OF_LISTS and element(schema):
            at, schema = closing(words, at + 2) + 1, element(schema)
        else:
            name, schema = f"{name}.{words[at + 1]}", field(schema, words[at + 1])
            yield name, schema is not None
            at += 2
    yield None, schema or {}


def reads(source, file=""):
    """Yield (field, whether it exists) for each field that a script reads, by a chain or by `const {...} = `."""
    words, variables = tokens(source), VARIABLES | OF_FILES.get(file, {})
    for at, word in enumerate(words):
        *chain, (_, ends) = follow(words, at + 1, schema_of_name(words, at, variables), word)
        yield from chain
        prefix, start = chain[-1][0] if chain else word, at
        while words[start - 1] in (".", "?."):
            start -= 2
        if ends and words[start - 2 : start] == ["}", "="]:
            opened = next(i for i in range(start - 2, -1, -1) if words[i] == "{" and closing(words, i) == start - 2)
            yield from (
                (f"{prefix}.{name}", field(ends, name) is not None)
                for name in destructured(words[opened + 1 : start - 2])
            )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_scripts_read_fields_that_exist(script):
    assert [name for name, exists in reads(script.read_text("utf-8"), script.name) if not exists] == []


def test_most_fields_of_a_step_are_read():
    """The check finds the fields that scripts read."""
    fields = {name for script in SCRIPTS for name, _ in reads(script.read_text("utf-8"), script.name)}
    for record, name in (("StepRecord", "step"), ("DraftRecord", "draft"), ("LaneStep", "event")):
        assert {f"{name}.{field}" for field in SCHEMA["$defs"][record]["properties"]} <= fields
    assert {
        "test.p",
        "test.q",
        "header.settings",
        "header.settings.rule",
        "end.trust",
        "agreement.badge",
    } <= fields


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ("f(step.piece)", ["step.piece"]),
        ("lane.steps[i]?.finished", ["steps.finished"]),
        ("lane.steps.at(-1).origin", ["steps.origin"]),
        ("step.tests[0].draws + step.draft.chance", ["step.tests.draws", "step.draft.chance"]),
        ("const {pieces: words, origin = []} = step;", ["step.origin"]),
        ("const {k, heat} = log.header.settings;", ["header.settings.heat"]),
        ("`${log.end?.trust.sure} ${step.draft.pieces[0].text}`", ["end.trust.sure"]),
        ("/* step.a */ 'step.b'; step.tests.length; f(/step.c/); log.step; `step.d`", []),
    ],
)
def test_a_missing_field_is_found(source, missing):
    assert [name for name, exists in reads(source) if not exists] == missing
