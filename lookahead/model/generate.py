"""transformers' `generate` over a loaded model, with the scores, configuration and attention of the caller.

`race/external.py` runs it as a lane: plain, with an assistant model, or with prompt lookup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Scores = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # logits [1, vocab] and the ids before them -> scores


class GenerateMixin:
    """What `core.lm.Target` has of transformers' own decoding, for a class with a `model` and the width `vocab` of its scores."""

    model: PreTrainedModel
    vocab: int

    @contextmanager
    def configured(
        self, draft: GenerateMixin | None, drafting: Mapping[str, Any], attention: str | None
    ) -> Iterator[None]:
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
        self, prompt: Sequence[int], emit: Callable[[list[int]], None], scores: Scores, *, assistant: GenerateMixin | None,
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
