"""Bundle the page's scripts and styles, and build single-file pages.

Scripts in `assets/` are ES modules, styles import each other, and neither needs a build step. A browser gets an entry and
all its imports as one text. So a replay can be opened from a disk, where modules cannot be imported.
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

# The forms of import and export that the modules use: `bundle` raises an error for all others.
IMPORT = re.compile(r'^import (?:(?P<bindings>\{[^}]*\}|\* as \w+) from )?"(?P<path>\.{1,2}/[\w/.]+)";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:const|class|(?:async )?function) (\w+))", re.MULTILINE)
OTHER_FORM = re.compile(r"^(?:import|export)\b.*|\bimport(?:\(|\.meta).*", re.MULTILINE)
STYLE_IMPORT = re.compile(r'^@import "(\S+)";$', re.MULTILINE)

# A comment on separate lines. The minifier keeps a comment before a declaration.
COMMENT = re.compile(r"^ */\*.*?\*/\n", re.MULTILINE | re.DOTALL)


@cache
def script(name: str) -> str:
    """Return the script `name` and all modules that it imports as one minified script."""
    return minified_script(bundle(_read(name), name))


@cache
def style(name: str) -> str:
    """Return the style sheet `name` and all sheets that it imports as one minified sheet."""
    return _minified("style", style_sheet(name))


def bundle(source: str, name: str = "entry.js") -> str:
    """Return one script with the module `source` and all modules that it imports. `name` is its path in `assets/`.

    Each module becomes a function that runs once, after its imports, and returns its exports. The allowed forms are
    `import {a, b as c} from "./x.js"`, `import * as x from "./x.js"`, `import "./x.js"` and `export` before a `const`,
    `class` or `function`. Raises `AssertionError` for other forms, and if modules import each other.
    """
    modules: dict[str, str] = {}  # in the order in which they run

    def function(source: str, *names: str) -> str:
        """Return the module as a function call that returns its exports. `names` are its importers and, last, its name."""

        def replace_import(match: re.Match[str]) -> str:
            name = _resolved(names[-1], match["path"])
            assert name not in names, f"modules import each other: {' -> '.join((*names, name))}"
            if name not in modules:
                modules[name] = function(_read(name), *names, name)
            bindings = (match["bindings"] or "").removeprefix("* as ").replace(" as ", ": ")
            return f"const {bindings} = {_variable(name)};" if bindings else ""

        code = EXPORT.sub("", IMPORT.sub(replace_import, source))
        assert not (other := OTHER_FORM.search(code)), f"{names[-1]}: bundle() does not allow {other[0]!r}"
        return f"(() => {{\n{code}\nreturn {{{', '.join(EXPORT.findall(source))}}};\n}})()"

    entry = function(source, name)
    declarations = "".join(f"const {_variable(name)} = {code};\n" for name, code in modules.items())
    return f"(() => {{\n{declarations}{entry};\n}})();"


def style_sheet(name: str) -> str:
    """Return a style sheet with each import replaced by the imported sheet."""
    return STYLE_IMPORT.sub(lambda match: style_sheet(_resolved(name, match[1])), _read(name))


def minified_script(code: str) -> str:
    """Return a script in strict mode, without comments and unnecessary whitespace."""
    return f'"use strict";{_minified("script", code)}'  # the minifier removes the directive


def _minified(element: str, code: str) -> str:
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
    """Return a page in one file. Its policy allows only its script and style, and the sources in `allowed`.

    The body is `page/<name>.html` with `values` inserted unescaped, so the caller escapes them. `title` is escaped here.
    The script and the style are `page/<name>.js` and `.css`. `head` is inserted unescaped into the head.
    """
    code = script(f"page/{name}.js")
    styles = style(f"page/{name}.css")
    assert not re.search("<!--|</?script|</style", code + styles, re.IGNORECASE), "code would close its element"
    policy = (
        f"default-src 'none'; script-src {csp_hash(code)}; style-src {csp_hash(styles)}; {allowed}"
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )
    body = Template(_read(f"page/{name}.html")).substitute(version=VERSION, **values)
    return Template(_read("page/document.html")).substitute(
        policy=policy, version=VERSION, title=html.escape(title), head=head, style=styles, body=body, script=code
    )


def csp_hash(text: str) -> str:
    """Return the hash by which a Content Security Policy allows a script or a style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
