"""What Gradio keeps of a visitor, given back when the visitor has gone.

For each one it holds a copy of every component's settings, the best part of a megabyte here. Where nothing in the copy
differs from the page as it was built, losing it loses nothing: should the visitor come back (a phone that slept), it is
made again. Where something does, a lesson that is open or a result that is held, it is kept until `GONE` others have left
and the visitor has not done anything since.

Knows how Gradio holds sessions and runs. It does not know what a visitor did.
"""

from __future__ import annotations

from typing import Any

import gradio as gr

MOST, GONE = 200, 30


def forget_gone(page: gr.Blocks) -> None:
    """Have visitors of this page forgotten when they have gone."""
    left: dict[str, Any] = {}  # when those who left were last heard of

    def gone(request: gr.Request) -> None:
        session, holder = request.session_hash, page.state_holder
        if not forget(page, session):
            left.pop(session, None)
            left[session] = holder.time_last_used.get(session)
        while len(left) > GONE:
            first = next(iter(left))
            if left.pop(first) == holder.time_last_used.get(first):
                _drop(page, first)

    page.unload(gone)


def forget(page: gr.Blocks, session: str | None) -> bool:
    """Give back what is held for this visitor, unless something would be lost; whether it was."""
    held = page.state_holder.session_data.get(session)
    if held is not None:
        built, own = page.default_config, held.blocks_config
        if held.state_data or own.blocks != built.blocks or own.fns != built.fns:
            return False
        _drop(page, session)
    return True


def _drop(page: gr.Blocks, session: str | None) -> None:
    page.state_holder.session_data.pop(session, None)
    page.state_holder.time_last_used.pop(session, None)


class Iterators(dict):
    """Gradio's table of the runs under way. Where Stop meets a run's end it takes the same one out twice, which must not
    raise: what it does after that would be left undone, and the run's request held for ever."""

    def __delitem__(self, key: Any) -> None:
        self.pop(key, None)
