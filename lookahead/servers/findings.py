"""Findings of the doctor: faults of speculation on a server, each with its evidence and the flag to change.

`diagnose` compares the measurements with thresholds. Those of acceptance follow from `PUBLISHED`, the acceptance of drafters at
the first position. Only greedy decoding on easy text is compared.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from ..core.numbers import count, counted, decimal, percent, ratio
from ..measure.decision import PAYS, Level, levels_of, texts_at_once
from ..measure.timing import Question
from ..trace.agreement import first_difference
from . import report
from .load import SIDES, Block
from .probes import Probe
from .replies import Completion

ERROR, WARNING, INFO, HEALTHY = "error", "warning", "info", "healthy"
BROKEN, LOW = 0.1, 0.5  # acceptance at the first position: half of a bigram table's, and below all trained drafters
DOMAIN = 2.0  # the best category's acceptance at the first position, relative to the worst one's, if the domain is the reason
ENOUGH = 20  # tests at the first position that a rate needs
TOO_LARGE, GAIN = 0.5, 1.2  # a draft length is too large if at most this share of it is faster by this factor
LOOPING, LOOP_ACCEPTANCE = 0.5, 0.9  # share of texts that end in a loop, and acceptance in loops
REPEATS, LOOP_TOKENS, MAX_PERIOD = 3, 24, 48  # of a loop: repetitions, length, and tokens per repetition
WRONG = 3  # answers that only the baseline has right
DIFFERING = 0.5  # share of texts that differ
MERGED = 1.05  # tokens per event from which events have several tokens


class Published(NamedTuple):
    """Published acceptance of a kind of drafter at the first position, from `low` to `high`."""

    drafter: str
    low: float
    high: float
    source: str


LEVIATHAN = "Leviathan et al., Fast Inference from Transformers via Speculative Decoding, 2023, table 3, greedy"
PUBLISHED = (
    Published("bigram table", 0.20, 0.23, LEVIATHAN),
    Published("small draft model", 0.61, 0.88, LEVIATHAN),
    Published("EAGLE", 0.74, 0.79, "Li et al., EAGLE: Speculative Sampling Requires Rethinking Feature Uncertainty, 2024, table 2, greedy"),
    Published("EAGLE-3", 0.61, 0.62, "vLLM, pull request 42764, 2026, gpt-oss with 5 drafted tokens"),
    Published("MTP module", 0.85, 0.90, "DeepSeek-AI, DeepSeek-V3 Technical Report, 2024, section 5.4.3"),
    Published("DSpark", 0.62, 0.84, "vLLM speculators, issue 1135, 2026, Llama-3.2-1B with 8 drafted tokens"),
    Published("n-grams", 0.54, 0.81, "vLLM, issue 19254 and pull request 24344, 2025"),
)  # fmt: skip
BIGRAM, DRAFT_MODEL = PUBLISHED[:2]

DRAFTING = {  # options that turn speculation on with `k` drafted tokens
    "vllm": """--speculative-config '{{"method": "draft_model", "model": "DRAFT", "num_speculative_tokens": {k}}}'""",
    "sglang": "--speculative-algorithm STANDALONE --speculative-draft-model-path DRAFT --speculative-num-steps {k} "
    "--speculative-eagle-topk 1 --speculative-num-draft-tokens {rows}",
    "llama-server": "--spec-type draft-simple --spec-draft-model DRAFT.gguf --spec-draft-n-max {k}",
    "tensorrt-llm": "speculative_config: {{decoding_type: Eagle3, speculative_model: HEAD, max_draft_len: {k}}}  # extra_llm_api_options",
}
LENGTH = {  # options that set the draft length
    "vllm": """--speculative-config '{{"method": "METHOD", "model": "DRAFT", "num_speculative_tokens": {k}}}'""",
    "sglang": "--speculative-num-steps {k} --speculative-eagle-topk 1 --speculative-num-draft-tokens {rows}",
    "llama-server": "--spec-draft-n-max {k}",
    "tensorrt-llm": "speculative_config: {{decoding_type: Eagle3, speculative_model: HEAD, max_draft_len: {k}}}  # extra_llm_api_options",
}
REPORTING = {  # options that report drafted and accepted tokens of every text
    "vllm": "--per-request-spec-decode-metrics detailed",
    "sglang": "",
    "llama-server": "",
    "tensorrt-llm": "per_request_spec_decode_stats: true  # extra_llm_api_options",
}
TYPICAL_K = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault or its absence: a name, its severity, a title, the evidence, and the change.

    `flag` is the option of the server to paste, "" if there is none.
    """

    id: str
    severity: str
    title: str
    evidence: str
    fix: str = ""
    flag: str = ""


