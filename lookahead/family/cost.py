"""Measure the costs of passes on this machine, for `core.costs.PassCosts`.

`measure` times the target's passes for each row count. `measure_drafter` times drafts between passes of the target, as in a
race. `warm` runs every shape once.
"""

import math
import random
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from time import perf_counter

from ..core.costs import FREE, SHORT_TEXT, CostCurve, DrafterCosts, PassCosts
from ..core.events import Settings
from ..core.lm import PREFILL_ROWS, DraftRequest, draft_tokens
from ..core.policy import StopRule
from ..core.rules import rule_for
from ..core.theory import interpolate
from ..model.heads.head import CachedHead, Head
from ..model.lm import CachedLM
from ..model.translated import TranslatedLM

ROWS = (1, 2, 3, 5, 9, 17, 33, 65, 129)
LEVEL_ROWS = (1, 3, 9)  # rows per level of the timed trees
LEVELS = 4  # levels of the deeper timed trees
SMALL_ROWS = 33  # passes of more rows enlarge the cache's buffers, so they are timed after the others
BRANCHING_ROWS = 9  # rows of the passes that measure the cost of branching
LONG_TEXT = 1024  # cached tokens before the passes that measure the cost of keys and values
LONG_ROWS = (1, 9, 33)  # rows of these passes
LENGTHS = (32, 160, 300)  # cached tokens before the passes of `warm`
CATCH_UP_ROWS = (1, 2, 4, 8, 16, 32, 64)  # row counts with which a drafter reads the newest text
REPEATS, MIN_REPEATS = 7, 2
REPEATS_S = 0.7  # repeats end after this time, but not before `MIN_REPEATS`; long passes vary less
SLOW_S = 0.8  # seconds for `MIN_REPEATS` of the small passes: a model that takes longer is slow
WARM_S = 0.6  # after this time, `warm` starts no further length of text
MIN_TOKEN_S = 1e-6  # lower bound of the measured time of a further drafted token
DRAFTED = 8  # tokens of the longer timed drafts
SLOWER = 1.7  # ratio of times from which a pass is clearly slower
MAX_DRIFT = 1.3  # upper bound of the ratio between the drifts of one-row passes and of larger ones
VERIFIED_ROWS = 5  # rows of the target's passes between drafts
DRAFTS_S = 0.2  # least time for which drafts are timed, because their times vary
SETTLED_S = 0.007  # time of one-row passes until a processor has its usual speed again after passes of many rows


def estimated(lm: CachedLM, typical: PassCosts, drafters: Sequence[str]) -> PassCosts:
    """Return the costs of another machine, scaled to the current speed of a target. Leaves `lm` empty."""
    single, multiple = _drifts(lm, typical.target)
    costs = typical.scaled((single * multiple) ** 0.5)
    return replace(costs, drafters={name: costs.drafters.get(name, FREE) for name in drafters})


def drift(lm: CachedLM, curve: CostCurve) -> float | None:
    """Return the current time of passes relative to a curve, None if the curve changed its shape. Leaves `lm` empty."""
    single, multiple = _drifts(lm, curve)
    return (single * multiple) ** 0.5 if 1 / MAX_DRIFT < single / multiple < MAX_DRIFT else None


def _drifts(lm: CachedLM, curve: CostCurve) -> tuple[float, float]:
    """Return the current time of a one-row pass and of one of several rows, relative to a curve. Leaves `lm` empty."""
    rows = curve.rows[min(4, len(curve.rows) - 1)]
    several = _with_replay(lm, rows)
    tokens = sample(lm.vocab, SHORT_TEXT + several)
    lm.reset()
    lm.extend(tokens[: min(SHORT_TEXT, lm.context_length - several)])
    passes = [partial(lm.forward, tokens[SHORT_TEXT : SHORT_TEXT + n]) for n in (1, several)]
    _, one_s, several_s = interleaved([partial(settle, lm), *passes], REPEATS)
    lm.reset()
    return one_s / curve.pass_s(1), several_s / curve.pass_s(rows)


def settle(lm: CachedLM) -> None:
    """Run one-row passes for `SETTLED_S`, because passes after one of many rows are up to a seventh slower."""
    stop = perf_counter() + SETTLED_S
    while perf_counter() < stop:
        lm.forward([0])


