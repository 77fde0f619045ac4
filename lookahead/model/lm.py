"""CachedLM: a causal language model with a key-value cache that can be rolled back.

`forward` runs rows (a chain or a tree) after the cached tokens, `keep` commits one path of them and drops the rest, `sync`
rewinds to the longest prefix that the cache and a context share. Every lane has a CachedLM; lanes can share a model's passes and
weights. An interrupted pass does not change the cache: the next call rewinds to the last committed token.

`engine/external.py` runs transformers' `generate` as a lane: without drafts, with an assistant model, or with prompt lookup.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch

from ..core.events import Translation
from ..core.lm import PREFILL_ROWS, DraftRequest, DraftTree
from ..core.tree import depths, is_chain
from . import experts
from .forward import ALL_ROWS, Forward, Part

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Scores = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # logits [1, vocab] and the preceding ids -> scores


class CachedLM:
    """A model with a cache. `tokens` are the cached tokens; `vocab` is the width of the logits without padding.

    With `exact=False`, as for drafters, weights may be rounded if that is faster. With `reads_all`, ids without an embedding are
    replaced by the last id; otherwise they raise `IndexError`. Ids in `unshared` are never proposed.
    """

    longest = 1 << 20  # most tokens of a drafted chain
    kind: str | None = None  # kind of a trained head
    confidence: float | None = None  # predicted acceptance of the last token, if it is not the token's probability
    translation: Translation | None = None  # None: the same tokenizer as the target's
    tokenizers: Mapping[str, Any] = {}  # arguments of `generate`, which it needs if the tokenizers differ

    def __init__(
        self, model: Forward | PreTrainedModel, vocab: int | None = None, exact: bool = True, reads_all: bool = False,
        unshared: Collection[int] = (),
    ):  # fmt: skip
        if not isinstance(model, Forward):
            from .modules import forward_for  # slow to import, but a caller with a transformers model has imported it

            model = forward_for(model)
        self.passes = model if exact else model.for_drafting()
        self.vocab, self.reads_all = vocab or self.passes.shape.vocab, reads_all
        while self.vocab - 1 in unshared:
            self.vocab -= 1
        self.unshared = [token for token in unshared if token < self.vocab]
        self.context_length = self.passes.shape.context_length
        self.device = self.passes.device
        self.taps: Sequence[int] = ()  # layers whose hidden states are stored from the next `reset` on
        self.seconds = 0.0  # spent in passes so far, including positions and masks
        self.reset()

    @property
    def model(self) -> PreTrainedModel:
        """transformers' model with the same weights."""
        return self.passes.model

    @property
    def is_recurrent(self) -> bool:
        """Whether the model has recurrent layers."""
        return self.passes.rollback.recurrent > 0

    @property
    def eight_bits(self) -> bool:
        """Whether passes of few rows read int8 weights."""
        return self.passes.int8

    @property
    def activated_experts(self) -> float | None:
        return experts.activated(self.cache.chosen_experts)

    def fresh(self) -> CachedLM:
        """Return the same model with an empty cache."""
        return CachedLM(self.passes, self.vocab, reads_all=self.reads_all, unshared=self.unshared)

    def reset(self) -> None:
        """Empty the cache."""
        self.tokens: list[int] = []
        self._rows: list[int] = []  # tokens of the pass that is pending until `keep`
        self._replayed = 0  # tokens that the next pass reads again, because a recurrent state was restored
        self._text: int | None = None  # of a drafter: the length of the text that drafts continue; see `sync`
        self.cache = self.passes.new_cache()
        if self.taps:
            self.cache.tap(self.taps, self.passes.shape.hidden, self.passes.dtype, self.device)

    def synchronize(self) -> None:
        """Wait until the device has finished, before a clock is read. `forward` calls this."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def forward(
        self, tokens: Sequence[int], parents: Sequence[int] | None = None, only: slice = ALL_ROWS, first: int = 0
    ) -> torch.Tensor:
        """Run rows after the cache; return logits [rows, vocab], or those of the rows in `only`.

        `parents[i]` is the row that row i continues, -1 the last cached token; None is a chain. The rows are pending until `keep`.
        A pass can continue the previous pass: with `first`, the rows before `first` are already pending, and only later rows are
        computed and returned.
        """
        parents = range(-1, len(tokens) - 1) if parents is None else parents
        start = perf_counter()
        stays = 0 if only == ALL_ROWS else len(tokens)  # rows whose logits are not returned are not verified
        part, again = self._part(tokens, parents, first, stays)
        if again:
            only = slice((only.start or 0) + again, (only.stop or len(tokens) - first) + again)
        out = self.passes(torch.tensor(part.tokens, device=self.device), *part[1:], only)
        self.synchronize()
        self.seconds += perf_counter() - start
        return self._cut(out)

    def _part(self, tokens: Sequence[int], parents: Sequence[int], first: int = 0, stays: int = 0) -> tuple[Part, int]:
        """Prepare rows for a pass and make them the pending rows. The first `stays` rows will be kept.

        Returns the part, and its number of additional rows in front, which are tokens or pending rows that are read again.
        """
        base, rollback = len(self.tokens), self.passes.rollback
        # A batch of paths and a snapshot begin after the text, so pending rows are read again.
        again = first if rollback.by_paths or rollback.recurrent else 0
        start = self.cache.rewind(base + first - again)
        again = base + first - start
        rows = [*self.tokens[start:], *tokens] if again else tokens
        if again:
            shift = base - start
            parents = [*range(-1, shift - 1), *(parent + shift for parent in parents)]
            first = 0
        self._rows, self._replayed, base = list(tokens), 0, min(base, start)
        self.cache.snapshot(parents, base, len(self.tokens) + stays if self._text is None else self._text)
        if is_chain(parents):
            positions = slice(base + first, base + len(rows))
        else:
            positions = torch.tensor(depths(parents)[first:], device=self.device) + (base - 1)
        mask = self.passes.prepare_rows(parents, base, first, self.cache)
        return Part(self._readable(rows[first:]), positions, self.cache, mask), again

    def _readable(self, tokens: Sequence[int]) -> Sequence[int]:
        """Replace ids without an embedding if `reads_all` is set."""
        last = self.passes.shape.vocab - 1
        return [min(token, last) for token in tokens] if self.reads_all and max(tokens) > last else tokens

    def _cut(self, logits: torch.Tensor) -> torch.Tensor:
        """Cut the padding of the vocabulary from logits, and exclude `unshared` tokens."""
        logits = logits if self.vocab == self.passes.shape.vocab else logits[:, : self.vocab]
        if not self.unshared:
            return logits
        return logits.index_fill(1, torch.tensor(self.unshared, device=logits.device), -torch.inf)

    def keep(self, path: Sequence[int]) -> None:
        """Commit the rows in `path` (root first) to the cache and roll back all other rows of the pass."""
        base = len(self.tokens)
        if any(row != i for i, row in enumerate(path)):
            with torch.inference_mode():
                self.cache.gather(base, [base + row for row in path])
        self.tokens += [self._rows[row] for row in path]
        self._rewind(len(self.tokens))

    def extend(self, tokens: Sequence[int]) -> torch.Tensor:
        """Append and commit a chain; return the logits [1, vocab] after its last token."""
        if not tokens:
            return torch.empty(0, self.vocab)
        for start in range(0, len(tokens), PREFILL_ROWS):
            chunk = list(tokens[start : start + PREFILL_ROWS])
            logits = self.forward(chunk, only=slice(len(chunk) - 1, len(chunk)))
            self.keep(range(len(chunk)))
        return logits

    def can_copy_from(self, other: CachedLM) -> bool:
        """Return whether `copy_from` is possible: `other` has the same model and stores all needed hidden states."""
        return other.passes is self.passes and (not self.taps or self.taps == other.taps)

    @torch.inference_mode()
    def copy_from(self, other: CachedLM) -> None:
        """Replace the cache by a copy of `other`'s, instead of reading its text. See `can_copy_from`."""
        self.reset()
        if other.tokens:
            self.cache.copy_from(other.cache)
        self.tokens, self._replayed = list(other.tokens), other._replayed

    def draft_chain(self, tokens: Sequence[int], request: DraftRequest) -> tuple[list[int], list[float]] | None:
        """See `core.lm.LanguageModel`. All drafted tokens but the last are also appended."""
        if self.unshared:  # compiled drafts do not exclude tokens
            return None
        start = perf_counter()
        readable, most = self._readable(tokens), request.max_tokens
        tree = self.passes.tree(readable, len(self.tokens), self.cache, request, branches=1, rows=most)
        if tree is None:
            return None
        self.tokens += [*tokens, *tree.tokens[:-1]]
        self._rewind(len(self.tokens))
        self.seconds += perf_counter() - start
        return tree.tokens, tree.confidences

    def draft_tree(self, tokens: Sequence[int], request: DraftRequest, branches: int, rows: int) -> DraftTree | None:
        """See `core.lm.LanguageModel`. The rows in the cache are pending, as after `forward`."""
        if self.unshared:
            return None
        start = perf_counter()
        tree = self.passes.tree(self._readable(tokens), len(self.tokens), self.cache, request, branches, rows)
        if tree is not None:
            self.tokens += tokens
            self._rows = tree.tokens[: tree.read]
            self.seconds += perf_counter() - start
        return tree

    def sync(self, context: Sequence[int]) -> list[int]:
        """Rewind to the longest prefix shared with `context`; return the uncached tokens, at least the last one."""
        shared, limit = 0, min(len(self.tokens), len(context) - 1)
        if self.tokens[:limit] == list(context[:limit]):
            shared = limit
        else:
            while self.tokens[shared] == context[shared]:
                shared += 1
        del self.tokens[shared:]
        self._rewind(shared)
        self._text = len(context)
        return list(context[shared:])

    def _rewind(self, length: int) -> None:
        """Roll the cache back to `length` tokens and drop pending rows."""
        self._rows = []
        self._replayed = length - self.cache.rewind(length)

    def states(self, start: int) -> torch.Tensor:
        """Return hidden states after the layers `taps` of the cached tokens from `start` on, [tokens, taps * hidden]."""
        assert len(self.cache.taps) == len(self.taps), "`reset` must be called after `taps` is set"
        return self.cache.states(start, len(self.tokens))

    def cached(self) -> int:
        """Return the number of tokens in the cache, with those that the next pass reads again."""
        return self.cache.length() + self._replayed

    @property
    def batches(self) -> bool:
        """Whether one pass can have rows of several texts."""
        return self.passes.batches

    @contextmanager
    def configured(self, draft: CachedLM | None, drafting: Mapping[str, Any], attention: str | None) -> Iterator[None]:
        """Give the models new generation configurations and another attention (None: unchanged); restore both on exit.

        A model's generation_config.json may set beams, suppressed tokens or a time limit, which other lanes do not implement.
        `drafting` are the settings of the assistant, because transformers reads them from the assistant's configuration.
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

    def read_with_transformers(self, tokens: Sequence[int]) -> None:
        """Run one pass of transformers' model over tokens, as `generate` reads a prompt."""
        with torch.no_grad():
            self.model(torch.tensor([tokens], device=self.model.device), use_cache=True, logits_to_keep=1)

    def generate(
        self, prompt: Sequence[int], emit: Callable[[list[int]], None], scores: Scores, *, assistant: CachedLM | None,
        eos: frozenset[int], seed: int | None, max_new_tokens: int, options: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Continue `prompt`; call `emit` with the tokens of each pass.

        Without a `seed`, decoding takes the highest of the `scores`; with one, it samples. `options` are further fields of
        transformers' `GenerationConfig`.
        """
        from transformers.generation.configuration_utils import GenerationConfig
        from transformers.generation.logits_process import LogitsProcessor, LogitsProcessorList
        from transformers.generation.streamers import BaseStreamer

        vocab = self.vocab

        class Scored(LogitsProcessor):
            """The caller's scores; the padding of the vocabulary gets -inf."""

            def __call__(self, input_ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
                out = scores(logits[:, :vocab], input_ids[0])
                padding = logits.shape[1] - vocab
                return torch.nn.functional.pad(out, (0, padding), value=-torch.inf) if padding > 0 else out

        class Streamer(BaseStreamer):
            """Emits the accepted tokens of every pass; the first call has the prompt, which is not emitted."""

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
            sampled = {"top_k": 0, "top_p": 1.0, "temperature": 1.0}  # already applied in the scores
        config = GenerationConfig(
            max_new_tokens=max_new_tokens, do_sample=seed is not None, repetition_penalty=1.0,
            eos_token_id=sorted(eos) or None, pad_token_id=min(eos, default=0), **sampled, **options,
        )  # fmt: skip
        self.model.generate(
            torch.tensor([prompt], device=self.model.device), generation_config=config, streamer=Streamer(),
            logits_processor=LogitsProcessorList([Scored()]),
            **({"assistant_model": assistant.model, **assistant.tokenizers} if assistant else {}),
        )  # fmt: skip

    @staticmethod
    def forward_batch(
        lms: Sequence[CachedLM], rows: Sequence[tuple[Sequence[int], Sequence[int]]]
    ) -> list[torch.Tensor]:
        """Run `forward` for several texts with (tokens, parents) each; return the logits [rows, vocab] of each text.

        If the model `batches`, this is one pass. Its time is divided among the texts in proportion to their rows.
        """
        passes = lms[0].passes
        if len(lms) == 1 or not passes.batches:
            return [lm.forward(tokens, parents) for lm, (tokens, parents) in zip(lms, rows, strict=True)]
        start = perf_counter()
        logits = passes.forward_batch(
            [lm._part(tokens, parents)[0] for lm, (tokens, parents) in zip(lms, rows, strict=True)]
        )
        row_s = (perf_counter() - start) / sum(len(tokens) for tokens, _ in rows)
        for lm, (tokens, _) in zip(lms, rows, strict=True):
            lm.seconds += row_s * len(tokens)
        return [lm._cut(part) for lm, part in zip(lms, logits, strict=True)]
