"""Sentences on a race: why a lane was fast or slow, whether it wrote naive's text, and how steady the clock was."""

from typing import Any

from ..core.events import BIT_EXACT
from ..core.numbers import count, counted, decimal, percent, ratio, seconds, significant
from ..drafting import DRAFTERS
from . import agreement as agreements
from .agreement import Outcome
from .results import Badge, Statistics, Trust, Verdict

MIN_S = 1e-9  # seconds: the shortest time that a clock measures
MIN_PASSES = 8  # naive passes needed to judge whether the clock is steady
TAIL = 24  # characters of the end of a text in a sentence
CHANGES_TEXT = "changes the text"
STEADY = 2.0  # largest ratio of the slowest tenth to the fastest: the context grows, and clock rates vary


def explain(race: Any, lane: int) -> Verdict | None:
    """Return the sentence and the arithmetic for a lane; None if it or naive has not run, and for naive itself."""
    record, naive = race.lanes[lane], race.naive()
    if naive is None or record is naive or not record.verified or not naive.verified:
        return None
    stats, base = race.stats(lane), race.stats(race.lanes.index(naive))
    if not stats.speedup or sum(step.verify_s for step in naive.verified) < MIN_S:
        return None  # nothing was written, or a clock did not run
    predicted = race.predicted(lane)
    tokens, passes, gain = stats.new_tokens, stats.num_spec_steps, stats.speedup
    per_pass, cost = tokens / passes, stats.clock_s / passes / (base.clock_s / base.num_spec_steps)
    arithmetic = [
        f"tokens per pass = {tokens} tokens / {passes} passes = {decimal(per_pass)}",
        f"cost of a pass = ({seconds(stats.clock_s)} / {passes}) / ({seconds(base.clock_s)} / {base.num_spec_steps}) = {decimal(cost)} naive passes",
        f"speedup = tokens per pass / cost of a pass = {decimal(per_pass)} / {decimal(cost)} = {decimal(gain)}",
    ]
    if record.opaque:
        sentence = (
            f"{ratio(gain)}: {decimal(per_pass)} tokens per pass, and a pass with its drafting cost {decimal(cost)} naive "
            f"passes. {_counts_in_words(record, stats)}"
        )
    else:
        sentence, details = _of_drafts(record, naive, stats, cost, race.settings.k == "auto")
        arithmetic += details
    if predicted is not None:
        arithmetic.append(
            f"predicted by calibration = {tokens} x {seconds(predicted.naive_s)} / "
            f"({seconds(predicted.verify_s)} verifying + {seconds(predicted.draft_s)} drafting) = {ratio(predicted.speedup)}"
        )
    sentence += ending(record, race.prompt)
    arithmetic.append("one run of one prompt has no interval; the bench and the Lab compute one over several prompts")
    return Verdict(sentence, arithmetic)


def agreement(race: Any, lane: int) -> Badge | None:
    """Return a badge: whether a lane wrote naive's text. None for naive itself, and without a naive lane."""
    if (compared := agreements.compare(race, lane)) is None:
        return None
    (length, base), number = compared.lengths, (compared.position or 0) + 1
    if compared.outcome is Outcome.SAME:
        exact = race.exactness == BIT_EXACT and "server" not in race.lanes[lane].options
        return Badge(True, "identical, bit-exact" if exact else "identical")
    if compared.outcome is Outcome.DISTRIBUTION:
        detail = "The rule keeps the target's distribution, not its text."
        return Badge(None, "same distribution, different text", detail)
    if compared.outcome is Outcome.LOSSY:
        return _of_changes(race.lanes[lane], race.settings)
    if compared.outcome is Outcome.LENGTH:
        return Badge(False, "differs in length: a bug", f"{length} tokens against {base}.")
    if compared.outcome is Outcome.NO_TEXT:
        which = "One of the two servers" if length or base else "Neither server"
        return Badge(None, "no text to compare", f"{which} sent no text.")
    if compared.outcome is Outcome.SERVERS:
        where = f"{'character' if compared.as_text else 'token'} {number}"
        detail = (
            f"The two texts differ from {where} on. An engine rounds a row differently if other rows share its pass. "
            "If two tokens are almost equally likely, it may choose either."
        )
        return Badge(False, f"differs at {where}", detail, position=compared.position)
    logits = "" if compared.margin is None else f"{significant(compared.margin)} logits"
    cause = {
        Outcome.BUG: "a bug",
        Outcome.TIE: f"a tie of {logits}",
        Outcome.TOO_FAR: f"a bug, the margin is {logits}",
        Outcome.NO_MARGIN: "its margin was not recorded",
    }[compared.outcome]
    detail = (
        f"Token {number}: naive wrote id {compared.tokens[0]}, this lane {compared.tokens[1]}, "
        f"in its pass {compared.number} of {counted(compared.rows, 'row')}."
    )
    detail += f" Naive's two best tokens were {logits} apart." if logits else ""
    numbers = (compared.position, compared.margin, compared.number, compared.rows)
    return Badge(False, f"differs at token {number}: {cause}", detail, *numbers)


