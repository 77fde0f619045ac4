"""Greedy decoding with a head's drafts, to measure the tokens per pass."""

from collections.abc import Sequence

from ..core.events import Settings
from ..core.rules import rule_for
from ..drafting import Resources, drafter_with
from ..engine.decode import Request, decode
from ..engine.fixed_length import FixedLength
from ..engine.stop_conditions import StopConditions
from ..model.heads.head import Head
from ..model.lm import CachedLM

LONGEST = 8  # tokens of a draft, if the head allows them


def verified_passes(
    head: Head, target: CachedLM, prompt: Sequence[int], eos: frozenset[int], max_new_tokens: int
) -> tuple[int, int]:
    """Continue a prompt by up to `max_new_tokens` tokens; return the emitted tokens and the passes that verified drafts."""
    rule, lm, strategy = rule_for(Settings()), head.fresh(target.vocab), drafter_with(head.shape.kind)
    lm.follow(target)
    drafter = strategy(Resources(rule, lm), strategy.Options())
    stop = StopConditions(eos, max_new_tokens, target.context_length)
    steps = decode(Request(target, drafter, FixedLength(min(lm.longest, LONGEST)), rule, prompt, stop, details=False))
    lengths = [len(step.emitted) for step in steps if step.kind == "verify"]
    return sum(lengths), len(lengths)
