"""Named endpoints for gradio_client. If a client disconnects, its race ends at the next status that /race yields."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl

import gradio as gr

from ..core.events import SettingsError
from ..engine.methods import all_methods, method_class
from ..measure import decision
from ..server import form, loading_job, race_job
from ..server.state import ServerState, family_title
from ..trace.trace import Trace
from .gradio_internals import address, visitor

POLL_S, WAITING_S = 0.2, 0.8  # between two statuses; many clients may wait, and their statuses take computing time
PERSONAL = ("choose",)  # endpoints that change the state of their caller


def add(server: ServerState) -> None:
    """Register /race, /advise, /link, /methods, /families and /choose with the page that is being built."""

    def race(
        prompt: str,
        method: str = form.DEFAULT_METHOD,
        max_new_tokens: int = 128,
        k: str = "auto",
        temperature: float = 0.0,
        seed: int = 0,
        schema: str = "",
    ) -> dict:
        """Race a method against naive decoding on one prompt, with the chosen models, and return the trace.

        Args:
            prompt: the beginning of a text.
            method: one of the names that /methods lists.
            max_new_tokens: largest number of new tokens.
            k: tokens to draft per pass, or "auto".
            temperature: 0 is greedy.
            seed: seed of the random numbers when sampling.
            schema: of the text: a JSON schema, a JSON list of choices, or a regular expression. "" for any text.
        """
        fields = {"max_new_tokens": max_new_tokens, "k": k, "temperature": temperature, "seed": seed, "schema": schema}
        fields["family"] = server.families.chosen_by(visitor()).models.spec
        yield from _race(server, prompt, method, fields)

    def advise(prompt: str, max_new_tokens: int = 128) -> dict:
        """Measure whether speculative decoding pays for a text like this on this machine.

        A draft model races naive decoding on the prompt, and lookups are computed from the naive lane. Returns a sentence,
        the method and draft length to use (None and 0 without a gain), and the expected speedup of every option.

        Args:
            prompt: the beginning of a typical text.
            max_new_tokens: largest number of new tokens.
        """
        family = server.families.chosen_by(visitor()).models
        fields = {"max_new_tokens": max_new_tokens, "family": family.spec}
        *_, trace = _race(server, prompt, "draft", fields)
        report = decision.advise(Trace.model_validate(trace), family.costs)
        options = [{"method": option.method, "k": option.k, "speedup": option.speedup} for option in report.options]
        method, k = (report.best.method, report.k) if report.on else (None, 0)
        return {"sentence": report.sentence, "method": method, "k": k, "options": options}

    def link(
        prompt: str,
        method: str = form.DEFAULT_METHOD,
        k: str = "auto",
        temperature: float = 0.0,
        schema: str = "",
    ) -> str:
        """Return the address of a page with this race filled in. The race does not run until a person starts it there.

        Args:
            prompt: the beginning of a text.
            method: one of the names that /methods lists.
            k: tokens to draft per pass, or "auto".
            temperature: 0 is greedy.
            schema: a JSON schema, a JSON list of choices, or a regular expression. "" for any text.
        """
        family = server.families.chosen_by(visitor()).models.spec
        fields = {**form.DEFAULTS, "family": family, "k": k, "temperature": temperature, "schema": schema}
        if not isinstance(prompt, str) or not isinstance(method, str):
            raise SettingsError("prompt, method", (prompt, method), "give text.")
        query = form.link(prompt, [method], fields)
        form.from_link(dict(parse_qsl(query[1:])), [family], lambda _: [form.DEFAULTS["draft"]], server.limits)
        return f"{address()}/{query}"

    def methods() -> list:
        """Return the strategies: name, summary, and whether they need a draft model."""
        classes = {m: method_class(m) for m in all_methods()}
        return [{"name": m, "summary": c.summary, "needs_draft": c.needs_draft} for m, c in classes.items()]

    def families() -> list:
        """Return the families of models to choose from: name, description, and whether it is loaded."""
        names = loading_job.offered(server)
        return [{"name": name, "description": family_title(name), "loaded": name in server.families} for name in names]

    def choose(family: str) -> dict:
        """Choose the models of this session's races. A bundled family is loaded if necessary.

        Args:
            family: one of the names that /families lists.
        """
        form.require_choice("family", family, loading_job.offered(server))
        for sentence, share in loading_job.load_if_missing(server, family):
            yield {"status": sentence, "share": share}
        chosen = server.families.named(family).models
        server.families.choose(visitor(), family)
        yield {"family": chosen.spec, "models": chosen.names}

    for endpoint in (race, advise, choose):
        gr.api(endpoint, concurrency_limit=None)
    for endpoint in (link, families, methods):
        gr.api(endpoint, queue=False)


def _race(server: ServerState, prompt: str, method: str, fields: dict[str, Any]) -> Iterator[dict[str, Any]]:
    job = race_job.submit(server, form.RaceForm(prompt, form.lanes(method), fields), "api")
    for _ in job.follow(POLL_S, WAITING_S):
        yield {"status": job.waiting() or "Computing."}
    yield json.loads(job.result().to_json())
