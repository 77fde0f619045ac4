"""The page's scripts and styles, each entry bundled with what it imports, and the pages that are one file.

The scripts in `assets/` are ES modules, the styles import each other, and neither needs a build step. A browser gets an
entry and all that it imports as one text, because a replay that is opened from a disk cannot import files.
"""

import base64
import hashlib
import html
import posixpath
import re
from functools import cache
from string import Template

from minify_html import minify

from ..core.folders import ASSETS
from ..core.version import VERSION

# The forms of import and export that the modules use: `bundle` refuses all others.
IMPORT = re.compile(r'^import (?:(?P<bindings>\{[^}]*\}|\* as \w+) from )?"(?P<path>\.{1,2}/[\w/.]+)";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:const|class|(?:async )?function) (\w+))", re.MULTILINE)
OTHER_FORM = re.compile(r"^(?:import|export)\b.*|\bimport(?:\(|\.meta).*", re.MULTILINE)
STYLE_IMPORT = re.compile(r'^@import "(\S+)";$', re.MULTILINE)

# A comment on lines of its own. The minifier keeps one that precedes a declaration.
COMMENT = re.compile(r"^ */\*.*?\*/\n", re.MULTILINE | re.DOTALL)


@cache
def script(name: str) -> str:
    """Return the script `name` and all modules that it imports as one small script."""
    return small_script(bundle(_read(name), name))


@cache
def style(name: str) -> str:
    """Return the style sheet `name` and all that it imports as one small style sheet."""
    return _small("style", style_sheet(name))


def bundle(source: str, name: str = "entry.js") -> str:
    """Return one script of the module `source`, which has that name in `assets/`, and of all modules that it imports.

    Each module becomes a function that runs once, after the modules that it imports, and returns its exports. Raises
    `AssertionError` if modules import each other, and for a form of import or export other than
    `import {a, b as c} from "./x.js"`, `import * as x from "./x.js"`, `import "./x.js"` and `export` before a `const`,
    `class` or `function`.
    """
    modules: dict[str, str] = {}  # in the order in which they run

    def function(source: str, *names: str) -> str:
        """The module as a call whose value is its exports. `names` are those that import it, and at last its own."""

        def imported(match: re.Match[str]) -> str:
            name = _resolved(names[-1], match["path"])
            assert name not in names, f"modules import each other: {' -> '.join((*names, name))}"
            if name not in modules:
                modules[name] = function(_read(name), *names, name)
            bindings = (match["bindings"] or "").removeprefix("* as ").replace(" as ", ": ")
            return f"const {bindings} = {_variable(name)};" if bindings else ""

        code = EXPORT.sub("", IMPORT.sub(imported, source))
        assert not (other := OTHER_FORM.search(code)), f"{names[-1]}: bundle() does not allow {other[0]!r}"
        return f"(() => {{\n{code}\nreturn {{{', '.join(EXPORT.findall(source))}}};\n}})()"

    entry = function(source, name)
    declarations = "".join(f"const {_variable(name)} = {code};\n" for name, code in modules.items())
    return f"(() => {{\n{declarations}{entry};\n}})();"


def style_sheet(name: str) -> str:
    """Return a style sheet with those that it imports in place of its imports."""
    return STYLE_IMPORT.sub(lambda match: style_sheet(_resolved(name, match[1])), _read(name))


def small_script(code: str) -> str:
    """Return a script without comments and blanks, in strict mode, as modules are."""
    return f'"use strict";{_small("script", code)}'  # the minifier removes the directive


def _small(element: str, code: str) -> str:
    content = minify(f"<{element}>{COMMENT.sub('', code)}</{element}>", minify_js=True, minify_css=True)
    return content.removeprefix(f"<{element}>").removesuffix(f"</{element}>")


def _variable(name: str) -> str:
    return re.sub(r"\W", "_", name)


def _resolved(name: str, path: str) -> str:
    """Return the name of the file that the file `name` imports as `path`."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), path))


def _read(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def document(name: str, title: str, *, head: str = "", allowed: str = "", **values: str) -> str:
    """A page in one file, whose policy runs no script but ours and loads nothing but what is `allowed`.

    Its body is `page/<name>.html` with `values` put in as they are, so they must be escaped; `title` need not be. Its
    script and its style are `page/<name>.js` and `.css`. `head` is added to its head as it is.
    """
    code = script(f"page/{name}.js")
    looks = style(f"page/{name}.css")
    assert not re.search("<!--|</?script|</style", code + looks, re.IGNORECASE), "our own files must not end their tags"
    policy = (
        f"default-src 'none'; script-src {fingerprint(code)}; style-src {fingerprint(looks)}; {allowed}"
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )
    return Template(_read("page/document.html")).substitute(
        policy=policy,
        version=VERSION,
        title=html.escape(title),
        head=head,
        style=looks,
        body=Template(_read(f"page/{name}.html")).substitute(version=VERSION, **values),
        script=code,
    )


def fingerprint(text: str) -> str:
    """Return the name of a script or a style in a page's policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
