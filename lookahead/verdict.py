"""The verdict: one sentence on why a lane was fast or slow, and the arithmetic behind it.

Knows records and their statistics; `trace.py` hands it both.
"""

from __future__ import annotations

from typing import Any

from .tree import depths


def of(record: Any, naive: Any, stats: dict[str, Any], base: dict[str, Any], auto: bool = False) -> dict[str, Any]:
    """The sentence and the arithmetic for a lane's record and naive's, with the statistics of both.

    `auto` says that the lane was free to draft nothing.
    """
    passes, pass_s = stats["num_spec_steps"], base["clock_s"] / base["num_spec_steps"]
    per_pass = stats["new_tokens"] / passes
    cost = stats["clock_s"] / passes / pass_s
    verify = sum(s.verify_s for s in record.verified) / passes
    plain = sum(s.verify_s for s in naive.verified) / base["num_spec_steps"]
    rows = 1 + sum(len(s.draft.tokens) for s in record.verified) / passes
    drafting = sum(s.propose_s for s in record.verified) / stats["clock_s"]
    reach = 1 + sum(_depth(s.draft) for s in record.verified) / passes
    gain, best = stats["speedup"], reach / cost
    facts = (
        f"{per_pass:.1f} tokens a pass; verifying {rows:.1f} rows costs {verify / plain:.2f} passes; "
        f"drafting took {drafting:.0%} of the time"
    )
    if record.opaque:
        return _opaque(stats, base, per_pass, cost, passes)
    if stats["num_draft_tokens"] == 0:
        why = "auto found no draft worth its cost here" if auto else "nothing was drafted"
        mend = " A draft length in numbers makes it draft all the same." if auto else ""
        sentence = f"{gain:.2f}x: {why}, so every pass wrote one token, as in naive decoding.{mend}"
    elif gain >= 1:
        sentence = f"{gain:.2f}x: {facts}. A perfect draft of this length would give {best:.1f}x."
    else:
        sentence = f"{gain:.2f}x, slower, because a pass with its draft cost {cost:.2f} ordinary passes and wrote {per_pass:.1f} tokens: {facts}."
    arithmetic = [
        f"tokens a pass = {stats['new_tokens']} tokens / {passes} passes = {per_pass:.2f}",
        f"cost of a pass = ({_ms(stats['clock_s'])} / {passes}) / ({_ms(base['clock_s'])} / {base['num_spec_steps']}) = {cost:.2f} naive passes",
        f"speedup = tokens a pass / cost of a pass = {per_pass:.2f} / {cost:.2f} = {gain:.2f}",
        f"verifying = {_ms(verify)} for {rows:.1f} rows / {_ms(plain)} for 1 row = {verify / plain:.2f}",
        f"accepted {stats['num_accepted_draft_tokens']} of {stats['num_draft_tokens']} drafted tokens",
        f"perfect draft = (1 + {reach - 1:.2f} tokens deep) / {cost:.2f} = {best:.2f}x",
    ]
    return {"sentence": sentence, "arithmetic": arithmetic}


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _opaque(stats: dict[str, Any], base: dict[str, Any], per_pass: float, cost: float, passes: int) -> dict[str, Any]:
    gain = stats["speedup"]
    return {
        "sentence": f"{gain:.2f}x: {per_pass:.1f} tokens a pass, and a pass with its drafting cost {cost:.2f} ordinary "
        "passes. What this method drafted it does not tell.",
        "arithmetic": [
            f"tokens a pass = {stats['new_tokens']} tokens / {passes} passes = {per_pass:.2f}",
            f"cost of a pass = ({_ms(stats['clock_s'])} / {passes}) / ({_ms(base['clock_s'])} / {base['num_spec_steps']}) = {cost:.2f} naive passes",
            f"speedup = tokens a pass / cost of a pass = {per_pass:.2f} / {cost:.2f} = {gain:.2f}",
        ],
    }


def _depth(draft: Any) -> int:
    """How deep the part of a draft goes that is there to be tested."""
    return max(depths(draft.parents[: len(draft.tokens) - draft.window]), default=0)
