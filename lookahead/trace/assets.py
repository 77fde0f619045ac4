"""The page's own scripts and styles, joined and made small, and the pages that stand in one file.

The files in `assets/` are plain and need no build step: a script is a function that is called where it stands and
leaves one name, `lookahead...`, for those after it. Blanks and comments are left out when they are handed to a browser.

Knows file names and their order. It does not know what the files do.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from functools import cache
from pathlib import Path
from string import Template

from minify_html import minify

from ..core.version import VERSION

ASSETS = Path(__file__).parents[2] / "assets"
# In this order: a file may use, as it is read, those before it.
SCRIPTS = (
    "page/dom.js", "page/numbers.js", "timeline/log.js", "timeline/player.js", "timeline/words.js", "timeline/repair.js",
    "timeline/stored.js", "timeline/heat.js", "timeline/chart.js", "timeline/pointer.js", "timeline/lane.js",
    "timeline/skeleton.js", "timeline/playhead.js", "timeline/transport.js", "timeline/keyboard.js", "timeline/feed.js",
    "timeline/scoreboard.js", "timeline/strip.js", "timeline/share.js", "timeline/home.js", "inspector/text.js", "inspector/draft.js", "inspector/places.js",
    "inspector/time.js", "inspector/pass.js", "inspector/parts.js", "inspector/flow.js", "inspector/favourites.js",
    "inspector/jacobi.js", "inspector/mask.js", "inspector/microscope.js", "inspector/heads.js", "inspector/drafting.js",
    "inspector/inspector.js", "inspector/card.js", "timeline/selection.js", "timeline/timeline.js",
)  # fmt: skip
PAGE_SCRIPTS = ("page/chips.js", "learn/learn.js", "lab/class.js", "page/tour.js", "page/present.js", "page/embed.js")
FIGURES = ("handles", "weights", "pencil", "shelf", "overlap", "matching", "window", "costs")
GAMES = (
    "learn/widget.js", "learn/guess.js", "learn/cost.js", *(f"learn/figures/{name}.js" for name in FIGURES), "learn/games.js",
)  # fmt: skip
STYLES = (
    "page/palette.css", "timeline/layout.css", "timeline/strip.css", "timeline/tokens.css", "timeline/controls.css", "timeline/narrow.css",
    "inspector/parts.css", "inspector/panel.css", "inspector/microscope.css", "inspector/drafting.css", "inspector/card.css",
    "inspector/phone.css",
)  # fmt: skip
PAGE_STYLES = (
    "page/page.css",
    "page/lab.css",
    "lab/class.css",
    "page/present.css",
    "page/phone.css",
    "learn/learn.css",
)
GAMES_STYLES = ("learn/games.css", "learn/figures.css", "learn/drawn.css")

# One that fills its lines, as the formatter leaves it; the minifier would keep those that stand before a declaration.
COMMENT = re.compile(r"^ */\*.*?\*/\n", re.MULTILINE | re.DOTALL)


def script(*more: str) -> str:
    """The timeline's scripts, and then those named, as one text."""
    return small("script", *SCRIPTS, *more)


def style(*more: str) -> str:
    """The timeline's styles, and then those named, as one text."""
    return small("style", *STYLES, *more)


@cache
def small(element: str, *names: str) -> str:
    """What an HTML minifier makes of the files as the content of a `script` or `style` element."""
    strict = '"use strict";\n' if element == "script" else ""
    code = COMMENT.sub("", joined(*names))
    content = minify(f"<{element}>{strict}{code}</{element}>", minify_js=True, minify_css=True)
    return content.removeprefix(f"<{element}>").removesuffix(f"</{element}>")


def joined(*names: str) -> str:
    """The files as they are, one after the other."""
    return "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in names)


def document(name: str, title: str, *, head: str = "", allowed: str = "", **values: str) -> str:
    """A page in one file, whose policy runs no script but ours and loads nothing but what is `allowed`.

    Its body is `page/<name>.html` with `values` put in as they are, so they must be escaped; `title` need not be. Its
    script and its style are the timeline's and `page/<name>.js` and `.css`. `head` stands in its head, as it is.
    """
    code = script("page/theme.js", f"page/{name}.js")
    looks = style("page/standalone.css", f"page/{name}.css")
    assert not re.search("<!--|</?script|</style", code + looks, re.IGNORECASE), "our own files must not end their tags"
    policy = (
        f"default-src 'none'; script-src {fingerprint(code)}; style-src {fingerprint(looks)}; {allowed}"
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )
    return Template(joined("page/document.html")).substitute(
        policy=policy,
        version=VERSION,
        title=html.escape(title),
        head=head,
        style=looks,
        body=Template(joined(f"page/{name}.html")).substitute(version=VERSION, **values),
        script=code,
    )


def fingerprint(text: str) -> str:
    """How a page's policy names a script or a style that may stand in it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
