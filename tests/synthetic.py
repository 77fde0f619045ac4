"""Traces without models: the decoding loop over tables, with words as tokens and computed times. For tests that read traces."""

from __future__ import annotations

import random
from dataclasses import replace

from conftest import table_steps

from lookahead.core.events import Settings
from lookahead.core.table import TableLM
from lookahead.core.version import VERSION
from lookahead.trace.race import Recorder
from lookahead.trace.schema import Costs, LaneRecord, Machine, ModelNames, PromptRecord, SettingsRecord
from lookahead.trace.trace import Trace

VOCAB, SHIFT = 64, 3000  # SHIFT gives ids with as many digits as real ones
HEADS, TAILS = ("b", "st", "gr", "m", "sh", "fl", "pr", "t"), ("e", "orest", "ay", "ill", "arden", "ound", "ight", "ed")
MISS = 0.25
ROWS, SECONDS = (1, 2, 3, 5, 9, 17, 33), (0.005, 0.0054, 0.0056, 0.006, 0.0066, 0.0078, 0.01)


class Near(TableLM):
    """A draft model that equals the target's table except for a share `MISS` of the contexts."""

    def logits_after(self, sequence):
        missed = random.Random(f"miss:{sequence[-self.order :]}").random() < MISS
        return TableLM(self.vocab, self.order, self.seed + missed, self.spread).logits_after(sequence)


def word(token):
    """Return the text of an id."""
    return f" {HEADS[token % 8]}{TAILS[token // 8 % 8]}"


class Pieces:
    """The methods of `text.IncrementalDetokenizer` that `Recorder` calls."""

    def add(self, token):
        return word(token)

    def decode_draft(self, tokens, parents):
        return [word(token) for token in tokens]

    def flush(self):
        return ""


def realistic(step, draws):
    """Return a step with long ids and plausible times."""
    draft, drafter = step.draft, 0.0009 if "draft" in step.draft.sources else 0.00001
    noise = draws.uniform(0.95, 1.15)
    tests = [replace(t, token=t.token + SHIFT, top=tuple((i + SHIFT, p) for i, p in t.top)) for t in step.tests]
    return replace(
        step,
        draft=replace(draft, tokens=tuple(t + SHIFT for t in draft.tokens)),
        emitted=tuple(t + SHIFT for t in step.emitted),
        tests=tuple(tests),
        propose_s=drafter * len(draft) * noise,
        verify_s=(0.0049 + 0.0002 * len(draft)) * noise,
        other_s=0.00012 * noise,
    )


def lane(method, new_tokens=60, k=4, opaque=False, **options):
    """Return the record of a lane."""
    target = TableLM(VOCAB, order=3, seed=5, spread=3.0)
    settings = Settings(max_new_tokens=new_tokens, k=k)
    method_options = {name: value for name, value in options.items() if name != "draft"}
    steps = table_steps(
        method,
        settings,
        target=target,
        draft=Near(VOCAB, order=3, seed=5, spread=3.0),
        prompt=(1, 2, 3, 4),
        **method_options,
    )
    draws, recorder = random.Random(method), Recorder(Pieces(), word)
    records = [recorder.record(realistic(step, draws)) for step in steps]
    if opaque:
        no_drafts = {"draft": {}, "statuses": [], "path": [], "tests": [], "propose_s": 0.0}
        records = [type(r).model_validate({**r.model_dump(), **no_drafts}) for r in records]
    return LaneRecord(method="hf-assisted" if opaque else method, opaque=opaque, options=options, steps=records)


def trace(*lanes, prompt="Once upon a time there was a small frog who", max_new_tokens=60, **changes):
    """Return the trace of a race with these lanes."""
    ids = list(range(SHIFT, SHIFT + 12))
    return Trace(
        **{
            "created": "2026-11-21T09:46:13+00:00", "version": VERSION,
            "machine": Machine(cpu="A processor", cores=2, threads=2, device="cpu", dtype="bfloat16", torch="2"),
            "models": ModelNames(spec="table", target="a table", drafts={"draft": "nearly that table"}),
            "exactness": "bit-exact",
            "settings": SettingsRecord(
                max_new_tokens=max_new_tokens, k="auto", temperature=0, top_k=0, top_p=1, repetition_penalty=1, seed=0,
                rule="greedy", stop=[], chat=False,
            ),
            "prompt": PromptRecord(text=prompt, tokens=ids, pieces=[word(i) for i in ids]),
            "costs": Costs(rows=list(ROWS), seconds=list(SECONDS)),
            "lanes": list(lanes),
            **changes,
        }
    )  # fmt: skip
