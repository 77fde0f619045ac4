"""block: one pass of a trained head drafts a whole block (DFlash, DSpark; see `model.block_head`).

The head reads the target's hidden states of the text, so it is as sure of the next tokens as the target's middle layers are.
Its slots are filled from left to right: what the Markov head adds depends on the token before. The draft ends where one more
token would no longer pay, as the confidence head has it.

Knows the target by its hidden states only.
"""

from __future__ import annotations

from ..core.events import EMPTY, Draft
from .base import Drafter


class Block(Drafter):
    """A block of tokens from one pass."""

    name = "block"
    summary = "drafts a block with a trained head"
    head = "block"

    def start(self, context):
        self.blocks.reset()
        if len(context) > 1:
            self.blocks.block(self.states(0), context[-1])

    def propose(self, context, room, policy):
        longest = min(room, policy.limit(self.name), self.blocks.slots)
        if longest < 1:
            return EMPTY
        block = self.blocks.block(self.states(self.blocks.read), context[-1])
        picks, chances, text, reach = [], [], list(context), 1.0
        while True:
            scores, chance = block.slot(len(picks), text[-1])
            pick = self.rule.choose(scores, text)
            picks.append(pick)
            chances.append(chance)
            text.append(pick.token)
            reach *= policy.chance(self.name, chance)
            if len(picks) >= longest or not policy.extends(self.name, reach):
                break
        sampled = picks[0].q is not None
        return Draft.chain([p.token for p in picks], self.name, [p.q for p in picks] if sampled else None, chances)
