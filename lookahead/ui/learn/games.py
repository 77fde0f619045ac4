"""Widgets that need no server: a guess, a question, this machine's costs, a listing. Drawn by `assets/games.js`.

Knows what each of them shows. It does not know how.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import gradio as gr

from ... import assets
from ...lessons import Code, Cost, Guess, Quiz, Widget
from ...models import Models
from ...theory import expected_tokens, speedup

# The script comes with each widget: a page that is only raced on does not carry it.
MOUNT = "%s\nlookaheadGames.mount(element.querySelector('div'), JSON.parse(props.value), {solved: () => lookaheadLearn.solved(%s)});"


def add(widget: Widget, models: Models, lesson: str) -> None:
    """The widget in its place in the lesson of that name."""
    gr.HTML(
        json.dumps({"kind": type(widget).__name__.lower(), "say": widget.say, **DATA[type(widget)](widget, models)}),
        html_template="<div></div>",
        js_on_load=MOUNT % (assets.small("script", "games.js"), json.dumps(lesson)),
        apply_default_css=False,
        elem_classes="la-widget",
    )


def _guess(guess: Guess, models: Models) -> dict[str, Any]:
    return {"cases": [{**asdict(case), "chance": case.chance, "stands": case.stands} for case in guess.cases]}


def _quiz(quiz: Quiz, models: Models) -> dict[str, Any]:
    return {"question": quiz.question, "answers": [asdict(answer) for answer in quiz.answers]}


def _code(code: Code, models: Models) -> dict[str, Any]:
    source = code.source.partition("#")[0]
    return {"title": code.title, "text": code.text, "first": code.first, "marked": code.marked, "source": source}


def _cost(cost: Cost, models: Models) -> dict[str, Any]:
    curve = models.costs
    rows = [{"rows": n, "ms": 1e3 * curve.pass_s(n), "passes": curve.ratio(n)} for n in cost.rows]
    return {"rows": rows, "predict": cost.predict, "sum": _sum(cost, models)}


def _sum(cost: Cost, models: Models) -> dict[str, float] | None:
    """The speedup that theory expects at these costs; None where nothing is asked or there is no draft model."""
    draft = models.draft_costs.get("draft")
    if cost.alpha is None or cost.k is None or draft is None:
        return None
    curve, tokens = models.costs, expected_tokens(cost.alpha, cost.k)
    c, v = (draft.token_s + draft.after_s / cost.k) / curve.pass_s(1), curve.ratio(1 + cost.k)
    return {
        "alpha": cost.alpha, "k": cost.k, "c": c, "v": v, "tokens": tokens, "cost": v + cost.k * c,
        "speedup": speedup(tokens, cost.k, c, v), "plain": speedup(tokens, cost.k, c),
    }  # fmt: skip


DATA = {Guess: _guess, Quiz: _quiz, Code: _code, Cost: _cost}
