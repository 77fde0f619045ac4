"""The tokenizer: byte-level BPE, which can encode every byte, with chat markers.

Each digit is a token, so a number has the same tokens in every context.
"""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from .corpus import ASSISTANT, TEXT, USER, Document

END, ASKS, ANSWERS = "<|end|>", "<|user|>", "<|assistant|>"
END_ID, ASKS_ID, ANSWERS_ID = range(3)  # a new tokenizer numbers its special tokens first
TEMPLATE = (
    "{% for m in messages %}{% if m['role'] == 'user' %}<|user|>{{ m['content'] }}"
    "{% else %}<|assistant|>{{ m['content'] }}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def has_markers(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Return whether a tokenizer has the markers that `encode` uses."""
    return tokenizer.convert_tokens_to_ids([END, ASKS, ANSWERS]) == [END_ID, ASKS_ID, ANSWERS_ID]


def train(texts: Iterable[str], vocab: int, context: int) -> PreTrainedTokenizerFast:
    """Return a tokenizer of `vocab` tokens, trained on texts. `context` is its `model_max_length`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"\d"), behavior="isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=[END, ASKS, ANSWERS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=END,
        additional_special_tokens=[ASKS, ANSWERS],
        model_max_length=context,
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = TEMPLATE
    return wrapped


def encode(tokenizer: PreTrainedTokenizerFast, documents: list[Document]) -> list[list[int]]:
    """Return the ids of every document with markers and end, as in the chat template."""
    end, asks, answers = (tokenizer.convert_tokens_to_ids(t) for t in (END, ASKS, ANSWERS))
    before = {TEXT: [], USER: [asks], ASSISTANT: [answers]}
    after = {TEXT: [end], USER: [], ASSISTANT: [end]}
    turns = [turn for document in documents for turn in document.turns]
    encoded = iter(tokenizer._tokenizer.encode_batch_fast([text for _, text in turns], add_special_tokens=False))
    return [
        [token for role, _ in document.turns for token in (*before[role], *next(encoded).ids, *after[role])]
        for document in documents
    ]
