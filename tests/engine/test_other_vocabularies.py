"""Pairs whose tokenizers differ: the draft model drafts text, or tokens that both models have."""

from __future__ import annotations

import itertools
import os
from functools import cache
from pathlib import Path

import pytest
from conftest import POCKET, ROOT, daily, emitted, finished, tiny
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import lookahead
from lookahead import MethodError
from lookahead.engine.text import BROKEN
from lookahead.family import hub, sources
from lookahead.trace.trace import Trace

pytestmark = pytest.mark.models

SMOL = sources.named("smol")
needs_smol = pytest.mark.skipif(
    not (SMOL.gguf or SMOL.local_copy()) and not os.environ.get("CI"), reason="requirements-smol.txt is not installed"
)
WORDS = ("frog", "Lily", "dragon", "moon", "robot", "\u96ea", "old king", "x1", "caf\u00e9", "\U0001f438\U0001f680")
KINDS = {
    "English": "Once upon a time there was a {0} who",
    "code": "def {0}(a, b):\n    return",
    "characters": "I like \U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 and {0}\u3001\u65e5\u672c\u8a9e\u306e",
    "JSON": '{{"name": "{0}", "age": 7}}, {{"name":',
    "digits": "{0} 3.14159, 2024-12-01, 1 2 3 4 5",
}
PROMPTS = [kind.format(word) for word in WORDS for kind in KINDS.values()]
RULES = {"greedy": {}, "coupled": {"temperature": 0.8, "seed": 3}}


def byte_level():
    """A byte-level tokenizer, as Qwen's."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet, special = pre_tokenizers.ByteLevel.alphabet(), ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    return tokenizer, trainers.BpeTrainer(
        vocab_size=1000, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )


def with_spaces():
    """A tokenizer that adds a leading space and has tokens of single bytes, as Llama 2's."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    parts = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(parts)
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    return tokenizer, trainers.BpeTrainer(vocab_size=1000, special_tokens=special, show_progress=False)


def normalizing():
    """A tokenizer that changes the text and has unknown characters, as T5's."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer, tokenizer.normalizer = pre_tokenizers.Metaspace(), normalizers.NFKC()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<unk>", "<s>", "</s>"]
    return tokenizer, trainers.UnigramTrainer(
        vocab_size=1000, special_tokens=special, unk_token="<unk>", show_progress=False
    )


def qwen(folder: Path, kind=byte_level) -> str:
    """Save a tiny random Qwen3 with a tokenizer that is trained on this repository's documentation; return its folder."""
    from transformers.tokenization_utils_tokenizers import TokenizersBackend

    tokenizer, trainer = kind()
    tokenizer.train_from_iterator([path.read_text("utf-8") for path in sorted(ROOT.glob("docs/*.md"))], trainer)
    saved = tiny("qwen3", folder, vocab_size=1024, max_position_embeddings=512)
    end = "<|endoftext|>" if kind is byte_level else "</s>"
    TokenizersBackend(tokenizer_object=tokenizer, eos_token=end).save_pretrained(folder)
    return saved


def smol() -> str:
    """Return the folder of SmolLM2."""
    hub.fetch("smol")
    return str(SMOL.local_copy()[1])


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    """A function that loads the bundled draft model for a target with a kind of tokenizer."""
    return cache(lambda kind: lookahead.load(f"{qwen(tmp_path_factory.mktemp('qwen'), kind)}+{POCKET / 'draft'}"))


@pytest.fixture(params=[byte_level, with_spaces, normalizing], ids=lambda kind: kind.__name__)
def pair(request, load):
    return load(request.param)


@pytest.fixture
def plain(load):
    """The pair with a byte-level tokenizer."""
    return load(byte_level)


def differing(pair, prompts, methods=("draft", "tree", "hybrid"), **options):
    """Return the races that differ from naive, and the numbers of own tokens: all, and those that were translated."""
    out, own, used = [], 0, 0
    methods = itertools.cycle(methods)
    for prompt, rule in itertools.product(prompts, RULES):
        settings = {"details": False, **RULES[rule], **options}
        naive = emitted(lookahead.decode(pair, prompt, "naive", **settings))
        steps = list(lookahead.decode(pair, prompt, method := next(methods), **settings))
        if emitted(steps) != naive:
            out.append((prompt, rule, method))
        for translation in filter(None, (step.draft.translation for step in steps)):
            own, used = own + len(translation.pieces), used + translation.used
    return out, own, used


def test_every_method_writes_naives_text(pair):
    wrong, own, used = differing(pair, PROMPTS[:5], max_new_tokens=8, k=3)
    assert wrong == []
    assert 0 < used <= own


def test_the_context_is_encoded_in_the_same_way_at_once_and_bit_by_bit(pair):
    """The draft model's tokens depend on the context alone, and few of them are read again after a draft."""
    text = (ROOT / "docs" / "models.md").read_text("utf-8")[:1500] + "\U0001f600 \u65e5\u672c\u8a9e"
    context = pair.tokenizer.encode(text)
    lm, read = pair.draft("draft"), 0
    for length in range(1, len(context), 3):
        unread = lm.sync(context[:length])
        lm.extend(unread)
        read += len(unread)
        at_once = pair.draft("draft")
        assert at_once.sync(context[:length]) == lm.lm.tokens
    assert read < 2.5 * len(lm.lm.tokens)


