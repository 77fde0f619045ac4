"""A model whose chat template fails: a sentence on the page, on the command line and from the API, and no traceback."""

import copy
import html
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

import lookahead
from lookahead import __main__ as command_line
from lookahead.measure import commands
from lookahead.page.lab.decision import HERE
from lookahead.page.page import build
from lookahead.server import form
from lookahead.server.limits import Limits, LogSettings
from lookahead.server.state import ServerState

MESSAGE = "this model's chat template fails (TemplateError: Only German, please); switch chat off"


@pytest.fixture(scope="module")
def failing(models):
    """The bundled family with a template that raises."""
    tokenizer = copy.deepcopy(models.tokenizer)
    tokenizer.chat_template = "{{ raise_exception('Only German, please') }}"
    return replace(models, tokenizer=tokenizer)


@pytest.fixture(scope="module")
def handler(failing):
    """Return the page's handler with a name, as Gradio calls it."""
    page = build(ServerState(failing, Limits()), LogSettings())
    request = SimpleNamespace(session_hash="a", headers={}, query_params={})

    def named(name):
        (function,) = (entry.fn for entry in page.fns.values() if entry.api_name == name)
        return lambda *values: list(function(request, *values))

    return named


def test_a_race_ends_with_a_sentence_and_the_next_one_runs(handler):
    run, fields = handler("run"), {**form.DEFAULTS, "max_new_tokens": 4}
    (batch,) = run("Hi", "draft", [], *{**fields, "chat": True}.values())
    assert MESSAGE in json.loads(batch)["error"]
    assert json.loads(run("Hi", "draft", [], *fields.values())[-1])["end"], "the buttons work as before"


def test_the_lab_ends_with_a_sentence(handler):
    """The visitor's prompts as chat. The arguments of `Find out` are dark, prompts, place, budget and chat."""
    rows = handler("measured_for")(False, "Hi", HERE, "15 seconds", True)
    assert MESSAGE in html.unescape(rows[-1][0])


def test_the_command_line_prints_one_line(failing, monkeypatch, capsys):
    monkeypatch.setattr(commands, "_load", lambda arguments: failing)
    assert command_line.main(["run", "Hi", "--chat", "--max-new-tokens", "4"]) == 2
    output = capsys.readouterr().err
    assert MESSAGE in output and output.count("\n") == 1
    assert command_line.main(["run", "Hi", "--max-new-tokens", "4"]) == 0


def test_the_library_raises_our_error(failing):
    with pytest.raises(lookahead.LookaheadError, match="Only German"):
        lookahead.race(failing, "Hi", ["naive", "draft"], chat=True)
