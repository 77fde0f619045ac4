"""A draft model with another tokenizer than its target's: it drafts text, or tokens that both models have.

`sync` encodes the text so far with the draft model's tokenizer. `draft_chain` drafts the likeliest text, and returns the target's
tokens of this text. For trees and for sampling, `forward` and `extend` return logits of the target's tokens, -inf for those that
the draft model lacks: the intersection of vocabularies (Timor et al. 2025). So q is the distribution that was sampled from, and
the noise of the coupled rule belongs to the same tokens. A text that the target would encode differently costs acceptance only.
"""

from __future__ import annotations

import codecs
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import torch

from ..core.accept import Pick
from ..core.events import MAX_DRAFTED, Settings, Translation
from ..core.lm import DraftRequest, draft_tokens
from ..core.policy import StopRule
from ..core.rules import rule_for
from .lm import CachedLM
from .shape import UNLIMITED

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.tokenization_utils_base import PreTrainedTokenizerBase

    from .forward import Forward

PRINTABLE = (*range(33, 127), *range(161, 173), *range(174, 256))
# The alphabet of byte-level tokenizers: printable characters of Latin-1 are their own bytes, the other bytes follow from U+0100.
BYTE_OF = {chr(byte): byte for byte in PRINTABLE}
BYTE_OF |= {chr(256 + i): byte for i, byte in enumerate(sorted({*range(256)} - {*PRINTABLE}))}
PART = 48  # the text is encoded in parts of at least this many of the target's tokens, and only the last part again
TAIL = 16  # the target's tokens of the text that are encoded with a draft, because tokens depend on their neighbors
MAX_PER_TOKEN = 8  # most of the draft model's tokens per token of the target
LIKELIEST = rule_for(Settings())


class Vocabulary:
    """A tokenizer with the bytes of each of its tokens. Special tokens, such as the end of a text, have none."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase):
        self.tokenizer = tokenizer
        added = tokenizer.added_tokens_decoder
        special = {*tokenizer.all_special_ids, *(number for number, token in added.items() if token.special)}
        self.special = {number: str(tokenizer.convert_ids_to_tokens(number)) for number in sorted(special)}
        self.bytes = [b""] * (1 + max(tokenizer.get_vocab().values()))
        decoder: Any = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
        to_bytes = _from_alphabet if decoder and b"ByteLevel" in decoder.__getstate__() else _from_text
        for token, number in tokenizer.get_vocab().items():
            if number not in special:
                self.bytes[number] = token.encode() if number in added else to_bytes(token)
        self.ids = {data: number for number, data in reversed([*enumerate(self.bytes)]) if data}

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text, without those that begin or end it."""
        return self.tokenizer.encode(text, add_special_tokens=False, verbose=False)

    def data(self, tokens: Sequence[int]) -> bytes:
        """Return the bytes of tokens. Ids that the tokenizer lacks have none."""
        return b"".join(self.bytes[token] for token in tokens if token < len(self.bytes))


def _from_alphabet(token: str) -> bytes:
    """Return the bytes of a token of a byte-level tokenizer."""
    return bytes(map(BYTE_OF.__getitem__, token)) if BYTE_OF.keys() >= {*token} else token.encode()


def _from_text(token: str) -> bytes:
    """Return the bytes of a token of a tokenizer that is not byte-level: "\u2581" is a space, and <0xE2> is a byte."""
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        return bytes.fromhex(token[3:5])
    return token.replace("\u2581", " ").encode()


class Translator:
    """Two vocabularies, which lanes share. `draft` is the draft model's; `shared` are pairs of its ids and the target's."""

    def __init__(self, target: PreTrainedTokenizerBase, draft: PreTrainedTokenizerBase):
        self.target, self.draft = Vocabulary(target), Vocabulary(draft)
        self.shared = [
            (number, self.target.ids[data]) for data, number in self.draft.ids.items() if data in self.target.ids
        ]

    @property
    def share(self) -> float:
        """The share of the draft model's ordinary tokens that the target has."""
        return len(self.shared) / len(self.draft.ids)

    def fresh(self, lm: CachedLM, vocab: int) -> TranslatedLM:
        """Return a draft model with an empty cache. The target has a vocabulary of `vocab` tokens."""
        return TranslatedLM(self, lm.fresh(), vocab)


