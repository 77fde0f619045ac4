"""A schema compiled for a family's tokenizer with llguidance: masks of allowed tokens, and forced characters.

llguidance was chosen because it reports forced tokens, needs no other package, and has one wheel for all versions of Python.
xgrammar computes a mask in less time (5 instead of 50 microseconds), but it needs Triton and has no wheel for Intel Macs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from ..core.events import SettingsError
from ..core.numbers import counted
from ..core.schema import CHOICES, JSON, Schema
from ..core.wording import short_error

if TYPE_CHECKING:
    from transformers.tokenization_utils_base import PreTrainedTokenizerBase

# As `json.dumps` writes, because a grammar that allows any white space forces almost no tokens.
STYLE: Any = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
# Compilation and each mask end after about 50 ms. A state has 2 kB.
LIMITS = LLParserLimits(max_lexer_states=50_000, verbose_errors=False)
RULES = (  # parts of llguidance's messages, and the same in plain words
    (r"Unimplemented keys: \[(.*)\]", "the keywords {} are not supported; remove them."),
    (
        r"Resource '(.*?)' is not present",
        "$ref must name a part of this schema, such as #/$defs/name; {} is elsewhere.",
    ),
    (r"recursion limit", "it is nested too deeply."),
    (r"Unsatisfiable schema: (.*)", "no text satisfies it: {}."),
    (r"NoExtension", "no text satisfies it."),
    (r"Too many items.*ff_tokens", "it forces a text without end, such as an object that must contain itself."),
    (r"[Tt]oo (?:large|complex|big|many)|limit|fuel", "it is too large to compile; write a smaller schema."),
    (r"regex parse error:\s*\n(?:.*\n)*?error: (.*)", "the regular expression is invalid: {}."),
)


class Matcher:
    """A schema for one text (`core.masks.Grammar`). It follows the text, and is rolled back to the tokens that two texts share."""

    def __init__(self, matcher: LLMatcher, vocabulary: LLTokenizer, schema: str):
        self._matcher, self._vocabulary, self._schema = matcher, vocabulary, schema
        self._read: list[int] = []  # the tokens that the matcher has read

    def allowed(self, tokens: Sequence[int]) -> bytes | None:
        if not self._follow(tokens):
            return None
        bits = self._matcher.compute_bitmask()
        self._check()
        return bits

    def forced(self, tokens: Sequence[int]) -> int | None:
        must_follow = self._matcher.compute_ff_bytes() if self._follow(tokens) else b""
        self._check()
        return _first_token(self._vocabulary, must_follow) if must_follow else None

    def satisfied(self, tokens: Sequence[int]) -> bool:
        ended = len(tokens) > 0 and tokens[-1] in self._vocabulary.eos_tokens
        return self._follow(tokens[: len(tokens) - ended]) and self._matcher.is_accepting()

    def _follow(self, tokens: Sequence[int]) -> bool:
        """Read `tokens`, after a rollback to the tokens that they share with the last text. Return whether all are allowed."""
        tokens = list(tokens)
        shared = min(len(tokens), len(self._read))
        while tokens[:shared] != self._read[:shared]:
            shared -= 1
        if shared < len(self._read):
            self._matcher.rollback(len(self._read) - shared)
        new = tokens[shared:]
        read = 0 if set(new) & {*self._vocabulary.eos_tokens} else self._matcher.try_consume_tokens(new)
        self._read = tokens[: shared + read]
        self._check()
        return len(self._read) == len(tokens)

    def _check(self) -> None:
        """Raise `SettingsError` if the matcher has failed. After that it computes nothing more."""
        if self._matcher.is_error():
            hint = in_plain_words(self._matcher.get_error())
            raise SettingsError("schema", self._schema, f"after {counted(len(self._read), 'token')}: {hint}")


def compiled(text: str, tokenizer: PreTrainedTokenizerBase, vocab: int, eos: frozenset[int]) -> Matcher:
    """Return a schema for a new text of a model. Raises `SettingsError` for an invalid schema."""
    if not eos:
        raise SettingsError("schema", text, "this model has no token that ends a text; choose another model.")
    vocabulary = _vocabulary(tokenizer, vocab, eos)
    try:
        matcher = LLMatcher(vocabulary, _source(Schema.from_text(text)), log_level=0, limits=LIMITS)
    except ValueError as error:
        raise SettingsError("schema", text, in_plain_words(str(error))) from error
    trial = matcher.deep_copy()  # its first step fails if no text satisfies the schema, or if a text cannot end
    trial.compute_bitmask()
    trial.try_consume_tokens(trial.compute_ff_tokens()[:1])
    if error := matcher.get_error() or trial.get_error():
        raise SettingsError("schema", text, in_plain_words(error))
    return Matcher(matcher, vocabulary, text)


def _source(schema: Schema) -> str:
    """Return the schema as a grammar of llguidance."""
    if schema.kind == JSON:
        return LLMatcher.grammar_from_json_schema(schema.source, overrides=STYLE)
    if schema.kind == CHOICES:
        quoted = [json.dumps(choice, ensure_ascii=False) for choice in schema.choices]
        return LLMatcher.grammar_from_lark(f"start: {' | '.join(quoted)}")
    return LLMatcher.grammar_from_regex(schema.source)


@lru_cache(maxsize=4)  # of SmolLM2: 0.3 s
def _vocabulary(tokenizer: PreTrainedTokenizerBase, vocab: int, eos: frozenset[int]) -> LLTokenizer:
    """Return llguidance's form of a tokenizer. Raises `SettingsError` if it cannot read it."""
    ids = sorted(eos, key=lambda token: token != tokenizer.eos_token_id)
    try:
        backend: Any = tokenizer
        text = backend.backend_tokenizer.to_str()
        return LLTokenizer(text, n_vocab=max(vocab, len(tokenizer)), eos_token=ids)
    except (AttributeError, ValueError) as error:
        hint = f"this model's tokenizer cannot be used with a schema ({short_error(error)}); choose another model."
        raise SettingsError("schema", "set", hint) from error


@lru_cache(maxsize=1024)  # the same keys and punctuation are forced again, and the tokenizer takes 0.2 ms
def _first_token(vocabulary: LLTokenizer, data: bytes) -> int:
    return vocabulary.tokenize_bytes(data)[0]


def in_plain_words(message: str) -> str:
    """Return llguidance's message as a hint."""
    for pattern, words in RULES:
        if match := re.search(pattern, message):
            return words.format(*match.groups())
    return f"the schema is invalid: {message.splitlines()[0].rstrip('.')}."
