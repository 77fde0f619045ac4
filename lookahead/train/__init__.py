"""How the bundled models were made, runnable: `python -m lookahead train`.

`corpus` reads, `tokenizer` and `batches` turn text into rows, `fit` trains, `family` orders the
stages, `own` lets the target write for its draft, `evaluate` measures, `card` tells.
"""

from .family import ROLES, Job, describe, train
from .fit import Report
from .plan import Plan

__all__ = ["ROLES", "Job", "Plan", "Report", "describe", "train"]