def warm(lm: CachedLM, most_rows: int, lengths: Sequence[int] = LENGTHS) -> None:
    """Run passes of every row count after texts of several lengths. The first layer of a model suffices.

    Libraries compile kernels at the first use of a shape. Our kernels are the same for all shapes.
    """
    if lm.passes.batch_invariant:
        return
    stop = perf_counter() + WARM_S
    for cached in lengths:
        tokens = [1] * (cached + max(most_rows, CATCH_UP_ROWS[-1]))
        if len(tokens) > lm.context_length or perf_counter() > stop:
            break
        lm.reset()
        lm.extend(tokens[:cached])
        for rows in range(1, most_rows + 1):
            lm.forward(tokens[:rows])
            if rows > 2:
                lm.forward(tokens[:rows], _branching(rows))
        for rows in CATCH_UP_ROWS:
            lm.extend(tokens[:rows])
            lm.sync(tokens[: cached + 1])
    lm.reset()


def measure(lm: CachedLM) -> CostCurve:
    """Return the median seconds of a pass of each row count after a short text. Leaves `lm` empty.

    For a slow model, only passes of at most `SMALL_ROWS` rows are timed.
    """
    tokens = sample(lm.vocab, SHORT_TEXT + max(ROWS))
    sizes = [n for n in ROWS if SHORT_TEXT + n <= lm.context_length] or [1]
    lm.reset()
    lm.extend(tokens[: min(SHORT_TEXT, lm.context_length - max(sizes))])

    def forward(n: int) -> Callable[[], object]:
        return partial(lm.forward, tokens[SHORT_TEXT : SHORT_TEXT + n])

    small = [n for n in sizes if n <= SMALL_ROWS]
    slow = MIN_REPEATS * len(small) * _timed(forward(small[-1])) > SLOW_S
    large = [] if slow else [n for n in sizes if n > SMALL_ROWS]
    branching = min(BRANCHING_ROWS, max(small + large))
    branched = tokens[SHORT_TEXT : SHORT_TEXT + branching]
    _, *small_s = interleaved([partial(settle, lm), *map(forward, small)], REPEATS, most_s=REPEATS_S)
    # The first pass of a shape is slower than the next one. The difference is larger than the cost of branching.
    chain, tree = forward(branching), partial(lm.forward, branched, _branching(branching))
    _, chain_s, _, branched_s = interleaved([chain, chain, tree, tree], 3 * REPEATS, most_s=REPEATS_S)
    seconds = (*small_s, *interleaved([*map(forward, large)], REPEATS, most_s=REPEATS_S))
    experts = _experts(lm, [forward(n) for n in (*small, *large)])
    lm.reset()
    if lm.passes.batch_invariant:
        seconds = undisturbed(seconds)
    curve = CostCurve((*small, *large), seconds)
    seconds = tuple(curve.pass_s(_with_replay(lm, rows)) for rows in curve.rows)
    per_token_s = () if slow else _context_s(lm, curve.rows)
    return CostCurve(curve.rows, seconds, max(0.0, branched_s - chain_s), experts, per_token_s)


def _context_s(lm: CachedLM, rows: Sequence[int]) -> tuple[float, ...]:
    """Return the seconds that a further cached token adds to a pass of each row count. Leaves `lm` empty.

    Returns nothing if the model accepts no long text, or if reading one takes too long. Passes after a short and a long text
    alternate, so that a change of the machine's speed affects both.
    """
    most, sizes = min(LONG_TEXT, lm.context_length - max(LONG_ROWS)), [n for n in LONG_ROWS if n <= rows[-1]]
    if most < 2 * SHORT_TEXT:
        return ()
    tokens, long = sample(lm.vocab, most + max(LONG_ROWS)), lm.fresh()
    lm.reset()
    lm.extend(tokens[:SHORT_TEXT])
    stop = perf_counter() + SLOW_S
    for start in range(0, most, PREFILL_ROWS):
        long.extend(tokens[start : min(start + PREFILL_ROWS, most)])
        if perf_counter() > stop:
            break
    passes = [partial(model.forward, tokens[-n:]) for n in sizes for model in (lm, long)]
    seconds = interleaved(passes, REPEATS, most_s=REPEATS_S)
    added = len(long.tokens) - SHORT_TEXT
    lm.reset()
    pairs = zip(seconds[::2], seconds[1::2], strict=True)
    # They rise with the rows, so that no extrapolated time is negative.
    per_token_s = undisturbed([max(0.0, (long_s - short_s) / added) for short_s, long_s in pairs])
    return tuple(interpolate(sizes, per_token_s, n) for n in rows)


