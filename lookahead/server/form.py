"""The form: the names of its fields, their first values, and the race and the link that a filled-in form describes.

A link carries the fields that differ from the defaults. Values from a link pass the same checks as typed ones.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from ..core.events import COSTS, RULES, MethodError, Settings, SettingsError
from ..core.numbers import count
from ..core.text_files import lines
from ..core.wording import setting_labels
from ..engine.methods import method_class, read_options
from ..measure.scenarios import USUAL
from ..servers.addresses import is_servers
from ..servers.race import ServerRace, race_of
from ..trace.race import MOST_LANES, Race, race
from .limits import Limits
from .state import ServerState

WHOLE = ("max_new_tokens", "top_k", "seed")
REAL = ("temperature", "top_p", "repetition_penalty")
DEFAULT_METHOD = "hybrid"
DEFAULTS: dict[str, Any] = {
    "family": USUAL, "max_new_tokens": 128, "k": "auto", "temperature": 0, "top_k": 0, "top_p": 1, "repetition_penalty": 1,
    "rule": "auto", "seed": 0, "stop": "", "chat": False, "draft": "draft", "options": "", "costs": "auto",
}  # fmt: skip
FIELDS = tuple(DEFAULTS)
LONGEST_OPTIONS = 2000  # characters of what is not the prompt


@dataclass(frozen=True)
class RaceForm:
    """A filled-in form, which can be pickled. A call makes its race, with the head that the `visitor` keeps."""

    prompt: Any
    methods: Sequence[str]
    fields: Mapping[str, Any]
    visitor: str | None = None

    @property
    def family(self) -> str:
        return str(self.fields.get("family") or "")

    def __call__(self, server: ServerState) -> Race | ServerRace:
        """Return the race. Raises `LookaheadError` if a field is wrong or exceeds the host's limits."""
        if len(str(self.fields.get("options") or "")) > LONGEST_OPTIONS:
            raise SettingsError("options", self.fields["options"], f"give at most {count(LONGEST_OPTIONS)} characters.")
        given = options(self.fields)
        server.limits.check(self.prompt, given.get("max_new_tokens"), len(self.methods))
        if is_servers(self.family):
            return race_of(self.family, self.prompt, given)
        return race(server.models_for(self.visitor, self.family), self.prompt, self.methods, **given)


Make = RaceForm | Callable[[ServerState], Race]  # what makes a race


def options(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Form values by name -> options for `race`. Raises `SettingsError` if a value is not a number."""
    out = {name: value for name, value in fields.items() if name != "family"}
    for name in (*WHOLE, *REAL):
        if name in out:
            out[name] = _number(name, out[name], whole=name in WHOLE)
    if not out.get("draft", True):  # no draft model was loaded
        del out["draft"]
    if "k" in out:
        out["k"] = _k(out["k"])
    if "stop" in out:
        out["stop"] = tuple(line for line in lines(str(out["stop"] or "")) if line)
    out |= read_options(str(out.pop("options", "") or "").replace(",", " ").split())
    return out


def lanes(method: str, also: Sequence[str] = ()) -> list[str]:
    """Naive first, the chosen method last, every method once."""
    further = [m for m in dict.fromkeys(also) if m not in ("naive", method)]
    return ["naive", *further, *([method] if method != "naive" else [])]


def link(prompt: str, methods: Sequence[str], fields: Mapping[str, Any]) -> str:
    """The query that brings this form back."""
    changed = {name: value for name, value in fields.items() if value != DEFAULTS[name]}
    return "?" + urlencode({"prompt": prompt, "methods": ",".join(m for m in methods if m != "naive"), **changed})


def first_values(limits: Limits, **changes: Any) -> dict[str, Any]:
    """The fields' first values with `changes`, and no more tokens than the host allows."""
    values = {**DEFAULTS, **changes}
    return {**values, "max_new_tokens": min(values["max_new_tokens"], limits.max_new_tokens)}


def from_link(
    query: Mapping[str, str], families: Sequence[str], drafts: Callable[[str], Sequence[str]], limits: Limits
) -> tuple[str, str, list[str], dict[str, Any]]:
    """Prompt, method, further methods and fields from a link's query; `drafts(family)` are a family's draft models.
    Raises the same errors as a form."""
    prompt = str(query.get("prompt", ""))
    limits.check(prompt)
    methods = [m for m in str(query.get("methods", DEFAULT_METHOD)).split(",") if m] or [DEFAULT_METHOD]
    if len(methods) >= MOST_LANES:
        raise MethodError("methods", ",".join(methods)[:200], f"at most {MOST_LANES - 1} in addition to naive.")
    for method in methods:
        method_class(method)
    fields = {**first_values(limits), **{name: str(query[name])[:LONGEST_OPTIONS] for name in FIELDS if name in query}}
    fields["chat"] = str(fields["chat"]) == "True"
    checked = options(fields)
    Settings(**{name: value for name, value in checked.items() if name in Settings.names()})
    limits.check(max_new_tokens=checked["max_new_tokens"], lanes=len(methods) + ("naive" not in methods))
    fields |= {name: checked[name] for name in (*WHOLE, *REAL)} | {"k": str(checked["k"])}
    known("rule", fields["rule"], RULES)
    known("costs", fields["costs"], COSTS)
    known("draft", fields["draft"], drafts(known("family", fields["family"], families)))
    return prompt, methods[-1], methods[:-1], fields


def changed(fields: Mapping[str, Any]) -> list[str]:
    """The fields that differ from the defaults, in words."""
    changes = {name: value for name, value in fields.items() if value != DEFAULTS[name]}
    return [*setting_labels(changes), *(["as a chat message"] if fields["chat"] else [])]


def known(name: str, value: Any, allowed: Sequence[str]) -> str:
    """Return the value if it is allowed; else raise `SettingsError`."""
    if value not in list(allowed):
        raise SettingsError(name, value, f"choose one of {', '.join(allowed)}.")
    return value


def _number(name: str, value: Any, *, whole: bool, hint: str = "give a number.") -> Any:
    if isinstance(value, str):
        try:
            value = int(value) if whole and value.strip().lstrip("-").isdecimal() else float(value)
        except ValueError:
            raise SettingsError(name, value, hint) from None
    if value is None or isinstance(value, bool) or not isinstance(value, (int, float)):
        raise SettingsError(name, value, "the field holds no number; type one.")
    return int(value) if whole and (isinstance(value, int) or value.is_integer()) else value


def _k(value: Any) -> Any:
    text = str(value).strip().lower() if value is not None else ""
    return "auto" if text in ("auto", "") else _number("k", text, whole=True, hint='give "auto" or a whole number.')
