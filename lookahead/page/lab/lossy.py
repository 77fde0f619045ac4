"""How much may the text change? The speed and the damage of lossy acceptance rules, with a slider from exact to anything."""

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import gradio as gr

from ...core.events import LOSSY
from ...core.numbers import decimal, percent, ranged, ratio
from ...family.models import Models
from ...measure import charts
from ...measure.tradeoff import PROMPTS, TEMPERATURE, K, Piece, Point, Tradeoff, pieces, tradeoff
from ...server.state import ServerState
from ..parts import QUIET, Follow, Opening, answer_html, markup, plot, plot_update, prose, split, table
from ..running import buttons, follow_progress, run_and_stop, with_visitor_models

INTRO = (
    "An exact rule accepts a drafted token only if the text stays that of naive decoding, or keeps its distribution. A "
    "<b>lossy</b> rule accepts more: it <b>changes the text</b>. Each rule has a weight. At 0 it is exact, and at 1 it accepts "
    "every drafted token. At 0.5, typical and relaxed have their published constants. Each weight runs on the same prompts, in "
    f"turns with naive, with {K} drafted tokens per pass."
)
RULES = {
    "typical: likely enough for the entropy (Medusa)": "typical",
    "relaxed: among the likeliest (TensorRT-LLM)": "relaxed",
    "ensemble: a mixture of p and q (transformers)": "ensemble",
}
NOT_MEASURED = "This rule has not been measured here yet: press Measure."
MARKED = "Underlined: naive, after the same text, would have written another token. Naive's token and its probability are above it."
SPACE = "␣"
SPEED = ("speedup", "90% interval", "tokens per pass")
DAMAGE = ("changed tokens", "90% interval", "nats lost per token")
EXACT = (
    f"Exact rules: naive's text at temperature 0 (greedy), its text or its distribution at temperature {TEMPERATURE:g}, "
    "with one seed per prompt"
)


def add(server: ServerState, follow: Follow) -> list[Opening]:
    """Add the section."""
    curves, newest = gr.State({}), gr.Textbox("", visible="hidden")
    left, right = split()
    with left:
        verdict = markup(answer_html(NOT_MEASURED))
        weight = gr.Slider(
            0, 1, 0.5, step=0.1, label="how much the text may change (0: exact, 1: accept everything)", interactive=True
        )
        text, changed, lost, rows = markup(), plot(), plot(), markup()
    with right:
        prose(INTRO)
        rule = gr.Radio(list(RULES.items()), value=LOSSY[0], label="rule, changes the text", interactive=True)
        prompts = gr.Slider(2, 12, PROMPTS, step=1, label="prompts", interactive=True)
        repeats = gr.Slider(1, 5, 2, step=1, label="repetitions", interactive=True)
        with gr.Row(elem_classes="la-do"):
            start, stop = buttons("Measure")
        status = markup()
    empty = [{}, answer_html(NOT_MEASURED), "", plot_update(None), plot_update(None), ""]
    follow(lambda _: empty, [curves, verdict, text, changed, lost, rows])
    outputs = [curves, newest, changed, lost, rows]
    work, inputs = with_visitor_models(server, _measure), [curves, rule, prompts, repeats]
    run_and_stop(start, stop, work, inputs, outputs, status=status, draws=True)

    def show(curves: Mapping[str, Tradeoff], rule: str, weight: float, request: gr.Request) -> list[str]:
        return _shown(server.models_for(request.session_hash), curves, rule, weight)

    shown = {"inputs": [curves, rule, weight], "outputs": [verdict, text], "queue": False, **QUIET}
    gr.on([newest.change, rule.change, weight.change], show, trigger_mode="always_last", **shown)
    return []


def _measure(
    models: Models, dark: bool, curves: Mapping[str, Tradeoff], rule: str, prompts: float, repeats: float
) -> Iterator[list[Any]]:
    others = {name: curve for name, curve in curves.items() if curve.spec == models.spec and name != rule}
    number = count()

    def show(curve: Tradeoff) -> list[Any] | None:
        if not curve.points:  # only naive has run
            return None
        known = {**others, rule: curve}
        figures = [plot_update(charts.tradeoff([*known.values()], kind, dark)) for kind in ("changed", "lost")]
        return [known, str(next(number)), *figures, _rows([*known.values()])]

    yield from follow_progress(lambda: tradeoff(models, rule, prompts=int(prompts), repeats=int(repeats)), show, 5)


