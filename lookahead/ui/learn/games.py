"""Small widgets that `assets/games.js` draws: a guess, a question, this machine's costs, a listing.

They need no server, but for one thing: a guess can be had on a run of this moment.

Knows what each of them shows. It does not know how.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

import gradio as gr

from ... import assets
from ...events import LookaheadError
from ...lab.guesses import TEMPERATURE, cases
from ...lessons import BY_ID, Code, Cost, Guess, Quiz, Widget
from ...models import Models
from ...theory import expected_tokens, speedup
from ..jobs import follow
from ..lab.parts import QUIET
from ..stage import Stage

# The script comes with each widget: a page that is only raced on does not carry it.
MOUNT = """%s
const show = () => lookaheadGames.mount(element.querySelector('div'), JSON.parse(props.value), {solved: () => lookaheadLearn.solved(%s)});
show();
watch('value', show);"""
REAL = "story"  # the scenario on which anybody may guess for real
TOLD = f"Drafted and drawn just now, while a story was written on: temperature {TEMPERATURE}, rejection rule. Press again for another."


def add(widget: Widget, stage: Stage, lesson: str) -> None:
    """The widget in its place in the lesson of that name."""
    shown = gr.HTML(
        _json(widget, stage.models),
        html_template="<div></div>",
        js_on_load=MOUNT % (assets.small("script", "games.js"), json.dumps(lesson)),
        apply_default_css=False,
        elem_classes="la-widget",
    )
    if isinstance(widget, Guess):
        real = gr.Button("Guess on a real run", size="sm", scale=0)
        real.click(partial(_real, stage), None, shown, concurrency_limit=None, **QUIET)


def _json(widget: Widget, models: Models | None = None) -> str:
    data = DATA[type(widget)](widget, models)
    return json.dumps({"kind": type(widget).__name__.lower(), "say": widget.say, **data})


def _real(stage: Stage) -> Iterator[Any]:
    """Cases of a run of this moment."""
    try:
        for now in follow(lambda: cases(stage.models, BY_ID[REAL].prompt, seed=secrets.randbelow(1 << 30))):
            yield _json(Guess(cases=tuple(now), say=TOLD)) if isinstance(now, list) else gr.skip()
    except LookaheadError as error:
        raise gr.Error(str(error), print_exception=False) from None


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
    c, v = (draft.token_s + draft.turning_s(cost.k) / cost.k) / curve.pass_s(1), curve.ratio(1 + cost.k)
    return {
        "alpha": cost.alpha, "k": cost.k, "c": c, "v": v, "tokens": tokens, "cost": v + cost.k * c,
        "speedup": speedup(tokens, cost.k, c, v), "plain": speedup(tokens, cost.k, c),
    }  # fmt: skip


DATA = {Guess: _guess, Quiz: _quiz, Code: _code, Cost: _cost}
