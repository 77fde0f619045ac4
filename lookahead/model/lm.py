"""CachedLM: a causal language model with a key-value cache that can be rolled back.

`forward` runs rows (a chain or a tree) after the cached tokens, `keep` commits one path of them and drops the rest, `sync`
rewinds to the longest prefix that the cache and a context share. Every lane has a CachedLM; lanes may share the model's passes,
and with them its weights. An interrupted pass leaves nothing in the cache: the next call rewinds to the last kept token.

`engine/external.py` runs transformers' own `generate` as a lane: plain, with an assistant model, or with prompt lookup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch

from ..core.lm import PREFILL_ROWS, DraftRequest, DraftTree
from ..core.tree import depths, is_chain
from .forward import EVERY, Forward, Part

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Scores = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # logits [1, vocab] and the ids before them -> scores


class CachedLM:
    """One model with one cache. `tokens` is what the cache holds; `vocab` cuts padded logits.

    With `exact=False`, for a drafter, weights may be rounded if that is faster. With `reads_all`, ids without an embedding are
    read as the last id; without it they raise `IndexError`.
    """

    longest = 1 << 20  # tokens that it can draft in a row
    kind: str | None = None  # of trained head
    confidence: float | None = None  # how likely its last token is accepted, where that is not its probability

    def __init__(
        self, model: Forward | PreTrainedModel, vocab: int | None = None, exact: bool = True, reads_all: bool = False
    ):  # fmt: skip
        if not isinstance(model, Forward):
            from .modules import of  # transformers' models take seconds to import; who has one has them already

            model = of(model)
        self.passes = model if exact else model.for_drafting()
        self.vocab, self.reads_all = vocab or self.passes.shape.vocab, reads_all
        self.context_length = self.passes.shape.context_length
        self.device = self.passes.device
        self.taps: Sequence[int] = ()  # layers after which hidden states are kept, from the next `reset` on
        self.seconds = 0.0  # spent in passes so far: positions, mask and model
        self.reset()

    @property
    def model(self) -> PreTrainedModel:
        """transformers' model of the same weights."""
        return self.passes.model

    @property
    def eight_bits(self) -> bool:
        """Whether passes of a few rows read weights in eight bits."""
        return self.passes.int8

    def fresh(self) -> CachedLM:
        """The same model with an empty cache."""
        return CachedLM(self.passes, self.vocab, reads_all=self.reads_all)

    def reset(self) -> None:
        """Forget everything."""
        self.tokens: list[int] = []
        self._rows: list[int] = []  # tokens of the pass that no keep() has settled yet
        self.cache = self.passes.new_cache()
        if self.taps:
            self.cache.tap(self.taps, self.passes.shape.hidden, self.passes.dtype, self.device)

    def synchronize(self) -> None:
        """Wait for the device, so that a clock read next measures finished work (`forward` does)."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def forward(
        self, tokens: Sequence[int], parents: Sequence[int] | None = None, only: slice = EVERY, first: int = 0
    ) -> torch.Tensor:
        """Run rows after the cache; returns logits [rows, vocab], or of the rows in `only`.

        `parents[i]` is the row that row i continues, -1 the last cached token; None is a chain. The rows stay pending until
        `keep`. A pass may continue the pass before: the rows before `first` are then pending rows, and only the rows from
        `first` on are computed and returned.
        """
        parents = range(-1, len(tokens) - 1) if parents is None else parents
        start = perf_counter()
        part = self._part(tokens, parents, first)
        out = self.passes(torch.tensor(part.tokens, device=self.device), *part[1:], only)
        self.synchronize()
        self.seconds += perf_counter() - start
        return self._cut(out)

    def _part(self, tokens: Sequence[int], parents: Sequence[int], first: int = 0) -> Part:
        """Rows made ready for a pass: nothing but they is pending now."""
        base = len(self.tokens)
        self._rewind(base + first)
        self._rows = list(tokens)
        if is_chain(parents):
            positions = slice(base + first, base + len(tokens))
        else:
            positions = torch.tensor(depths(parents)[first:], device=self.device) + (base - 1)
        rows = self.passes.lay_out(parents, base, first, self.cache)
        return Part(self._readable(self._rows[first:]), positions, self.cache, rows)

    def _readable(self, tokens: Sequence[int]) -> Sequence[int]:
        """The ids as the model can read them."""
        last = self.passes.shape.vocab - 1
        return [min(token, last) for token in tokens] if self.reads_all and max(tokens) > last else tokens

    def _cut(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits without what pads the vocabulary."""
        return logits if self.vocab == self.passes.shape.vocab else logits[:, : self.vocab]

    def keep(self, path: Sequence[int]) -> None:
        """Make the rows in `path` (in order) part of the cache; drop the other rows of the pass."""
        base = len(self.tokens)
        if any(row != i for i, row in enumerate(path)):
            with torch.inference_mode():
                self.cache.gather(base, [base + row for row in path])
        self.tokens += [self._rows[row] for row in path]
        self._rewind(len(self.tokens))

    def extend(self, tokens: Sequence[int]) -> torch.Tensor:
        """Append a chain for good; returns the logits [1, vocab] after its last token."""
        if not tokens:
            return torch.empty(0, self.vocab)
        for start in range(0, len(tokens), PREFILL_ROWS):
            chunk = list(tokens[start : start + PREFILL_ROWS])
            logits = self.forward(chunk, only=slice(len(chunk) - 1, len(chunk)))
            self.keep(range(len(chunk)))
        return logits

    def can_take(self, other: CachedLM) -> bool:
        """Whether the other has the same model, and keeps the hidden states that are kept here."""
        return other.passes is self.passes and (not self.taps or self.taps == other.taps)

    @torch.inference_mode()
    def take(self, other: CachedLM) -> None:
        """Begin with the text that another one holds (`can_take`) instead of reading it."""
        self.reset()
        if other.tokens:
            self.cache.take(other.cache)
        self.tokens = list(other.tokens)

    def draft_chain(self, tokens: Sequence[int], request: DraftRequest) -> tuple[list[int], list[float]] | None:
        """See `core.lm.LanguageModel`. All drafted tokens but the last are appended too."""
        start = perf_counter()
        chain = self.passes.chain(self._readable(tokens), len(self.tokens), self.cache, request)
        if chain is not None:
            self.tokens += [*tokens, *chain[0][:-1]]
            self._rewind(len(self.tokens))
            self.seconds += perf_counter() - start
        return chain

    def draft_tree(self, tokens: Sequence[int], request: DraftRequest, branches: int, rows: int) -> DraftTree | None:
        """See `core.lm.LanguageModel`. Rows that the model has read stay pending, as after `forward`."""
        start = perf_counter()
        grown = self.passes.tree(self._readable(tokens), len(self.tokens), self.cache, request, branches, rows)
        if grown is not None:
            self.tokens += tokens
            self._rows = grown.tokens[: grown.read]
            self.seconds += perf_counter() - start
        return grown

    def sync(self, context: Sequence[int]) -> list[int]:
        """Rewind to the longest prefix shared with `context`; returns what is still to be fed.

        At least the last token is left to feed, so that its logits can be had.
        """
        shared, limit = 0, min(len(self.tokens), len(context) - 1)
        if self.tokens[:limit] == list(context[:limit]):
            shared = limit
        else:
            while self.tokens[shared] == context[shared]:
                shared += 1
        del self.tokens[shared:]
        self._rewind(shared)
        return list(context[shared:])

    def _rewind(self, length: int) -> None:
        """Cut the cache back to `length` tokens; a pass that is not settled is dropped."""
        self._rows = []
        self.cache.rewind(length)

    def states(self, start: int) -> torch.Tensor:
        """The hidden states after the layers `taps` of the cached tokens from `start` on, [tokens, taps times hidden]."""
        assert len(self.cache.taps) == len(self.taps), "a cache keeps hidden states from the reset after `taps` is set"
        return self.cache.states(start, len(self.tokens))

    def cached(self) -> int:
        """How many tokens the cache itself says it holds."""
        return self.cache.length()

    @property
    def batches(self) -> bool:
        """Whether one pass takes rows of several texts."""
        return self.passes.batches

    @contextmanager
    def configured(self, draft: CachedLM | None, drafting: Mapping[str, Any], attention: str | None) -> Iterator[None]:
        """Give the model and a draft model fresh generation configurations, and another attention (None: as it is); restore
        both afterwards.

        A model's own generation_config.json may ask for beams, suppressed tokens or a time limit, which no other lane follows.
        `drafting` are settings of an assistant, which transformers reads from the assistant's own configuration.
        """
        from transformers.generation.configuration_utils import GenerationConfig

        models = [self.model, draft.model] if draft else [self.model]
        before = [(model.generation_config, model.config._attn_implementation) for model in models]
        try:
            for number, model in enumerate(models):
                model.generation_config = GenerationConfig(**(drafting if number else {}))
                if attention:
                    model.set_attn_implementation(attention)
            yield
        finally:
            for model, (config, name) in zip(models, before, strict=True):
                model.generation_config = config
                if attention:
                    model.set_attn_implementation(name)

    def read_plainly(self, tokens: Sequence[int]) -> None:
        """One pass of transformers' model over these tokens, as `generate` reads a prompt."""
        with torch.no_grad():
            self.model(torch.tensor([tokens], device=self.model.device), use_cache=True, logits_to_keep=1)

    def generate(
        self, prompt: Sequence[int], emit: Callable[[list[int]], None], scores: Scores, *, assistant: CachedLM | None,
        eos: frozenset[int], seed: int | None, max_new_tokens: int, options: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Continue `prompt`; `emit` gets the tokens of each pass. `seed` None is greedy decoding of the scores, else sampling.

        `options` are further fields of transformers' `GenerationConfig`.
        """
        from transformers.generation.configuration_utils import GenerationConfig
        from transformers.generation.logits_process import LogitsProcessor, LogitsProcessorList
        from transformers.generation.streamers import BaseStreamer

        vocab = self.vocab

        class Scored(LogitsProcessor):
            """The scores of the caller, for the part of the vocabulary that has tokens."""

            def __call__(self, input_ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
                out = scores(logits[:, :vocab], input_ids[0])
                padding = logits.shape[1] - vocab
                return torch.nn.functional.pad(out, (0, padding), value=-torch.inf) if padding > 0 else out

        class Streamer(BaseStreamer):
            """Emits the accepted tokens of every pass; the first call brings the prompt."""

            begun = False

            def put(self, value: torch.Tensor) -> None:
                if self.begun:
                    emit(value.flatten().tolist())
                self.begun = True

            def end(self) -> None:
                pass

        sampled = {}
        if seed is not None:
            torch.manual_seed(seed)
            sampled = {"top_k": 0, "top_p": 1.0, "temperature": 1.0}  # the scores have them applied
        config = GenerationConfig(
            max_new_tokens=max_new_tokens, do_sample=seed is not None, repetition_penalty=1.0,
            eos_token_id=sorted(eos) or None, pad_token_id=min(eos, default=0), **sampled, **options,
        )  # fmt: skip
        self.model.generate(
            torch.tensor([prompt], device=self.model.device), generation_config=config, streamer=Streamer(),
            logits_processor=LogitsProcessorList([Scored()]), **({"assistant_model": assistant.model} if assistant else {}),
        )  # fmt: skip

    @staticmethod
    def together(lms: Sequence[CachedLM], rows: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[torch.Tensor]:
        """`forward` of several texts that share this model, of (tokens, parents) each: logits [rows, vocab] of each.

        It is one pass if the model batches. Its seconds are shared out by rows.
        """
        one = lms[0]
        if len(lms) == 1 or not one.passes.batches:
            return [lm.forward(*of) for lm, of in zip(lms, rows, strict=True)]
        start = perf_counter()
        logits = one.passes.together([lm._part(*of) for lm, of in zip(lms, rows, strict=True)])
        row_s = (perf_counter() - start) / sum(len(tokens) for tokens, _ in rows)
        for lm, (tokens, _) in zip(lms, rows, strict=True):
            lm.seconds += row_s * len(tokens)
        return [lm._cut(part) for lm, part in zip(lms, logits, strict=True)]