def _shown(models: Models, curves: Mapping[str, Tradeoff], rule: str, weight: float) -> list[str]:
    """Return the result of a rule at a weight in words, and the text of the first prompt with its changed tokens."""
    curve = curves.get(rule)
    point = curve.at(weight) if curve and curve.spec == models.spec else None
    if curve is None or point is None:
        return [answer_html(NOT_MEASURED), ""]
    question = curve.questions[0]
    return [
        answer_html(_sentence(point), _reasons(curve, point)),
        _text(question.prompt, pieces(models, question, point.runs[0])),
    ]


def _sentence(point: Point) -> str:
    speedup, share = point.speedup, point.damage("changed")
    speed = f"{ratio(speedup)} faster" if speedup >= 1 else f"{ratio(speedup)}: slower"
    damage = f"{percent(share, 0 if share >= 0.01 else 1)} of tokens" if share else "no token"
    return f"{speed}, {damage} changed."


def _reasons(curve: Tradeoff, point: Point) -> str:
    exact = curve.at(0.0)
    parts = [f"The {point.rule} rule at weight {point.weight:g}, over {len(point.runs)} prompts."]
    if point.weight == 0:
        parts.append("At weight 0 it is exact: it accepts only naive's tokens.")
    elif exact:
        parts.append(f"At weight 0, which is exact, the speedup is {ratio(exact.speedup)}.")
    if (speed := point.arm.interval) and (share := point.interval("changed")):
        bounds = f"{percent(share[0])} to {percent(share[1])}"
        parts.append(f"90% intervals: {ranged(speed)} for the speedup, {bounds} for the changed tokens.")
    if point.weight:
        lost = point.damage("lost")
        parts.append(
            f"The target's log-probability falls by {decimal(lost)} nats per token: the text is {decimal(math.exp(lost))} times less likely per token."
        )
    return " ".join(parts)


def _text(prompt: str, written: Sequence[Piece]) -> str:
    """Return a text whose changed tokens have naive's token and its probability above them."""
    marked = any(piece.naive is not None for piece in written)
    body = "".join(_piece(piece) for piece in written)
    note = f'<p class="la-prose">{MARKED}</p>' if marked else ""
    return f'<p class="la-lossy" dir="auto"><span>{html.escape(prompt)}</span>{body}</p>{note}'


def _piece(piece: Piece) -> str:
    if piece.naive is None:
        return html.escape(piece.text)
    token = piece.text.lstrip(" ") or piece.text
    before, after = piece.text[: -len(token)], "\n" * token.count("\n")  # spaces and line breaks are not underlined
    naive = f"{_signs(piece.naive).strip() or SPACE} {percent(piece.p)}"
    written = f"<u>{html.escape(_signs(token))}</u>"
    return f"{before}<ruby>{written}<rp> (naive: </rp><rt>{html.escape(naive)}</rt><rp>)</rp></ruby>{after}"


def _signs(text: str) -> str:
    """Return a token's text with a sign for each line break."""
    return text.replace("\n", "↵")


def _rows(curves: Sequence[Tradeoff]) -> str:
    """Return a table of the exact rules, and one for each lossy rule."""
    exact = [[point.rule, *_numbers(point)] for point in curves[-1].exact]
    out = table(["rule", *SPEED], exact, EXACT)
    for curve in curves:
        rows = [[f"{point.weight:g}", *_numbers(point), *_damage(point)] for point in curve.points]
        out += table(["weight", *SPEED, *DAMAGE], rows, f"{curve.rule}: changes the text")
    return out


def _numbers(point: Point) -> list[str]:
    return [ratio(point.speedup), ranged(point.arm.interval), decimal(point.arm.mean("tokens_per_pass"))]


def _damage(point: Point) -> list[str]:
    share = point.interval("changed")
    bounds = f"{percent(share[0])} to {percent(share[1])}" if share else ""
    return [percent(point.damage("changed")), bounds, decimal(point.damage("lost"))]
