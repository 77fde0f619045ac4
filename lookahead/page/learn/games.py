"""Small widgets that `assets/learn/games.js` draws: a guess, a question, this machine's costs, a listing, a figure.

They need no server, but for one thing: a guess can be had on a run of this moment.

Knows what each of them shows. It does not know how.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from functools import partial
from typing import Any

import gradio as gr

from ...family.models import Models
from ...server.state import ServerState
from ...trace import assets
from ..parts import QUIET, markup
from ..running import followed
from .guesses import TEMPERATURE, cases
from .widgets import BY_ID, Code, Cost, Figure, Guess, Quiz, Widget

# The script comes with each widget, because a page that shows only races needs none.
MOUNT = """%s
const show = () => lookaheadPage.games.mount(element.querySelector('div'), JSON.parse(props.value), {solved: () => lookaheadPage.learn.solved(%s)});
show();
watch('value', show);"""
REAL = "story"  # the scenario on which anybody may guess for real
CAPTION = f"Drafted and drawn just now, while a story was written on: temperature {TEMPERATURE}, rejection rule. Press again for another."


def add(widget: Widget, server: ServerState, lesson: str) -> None:
    """The widget in its place in the lesson of that name."""
    shown = markup(
        _json(widget, server.families.usual.models),
        html_template="<div></div>",
        js_on_load=MOUNT % (assets.script("learn/widgets.js"), json.dumps(lesson)),
        elem_classes="la-widget",
    )
    if isinstance(widget, Guess):
        real = gr.Button("Guess on a real run", size="sm", scale=0)
        real.click(partial(_real, server), None, shown, concurrency_limit=None, **QUIET)


def _json(widget: Widget, models: Models | None = None) -> str:
    data = DATA[type(widget)](widget, models)
    return json.dumps({"kind": widget.kind, "say": widget.say, **data})


def _real(server: ServerState) -> Iterator[Any]:
    """Cases of a run of this moment."""
    models = server.families.usual.models
    for _, drawn in followed(lambda: cases(models, BY_ID[REAL].prompt, seed=secrets.randbelow(1 << 30))):
        yield _json(Guess(cases=tuple(drawn), say=CAPTION)) if isinstance(drawn, list) else gr.skip()


def _guess(guess: Guess, models: Models) -> dict[str, Any]:
    return guess.model_dump(include={"cases"})


def _quiz(quiz: Quiz, models: Models) -> dict[str, Any]:
    return quiz.model_dump(include={"question", "answers"})


def _code(code: Code, models: Models) -> dict[str, Any]:
    source = code.source.partition("#")[0]
    return {"title": code.title, "text": code.text, "first": code.first, "marked": code.marked, "source": source}


def _cost(cost: Cost, models: Models) -> dict[str, Any]:
    curve = models.costs.target
    rows = [{"rows": n, "ms": 1e3 * curve.pass_s(n), "passes": curve.ratio(n)} for n in cost.rows]
    return {"rows": rows, "predict": cost.predict, "sum": _sum(cost, models)}


def _figure(figure: Figure, models: Models) -> dict[str, Any]:
    return {"figure": figure.figure}


def _sum(cost: Cost, models: Models) -> dict[str, float] | None:
    """The speedup that theory expects at these costs; None without `alpha` or `k`, and without a draft model."""
    if cost.alpha is None or cost.k is None or "draft" not in models.costs.drafters:
        return None
    expected = models.costs.predict(cost.alpha, cost.k, "draft")
    v = expected.verify_s / expected.plain_s
    return {
        "alpha": cost.alpha, "k": cost.k, "c": (expected.cost - v) / cost.k, "v": v, "tokens": expected.tokens,
        "cost": expected.cost, "speedup": expected.speedup, "plain": expected.leviathan,
    }  # fmt: skip


DATA = {Guess: _guess, Quiz: _quiz, Code: _code, Cost: _cost, Figure: _figure}
