"""The Lab tab: claims measured, settings swept, passes recomputed, dice thrown; one idea a screen.

Knows the sections and their order. What a section does is in its own file.
"""

from __future__ import annotations

import gradio as gr

from ...server.state import ServerState
from . import claims, dice, drafters, grow, machine, sweeps, whatif

SECTIONS = (
    ("Expectations", claims),
    ("What if", whatif),
    ("Sweeps", sweeps),
    ("This machine", machine),
    ("Drafters", drafters),
    ("Grow a drafter", grow),
    ("Dice", dice),
)


def tab(server: ServerState) -> None:
    """Everything on the Lab tab."""
    with gr.Tabs(elem_id="la-lab"):
        for name, section in SECTIONS:
            with gr.Tab(name, elem_classes="la-section"):
                section.add(server)
