"""Limits for visitors, and settings of the log, from environment variables that pydantic-settings reads.

Every field of `Limits` and `LogSettings` is the variable LOOKAHEAD_<NAME>; its description is in the table of docs/hosting.md.
An invalid value stops the server at its start with a clear error.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from ..core.events import SettingsError
from ..core.numbers import count
from ..measure.tables import markdown_table

PREFIX = "LOOKAHEAD_"
MAX_AMOUNT = 10**9

Amount = Annotated[float, Field(ge=0, le=MAX_AMOUNT, allow_inf_nan=False)]
PositiveInt = Annotated[int, Field(ge=1, le=MAX_AMOUNT)]
Switch = Annotated[bool, BeforeValidator(lambda value: {"0": False, "1": True}.get(value, value)), Field(strict=True)]


class Variables(BaseSettings):
    """Fields read from the environment; empty variables count as not set."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _without_blanks(cls, values: dict[str, Any]) -> dict[str, Any]:
        stripped = {name: value.strip() if isinstance(value, str) else value for name, value in values.items()}
        return {name: value for name, value in stripped.items() if value != ""}

    @classmethod
    def from_environment(cls) -> Self:
        """Return the settings of the environment. Raises `SettingsError` with the name of an invalid variable."""
        try:
            return cls()
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            hint = "Input should be 1 or 0" if first["type"] == "bool_type" else first["msg"].partition(", unable")[0]
            name = f"{PREFIX}{first['loc'][0].upper()}"
            raise SettingsError(name, first["input"], f"{hint.replace('Input should', 'it must')}.") from None


class Limits(Variables):
    """Limits of the requests of visitors."""

    max_prompt_chars: PositiveInt = Field(20_000, description="longest prompt, characters")
    max_new_tokens: PositiveInt = Field(2_000, description="most new tokens in a lane")
    max_lanes: int = Field(4, ge=2, le=4, description="most lanes in a race, 2 to 4")
    max_run_s: Amount = Field(300, gt=0, description="seconds of computing after which a run ends; its results remain")
    max_grow_s: Amount = Field(300, description="seconds of computing to train a visitor's own drafter; 0: no training")
    max_waiting: int = Field(64, ge=1, le=1000, description="most visitors in the queue; further ones are refused")
    loading: Literal["any", "listed", "none"] = Field(
        "any", description="which models visitors may load: any, listed (the page's own suggestions), none"
    )
    max_model_gb: Amount = Field(0, description="largest family that may be loaded, GB in memory; 0: what is free")

    def check(self, prompt: Any = "", max_new_tokens: Any = 0, lanes: int = 0) -> None:
        """Raise `SettingsError` for a value above this host's limits. `Settings` checks all other values."""
        if isinstance(prompt, (str, list)) and len(prompt) > self.max_prompt_chars:
            hint = f"this server's limit is {count(self.max_prompt_chars)}; shorten it."
            raise SettingsError("prompt", f"{count(len(prompt))} characters", hint)
        if isinstance(max_new_tokens, (int, float)) and max_new_tokens > self.max_new_tokens:
            hint = f"this server's limit is {count(self.max_new_tokens)}."
            raise SettingsError("max_new_tokens", max_new_tokens, hint)
        if lanes > self.max_lanes:
            raise SettingsError("lanes", lanes, f"this server's limit is {self.max_lanes}, naive included.")


class LogSettings(Variables):
    """Settings of the log and the metrics of a server."""

    log: Literal["text", "json"] = Field("text", description="log on stderr: text, or json (one object per line)")
    log_prompts: Switch = Field(False, description="1: the log may contain prompts and messages of errors")
    metrics: Switch = Field(False, description="1: /metrics for Prometheus, if `prometheus_client` is installed")
    revision: str = Field("", description="git revision that the page and `/healthz` show; the Docker build sets it")


def table() -> str:
    """Return all variables as a Markdown table, with their defaults."""
    rows = []
    for name, field in {**Limits.model_fields, **LogSettings.model_fields}.items():
        default = field.default if isinstance(field.default, str) else count(field.default)
        rows.append([f"`{PREFIX}{name.upper()}`", default, field.description])
    return markdown_table(["variable", "default", "meaning"], rows)