@dataclass(slots=True)
class Measurements:
    """The measurements of the doctor.

    `blocks` have the texts of the questions, alone and under load. `answers` are probes with the answers of both servers,
    `contexts` numbers of tokens with texts of both, and `trials` texts with other draft lengths.
    """

    questions: Sequence[Question]
    kinds: Mapping[str, str] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    answers: Sequence[tuple[Probe, report.Pair]] = ()
    contexts: list[tuple[int, report.Pair]] = field(default_factory=list)
    trials: dict[int, Sequence[report.Pair]] = field(default_factory=dict)

    def by_prompt(self, at_once: int = 1) -> dict[int, report.Pair]:
        """Return the texts of both servers at a load, by the index of their question."""
        texts: dict[int, list[list[Completion]]] = {}
        for block in self.blocks:
            for text in block.texts if block.at_once == at_once else ():
                if text.completion:
                    texts.setdefault(text.prompt, [[], []])[SIDES.index(block.side)].append(text.completion)
        return {prompt: pair for prompt, pair in sorted(texts.items()) if all(pair)}

    def pairs(self, at_once: int = 1, category: str | None = None) -> list[report.Pair]:
        """Return the texts of both servers at a load: those of each question of a category, or of all."""
        pairs = self.by_prompt(at_once).items()
        return [pair for prompt, pair in pairs if category in (None, self.questions[prompt].category)]

    def completions(self, side: str, at_once: int | None = None) -> list[Completion]:
        """Return the texts of a server, at one load or at all."""
        blocks = [block for block in self.blocks if block.side == side and at_once in (None, block.at_once)]
        return [text.completion for block in blocks for text in block.texts if text.completion]

    @property
    def loads(self) -> list[int]:
        return sorted({block.at_once for block in self.blocks})

    @property
    def kind(self) -> str:
        """The kind of the server with speculation."""
        return self.kinds.get(SIDES[1], "")


class Forecast(NamedTuple):
    """The predicted speedup with `k` drafted tokens per pass."""

    k: int
    speedup: float


def forecasts(pairs: Sequence[report.Pair]) -> list[Forecast]:
    """Return the predicted speedups for draft lengths from 1 to the server's, [] if its length is unknown or varies.

    Passes per text follow from acceptance by position. The cost of a pass is interpolated between a pass without a draft and one
    with the server's draft length.
    """
    k, sides = draft_length(pairs), [[completion for pair in pairs for completion in pair[i]] for i in (0, 1)]
    acceptance = report.tested(sides[1])
    (plain_s, plain_passes), (fast_s, fast_passes) = map(_after_first, sides)
    if not k or not acceptance.tested or not plain_s or not fast_passes:
        return []
    tokens = round(plain_passes / len(sides[0]))  # of a mean text
    cost = max(1.0, fast_s / fast_passes / (plain_s / plain_passes))
    return [Forecast(n, tokens / acceptance.passes(n, tokens) / (1 + (cost - 1) * n / k)) for n in range(1, k + 1)]


