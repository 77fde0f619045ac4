"""The target's own writing, for its draft to learn from (Zhou et al. 2024, DistillSpec).

A draft is asked to continue what the target wrote, so that is what it should have seen. Openings
come from training documents; the target continues them, greedily and at several temperatures, many
at once.

Knows a model that generates; it does not know how the draft learns.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from .batches import Streams
from .fit import Watch
from .plan import Plan

BATCH, OPENING, WRITTEN = 64, 48, 208


def own_rows(
    target: LlamaForCausalLM, words: PreTrainedTokenizerFast, streams: Streams, plan: Plan, folder: Path,
    watch: Watch, resume: bool, tokens: int = 1_500_000,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Streams by domain, [tokens] of uint16: openings from the corpus, continued by the target."""
    kept = folder / "own.npz"
    if resume and kept.is_file():
        with np.load(kept) as stored:
            return {domain: stored[domain] for domain in stored.files}
    raise NotImplementedError
