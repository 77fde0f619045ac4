"""How the bundled models were made, runnable: `python -m lookahead train`.

The trained heads went on from there on a GPU, with the same networks and losses; their cards say how.

`corpus` reads, `tokenizer` and `batches` turn text into rows, `fit` trains, `family` orders the
stages, `writing` has the target write for its draft, `evaluate` measures, `card` reports.
"""

from .family import ROLES, Job, describe, train
from .plan import Plan

__all__ = ["ROLES", "Job", "Plan", "describe", "train"]
