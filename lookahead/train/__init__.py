"""How the bundled models were made, runnable: `python -m lookahead train`.

`corpus` reads, `tokenizer` and `batches` turn text into rows, `fit` trains, `family` orders the
stages, `writing` has the target write for its draft, `evaluate` measures, `card` reports.
"""

from .family import ROLES, Job, describe, train
from .plan import Plan

__all__ = ["ROLES", "Job", "Plan", "describe", "train"]
