"""What a server counts of all that it does, by its Prometheus metrics: read before and after, and compared.

Knows the names of vLLM and llama-server (with `--metrics`). It does not know what was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import httpx2

from ...core.text_files import lines
from .asking import Known
from .llama_server import LlamaServer
from .stream import Patience, text_of
from .vllm import VLLM

_DRAFTING = {
    "passes": "spec_decode_num_drafts_total",
    "drafted": "spec_decode_num_draft_tokens_total",
    "accepted": "spec_decode_num_accepted_tokens_total",
}
NAMES = {
    VLLM: ("vllm:", {"generated": "generation_tokens_total", **_DRAFTING}),
    LlamaServer: ("llamacpp:", {"generated": "tokens_predicted_total", **_DRAFTING}),
}  # by kind: what they begin with, and each


@dataclass(frozen=True, slots=True)
class Counters:
    """Tokens that a server has generated, passes with a draft, tokens drafted and accepted, of all requests since its start."""

    generated: int = 0
    passes: int = 0
    drafted: int = 0
    accepted: int = 0

    def since(self, before: Counters) -> Counters:
        """What has been added."""
        return Counters(*(getattr(self, f.name) - getattr(before, f.name) for f in fields(self)))


async def read(opened: httpx2.AsyncClient, known: Known, patience: Patience) -> Counters | None:
    """What a server has counted; None where it does not say."""
    if known.reply not in NAMES:
        return None
    prefix, names = NAMES[known.reply]
    try:
        samples = lines(await text_of(opened, known.server, "/metrics", patience))
        return Counters(**{field: _sum(samples, prefix + name) for field, name in names.items()})
    except ValueError:  # a RemoteError too: not every server shows its metrics
        return None


def _sum(lines: Sequence[str], name: str) -> int:
    """A counter's value, of all its labels together, of lines `name{labels} value`."""
    samples = (line for line in lines if line.startswith((f"{name}{{", f"{name} ")))
    return int(sum(float(line.rpartition(" ")[2]) for line in samples))
