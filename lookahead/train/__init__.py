"""How the bundled models were made, runnable: `python -m lookahead train`.

Where there is a GPU it is used, with more at once (`Plan.on_a_gpu`). The heads that ship went on on one by a script of its own, with
the same networks and losses; their cards say how.

`corpus` reads, `tokenizer` and `batches` turn text into rows, `fit` trains, `family` orders the
stages, `writing` has the target write for its draft, `evaluate` measures, `card` reports.
"""

from .family import ROLES, Job, describe, train
from .plan import Plan

__all__ = ["ROLES", "Job", "Plan", "describe", "train"]
