"""Whether a tiny model of an architecture runs with every method, or why it is refused."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from architectures import PROMPT, TOKENS, build, config_of, generated, tiny
from conftest import emitted, table_steps

from lookahead.core.events import ModelError, Settings
from lookahead.family import exactness
from lookahead.kernels import CachedLM
from lookahead.model import layer_skip, loading
from lookahead.model.forward import Rollback

METHODS = ("naive", "ngram", "draft", "tree", "lookahead", "suffix", "self")
PROBE_S = 0.1
NOISE = 0.05  # of the draft model
TIE = 0.02  # logits: a smaller difference is rounding, although a short probe may find less
NOTHING = Rollback(0)
K = 4  # drafted tokens


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an architecture. `refused` is the reason if it is refused; the other fields are set if it runs."""

    kind: str
    refused: str = ""
    rollback: Rollback = NOTHING
    exactness: str = ""
    methods: tuple[str, ...] = ()  # methods that ran
    wrong: tuple[str, ...] = ()  # methods whose text is neither naive's nor differs only after a tie
    distinct: int = 0  # ids in the text

    @property
    def rolled_back(self) -> str:
        """How the cache is rolled back, in words."""
        keys, windows, recurrent, row_by_row, by_paths = self.rollback
        parts = ["keys cut"] if keys else []
        parts += ["window masked"] if windows else []
        parts += ["snapshot and replay"] if recurrent else []
        parts += ["row by row"] if row_by_row else []
        parts += ["trees as chains"] if by_paths else []
        return ", ".join(parts)


@cache
def outcome(kind: str) -> Outcome | None:
    """Return the outcome of an architecture; None if no tiny model of it can be built or generates text."""
    try:
        drawn = tiny(kind)
    except Exception:  # an architecture can raise any error
        return None
    arguments = {"seed": drawn.seed, "scale": drawn.scale}
    try:
        with tempfile.TemporaryDirectory() as folder:
            config_of(kind).save_pretrained(folder)
            attention = loading.supported_attention(loading.meta_model(folder))
        target = CachedLM(build(kind, attention=attention, **arguments))
        probed = exactness.probe(target, PROBE_S)
    except ModelError as error:
        return Outcome(kind, error.hint)
    draft = CachedLM(build(kind, attention=attention, noise=NOISE, **arguments), exact=False)
    texts = dict(_texts(target, draft))
    naive, margin = texts["naive"], max(TIE, 2 * probed.worst)
    wrong = [method for method, ids in texts.items() if not _agrees(target, naive, ids, margin)]
    if not _agrees(target, naive, drawn.ids, margin):
        # The cache of some models drops keys that their attention reads. Their text without a cache counts.
        uncached = generated(build(kind, **arguments), use_cache=False)
        wrong += [] if _agrees(target, naive, uncached, margin) else ["generate"]
    return Outcome(kind, "", target.passes.rollback, probed.kind, tuple(texts), tuple(wrong), drawn.distinct)


def _texts(target: CachedLM, draft: CachedLM) -> Iterator[tuple[str, list[int]]]:
    """Yield each method that can run, and its ids."""
    settings = Settings(max_new_tokens=TOKENS, temperature=0.0, details=False)
    for method in METHODS:
        try:
            drafter = layer_skip.drafter(target) if method == "self" else draft
        except ModelError:  # the first layers cannot be used alone
            continue
        yield method, emitted(table_steps(method, settings, target=target, draft=drafter, prompt=PROMPT, k=K))


def _agrees(target: CachedLM, naive: list[int], ids: list[int], margin: float) -> bool:
    """Return whether ids are naive's up to their end or up to a tie: two logits that differ by at most `margin`."""
    if naive == ids:
        return True
    same = next((i for i, pair in enumerate(zip(naive, ids, strict=False)) if pair[0] != pair[1]), None)
    if same is None:
        return False
    logits = target.fresh().extend([*PROMPT, *naive[:same]])[0]
    return float((logits[naive[same]] - logits[ids[same]]).abs()) <= margin
