"""Passes of plain Llamas and trained heads in machine code, compiled by numba for this processor.

`read` returns the passes of a model in a folder, and `of_model` those of a transformers model. Both implement
`model.forward.Forward`. `TEAM` sets the number of threads of a pass. Other packages use only the names in `__all__`. Importing this package registers `of_model`:
`CachedLM` then computes all supported models with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ..model.forward import IMPLEMENTATIONS
from ..model.lm import CachedLM
from . import llama_weights
from .compiling import version
from .llama import Llama, begin, prepare, prepare_deferred
from .llama_weights import compiles
from .team import TEAM

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = [
    "TEAM",
    "CachedLM",
    "Llama",
    "begin",
    "compiles",
    "of_model",
    "prepare",
    "prepare_deferred",
    "read",
    "version",
]

# `llama_for_transformers` is imported at first use, because importing transformers' models takes seconds.


def read(folder: str, dtype: torch.dtype) -> Llama | None:
    """Return the passes of the plain Llama in a folder, in a number format. Return None for other or incomplete models.

    Raises `ModelError` if one of its small files is damaged.
    """

    def model(llama: Llama) -> PreTrainedModel:
        from .llama_for_transformers import llama_model

        return llama_model(llama, folder)

    weights = llama_weights.read(folder, dtype)
    return weights and Llama(*weights, model)


def of_model(model: PreTrainedModel) -> Llama | None:
    """Return the compiled passes of a plain Llama on a CPU; None for other models."""
    from .llama_for_transformers import of_model

    return of_model(model)


IMPLEMENTATIONS.append(of_model)