class TranslatedLM:
    """The methods of `core.lm.LanguageModel` for a draft model `lm`. `tokens` and `vocab` are the target's.

    "Own tokens" are the draft model's. `translation` is the text of the last `draft_chain` calls since `sync`, None without such a call.
    """

    context_length = UNLIMITED  # the draft model reads only the end of a long text
    kind: str | None = None
    confidence: float | None = None

    def __init__(self, translator: Translator, lm: CachedLM, vocab: int):
        self.translator, self.lm, self.vocab = translator, lm, vocab
        self._target, self._draft = translator.target, translator.draft
        self.longest = min(MAX_DRAFTED, lm.context_length // 4)
        shared = [pair for pair in translator.shared if pair[0] < lm.vocab and pair[1] < vocab]
        self._draft_ids, self._target_ids = torch.tensor(shared, device=lm.device).T
        self._draft_of = {target: draft for draft, target in shared}
        begins = self._draft.tokenizer("")["input_ids"]
        self._prefix = [token for token in begins if token == self._draft.tokenizer.bos_token_id]
        self.reset()

    def fresh(self) -> TranslatedLM:
        """Return the same draft model with an empty cache."""
        return self.translator.fresh(self.lm, self.vocab)

    @property
    def model(self) -> PreTrainedModel:
        """transformers' draft model."""
        return self.lm.model

    @property
    def passes(self) -> Forward:
        """The draft model's passes."""
        return self.lm.passes

    @property
    def seconds(self) -> float:
        """The seconds of the draft model's passes so far, without the translation."""
        return self.lm.seconds

    @property
    def tokenizers(self) -> dict[str, PreTrainedTokenizerBase]:
        """Both tokenizers, as arguments of transformers' `generate`."""
        return {"tokenizer": self._target.tokenizer, "assistant_tokenizer": self._draft.tokenizer}

    def read_with_transformers(self, tokens: Sequence[int]) -> None:
        """Run one pass of transformers' draft model over the target's tokens."""
        self.lm.read_with_transformers(self._encode(list(tokens)))

    def reset(self) -> None:
        """Empty the cache."""
        self.lm.reset()
        self.tokens: list[int] = []
        # The parts that stay, in the target's tokens and in own tokens.
        self._encoded: tuple[list[int], list[int]] = [], []
        self._begin()

    def _begin(self) -> None:
        """Begin a draft."""
        self._unread: list[int] = []  # own tokens of the context that the draft model has not read
        self._picks: list[Pick] = []  # own tokens of the drafted text
        self._returned: list[int] = []  # the target's tokens of this text that `draft_chain` has returned
        self._ended = False  # whether the drafted text ends here
        self.translation: Translation | None = None

    def sync(self, context: Sequence[int]) -> list[int]:
        """Encode the context; return the own tokens of it that are not cached, at least the last one."""
        self._begin()
        self.tokens = list(context)
        encoded = self._encode(self.tokens)
        # A text that is too long loses its first half, and later a further half, so that most of the cache is used again.
        most = self.lm.context_length - 2 * self.longest
        half = max(1, most // 2)
        encoded = encoded[-(-max(0, len(encoded) - most) // half) * half :]
        self._room = self.lm.context_length - len(encoded)
        self._tail = self._readable(context[-TAIL:])
        self._unread = self.lm.sync(encoded)
        return self._unread

    def extend(self, tokens: Sequence[int]) -> torch.Tensor:
        """Return the logits [1, vocab] after the tokens that `sync` returned; in later calls, after one drafted token each."""
        unread, self._unread = self._unread or self._as_draft(tokens), []
        return self._full_vocab(self.lm.extend(unread))

    def forward(self, tokens: Sequence[int], parents: Sequence[int], first: int = 0) -> torch.Tensor:
        """Return the logits [rows - first, vocab] of a tree of drafted tokens, which both models have."""
        return self._full_vocab(self.lm.forward(self._as_draft(tokens), parents, first=first))

    def keep(self, path: Sequence[int]) -> None:
        """Commit the rows in `path` to the draft model's cache."""
        self.lm.keep(path)

    def cached(self) -> int:
        """Return the number of own tokens in the cache."""
        return self.lm.cached()

    def draft_chain(self, tokens: Sequence[int], request: DraftRequest) -> tuple[list[int], list[float]] | None:
        """Draft the likeliest text; return the target's tokens of it, maybe none, and their confidences. None if there is noise.

        One more token is drafted than returned, because further text may change the last one.
        """
        if request.scores.noise is not None:
            return None
        reach, before, floors = request.reach, len(self._picks), StopRule((-1.0, *request.stop.floors))
        unread = self._unread or [pick.token for pick in self._picks[-1:]]
        most = min(self._room, before + MAX_PER_TOKEN * request.max_tokens)
        new: list[int] = []
        while len(new) < request.max_tokens and not self._ended and (length := len(self._picks)) < most:
            count = min(request.max_tokens + 1 - len(new), most - length)
            picks = draft_tokens(self.lm, LIKELIEST, unread, (), count, floors.after(length - before), reach)
            unread, self._unread = [picks[-1].token], []
            for pick in picks:
                self._ended = self._ended or not self._draft.data([pick.token])
                if not self._ended:
                    self._picks.append(pick)
                    reach *= pick.chance
            new = self._new_tokens()
            if new and request.stop.stops(reach, len(self._picks) - before):
                break
        self._returned += new[: request.max_tokens]
        return self._with_confidences(len(self._returned) - len(new[: request.max_tokens]))

    def draft_tree(self, tokens: Sequence[int], request: DraftRequest, branches: int, rows: int) -> None:
        """Return None: a tree is drafted level by level, of tokens that both models have."""

    def _new_tokens(self) -> list[int]:
        """Return the target's tokens of the drafted text after those that were returned."""
        tokens = self._translate(self._draft.data([pick.token for pick in self._picks]))
        tokens = tokens if self._ended else tokens[:-1]
        length = len(self._returned)
        return tokens[length:] if tokens[:length] == self._returned else []

    def _translate(self, drafted: bytes) -> list[int]:
        """Return the target's tokens of drafted bytes, up to the last whole character.

        The end of the context is encoded with them. If a token then extends over the end of the context, they are encoded
        alone. Returns no tokens if the tokens of a text are not exactly this text, or if one of them is special.
        """
        drafted = _whole_characters(self._tail + drafted)[len(self._tail) :]
        for before in (self._tail, b"") if drafted else ():
            with suppress(UnicodeDecodeError):  # the context ends within a character
                tokens = self._target.encode((before + drafted).decode())
                first, rest = len(tokens), len(drafted)
                while first and rest > 0:
                    first -= 1
                    rest -= len(self._target.data(tokens[first : first + 1]))
                tokens = tokens[first:]
                if self._target.data(tokens) == drafted and max(tokens) < self.vocab:
                    return tokens
        return []

    def _with_confidences(self, start: int) -> tuple[list[int], list[float]]:
        """Return the target's tokens from `start` on with their confidences, and set `translation`.

        The confidence is the product of the chances of the own tokens that begin in it.
        """
        ends = [*accumulate(len(self._target.bytes[token]) for token in self._returned)]
        chances, position, used = [1.0] * len(ends), 0, 0
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        decoder.decode(self._tail)
        pieces = []
        for pick in self._picks:
            if (number := bisect_right(ends, position)) < len(ends):
                chances[number] *= pick.chance
                used += 1
            data = self._draft.bytes[pick.token]
            position += len(data)
            pieces.append(decoder.decode(data))
        self.translation = Translation(tuple(pieces), used)
        return self._returned[start:], chances[start:]

    def _encode(self, context: list[int]) -> list[int]:
        """Return the own tokens of a context, in parts that a longer context has, too. Only the last part is encoded again."""
        read, encoded = self._encoded
        if context[: len(read)] != read:
            read, encoded = [], []
        begin, data = len(read), self._target.data
        for i in range(begin + 1, len(context)):
            is_special = not {context[i - 1], context[i]}.isdisjoint(self._target.special)
            is_word = i - begin >= PART and data(context[i : i + 1])[:1] == b" " != data(context[i - 1 : i])[-1:]
            if is_special or is_word:
                encoded, begin = encoded + self._encode_part(context[begin:i]), i
        self._encoded = context[:begin], encoded
        encoded = encoded + self._encode_part(context[begin:])
        if encoded[: len(self._prefix)] != self._prefix:
            encoded = self._prefix + encoded
        return encoded or [0]  # a pass needs a token

    def _encode_part(self, part: Sequence[int]) -> list[int]:
        """Return the own tokens of a part of the context: one special token, or text. A special token that we lack has none."""
        if part[0] in self._target.special:
            return [number for number, token in self._draft.special.items() if token == self._target.special[part[0]]]
        data = self._target.data(part)
        text, length = codecs.utf_8_decode(data, "replace")
        single = (self._draft.ids.get(data[i : i + 1]) for i in range(length, len(data)))
        return [*self._draft.encode(text), *(token for token in single if token is not None)]

    def _readable(self, tokens: Sequence[int]) -> bytes:
        """Return the longest end of the text of tokens that is text. It may end within a character."""
        special = [i for i, token in enumerate(tokens) if token in self._target.special]
        data = self._target.data(tokens[special[-1] + 1 if special else 0 :])
        while True:
            try:
                codecs.utf_8_decode(data)
                return data
            except UnicodeDecodeError as error:
                data = data[error.end :]

    def _as_draft(self, tokens: Sequence[int]) -> list[int]:
        return [self._draft_of.get(token, 0) for token in tokens]

    def _full_vocab(self, logits: torch.Tensor) -> torch.Tensor:
        """Return own logits [rows, own vocab] as [rows, vocab], with -inf for tokens that the draft model lacks."""
        full = logits.new_full((len(logits), self.vocab), -torch.inf)
        full[:, self._target_ids] = logits[:, self._draft_ids]
        return full


def _whole_characters(data: bytes) -> bytes:
    """Return the bytes up to the first that is not part of a whole character."""
    try:
        return data[: codecs.utf_8_decode(data)[1]]
    except UnicodeDecodeError as error:
        return data[: error.start]