def _of_changes(record: Any, settings: Any) -> Badge:
    """Return the badge of a lane under a lossy rule. Its text is never called identical, also if no token changed."""
    rule = f"The {settings.rule} rule at weight {decimal(settings.weight)} may accept tokens that naive would not write"
    if record.opaque:
        return Badge(None, CHANGES_TEXT, f"{rule}. This method does not report which ones it did accept.")
    written, changes = max(1, len(record.tokens)), record.changes
    lost = sum(change.lost for change in changes) / written
    badge = (
        f"{CHANGES_TEXT}: {len(changes)} of {counted(len(record.tokens), 'token')}, {percent(len(changes) / written)}"
    )
    return Badge(
        None,
        badge,
        f"{rule} after the same text. The target's log-probability falls by {decimal(lost)} nats per token.",
    )


def trust(race: Any) -> Trust | None:
    """Return whether naive's passes took about equally long; None for too few passes. Other programs can slow them."""
    naive = race.naive()
    if naive is None or naive.opaque or len(naive.verified) < MIN_PASSES:
        return None
    times = sorted(step.seconds for step in naive.verified)
    low, high = times[len(times) // 10], times[-1 - len(times) // 10]
    took = f"naive's passes took {seconds(low)} to {seconds(high)}"
    if high <= STEADY * low:
        return Trust(True, f"Steady clock: {took}.")
    return Trust(False, f"Busy machine ({took}): compare passes.")  # two lines of the page


def ending(record: Any, prompt: Any) -> str:
    """Return sentences, with a space before them, if the context is full, or if the text does not match its schema; else ""."""
    if not record.steps:
        return ""
    last, sentence = record.steps[-1], ""
    if last.finish == "context":
        end = count(len(prompt.tokens) + len(record.tokens))
        sentence = f" The text ends after token {end}, because the model's context is full."
    if last.satisfied is False:
        written, end = counted(len(record.tokens), "token"), repr(record.text[-TAIL:])
        sentence += f" The text does not match its schema yet: it ends after {written}, with {end}."
        sentence += " Allow more new tokens." if last.finish == "length" else ""
    return sentence


def _counts_in_words(record: Any, stats: Statistics) -> str:
    """Return a sentence on the drafts that an opaque lane reports."""
    if record.differs:
        return f"The server's counts do not match the received text: {record.differs}."
    if record.streamed:
        return "Shown as streamed: this server reports no token ids and no drafts. Each received part is one token."
    if not stats.num_draft_tokens:
        fresh = " transformers runs with a default generation configuration. Only the end tokens come from generation_config.json."
        return f"This method does not report its drafts.{'' if 'server' in record.options else fresh}"
    return f"{stats.num_accepted_draft_tokens} of {stats.num_draft_tokens} drafted tokens were accepted. Servers do not report which ones were rejected."


def _of_drafts(record: Any, naive: Any, stats: Statistics, cost: float, auto: bool) -> tuple[str, list[str]]:
    """Return the sentence and the arithmetic of a lane that reports its drafts. `auto` is true if it could skip drafting."""
    passes, gain, per_pass = stats.num_spec_steps, stats.speedup, stats.new_tokens / stats.num_spec_steps
    verify = sum(s.verify_s for s in record.verified) / passes
    plain = sum(s.verify_s for s in naive.verified) / len(naive.verified)
    rows = 1 + sum(len(s.draft.tokens) for s in record.verified) / passes
    drafting = sum(s.propose_s for s in record.verified) / stats.clock_s
    depth = sum(s.depth for s in record.verified) / passes
    best = (1 + depth) / cost
    facts = (
        f"{decimal(per_pass)} tokens per pass; verifying {decimal(rows)} rows costs {decimal(verify / plain)} passes; "
        f"drafting took {percent(drafting)} of the time"
    )
    if stats.mask_fraction is not None:
        facts += f", and masks {percent(stats.mask_fraction)}"
    if stats.num_draft_tokens == 0:
        why = "auto found no draft worth its cost here" if auto else "nothing was drafted"
        if getattr(DRAFTERS.get(record.method), "needs_schema", False) and stats.mask_fraction is None:
            why, auto = f"{record.method} needs a schema, and none was set", False
        hint = " Set a numeric draft length to force drafting." if auto else ""
        sentence = f"{ratio(gain)}: {why}, so every pass wrote one token, as in naive decoding.{hint}"
    elif gain >= 1:
        sentence = f"{ratio(gain)}: {facts}. A perfect draft of this length would give {ratio(best)}."
    else:
        sentence = f"{ratio(gain)}, slower: a pass with its draft cost {decimal(cost)} naive passes and wrote {decimal(per_pass)} tokens. {facts}."
    return sentence, [
        f"verifying = {seconds(verify)} for {decimal(rows)} rows / {seconds(plain)} for 1 row = {decimal(verify / plain)}",
        f"accepted {stats.num_accepted_draft_tokens} of {stats.num_draft_tokens} drafted tokens",
        f"perfect draft = (1 + {decimal(depth)} tokens deep) / {decimal(cost)} = {ratio(best)}",
    ]
