"""The architecture, read from the code: imports point one way, files stay small, names are real."""

import ast

import pytest
from conftest import ROOT

import lookahead

PACKAGE = ROOT / "lookahead"
# What each module may import from its own package. A module not named here may import any of LOW and MIDDLE.
LAYERS = [
    {"events", "tree", "theory", "automaton", "verdict", "version", "worker", "assets", "limits", "room", "suggested"},
    {"fetch", "cache", "attention", "llama", "accept", "pace"},
    {"quick"},
    {"lm", "table"},
    {"cost", "text"},
    {"skip"},
    {"proposers"},
    {"decode", "models"},
    {"known"},
    {"hub", "peers", "trace", "log", "export"},
    {"methods"},
    {"lane"},
    {"race", "charts", "scenarios", "timing"},
    {"bench", "terminal", "train", "recordings", "lessons"},
    {"lab"},
    {"ui", "__main__", "__init__"},
]
RANK = {name: i for i, names in enumerate(LAYERS) for name in names}
ONLY_IN = {
    "gradio": {"ui"},
    "starlette": {"ui"},
    "prometheus_client": {"ui"},
    "transformers": {
        "attention",
        "cache",
        "hub",
        "known",
        "llama",
        "lm",
        "models",
        "peers",
        "quick",
        "skip",
        "text",
        "train",
        "__main__",
    },
    "huggingface_hub": {"fetch", "hub", "known"},
    "httpx2": {"fetch"},
    "psutil": {"room"},
    "greenlet": {"peers"},
    "pydantic": {"trace"},
    "rich": {"terminal"},
    "minify_html": {"assets"},
    "markdown_it": {"ui"},
}
FILES = sorted(PACKAGE.rglob("*.py"))


def home(path):
    """The module, or the subpackage, that a file belongs to."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[0]


def imports(path):
    """(own modules, foreign packages) that a file imports, anywhere in it."""
    own, foreign = set(), set()
    depth = len(path.relative_to(PACKAGE).parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            foreign |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0:
                foreign.add(node.module.split(".")[0])
            elif node.level == depth:  # relative to the package itself
                own |= {node.module.split(".")[0]} if node.module else {alias.name for alias in node.names}
    return own, foreign


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    own, foreign = imports(path)
    me = home(path)
    assert me in RANK, "a new module needs its place in LAYERS"
    for other in own - {me}:
        assert RANK[other] <= RANK[me], f"{me} must not import {other}"
    for package, allowed in ONLY_IN.items():
        assert package not in foreign or me in allowed, f"{me} must not know {package}"
    assert "plotly" not in foreign or path.stem == "charts", "only files named charts know Plotly"


def test_proposers_never_import_the_loop():
    for path in (PACKAGE / "proposers").glob("*.py"):
        own, _ = imports(path)
        assert not own & {"decode", "lane", "race", "models", "methods"}


def test_events_tree_and_theory_cost_nothing_to_import():
    for name in ("events", "tree", "theory"):
        _, foreign = imports(PACKAGE / f"{name}.py")
        assert not foreign & {"torch", "transformers", "numpy", "pydantic"}


@pytest.mark.parametrize(
    "path", [*FILES, ROOT / "app.py", *sorted((ROOT / "assets").glob("*.js"))], ids=lambda p: p.name
)
def test_files_stay_readable(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 400
    if path.suffix == ".py":
        tree = ast.parse(text)
        assert ast.get_docstring(tree), "a module says what it is"


def test_the_loop_fits_one_screen_and_a_proposer_a_short_file():
    source = (PACKAGE / "decode.py").read_text(encoding="utf-8")
    loop = next(n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef) and n.name == "decode")
    assert loop.end_lineno - loop.lineno < 60
    for path in (PACKAGE / "proposers").glob("*.py"):
        assert path.read_text(encoding="utf-8").count("\n") <= 120


def test_all_is_true():
    assert sorted(lookahead.__all__) == sorted(set(lookahead.__all__))
    for name in lookahead.__all__:
        assert hasattr(lookahead, name)
        assert name == "METHODS" or name == "__version__" or getattr(lookahead, name).__doc__, name


def test_public_functions_have_docstrings():
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, (ast.FunctionDef, ast.ClassDef))
                and not node.name.startswith("_")
                and node in _top(path)
            ):
                assert ast.get_docstring(node), f"{path.name}: {node.name}"


def _top(path):
    return ast.parse(path.read_text(encoding="utf-8")).body


def test_one_version():
    from lookahead.version import VERSION

    assert lookahead.__version__ == VERSION
