"""The page. Only this package and app.py know Gradio."""

from .page import build, launch_options

__all__ = ["build", "launch_options"]
