"""The form: its fields, their initial values, and the race and the link that a filled-in form describes.

A link has the fields that differ from the defaults. Values from a link pass the same checks as typed values.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from ..core.events import COSTS, RULES, MethodError, Settings, SettingsError
from ..core.numbers import count
from ..core.schema import MAX_CHARACTERS
from ..core.text_files import lines
from ..core.wording import setting_labels
from ..engine.methods import method_class, read_options
from ..measure.scenarios import DEFAULT_FAMILY
from ..servers.addresses import is_servers
from ..servers.race import ServerRace, race_of
from ..trace.race import MAX_LANES, Race, race
from .limits import Limits
from .state import ServerState

INTEGERS = ("max_new_tokens", "top_k", "seed")
FLOATS = ("temperature", "top_p", "repetition_penalty", "weight")
DEFAULT_METHOD = "hybrid"
DEFAULTS: dict[str, Any] = {
    "family": DEFAULT_FAMILY, "max_new_tokens": 128, "k": "auto", "temperature": 0, "top_k": 0, "top_p": 1, "repetition_penalty": 1,
    "rule": "auto", "weight": 0, "seed": 0, "stop": "", "chat": False, "draft": "draft", "options": "", "costs": "auto", "schema": "",
}  # fmt: skip
FIELDS = tuple(DEFAULTS)
MAX_OPTION_CHARACTERS = 2000  # in a field other than the prompt


@dataclass(frozen=True)
class RaceForm:
    """A filled-in form, which can be pickled. A call returns its race, with the head that the `visitor` has kept."""

    prompt: Any
    methods: Sequence[str]
    fields: Mapping[str, Any]
    visitor: str | None = None

    @property
    def family(self) -> str:
        return str(self.fields.get("family") or "")

    def __call__(self, server: ServerState) -> Race | ServerRace:
        """Return the race. Raises `LookaheadError` if a field is wrong or exceeds the host's limits."""
        if len(text := str(self.fields.get("options") or "")) > MAX_OPTION_CHARACTERS:
            raise SettingsError("options", text, f"give at most {count(MAX_OPTION_CHARACTERS)} characters.")
        settings = options(self.fields)
        server.limits.check(self.prompt, settings.get("max_new_tokens"), len(self.methods))
        if is_servers(self.family):
            return race_of(self.family, self.prompt, settings)
        return race(server.models_for(self.visitor, self.family), self.prompt, self.methods, **settings)


RaceFactory = RaceForm | Callable[[ServerState], Race]


def options(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for `race` from form values by name. Raises `SettingsError` if a value is not a number."""
    out = {name: value for name, value in fields.items() if name != "family"}
    for name in (*INTEGERS, *FLOATS):
        if name in out:
            out[name] = _number(name, out[name], integer=name in INTEGERS)
    if not out.get("draft", True):  # no draft model was loaded
        del out["draft"]
    if "k" in out:
        out["k"] = _k(out["k"])
    if "schema" in out:
        out["schema"] = out["schema"] or ""
    if "stop" in out:
        out["stop"] = tuple(line for line in lines(str(out["stop"] or "")) if line)
    out |= read_options(str(out.pop("options", "") or "").replace(",", " ").split())
    return out


def lanes(method: str, also: Sequence[str] = ()) -> list[str]:
    """Return the methods of a race: naive first, the chosen method last, each method once."""
    others = [m for m in dict.fromkeys(also) if m not in ("naive", method)]
    return ["naive", *others, *([method] if method != "naive" else [])]


def link(prompt: str, methods: Sequence[str], fields: Mapping[str, Any]) -> str:
    """Return the query of a link that fills in this form."""
    differing = {name: value for name, value in fields.items() if value != DEFAULTS[name]}
    return "?" + urlencode({"prompt": prompt, "methods": ",".join(m for m in methods if m != "naive"), **differing})


def initial_values(limits: Limits, **changes: Any) -> dict[str, Any]:
    """Return the fields' initial values with `changes`, and no more tokens than the host allows."""
    values = {**DEFAULTS, **changes}
    return {**values, "max_new_tokens": min(values["max_new_tokens"], limits.max_new_tokens)}


def from_link(
    query: Mapping[str, str], families: Sequence[str], drafts: Callable[[str], Sequence[str]], limits: Limits
) -> tuple[str, str, list[str], dict[str, Any]]:
    """Return a link's prompt, method, other methods and fields. `drafts` has draft models. Raises `LookaheadError`."""
    prompt = str(query.get("prompt", ""))
    limits.check(prompt)
    methods = [m for m in str(query.get("methods", DEFAULT_METHOD)).split(",") if m] or [DEFAULT_METHOD]
    if len(methods) >= MAX_LANES:
        raise MethodError("methods", ",".join(methods)[:200], f"at most {MAX_LANES - 1} in addition to naive.")
    for method in methods:
        method_class(method)
    longest = {"schema": MAX_CHARACTERS + 1}  # `Settings` refuses a schema that is too long
    given = {name: str(query[name])[: longest.get(name, MAX_OPTION_CHARACTERS)] for name in FIELDS if name in query}
    fields = initial_values(limits) | given
    fields["chat"] = str(fields["chat"]) == "True"
    checked = options(fields)
    Settings(**{name: value for name, value in checked.items() if name in Settings.names()})
    limits.check(max_new_tokens=checked["max_new_tokens"], lanes=len(methods) + ("naive" not in methods))
    fields |= {name: checked[name] for name in (*INTEGERS, *FLOATS)} | {"k": str(checked["k"])}
    require_choice("rule", fields["rule"], RULES)
    require_choice("costs", fields["costs"], COSTS)
    require_choice("draft", fields["draft"], drafts(require_choice("family", fields["family"], families)))
    return prompt, methods[-1], methods[:-1], fields


def changes(fields: Mapping[str, Any]) -> list[str]:
    """Return a description of each field that differs from its default."""
    differing = {name: value for name, value in fields.items() if value != DEFAULTS[name]}
    return [*setting_labels(differing), *(["as a chat message"] if fields["chat"] else [])]


def require_choice(name: str, value: Any, allowed: Sequence[str]) -> str:
    """Return the value if it is allowed; else raise `SettingsError`."""
    if value not in list(allowed):
        raise SettingsError(name, value, f"choose one of {', '.join(allowed)}.")
    return value


def _number(name: str, value: Any, *, integer: bool, hint: str = "give a number.") -> Any:
    if isinstance(value, str):
        try:
            value = int(value) if integer and value.strip().lstrip("-").isdecimal() else float(value)
        except ValueError:
            raise SettingsError(name, value, hint) from None
    if value is None or isinstance(value, bool) or not isinstance(value, (int, float)):
        raise SettingsError(name, value, "enter a number.")
    return int(value) if integer and (isinstance(value, int) or value.is_integer()) else value


def _k(value: Any) -> Any:
    text = str(value).strip().lower() if value is not None else ""
    return "auto" if text in ("auto", "") else _number("k", text, integer=True, hint='give "auto" or a whole number.')
