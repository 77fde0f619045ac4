"""The page's palette, and the WCAG 2 contrast of two colors in the form #rrggbb."""

from __future__ import annotations

import re

from lookahead.trace import assets


def palette(block):
    """Return the colors by name in a block of palette.css, ":root" or ".dark"."""
    css = assets.style_sheet("page/palette.css")
    body = css[css.index(f"\n{block} {{") :]
    return dict(re.findall(r"--la-([\w-]+): (#[0-9a-f]{6})", body[: body.index("}")]))


def luminance(color):
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)
