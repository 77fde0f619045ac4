"""The page's code against the events' one schema: each field of an event that a script reads is a field that there is."""

import re

import pytest

from lookahead.core.folders import ASSETS
from lookahead.trace import wire

SCRIPTS = sorted([*ASSETS.glob("timeline/*.js"), *ASSETS.glob("inspector/*.js")])
SCHEMA = wire.EVENT.json_schema()


def defined(name):
    return {"$ref": f"#/$defs/{name}"}


# The names under which scripts hold parts of an event.
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
    """The names and marks of a script: no comments, strings and regular expressions, and of templates only `${...}`."""
    source = re.sub(
        r"`(?:\\.|[^`\\])*`", lambda text: " ".join(re.findall(r"\$\{((?:[^{}]|\{[^{}]*\})*)\}", text[0])), source
    )
    return [found[0] for found in TOKEN.finditer(source) if found.lastgroup in ("name", "mark")]


def kinds(schema):
    """What a value may be, without references and null."""
    if "$ref" in schema:
        return kinds(SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]])
    return [
        kind
        for each in schema.get("anyOf", [schema])
        for kind in ([each] if each is schema else kinds(each))
        if kind.get("type") != "null"
    ]


def field(schema, name):
    """The schema of a field: {} if the value is no object with known fields, None if it has no such field."""
    found = kinds(schema)
    if not all("properties" in kind for kind in found):
        return {}
    return next((kind["properties"][name] for kind in found if name in kind["properties"]), None)


def element(schema):
    """The schema of a list's elements."""
    return next((kind["items"] for kind in kinds(schema) if "items" in kind), {})


def closing(words, at):
    """The place of the bracket that closes the one at `at`."""
    depth = 0
    for place in range(at, len(words)):
        depth += (words[place] in "([{") - (words[place] in ")]}")
        if depth == 0:
            return place
    return len(words)


def taken(words):
    """The fields that a destructuring takes: of `a, b: c, d = 1, e: {f}` these are a, b, d and e."""
    depth = 0
    for before, word in zip([",", *words], words, strict=False):
        if depth == 0 and before == "," and re.match(r"\w", word):
            yield word
        depth += (word in "([{") - (word in ")]}")


def held(words, at, variables):
    """The schema of what the name at `at` holds; {} if it holds no part of an event."""
    name, before = words[at], words[at - 1] if at else ""
    if name in LISTS and (before != "..." or name != "steps"):
        return {"type": "array", "items": LISTS[name]}
    if before in (".", "?."):
        return OF_LOG.get(name, {}) if words[at - 2] == "log" else {}
    return variables.get(name, {})


def follow(words, at, schema, name):
    """Follow a chain such as `.tests[0]?.p`. Yields (what is read, whether it exists), and at last the chain's own schema."""
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
    """Each (field, whether it exists) that a script reads of an event, by a chain or by `const {...} = `."""
    words, variables = tokens(source), VARIABLES | OF_FILES.get(file, {})
    for at, word in enumerate(words):
        *chain, (_, ends) = follow(words, at + 1, held(words, at, variables), word)
        yield from chain
        whole, start = chain[-1][0] if chain else word, at
        while words[start - 1] in (".", "?."):
            start -= 2
        if ends and words[start - 2 : start] == ["}", "="]:
            opened = next(i for i in range(start - 2, -1, -1) if words[i] == "{" and closing(words, i) == start - 2)
            yield from (
                (f"{whole}.{name}", field(ends, name) is not None) for name in taken(words[opened + 1 : start - 2])
            )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_scripts_read_fields_that_there_are(script):
    assert [name for name, exists in reads(script.read_text("utf-8"), script.name) if not exists] == []


def test_most_fields_of_a_step_are_read():
    """So the check sees what scripts read."""
    found = {name for script in SCRIPTS for name, _ in reads(script.read_text("utf-8"), script.name)}
    for record, name in (("StepRecord", "step"), ("DraftRecord", "draft"), ("LaneStep", "event")):
        assert {f"{name}.{field}" for field in SCHEMA["$defs"][record]["properties"]} <= found
    assert {
        "test.p",
        "test.q",
        "header.settings",
        "header.settings.rule",
        "end.trust.steady",
        "agreement.badge",
    } <= found


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
def test_a_field_that_there_is_not_is_found(source, missing):
    assert [name for name, exists in reads(source) if not exists] == missing