def sample(vocab: int, count: int) -> list[int]:
    """Return random ids for timed passes. Equal ids would activate too few experts of a mixture."""
    draws = random.Random(0)
    return [draws.randrange(vocab) for _ in range(count)]


def _experts(lm: CachedLM, passes: Sequence[Callable[[], object]]) -> tuple[float, ...]:
    """Return the experts that each pass activates, per layer on average; none for a model without experts."""
    counts = []
    for work in passes if lm.passes.mixture else ():
        work()
        counts.append(lm.activated_experts)
    return tuple(count for count in counts if count is not None)


def _with_replay(lm: CachedLM, rows: int) -> int:
    """Return the number of rows of a pass with the tokens that it reads again: half of the drafted ones, on average."""
    return rows + (rows - 1) // 2 if lm.passes.rollback.recurrent else rows


def undisturbed(seconds: Sequence[float]) -> tuple[float, ...]:
    """Return times of passes in rising order of rows, each limited to that of larger passes: disturbances add time."""
    return tuple(accumulate(reversed(seconds), min))[::-1]


def plausible(costs: PassCosts, small: Iterable[str] = ()) -> bool:
    """Return whether no other program disturbed the measurement.

    No pass may be clearly slower than a pass of more rows. No pass of a `small` draft model may be clearly slower than the
    target's.
    """
    seconds = costs.target.seconds
    pairs = [*zip(seconds, undisturbed(seconds), strict=True)]
    pairs += [(costs.drafters[name].curve.pass_s(1), seconds[0]) for name in small]
    return all(one_s <= SLOWER * other_s for one_s, other_s in pairs)


def warm_drafter(drafter: CachedLM | TranslatedLM | Head, target: CachedLM) -> None:
    """Draft a chain and a tree once, so that their code is compiled before a race. Both models stay unchanged."""
    lm, target = _fresh(drafter, target)
    rule, text = rule_for(Settings()), [1, 1, 1]
    target.reset()
    target.extend(text[:-1])
    draft_tokens(lm, rule, lm.sync(text), text, 2, StopRule())
    lm.draft_tree(lm.sync(text), DraftRequest(1, lm.vocab, rule.scores(text, 1, lm.vocab), StopRule()), 1, 1)


def measure_drafter(drafter: CachedLM | TranslatedLM | Head, target: CachedLM, target_curve: CostCurve) -> DrafterCosts:
    """Return the costs of a drafter's passes, alone and between passes of its target. Both models stay unchanged.

    The seconds are scaled by the target's passes between drafts, because the speed of the machine may have changed since
    `target_curve` was measured.
    """
    lm, target = _fresh(drafter, target)
    text = sample(min(lm.vocab, target.vocab), min(SHORT_TEXT + 1, lm.context_length - LEVELS, target.context_length))
    target.reset()
    target.extend(text[1:])
    if (levels := _level_s(lm, text)) is None:
        lm.extend(lm.sync(text))
        passes = [lambda n=n: lm.forward(text[:n], [-1] * n) for n in LEVEL_ROWS]
        levels = interleaved(passes, REPEATS, most_s=REPEATS_S)
    # A head attends in one or two layers, so it needs little time for a long text.
    per_token_s = _context_s(lm, LEVEL_ROWS) if isinstance(lm, CachedLM) else ()
    curve = CostCurve(LEVEL_ROWS, tuple(levels), context_s=per_token_s)
    return _in_race(curve, lm, target, target_curve)


def _fresh(
    drafter: CachedLM | TranslatedLM | Head, target: CachedLM
) -> tuple[CachedLM | TranslatedLM | CachedHead, CachedLM]:
    """Return new caches of a drafter and of its target. A head follows the target's cache."""
    target = target.fresh()
    if not isinstance(drafter, Head):
        return drafter.fresh(), target
    lm = drafter.fresh(target.vocab)
    lm.follow(target)
    return lm, target


