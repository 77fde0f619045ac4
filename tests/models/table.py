"""Write the table of all architectures into docs/models.md: `python tests/models/table.py`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import torch  # noqa: E402
import transformers  # noqa: E402
from architectures import KINDS  # noqa: E402
from outcomes import Outcome, outcome  # noqa: E402

from lookahead.measure.tables import markdown_table, replace_between, split  # noqa: E402
from lookahead.model.modules import OTHER  # noqa: E402

FILE, NAME = ROOT / "docs" / "models.md", "architectures"


def markdown(outcomes: dict[str, Outcome | None]) -> str:
    """Return the architectures that run, the refused ones by reason, and those without a tiny model."""
    results = [result for result in outcomes.values() if result]
    running = [result for result in results if not result.refused]
    refused = sorted((_reason(result), result.kind) for result in results if result.refused)
    without = [f"`{kind}`" for kind, result in outcomes.items() if result is None]
    wrong = [result.kind for result in running if result.wrong]
    if wrong:
        raise SystemExit(f"other text than naive decoding: {', '.join(wrong)}")
    rows = [(f"`{result.kind}`", result.rolled_back, result.exactness) for result in running]
    counts = f"{len(running)} of {len(results)} architectures run, with transformers {transformers.__version__}."
    parts = [
        counts,
        markdown_table(("architecture", "how its cache is rolled back", "exactness"), rows),
        markdown_table(("refused", "because"), [(f"`{kind}`", reason) for reason, kind in refused]),
        f"Not tested, because no tiny model can be built or generates text: {', '.join(without)}.",
    ]
    return "\n\n".join(parts)


def _reason(result: Outcome) -> str:
    return re.sub(r" \(\w+Error: .*", "", result.refused.removesuffix(f"; {OTHER}"))


def documented() -> tuple[set[str], set[str], set[str]]:
    """Return the architectures that run, that are refused, and that have no tiny model, according to docs/models.md."""
    text = split(FILE, NAME)[1]
    parts = (r"^\| `([\w-]+)`(?: +\|[^|\n]+){2}\|$", r"^\| `([\w-]+)` +\|[^|\n]+\|$", r"`([\w-]+)`[,.]")
    running, refused, without = (set(re.findall(part, text, re.MULTILINE)) for part in parts)
    return running, refused, without


def main() -> None:
    """Run all architectures and update the file."""
    torch.set_num_threads(1)  # faster for tiny models
    replace_between(FILE, NAME, markdown({kind: outcome(kind) for kind in KINDS}))


if __name__ == "__main__":
    main()
