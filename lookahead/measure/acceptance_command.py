"""`python -m lookahead acceptance FILE`: what AIPerf, vLLM or a trace of ours recorded of drafts, judged alike.

Knows arguments and records. It does not know who drafted.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core.acceptance import Acceptance
from ..core.events import TraceError
from ..trace.acceptance_record import AcceptanceRecord, read
from .intervals import interval
from .tables import writable

KS = tuple(range(1, 17))
FIXED = "tokens after a rejection were not tested; positions that no draft reached count as the average of all others"
VARYING = "there is no forecast of tokens per pass, because draft lengths vary or are unknown; forecasts need one fixed length"


def add(commands: Any) -> argparse.ArgumentParser:
    """The subcommand and its arguments."""
    words = "what was recorded of drafts by AIPerf, by vLLM or in a trace of ours"
    acceptance = commands.add_parser("acceptance", help=words)
    acceptance.add_argument("file", type=Path, help="JSON, or JSON lines")
    acceptance.add_argument("--records", type=Path, metavar="OUT.jsonl", help="write AIPerf's records, one a text")
    acceptance.add_argument("--json", action="store_true", help="one JSON document on stdout")
    return acceptance


def run(arguments: argparse.Namespace) -> None:
    """Read, judge, print; write the records where asked to."""
    from . import terminal

    if arguments.records:
        writable(arguments.records)
    try:
        text = arguments.file.read_bytes()
    except OSError as error:
        raise TraceError("file", str(arguments.file), f"it cannot be read ({error.__class__.__name__}).") from None
    records = read(text)
    if arguments.records:
        lines = "".join(record.model_dump_json(exclude_none=True) + "\n" for record in records)
        arguments.records.write_text(lines, encoding="utf-8")
    report = judged(records)
    if arguments.json:
        print(json.dumps(report))
    else:
        terminal.show_acceptance(report)


def judged(records: Sequence[AcceptanceRecord]) -> dict[str, Any]:
    """Acceptance of all texts together, by position, with 90% intervals over texts, and the tokens per pass that follow.

    Tokens per pass are forecast only if all drafts had a fixed length. A draft that ends because confidence is low hides tokens
    that were less likely to be accepted, so a forecast from it would be too high.
    """
    of = _together(records)
    fixed = all(record.has_fixed_length for record in records)
    return {
        "texts": len(records), "engines": sorted({record.engine for record in records}),
        "num_spec_steps": sum(record.num_spec_steps for record in records),
        "mean_acceptance_length": _length(records), "interval": interval(records, _length),
        "draft_acceptance_rate": sum(r.num_accepted_draft_tokens for r in records) / max(1, sum(r.num_draft_tokens for r in records)),
        "by_position": [
            {"position": place, "accepted": accepted, "tested": tested, "rate": accepted / tested}
            for place, (accepted, tested) in enumerate(zip(of.accepted, of.tested, strict=True), start=1)
        ],
        "tokens_a_pass": [{"k": k, "tokens": _tokens(of, k)} for k in KS] if fixed else [],
        "note": FIXED if fixed else VARYING,
    }  # fmt: skip


def _together(records: Sequence[AcceptanceRecord]) -> Acceptance:
    drafts: Counter[tuple[int, bool]] = Counter()
    for record in records:
        drafts.update(record.drafts)
    return Acceptance.of_counts(drafts)


def _length(records: Sequence[AcceptanceRecord]) -> float:
    """Tokens a pass, the target's own included."""
    steps = sum(record.num_spec_steps for record in records)
    return 1 + sum(record.num_accepted_draft_tokens for record in records) / max(1, steps)


def _tokens(of: Acceptance, k: int) -> float:
    return sum(chance * (1 + n) for n, chance in enumerate(of.chances(k)))