def _level_s(lm: CachedLM | TranslatedLM | CachedHead, text: Sequence[int]) -> list[float] | None:
    """Return the seconds of a level of each of `LEVEL_ROWS`, None if the drafter cannot draft a tree in one call."""
    scores = rule_for(Settings()).scores(text, 1, lm.vocab)

    def grow(levels: int, rows: int) -> Callable[[], object]:
        request = DraftRequest(levels, lm.vocab, scores, StopRule())
        return lambda: lm.draft_tree(lm.sync(text), request, rows, rows * levels)

    deepest = min(lm.longest, LEVELS)
    if deepest < 2 or not grow(1, 1)():
        return None
    sizes = [(levels, rows) for rows in LEVEL_ROWS for levels in (1, deepest)]
    seconds = interleaved([grow(*size) for size in sizes], REPEATS, most_s=REPEATS_S)
    pairs = zip(seconds[::2], seconds[1::2], strict=True)
    return [max(MIN_TOKEN_S, (deep_s - flat_s) / (deepest - 1)) for flat_s, deep_s in pairs]


def _in_race(
    curve: CostCurve, lm: CachedLM | TranslatedLM | CachedHead, target: CachedLM, target_curve: CostCurve
) -> DrafterCosts:
    """Return the costs of a drafter between passes of the target. `curve` has the costs of the drafter's passes alone."""
    rule = rule_for(Settings())
    cached = min(SHORT_TEXT - 2, lm.context_length - DRAFTED - 1, target.context_length - DRAFTED)
    prompt = sample(lm.vocab, cached)
    longest = min(DRAFTED, lm.longest)
    drafts_s, verify_s, return_s = {1: [], longest: []}, [], []
    target.reset()
    target.extend(prompt)
    verify = partial(target.forward, prompt[:VERIFIED_ROWS])
    least, most = perf_counter() + DRAFTS_S, perf_counter() + DRAFTS_S + SLOW_S / 2
    while len(drafts_s[1]) <= MIN_REPEATS or perf_counter() < (most if len(drafts_s[1]) <= REPEATS else least):
        for length, seconds in drafts_s.items():
            root = len(return_s) % lm.vocab
            target.forward([root])
            verify_s.append(_timed(verify))
            text = [*prompt, root]
            unread, start = lm.sync(text), perf_counter()
            while len(text) <= cached + length:
                picks = draft_tokens(lm, rule, unread, text, cached + 1 + length - len(text), StopRule())
                if not picks:
                    break
                text += [pick.token for pick in picks]
                unread = text[-1:]
            seconds.append(perf_counter() - start)
            return_s.append(_timed(verify) - verify_s[-1])
    # The first drafts are a warm-up.
    first_s, longest_s = (statistics.median(drafts_s[length][1:]) for length in (1, longest))
    token_s = max(MIN_TOKEN_S, (longest_s - first_s) / (longest - 1)) if longest > 1 else first_s
    back_s = statistics.median(return_s[2:])
    # In a chain that is drafted in one call or read from slots, a token takes less time than a separate pass.
    curve = replace(curve, seconds=(min(curve.seconds[0], token_s), *curve.seconds[1:]))
    costs = DrafterCosts(curve, token_s - curve.seconds[0], (max(0.0, first_s - token_s),), max(0.0, back_s))
    return costs.scaled(target_curve.pass_s(VERIFIED_ROWS) / statistics.median(verify_s[2:]))


def _branching(rows: int) -> list[int]:
    return [-1, 0, 0, *range(2, rows - 1)][:rows]


def _timed(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def interleaved(
    functions: Sequence[Callable[[], object]],
    repeats: int,
    summary: Callable[[list[float]], float] = statistics.median,
    most_s: float = math.inf,
) -> list[float]:
    """Return the median, or another `summary`, of the seconds of each function after a warm-up.

    There are `MIN_REPEATS` repeats, then more until `most_s` seconds have passed. A repeat runs all functions in turn, so
    disturbances affect all of them.
    """
    stop, by_repeat = perf_counter() + most_s, []
    while len(by_repeat) <= min(repeats, MIN_REPEATS) or (len(by_repeat) <= repeats and perf_counter() < stop):
        by_repeat.append([_timed(function) for function in functions])
    return [summary(list(seconds)) for seconds in zip(*by_repeat[1:], strict=True)]
