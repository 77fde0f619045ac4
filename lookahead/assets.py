"""The page's own scripts and styles, joined and made small.

The files in `assets/` are plain and need no build step; blanks and most comments, a quarter of them,
are left out when they are handed to a browser. The app and the replay page take them from here.

Knows file names and their order. It does not know what the files do.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from minify_html import minify

ASSETS = Path(__file__).parent.parent / "assets"
# In this order: a file may use, as it is read, those before it.
SCRIPTS = (
    "player.js", "chart.js", "heat.js", "lane.js", "skeleton.js", "inspect.js", "jacobi.js", "inspector.js", "microscope.js",
    "home.js", "timeline.js",
)  # fmt: skip
STYLES = ("timeline.css", "inspector.css")


@cache
def script(*more: str) -> str:
    """The timeline's scripts, and then those named, as one text."""
    return small("script", *SCRIPTS, *more)


@cache
def style(*more: str) -> str:
    """The timeline's styles, and then those named, as one text."""
    return small("style", *STYLES, *more)


@cache
def small(element: str, *names: str) -> str:
    """What an HTML minifier makes of the files as the content of a `script` or `style` element."""
    whole = minify(f"<{element}>{joined(*names)}</{element}>", minify_js=True, minify_css=True)
    return whole.removeprefix(f"<{element}>").removesuffix(f"</{element}>")


def joined(*names: str) -> str:
    """The files as they are, one after the other."""
    return "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in names)