def draft_length(pairs: Sequence[report.Pair]) -> int | None:
    """Return the fixed draft length of the server, None if it is unknown or varies. That of a tree is its depth."""
    fast = [completion for pair in pairs for completion in pair[1]]
    drafted, _, passes = report.counts(fast)
    k = round(drafted / passes) if passes else 0
    if not k or abs(drafted - k * passes) > 0.1 * drafted:
        return None
    return min([k, *(len(completion.histogram) - 1 for completion in fast if completion.histogram)])


def _after_first(completions: Iterable[Completion]) -> tuple[float, int]:
    """Return the seconds and passes after the first pass of every text. The last pass may accept tokens after the end."""
    seconds, passes = 0.0, 0
    for completion in completions:
        if completion.passes:
            _, accepted, drafts = completion.counts or (0, 0, 0)
            seconds += completion.total_s - completion.passes[0].at_s
            passes += max(drafts, completion.tokens - completion.passes[0].tokens - accepted)
    return seconds, passes


def loop_start(completion: Completion) -> int | None:
    """Return the index of the token at which a text begins to repeat itself up to its end, None without a loop.

    Without ids, characters are compared.
    """
    written: Sequence[Any] = completion.ids or completion.text
    for period in range(1, min(MAX_PERIOD, len(written) // REPEATS) + 1):
        start = len(written) - period
        while start > 0 and written[start - 1] == written[start - 1 + period]:
            start -= 1
        if len(written) - start >= max(REPEATS * period, LOOP_TOKENS):
            return start
    return None


def diagnose(measured: Measurements, gains: Sequence[Level]) -> list[Finding]:
    """Return the findings, the most severe first. The first one is `healthy` if there are no errors and warnings.

    `gains` are the `levels` of the measurements.
    """
    findings = [*_failures(measured)]
    findings += (off := [*_off(measured)])
    if "off" not in {finding.id for finding in off}:
        drafter = [*_drafter(measured)]
        speed = [] if drafter else [*_draft_length(measured, gains)] or [*_slower(measured, gains)]
        findings += [*drafter, *speed, *_loops(measured), *_counters(measured)]
    findings += [*_corrupted(measured), *_texts(measured)]
    order = [ERROR, WARNING, INFO]
    findings.sort(key=lambda finding: order.index(finding.severity))
    return (
        findings
        if any(finding.severity in order[:2] for finding in findings)
        else [_healthy(measured, gains), *findings]
    )


def _failures(measured: Measurements) -> Iterator[Finding]:
    """Find requests that only the server with speculation refuses."""
    plain, fast = (
        {
            text.prompt: text.error
            for block in measured.blocks
            if block.side == side
            for text in block.texts
            if text.error
        }
        for side in SIDES
    )
    if failed := [error for prompt, error in fast.items() if prompt not in plain]:
        evidence = f"{counted(len(failed), 'prompt')} failed with speculation only: {failed[0]}"
        yield Finding("failing", ERROR, "Requests fail.", evidence)


def _off(measured: Measurements) -> Iterator[Finding]:
    fast, plain = (measured.completions(side, 1) for side in SIDES[::-1])
    drafted = report.counts(fast)[0]
    counted_by_server = sum(
        (block.counted or {}).get("drafted", 0) for block in measured.blocks if block.side == SIDES[1]
    )
    if drafted or not fast or not plain:
        return
    kind, unreported = measured.kind, "The server does not report acceptance."
    if counted_by_server:
        evidence = f"Its counters have {count(counted_by_server)} drafted tokens, but its responses have no counts."
        fix = "Start the server with this option. Without it, acceptance by position and by category is unknown."
        yield Finding("unreported", WARNING, unreported, evidence, fix, REPORTING.get(kind, ""))
        return
    per_event = [sum(c.tokens for c in side) / max(1, sum(len(c.passes) for c in side)) for side in (fast, plain)]
    bursts = [_burst_share(side) for side in (fast, plain)]
    if per_event[0] > MERGED * per_event[1] or bursts[0] > bursts[1] + 0.1:
        evidence = (
            f"Its responses have no counts, but their events have {decimal(per_event[0])} tokens on average, and the baseline's "
            f"{decimal(per_event[1])}."
        )
        yield Finding("unreported", INFO, unreported, evidence, flag=REPORTING.get(kind, ""))
        return
    evidence = (
        f"{counted(len(fast), 'text')} have no drafted tokens. An event has {decimal(per_event[0])} tokens, as the baseline's "
        f"({decimal(per_event[1])}). The median gap between events is {_gap_ms(fast)} ms, the baseline's {_gap_ms(plain)} ms."
    )
    fix = (
        "Start the server with a drafter. Check its log: some options turn speculation off without an error. An n-gram drafter "
        "drafts only if a text repeats itself."
    )
    yield Finding("off", ERROR, "Speculation is off.", evidence, fix, _flag(DRAFTING, kind, TYPICAL_K))


def _burst_share(completions: Sequence[Completion]) -> float:
    """Return the share of gaps between events that are shorter than a tenth of the mean gap."""
    gaps = [b.at_s - a.at_s for completion in completions for a, b in pairwise(completion.passes)]
    mean = sum(gaps) / len(gaps) if gaps else 0.0
    return sum(gap < mean / 10 for gap in gaps) / len(gaps) if gaps else 0.0


def _gap_ms(completions: Sequence[Completion]) -> str:
    gaps = [b.at_s - a.at_s for completion in completions for a, b in pairwise(completion.passes)]
    return decimal(1e3 * median(gaps)) if gaps else "-"


def first_position(completions: Sequence[Completion]) -> tuple[float, int] | None:
    """Return the acceptance at the first position and its number of tests, None if it is unknown."""
    acceptance = report.tested(completions)
    return (acceptance.rates[0], acceptance.tested[0]) if acceptance.tested else None


def by_category(measured: Measurements) -> dict[str, float]:
    """Return the acceptance at the first position of each category that has enough tests."""
    out = {}
    for category in dict.fromkeys(question.category for question in measured.questions):
        fast = [completion for pair in measured.pairs(1, category) for completion in pair[1]]
        if (first := first_position(fast)) and first[1] >= ENOUGH:
            out[category] = first[0]
    return out


def _drafter(measured: Measurements) -> Iterator[Finding]:
    """Compare acceptance at the first position with published values."""
    first = first_position(measured.completions(SIDES[1], 1))
    if not first or first[1] < ENOUGH or first[0] >= LOW:
        return
    rate, tests = first
    categories = by_category(measured)
    rising = sorted(categories, key=lambda name: categories[name]) or [""]
    worst, best = rising[0], rising[-1]
    evidence = f"At the first position, {percent(rate, 1)} of {counted(tests, 'drafted token')} were accepted. "
    flag = _flag(DRAFTING, measured.kind, TYPICAL_K)
    if rate < BROKEN and categories.get(best, 0) < BIGRAM.low:
        evidence += f"A bigram table reaches {_published(BIGRAM)}, a small draft model {_published(DRAFT_MODEL)}."
        fix = (
            "The drafter predicts nothing of this target. Check that its weights are loaded, that it was trained for exactly this "
            "target, and that both have the same tokenizer."
        )
        yield Finding("broken-drafter", ERROR, "The drafter is broken.", evidence, fix, flag)
        return
    evidence += f"A small draft model reaches {_published(DRAFT_MODEL)} on easy text."
    if len(categories) > 1 and categories[best] >= DOMAIN * categories[worst]:
        evidence += f" By category: {', '.join(f'{name} {percent(value)}' for name, value in categories.items())}."
        title = "Acceptance is low: the drafter was trained on another domain."
        fix = f"Use a drafter that was trained on text such as {worst!r}, or send only text such as {best!r} to this server."
    else:
        title = "Acceptance is low in every category."
        fix = "Use a drafter that was trained for this target, for example on the target's replies."
    yield Finding("low-acceptance", WARNING, title, evidence, fix, flag)


def _draft_length(measured: Measurements, gains: Sequence[Level]) -> Iterator[Finding]:
    """Compare the server's draft length with the best predicted one, at every load."""
    worst: tuple[float, int, int, Forecast, Forecast] | None = None
    for load in measured.loads:
        predicted = forecasts(measured.pairs(load))
        if predicted:
            best, now = max(predicted, key=lambda forecast: forecast.speedup), predicted[-1]
            gain = best.speedup / now.speedup
            if best.k <= TOO_LARGE * now.k and gain >= GAIN and (worst is None or gain > worst[0]):
                worst = gain, load, now.k, best, now
    if worst is None:
        return
    _, load, k, best, now = worst
    evidence = (
        f"With {_at_once(load)}, the predicted speedup is {ratio(best.speedup)} with k = {best.k}, and {ratio(now.speedup)} with the "
        f"server's k = {k}."
    )
    speedups = [f"{ratio(level.speedup)} with {_at_once(level.at_once)}" for level in gains if level.speedup]
    evidence += f" Measured: {', '.join(speedups)}."
    fix = f"Draft {counted(best.k, 'token')} per pass."
    flag = _flag(LENGTH, measured.kind, best.k)
    yield Finding("k-too-large", WARNING, "The draft length is too large.", evidence, fix, flag)


def levels(measured: Measurements) -> list[Level]:
    """Return the speedup at each load."""
    return levels_of({"texts": load, **report.gain(measured.pairs(load))} for load in measured.loads)


def _slower(measured: Measurements, gains: Sequence[Level]) -> Iterator[Finding]:
    slow = [level for level in gains if level.interval and level.interval[1] < 1]
    if not slow:
        return
    names = ", ".join(f"{ratio(level.speedup)} with {_at_once(level.at_once)}" for level in slow)
    predicted = forecasts(measured.pairs(slow[0].at_once))
    best = max(predicted, key=lambda forecast: forecast.speedup, default=None)
    if best and best.speedup >= PAYS:
        fix, flag = f"Draft {counted(best.k, 'token')} per pass.", _flag(LENGTH, measured.kind, best.k)
    else:
        fix, flag = "Send this load to a server without speculation, or use a cheaper drafter.", ""
    title = "Speculation is slower under load." if slow[0].at_once > 1 else "Speculation is slower."
    yield Finding("slower", WARNING, title, f"The measured speedup is {names}.", fix, flag)


def _loops(measured: Measurements) -> Iterator[Finding]:
    fast = measured.completions(SIDES[1], 1)
    looping = [completion for completion in fast if loop_start(completion) is not None]
    drafted, accepted, _ = report.counts(looping)
    if not drafted or len(looping) < LOOPING * len(fast) or accepted < LOOP_ACCEPTANCE * drafted:
        return
    others = [completion for completion in fast if completion not in looping]
    other_drafted, other_accepted, _ = report.counts(others)
    elsewhere = f", {percent(other_accepted / other_drafted)} in other texts" if other_drafted else ""
    evidence = (
        f"{len(looping)} of {counted(len(fast), 'text')} repeat themselves up to their end. In them, {percent(accepted / drafted)} of "
        f"the drafted tokens were accepted{elsewhere}."
    )
    fix = "Acceptance in loops is no evidence of a good drafter. Measure with your own prompts, and check the chat template."
    yield Finding("loops", WARNING, "Most texts are loops.", evidence, fix)


def _counters(measured: Measurements) -> Iterator[Finding]:
    texts = measured.completions(SIDES[1])
    differs = next((completion.differs for completion in texts if completion.differs), None)
    evidence = f"A response differs from the received tokens: {differs}. " if differs else ""
    counters = report.counters([block for block in measured.blocks if block.side == SIDES[1]], texts)
    if counters and not counters["agree"] and any(completion.counts for completion in texts):
        sums = ((name, n, counters["arrived"][name]) for name, n in counters["counted"].items())
        values = ", ".join(f"{name} {count(n)} and {count(arrived)}" for name, n, arrived in sums if n != arrived)
        evidence += f"The sums of the counters and of the received texts differ: {values}."
    if evidence:
        fix = "Measure without other clients. If the difference stays, acceptance on dashboards is wrong."
        yield Finding("counters-disagree", WARNING, "The server's counters are wrong.", evidence.strip(), fix)


def _corrupted(measured: Measurements) -> Iterator[Finding]:
    right = [[all(probe.is_correct(c.text) for c in side) for side in pair] for probe, pair in measured.answers]
    lost = [i for i, (plain, fast) in enumerate(right) if plain and not fast]
    won = sum(fast and not plain for plain, fast in right)
    if len(lost) < max(WRONG, 2 * won):
        return
    totals = [sum(column) for column in zip(*right, strict=True)]
    evidence = (
        f"Of {counted(len(right), 'question')} with known answers, the baseline has {totals[0]} right, and the server with speculation "
        f"{totals[1]}. First wrong answer: {measured.answers[lost[0]][0].question.prompt!r}."
    )
    fix = "Turn speculation off until the server is corrected: greedy decoding must not change answers."
    yield Finding("corrupted", ERROR, "Speculation corrupts the text.", evidence, fix)


def _texts(measured: Measurements) -> Iterator[Finding]:
    """Compare greedy texts. Texts of the baseline under load show how many differ by rounding alone."""
    pairs = measured.pairs()
    positions = [position for pair in pairs if (position := _difference(pair[0][0], pair[1][0])) is not None]
    if not positions:
        return
    unit = "token" if all(pair[0][0].ids and pair[1][0].ids for pair in pairs) else "character"
    evidence = (
        f"{len(positions)} of {counted(len(pairs), 'text')} differ, the first one at {unit} {1 + min(positions)} and half of them "
        f"after {unit} {count(median(positions))}."
    )
    changed = compared = 0
    for load in measured.loads[1:]:
        loaded = measured.by_prompt(load)
        texts = [
            (pair[0][0], loaded[prompt][0][0]) for prompt, pair in measured.by_prompt().items() if prompt in loaded
        ]
        compared, changed = compared + len(texts), changed + sum(_difference(*both) is not None for both in texts)
    if compared:
        evidence += f" The baseline's texts differ from its texts under load in {changed} of {compared} cases."
    is_common = len(positions) > DIFFERING * len(pairs)
    fix = "Two tokens whose logits nearly tie can swap by rounding, because a pass with a draft has other shapes."
    if is_common:
        fix += " This number of differences is unusual: compare in float32, and ask questions with known answers."
    title = f"{'Most' if is_common else 'Some'} greedy texts differ from the baseline's."
    yield Finding("text-differs", WARNING if is_common else INFO, title, evidence, fix)


def _difference(plain: Completion, fast: Completion) -> int | None:
    if plain.ids and fast.ids:
        return first_difference(plain.ids, fast.ids)
    return first_difference(plain.text, fast.text)


def _healthy(measured: Measurements, gains: Sequence[Level]) -> Finding:
    evidence = texts_at_once(gains)
    first = first_position(measured.completions(SIDES[1], 1))
    if first:
        evidence += f" At the first position, {percent(first[0])} of the drafted tokens were accepted."
    return Finding("healthy", HEALTHY, "Speculation works.", evidence.strip())


def _at_once(load: int) -> str:
    return "one text at a time" if load == 1 else f"{load} at once"


def _published(entry: Published) -> str:
    return f"{percent(entry.low)} to {percent(entry.high)} ({entry.source})"


def _flag(flags: Mapping[str, str], kind: str, k: int) -> str:
    return flags.get(kind, "").format(k=k, rows=k + 1)
