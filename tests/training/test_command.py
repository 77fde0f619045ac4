"""`python -m lookahead train`: bad arguments, another current directory, and no checkout of the repository."""

import os
import subprocess
import sys

import pytest
from conftest import POCKET, ROOT

from lookahead import __main__ as command_line
from lookahead.__main__ import main

pytestmark = pytest.mark.models


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--corpus", "nowhere"], "no such folder"),
        (["--corpus", "nowhere", "--minutes", "-1"], "give a number above 0"),
        (["--corpus", "nowhere", "--tokens", "0"], "give a number above 0"),
        (["--only", "draft", "--start-from", str(POCKET)], "only heads can be trained without one"),
    ],
)
def test_bad_arguments_exit_2(tmp_path, capsys, arguments, words):
    assert main(["train", "--out", str(tmp_path), *arguments]) == 2
    assert words in capsys.readouterr().err


def test_an_installed_package_asks_for_a_checkout(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command_line, "CHECKOUT", tmp_path)
    assert main(["train", "--corpus", "x", "--out", str(tmp_path)]) == 2
    seen = capsys.readouterr()
    assert "it needs a checkout of the repository" in seen.err and not seen.out


def test_the_current_directory_may_have_a_training_folder_of_its_own(tmp_path):
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "__init__.py").write_text("raise SystemExit('not this one')")
    command = [sys.executable, "-m", "lookahead", "train", "--out", "x", "--only", "tail"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 2 and "choose among target, draft" in done.stderr, done.stderr
