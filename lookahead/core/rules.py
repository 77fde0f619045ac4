"""Every acceptance rule by name."""

from .accept import Coupled, Greedy, Rejection, Rule
from .block_verification import BlockVerification
from .events import Settings
from .lossy import Ensemble, Relaxed, Typical
from .masks import Masks

_RULES: dict[str, type[Rule]] = {
    rule.name: rule for rule in (Greedy, Coupled, Rejection, BlockVerification, Typical, Relaxed, Ensemble)
}


def rule_for(settings: Settings, masks: Masks | None = None) -> Rule:
    """Return the acceptance rule of the settings, with the masks of a schema."""
    return _RULES[settings.acceptance](settings, masks)
