"""The draft length policy for a numeric `k`."""

from ..core.policy import DraftPolicy, StopRule, reach_probabilities
from ..core.tree import depths


class FixedLength(DraftPolicy):
    """Draft up to a depth of `longest` tokens in every pass. Rows are assumed to cost nothing."""

    def __init__(self, longest: int):
        self.longest = longest

    def limit(self, source):
        return self.longest

    def stop_rule(self, source):
        return StopRule()

    def expected_speedup(self, draft):
        return 1 + sum(reach_probabilities(draft, lambda source, confidence, depth: confidence))

    def recent_speedup(self, source):
        return 1 + self.longest / 2  # as if half of every draft were accepted

    def trim(self, draft):
        if draft.window:  # a window has its own depth
            return draft
        return draft.pruned([row for row, depth in enumerate(depths(draft.parents)) if depth <= self.longest])

    def draft_s(self, draft):
        return 0.0

    def observe(self, step):
        pass