def test_the_draft_model_reads_the_text(pair):
    lm, own = pair.draft("draft"), pair.translators["draft"].draft
    lm.sync(pair.tokenizer.encode("The frog sat on a stone. " * 30))
    text = own.tokenizer.decode(lm.sync(pair.tokenizer.encode("The frog sat on a stone. " * 30)))
    assert text.strip() == ("The frog sat on a stone. " * 30).strip()


def test_special_tokens_are_left_out_of_the_context_and_never_drafted(plain):
    target, own = (plain.translators["draft"].target, plain.translators["draft"].draft)
    lm = plain.draft("draft")
    context = plain.tokenizer.encode("<|im_start|>Once upon a time<|im_end|>")
    assert len(target.special.keys() & {*context}) == 2
    assert own.tokenizer.decode(lm.sync(context)) == "Once upon a time"
    ordinary = {number for number, data in enumerate(target.bytes) if data}
    for rule in ({}, {"temperature": 1.0}, {"temperature": 1.0, "rule": "rejection"}):
        steps = list(lookahead.decode(plain, "<|im_start|>Once<|im_end|>", "draft", max_new_tokens=16, k=4, **rule))
        drafted = {token for step in steps for token in step.draft.tokens}
        assert drafted and drafted <= ordinary
    literal = lm._translate(b" a <|im_end|> b")  # the characters of a special token, in the text of a draft
    assert not target.special.keys() & {*literal}


def test_a_text_that_ends_within_a_character_is_continued(plain):
    context = plain.tokenizer.encode("I like \U0001f600")
    vocabulary, lm = plain.translators["draft"].target, plain.draft("draft")
    assert vocabulary.data(context[:-1])[-1:] != b" ", "the last tokens are parts of a character"
    lm.sync(context[:-1])
    rest = vocabulary.data(context[-1:])
    assert lm._translate(rest + b" and")[0] == context[-1]
    assert lm._translate(b" and") == [], "not the rest of the character"


def test_a_text_longer_than_the_draft_models_context_is_continued(tmp_path):
    """The draft model reads the end of the text, and reads most of it once."""
    draft = tiny("llama", tmp_path / "draft", max_position_embeddings=128)
    pair = lookahead.load(f"{qwen(tmp_path / 'target')}+{draft}")
    prompt = pair.tokenizer.encode("The frog sat on a stone. " * 20)
    options = {"max_new_tokens": 60, "k": 3}
    steps = list(lookahead.decode(pair, prompt, "draft", **options))
    assert emitted(steps) == emitted(lookahead.decode(pair, prompt, "naive", **options))
    lm, read = pair.draft("draft"), 0
    for length in range(100, 300):
        lm.extend(unread := lm.sync((prompt * 2)[:length]))
        read += len(unread)
        assert len(lm.lm.tokens) <= 128 - lm.longest
    assert read < 1500


def test_transformers_translates_too(plain):
    for rule in RULES.values():
        options = {"max_new_tokens": 10, **rule}
        naive = emitted(lookahead.decode(plain, PROMPTS[0], "naive", **options))
        assert emitted(lookahead.decode(plain, PROMPTS[0], "hf-assisted", **options)) == naive
    with pytest.raises(MethodError, match="transformers changes the draft model's weights"):
        lookahead.decode(plain, PROMPTS[0], "hf-assisted", temperature=1.0, rule="rejection")


def test_a_recording_has_the_tokens_of_the_draft_model(pair):
    trace = finished(lookahead.race(pair, PROMPTS[0], ["naive", "draft"], max_new_tokens=12, k=3))
    translations = [step.draft.translation for step in Trace.from_json(trace.to_json()).lanes[1].verified]
    assert any(translations)
    for step in filter(lambda step: step.draft.translation, trace.lanes[1].verified):
        own, target = "".join(step.draft.translation.pieces), "".join(step.draft.pieces).lstrip(BROKEN)
        assert own.startswith(target)
        used = "".join(step.draft.translation.pieces[: step.draft.translation.used])
        assert len(used) >= len(target)


@needs_smol
@pytest.mark.long
@pytest.mark.parametrize("drafts", daily(["pocket for SmolLM2", "SmolLM2 for Qwen"], 2))
def test_none_of_a_hundred_races_differs(drafts, tmp_path):
    """A hundred races per pair: fifty prompts, greedy and with shared noise; under CI, a part of them per day."""
    spec = f"{smol()}+{POCKET / 'draft'}" if drafts.startswith("pocket") else f"{qwen(tmp_path)}+{smol()}"
    models = lookahead.load(spec)
    assert len(PROMPTS) == 50
    wrong, own, used = differing(models, daily(PROMPTS, 7), max_new_tokens=6, k=2)
    shared = models.translators["draft"].share
    print(f"{drafts}: {len(wrong)} differ, {used} of {own} tokens translated, {shared:.1%} shared")
    assert wrong == []
    assert used > own / 4
