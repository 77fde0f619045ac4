# The public names, imported when first used: `lazy_loader` reads this file.
from .core.costs import CostCurve as CostCurve
from .core.costs import PassCosts as PassCosts
from .core.events import Draft as Draft
from .core.events import LookaheadError as LookaheadError
from .core.events import MethodError as MethodError
from .core.events import ModelError as ModelError
from .core.events import PromptError as PromptError
from .core.events import Settings as Settings
from .core.events import SettingsError as SettingsError
from .core.events import Step as Step
from .core.events import Test as Test
from .core.events import TraceError as TraceError
from .core.table import TableLM as TableLM
from .engine.lane import decode as decode
from .family.exactness import Exactness as Exactness
from .family.hub import load as load
from .family.models import Models as Models
from .kernels import CachedLM as CachedLM
from .trace.race import Race as Race
from .trace.race import race as race
from .trace.trace import Trace as Trace
from .trace.wire import LaneStep as LaneStep

METHODS: tuple[str, ...]
__version__: str
