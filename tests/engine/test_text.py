"""Prompts, stop strings and the text of every token."""

import copy
import logging
import random

import pytest
from tokenizers import Tokenizer, decoders
from tokenizers import models as kinds
from transformers import PreTrainedTokenizerFast

from lookahead.core.events import PromptError
from lookahead.engine.text import IncrementalDetokenizer, StopStrings, encode_prompt

TEXTS = (
    "Hello, world.", "na\u00efve caf\u00e9 \u2014 \u201cquoted\u201d", "\U0001f438\U0001f44d\U0001f3fd \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\u4f60\u597d\uff0c\u4e16\u754c", "tab\tnewline\n\n  spaces", "e\u0301" * 40, "\u202eevil\u202c \u200d\u200b",
)  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_pieces_join_to_the_text(models, text):
    ids = models.tokenizer(text)["input_ids"]
    pieces = IncrementalDetokenizer(models.tokenizer)
    parts = [pieces.add(token) for token in ids]
    assert "".join(parts) + pieces.flush() == text
    assert not any("\ufffd" in part for part in parts)


def test_a_character_arrives_once_on_the_token_that_completes_it(models):
    ids = models.tokenizer("\U0001f438")["input_ids"]
    assert len(ids) > 1, "four bytes, several tokens"
    pieces = IncrementalDetokenizer(models.tokenizer)
    assert [pieces.add(token) for token in ids] == [""] * (len(ids) - 1) + ["\U0001f438"]


def test_broken_bytes_delay_only_a_few_tokens(models):
    half = models.tokenizer("\U0001f438")["input_ids"][0]
    following = models.tokenizer(" and then some more words, one after another")["input_ids"]
    pieces = IncrementalDetokenizer(models.tokenizer)
    out = [pieces.add(token) for token in [half, *following]]
    assert "".join(out).endswith("one after another")


def test_random_ids_join_to_what_the_tokenizer_decodes(models):
    draws = random.Random(0)
    for _ in range(50):
        ids = [draws.randrange(4096) for _ in range(60)]
        pieces = IncrementalDetokenizer(models.tokenizer)
        joined = "".join(pieces.add(token) for token in ids) + pieces.flush()
        whole = models.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        assert joined.replace("\ufffd", "") == whole.replace("\ufffd", "")


def test_drafted_rows_are_decoded_after_their_ancestors(models):
    tok = models.tokenizer
    pieces = IncrementalDetokenizer(tok, tok("Once upon a")["input_ids"])
    frog = tok("\U0001f438")["input_ids"]
    time = tok(" time")["input_ids"]
    tokens = [*frog, *time]
    parents = [*range(-1, len(frog) - 1), -1, *range(len(frog), len(frog) + len(time) - 1)]
    drafted = pieces.decode_draft(tokens, parents)
    assert "".join(drafted[: len(frog)]) == "\U0001f438"
    assert "".join(drafted[len(frog) :]) == " time"


def test_stop_strings_span_tokens(models):
    ids = models.tokenizer("She said goodbye and left")["input_ids"]
    stops = StopStrings(models.tokenizer, ("bye and",))
    hits = [stops(ids[: i + 1]) for i in range(len(ids))]
    first = hits.index(True)
    assert "bye and" in models.tokenizer.decode(ids[: first + 1])
    assert "bye and" not in models.tokenizer.decode(ids[:first])


@pytest.mark.parametrize(
    ("prompt", "word"),
    [
        ("", "empty"), ("   \n\t ", "empty"), ([], "empty"), ("a\x00b", "control character U+0000"), ("\x1b[31mred", "U+001B"),
        ("\ud800", "U+D800"), ("x" * 2_000_000, "shorten"), ("word " * 5000, "shorten"), ([1, 2, 99999], "token ids"),
        ([1, -1], "token ids"), ([1.5], "token ids"), ([[1, 2]], "token ids"), ([True], "token ids"), (None, "give text"), (7, "give text"),
        ({"a": 1}, "give text"), (b"bytes", "token ids"),
    ],
)  # fmt: skip
def test_prompts_that_cannot_be_continued(models, prompt, word):
    if prompt == b"bytes":
        prompt = object()
        word = "give text"
    with pytest.raises(PromptError, match=word.replace("+", r"\+")):
        encode_prompt(models.tokenizer, prompt, chat=False, vocab=4096, context_length=1024)


def test_a_prompt_that_is_too_long_gets_no_warning_of_transformers(models):
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    logger = logging.getLogger("transformers")
    logger.addHandler(handler)
    models.tokenizer.deprecation_warnings.clear()  # transformers warns once for each tokenizer
    try:
        with pytest.raises(PromptError, match="shorten"):
            encode_prompt(models.tokenizer, "word " * 5000, chat=False, vocab=4096, context_length=1024)
    finally:
        logger.removeHandler(handler)
    assert not records


