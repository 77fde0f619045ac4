"""A lesson's Markdown as HTML: sections that a printer can choose from, tables that scroll by themselves, links of this page.

The lessons are files of this project, not what somebody typed; a test holds where their links may lead.
Knows Markdown. It does not know widgets.
"""

from __future__ import annotations

import re

from markdown_it import MarkdownIt

READER = MarkdownIt("commonmark").enable("table")
LESSON = re.compile(r'href="([\w-]+)\.md"')


def to_html(markdown: str) -> str:
    """HTML with one `section` for each second heading; links to lesson files become queries of this page."""
    text = LESSON.sub(r'href="?lesson=\1"', READER.render(markdown))
    text = text.replace(
        "<table>", '<div class="la-tablebox" tabindex="0" role="region" aria-label="table"><table class="la-table">'
    )
    text = text.replace("</table>", "</table></div>").replace(
        "<pre>", '<pre tabindex="0" role="region" aria-label="code">'
    )
    before, *sections = re.split(r"(?=<h2>)", text)
    return before + "".join(f"<section>{section}</section>" for section in sections)
