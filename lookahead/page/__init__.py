"""The page. Only this package and app.py know Gradio.

Gradio is imported with the first name that needs it: what is shown while it loads, and the log, do without.
"""

from importlib import import_module
from typing import Any

_HOME = {"build": "page", "mount_options": "page", "serve": "serving"}
__all__ = ["build", "mount_options", "serve"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module(".gradio_import", __name__)
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
