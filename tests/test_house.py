"""Checks of the code's structure: packages, file sizes, docstrings and names. `lint-imports` checks the imports."""

import ast
import inspect
import re
import subprocess
import symtable
import sys
from pathlib import Path

import pytest
from conftest import ROOT

import lookahead
from lookahead.drafting import DRAFTERS

PACKAGE = ROOT / "lookahead"
FILES = sorted([*PACKAGE.rglob("*.py"), *(ROOT / "training").rglob("*.py")])
ASSETS = ROOT / "assets"
PAGE = sorted(path for path in ASSETS.rglob("*") if path.suffix in (".js", ".css"))


@pytest.mark.parametrize("path", [*FILES, ROOT / "app.py", *PAGE], ids=lambda p: p.name)
def test_files_stay_readable(path):
    text = path.read_text(encoding="utf-8")
    if path in PAGE:
        assert max(map(len, text.splitlines())) <= 120, "the formatter breaks neither strings nor comments"
    if path.suffix == ".py":
        tree = ast.parse(text)
        assert ast.get_docstring(tree), "the module has no docstring"


def test_packages_are_folders_with_docstrings():
    loose = {path.name for path in PACKAGE.glob("*.py")}
    assert loose == {"__init__.py", "__main__.py"}
    assert {path.name for path in ASSETS.iterdir() if path.is_file()} == {"card.png", "race.webp"}
    packages = [path for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"]
    assert len(packages) <= 12
    for package in packages:
        assert ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))), package.name


ENTRIES = (
    "page/app",
    "page/ballot",
    "page/replay",
    "page/teaching",
    "page/waiting",
)  # each has a script and a style sheet
IMPORTED = re.compile(r'(?:from|import) "(\S+)";$', re.MULTILINE)


def test_the_page_imports_all_its_files():
    """An entry imports every script and style sheet, directly or indirectly."""
    left = [
        ASSETS / "page/first.js",
        ASSETS / "page/frame.css",
        *(ASSETS / f"{name}{kind}" for name in ENTRIES for kind in (".js", ".css")),
    ]
    reached = set()
    while left:
        path = left.pop()
        reached.add(path)
        left += [(path.parent / name).resolve() for name in IMPORTED.findall(path.read_text(encoding="utf-8"))]
    assert reached == {*PAGE}


def test_the_loop_fits_one_screen_and_a_drafter_a_short_file():
    source = (PACKAGE / "engine" / "decode.py").read_text(encoding="utf-8")
    loop = next(n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef) and n.name == "decode")
    assert loop.end_lineno - loop.lineno < 60
    for drafter in DRAFTERS.values():
        assert Path(inspect.getfile(drafter)).read_text(encoding="utf-8").count("\n") <= 120


def test_four_files_explain_speculative_decoding():
    names = ("engine/decode.py", "model/reference.py", "drafting/draft.py", "core/accept.py")
    assert sum(len((PACKAGE / name).read_text(encoding="utf-8").splitlines()) for name in names) <= 600
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert all(f"](lookahead/{name})" in text for name in names)


@pytest.mark.parametrize("module", ["engine.decode", "drafting.ngram"])
def test_the_engine_is_light_to_import(module):
    code = f"import sys, lookahead.{module}; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = result.stdout.split()
    assert not {"numba", "llvmlite", "transformers", "pydantic"} & {*loaded}
    if module == "engine.decode":
        assert sum(name.partition(".")[0] == "lookahead" for name in loaded) <= 20


def test_public_names_exist():
    assert sorted(lookahead.__all__) == sorted(set(lookahead.__all__))
    for name in lookahead.__all__:
        assert hasattr(lookahead, name)
        assert name == "METHODS" or name == "__version__" or getattr(lookahead, name).__doc__, name


def test_public_functions_have_docstrings():
    for path in FILES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
                assert ast.get_docstring(node), f"{path.name}: {node.name}"


def test_one_version():
    from lookahead.core.version import VERSION

    assert lookahead.__version__ == VERSION


# Files that may format numbers: CSV for programs, the width of a bar, and the formatter.
UNFORMATTED = {PACKAGE / "trace" / "export.py", PACKAGE / "page" / "parts.py", PACKAGE / "core" / "numbers.py"}


def test_numbers_are_formatted_by_core_numbers():
    for path in set(FILES) - UNFORMATTED:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FormattedValue) and node.format_spec:
                spec = "".join(str(part.value) for part in node.format_spec.values if isinstance(part, ast.Constant))
                assert not re.search(r"[,.]\d|,$|[fe%]$", spec), f"{path}, line {node.lineno}: use core/numbers.py"


FILLERS = {"held", "found", "told", "own", "asked", "made", "said", "odd", "theirs", "ours", "mine"}


@pytest.mark.parametrize("path", FILES, ids=str)
def test_names_describe_values(path):
    names = set(_names(symtable.symtable(path.read_text(encoding="utf-8"), str(path), "exec")))
    # "held_out" is a term of the field.
    parts = {name: set(name.lower().replace("held_out", "").split("_")) for name in names}
    assert not [name for name in names if FILLERS & parts[name]]


def _names(table):
    """Yield the names of functions, parameters and variables. Class fields are skipped, because they may be in saved files."""
    yield table.get_name()
    if table.get_type() != "class":
        yield from (
            symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_parameter()
        )
    for scope in table.get_children():
        yield from _names(scope)
