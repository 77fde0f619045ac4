"""The page. Only this package and `server` import Gradio.

The first use of a name imports Gradio, so that the loading page and the log work without it. Gradio's component_meta.py
`create_or_modify_pyi` (version `gradio_internals.READ_IN`) parses the source of every component at every start, and
writes a stub for editors. That takes half of the import time. A class without a source file gets no stub.
"""

import inspect
from importlib import import_module
from typing import Any
from unittest.mock import patch

_HOME = {"build": "page", "mount_options": "page", "serve": "serving"}
__all__ = ["build", "mount_options", "serve"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with patch.object(inspect, "getfile", side_effect=OSError("no stub")):
        import_module("gradio")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
