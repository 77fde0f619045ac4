"""Passes of plain Llamas and trained heads as machine code for this processor, compiled by numba.

`read` returns the passes of a model in a folder, and `of_model` those of a transformers model. Both are a
`model.forward.Forward`; nothing else of this package is used outside. After an import of this package `CachedLM` computes
every model that `of_model` computes with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model.forward import IMPLEMENTATIONS
from ..model.lm import CachedLM
from .compiling import version
from .llama import Llama, prepare
from .llama_files import compiles, read

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["CachedLM", "Llama", "compiles", "of_model", "prepare", "read", "version"]


def of_model(model: PreTrainedModel) -> Llama | None:
    """The compiled passes of a plain Llama on a CPU; None for other models."""
    from .llama_for_transformers import of_model  # it imports transformers' models, which takes seconds

    return of_model(model)


IMPLEMENTATIONS.append(of_model)
