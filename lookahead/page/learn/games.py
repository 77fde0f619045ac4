"""Small widgets that `assets/learn/games.js` draws: a guess, a question, this machine's costs, a listing, a figure, an exercise."""

import json
import secrets
from collections.abc import Iterator
from functools import partial
from typing import Any

import gradio as gr

from ...core.events import ACCEPTED, REJECTED, Test
from ...engine.lane import decode
from ...family.models import Models
from ...server.state import ServerState
from ..parts import QUIET, markup
from ..running import follow_job
from .questions import vote
from .widgets import BY_ID, Case, Code, Cost, Exercise, Figure, Guess, Quiz, Widget

# Before Gradio removes a widget, it may pass it the value of the component that replaces it, such as the label of a button.
MOUNT = """
const mount = data => lookaheadPage.load.teaching().then(({games, votes}) =>
  games.mount(element.querySelector('div'), data, {solved: () => lookaheadPage.learn.solved(%s), ask: votes.openVote}));
const show = () => props.value.startsWith('{') && mount(JSON.parse(props.value));
show();
watch('value', show);"""
GAMES = (Guess, Quiz, Code, Cost, Figure, Exercise)  # their scripts display `say`
UNCERTAIN = (0.05, 0.95)  # chances of acceptance between which the outcome is uncertain
DIGITS, TEMPERATURE = 3, 0.8
CAPTION = f"Drafted and tested just now, in the continuation of a story: temperature {TEMPERATURE}, rejection rule. Press again for others."


def add(widget: Widget, server: ServerState, lesson: str) -> None:
    """Add the widget to the lesson of that name."""
    shown = markup(
        json.dumps({**data(widget, server.families.default.models), "vote": vote(widget)}),
        html_template="<div></div>",
        js_on_load=MOUNT % json.dumps(lesson),
        elem_classes="la-widget",
    )
    if isinstance(widget, Guess):
        sample = gr.Button("Guess on a real run", size="sm", scale=0)
        sample.click(partial(_sample, server), None, shown, concurrency_limit=None, **QUIET)


def data(widget: Widget, models: Models) -> dict[str, Any]:
    """Return the fields with which `games.js` draws a widget. The costs are those of these models."""
    match widget:
        case Code():
            changed = {"marked": widget.marked, "source": widget.source.partition("#")[0]}
            fields = widget.model_dump(exclude={"marks"}) | changed
        case Cost():
            curve = models.costs.target
            rows = [{"rows": n, "ms": 1e3 * curve.pass_s(n), "passes": curve.ratio(n)} for n in widget.rows]
            fields = {"rows": rows, "predict": widget.predict, "sum": _sum(widget, models)}
        case _:
            fields = widget.model_dump()
    return {**fields, "kind": widget.kind, "say": widget.say}


def _sample(server: ServerState) -> Iterator[Any]:
    models = server.families.default.models
    for _, sampled in follow_job(lambda: cases(models, BY_ID["story"].prompt, seed=secrets.randbelow(1 << 30))):
        yield (
            json.dumps(data(Guess(cases=tuple(sampled), say=CAPTION), models))
            if isinstance(sampled, list)
            else gr.skip()
        )


def cases(models: Models, prompt: str, *, seed: int, most: int = 6) -> Iterator[list[Case]]:
    """Yield up to `most` cases of a run, uncertain ones if possible. Raises `LookaheadError` without a draft model."""
    candidates: list[Case] = []
    settings = {"temperature": TEMPERATURE, "rule": "rejection", "k": 4, "max_new_tokens": 64, "seed": seed}
    for step in decode(models, prompt, method="draft", details=False, **settings):
        candidates += [case for test in step.tests if (case := _case(models, test))]
        if sum(map(_is_uncertain, candidates)) >= most:
            break
    chosen = sorted(range(len(candidates)), key=lambda i: (not _is_uncertain(candidates[i]), i))[:most]
    yield [candidates[i] for i in sorted(chosen)]


def _case(models: Models, test: Test) -> Case | None:
    """Return a test in `DIGITS` digits; None if its token has no text, or if rounding would change its outcome."""
    if test.outcome not in (ACCEPTED, REJECTED) or test.q is None or test.draw is None:
        return None
    name = models.tokenizer.decode([test.token]).strip()
    p, q, draw = (round(value, DIGITS) for value in (test.p, test.q, test.draw))
    if not name or not 0 < q <= 1 or draw >= 1:
        return None
    case = Case(token=name, p=p, q=q, draw=draw)
    return case if case.accepted == (test.outcome == ACCEPTED) else None


def _is_uncertain(case: Case) -> bool:
    return UNCERTAIN[0] < case.chance < UNCERTAIN[1]


def _sum(cost: Cost, models: Models) -> dict[str, float] | None:
    """Return the predicted speedup at these costs; None without `alpha` or `k`, and without a draft model."""
    if cost.alpha is None or cost.k is None or "draft" not in models.costs.drafters:
        return None
    expected = models.costs.predict(cost.alpha, cost.k, "draft")
    v = expected.verify_s / expected.naive_s
    return {
        "alpha": cost.alpha, "k": cost.k, "c": (expected.cost - v) / cost.k, "v": v, "tokens": expected.tokens,
        "cost": expected.cost, "speedup": expected.speedup, "plain": expected.leviathan,
    }  # fmt: skip
