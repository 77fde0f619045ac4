"""The Lab tab: claims measured, settings swept, passes recomputed, dice thrown; one idea a screen.

Knows the sections and their order. What a section does is in its own file.
"""

from __future__ import annotations

import gradio as gr

from ...models import Models
from ..runs import Runs
from . import claims, dice, drafters, machine, sweeps, whatif

SECTIONS = (
    ("Expectations", claims),
    ("What if", whatif),
    ("Sweeps", sweeps),
    ("This machine", machine),
    ("Drafters", drafters),
    ("Dice", dice),
)


def tab(models: Models, kept: Runs) -> None:
    """Everything on the Lab tab; `kept` are the runs that may be asked for again."""
    with gr.Tabs(elem_id="la-lab"):
        for name, section in SECTIONS:
            with gr.Tab(name, elem_classes="la-section"):
                section.add(models, kept)
