"""The documents: links resolve, the README is short, commands and Python examples work."""

from __future__ import annotations

import re
import shlex

import pytest
from conftest import ROOT

import lookahead
from lookahead import __main__ as main

DOCUMENTS = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
DOCUMENTS += sorted((ROOT / "docs").glob("*.md"))
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def anchors(path):
    """Return the anchors of a document's headings, in GitHub's form."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands() -> list:
    """Return every `lookahead` command in the documents, with continued lines joined."""
    parameters = []
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8").replace("\\\n", " ")
        for line in re.findall(r"^    (?:\S*python -m )?lookahead (.+)$", text, re.M):
            parameters.append(pytest.param(line, id=f"{path.name}: {line}"))
    return parameters


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_relative_link_resolves(path):
    for link in LINK.findall(path.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_readme_is_one_page():
    assert len((ROOT / "README.md").read_bytes()) <= 8000


@pytest.mark.parametrize("line", commands())
def test_every_command_is_valid(line):
    arguments = main._parser().parse_args(shlex.split(line, comments=True))
    assert arguments.command


@pytest.mark.models
@pytest.mark.parametrize("name", ["README.md", "docs/python.md"])
def test_the_python_examples_run(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in BLOCK.findall((ROOT / name).read_text(encoding="utf-8")):
        exec(block, names)
    assert "tokens per pass" in capsys.readouterr().out and names["lookahead"] is lookahead