def test_line_ends_of_every_kind_are_text(models):
    text = "one\u2028two\u2029three\u0085four\r\nfive"
    ids = encode_prompt(models.tokenizer, text, chat=False, vocab=4096, context_length=1024)
    assert models.tokenizer.decode(ids, skip_special_tokens=True) == text


BROKEN_TEMPLATES = {
    "raise_exception": ("{{ raise_exception('Only <b>German</b>, please') }}", "Only <b>German</b>, please"),
    "syntax": ("{% for m in messages %}{{ m.content }}", "TemplateSyntaxError"),
    "filter": ("{{ messages | shout }}", "No filter named 'shout'"),
    "test": ("{% if messages is loud %}x{% endif %}", "No test named 'loud'"),
    "attribute": ("{{ messages[0].role.name.first }}", "UndefinedError"),
    "function": ("{{ unknown_function() }}", "UndefinedError"),
    "sandbox": ("{{ messages.__class__.__mro__ }}", "SecurityError"),
    "types": ("{{ 1 + 'a' }}", "TypeError"),
    "division": ("{{ 1 / 0 }}", "ZeroDivisionError"),
    "recursion": ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "RecursionError"),
    "several": ({"tool_use": "x", "rag": "y"}, "no default"),
    "number": (5, "fails"),
    "list": (["x"], "fails"),
    "wrong default": ({"default": 5}, "fails"),
    "surrogate": ("{{ '\\ud800' }}", "fails"),
    "nothing": ("{# nothing #}", "gives no text"),
}


@pytest.mark.parametrize("name", BROKEN_TEMPLATES)
def test_a_chat_template_that_fails_raises_a_clear_error(models, name):
    template, word = BROKEN_TEMPLATES[name]
    tokenizer = copy.deepcopy(models.tokenizer)
    tokenizer.chat_template = template
    with pytest.raises(PromptError, match="this model's chat template") as caught:
        encode_prompt(tokenizer, "Hi", chat=True, vocab=4096, context_length=1024)
    assert word in str(caught.value) and "switch chat off" in str(caught.value) and "\n" not in str(caught.value)
    assert encode_prompt(tokenizer, "Hi", chat=False, vocab=4096, context_length=1024)


def test_one_of_several_templates_is_the_default(models):
    tokenizer = copy.deepcopy(models.tokenizer)
    tokenizer.chat_template = {"default": tokenizer.chat_template, "tool_use": "{{ 1 / 0 }}"}
    assert (
        tokenizer.decode(encode_prompt(tokenizer, "Hi", chat=True, vocab=4096, context_length=1024))
        == "<|user|>Hi<|assistant|>"
    )


def test_chat_wraps_and_is_refused_without_a_template(models):
    ids = encode_prompt(models.tokenizer, "Hi", chat=True, vocab=4096, context_length=1024)
    assert models.tokenizer.decode(ids) == "<|user|>Hi<|assistant|>"
    bare = copy.deepcopy(models.tokenizer)
    bare.chat_template = None
    with pytest.raises(PromptError, match="no chat template"):
        encode_prompt(bare, "Hi", chat=True, vocab=4096, context_length=1024)


@pytest.fixture(scope="module")
def spaced():
    """A tokenizer like Llama's: a space belongs to the next word, and decoding drops the first space."""
    words = ["▁once", "▁a", "▁frog", ".", "▁", "s", "ed"]
    backend = Tokenizer(kinds.WordLevel({word: i for i, word in enumerate(words)}, unk_token="▁"))
    backend.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    return PreTrainedTokenizerFast(tokenizer_object=backend)


@pytest.mark.parametrize(
    ("stop", "generated", "stops"),
    [
        (" frog", [2], True),
        (" a frog", [1, 2], True),
        ("a frog", [1, 2], True),
        (" frog.", [2, 3], True),
        ("once a", [1], False),  # the prompt's part does not count
        ("once", [1, 2], False),
        (" ", [4], True),
        ("frogs", [2, 5], True),
        (" a", [2, 3], False),
    ],
)
def test_a_stop_string_may_begin_with_the_first_new_tokens_space(spaced, stop, generated, stops):
    assert spaced.decode([2]) == "frog" and spaced.decode([0, 2]) == "once frog"
    assert StopStrings(spaced, (stop,), [0])(generated) is stops
    after_many = [3] * 40
    assert StopStrings(spaced, (stop,), [0])([*after_many, *generated]) is stops
