"""The page. Only this package and app.py know Gradio."""

from .page import build, launch_options
from .serving import serve
from .stage import Stage

__all__ = ["Stage", "build", "launch_options", "serve"]
