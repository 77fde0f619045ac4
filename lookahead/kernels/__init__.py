"""Passes of plain Llamas and trained heads as machine code for this processor, compiled by numba.

`read` returns the passes of a model in a folder, and `of_model` those of a transformers model. Both are a
`model.forward.Forward`; nothing else of this package is used outside. After an import of this package `CachedLM` computes
every model that `of_model` computes with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ..model.forward import IMPLEMENTATIONS
from ..model.lm import CachedLM
from . import llama_weights
from .compiling import version
from .llama import Llama, prepare
from .llama_weights import compiles

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["CachedLM", "Llama", "compiles", "of_model", "prepare", "read", "version"]

# `llama_for_transformers` is imported when it is called for: transformers' models take seconds.


def read(folder: str, dtype: torch.dtype) -> Llama | None:
    """The passes of the plain Llama in a folder, in that number format; None if there is none that is whole.

    Raises `ModelError` if one of its small files is damaged.
    """

    def model(llama: Llama) -> PreTrainedModel:
        from .llama_for_transformers import llama_model

        return llama_model(llama, folder)

    weights = llama_weights.read(folder, dtype)
    return weights and Llama(*weights, model)


def of_model(model: PreTrainedModel) -> Llama | None:
    """The compiled passes of a plain Llama on a CPU; None for other models."""
    from .llama_for_transformers import of_model

    return of_model(model)


IMPLEMENTATIONS.append(of_model)
