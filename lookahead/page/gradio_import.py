"""Gradio, imported in half the time.

Read in the version of `gradio_internals.READ_IN`: component_meta.py `create_or_modify_pyi` parses the source of every component when its class is made, and
writes it again as a stub for editors, at every start. Of a class whose source file cannot be told it makes none.

Whoever imports Gradio first imports this before. Knows nothing of the page.
"""

from __future__ import annotations

import inspect
from unittest.mock import patch


def _no_file(_: object) -> str:
    raise OSError("no stub is wanted")


with patch.object(inspect, "getfile", _no_file):
    import gradio  # noqa: F401
