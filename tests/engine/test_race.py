"""The race: a fair schedule, a clock per lane, and errors before anything runs."""

import time

import pytest
from conftest import finished

import lookahead
from lookahead import LookaheadError, MethodError, SettingsError
from lookahead.core.events import Cancelled
from lookahead.model.lm import PREFILL_ROWS, CachedLM

PROMPT = "Once upon a time there was a small frog who"
DECIMALS_S = 1.01e-7  # the rounding error of records, whose seconds have seven decimals


def test_the_lane_with_the_lowest_clock_is_next(models):
    race = lookahead.race(models, PROMPT, methods=["naive", "draft", "ngram"], max_new_tokens=40)
    clocks, ended, kinds = [0.0] * 3, set(), []
    for lane_step in race:
        kinds.append(lane_step.step.kind)
        if lane_step.step.kind == "verify":
            assert clocks[lane_step.lane] <= min(clock for i, clock in enumerate(clocks) if i not in ended) + DECIMALS_S
            assert lane_step.clock_s - clocks[lane_step.lane] == pytest.approx(
                lane_step.step.seconds, abs=3 * DECIMALS_S
            )
        else:
            assert lane_step.clock_s == 0
        clocks[lane_step.lane] = lane_step.clock_s
        if lane_step.step.finish:
            ended.add(lane_step.lane)
    assert kinds[:3] == ["prefill"] * 3
    assert "prefill" not in kinds[3:]
    assert ended == {0, 1, 2}


def test_a_prompt_is_read_once_for_all_lanes_that_can_share_it(models, monkeypatch):
    """A lane with a head is first, because the others need no hidden states. Two heads read different ones."""
    extend, read = CachedLM.extend, []

    def counted(lm, tokens):
        if lm.passes is models.target.passes:
            read.append(list(tokens))
        return extend(lm, tokens)

    monkeypatch.setattr(CachedLM, "extend", counted)
    for methods, times in (
        (["naive", "block"], 1),
        (["naive", "suffix", "draft"], 1),
        (["naive", "block", "eagle"], 2),
    ):
        read.clear()
        trace = finished(lookahead.race(models, PROMPT, methods, max_new_tokens=24))
        assert read == [trace.prompt.tokens[:-1]] * times, methods
        seconds = {lane.steps[0].verify_s for lane in trace.lanes}
        assert len(seconds) == times and 0 not in seconds, "the shared time counts for each lane"
        assert len({tuple(lane.tokens) for lane in trace.lanes}) == 1


def test_the_prefill_of_a_long_prompt_reports_progress_and_can_be_cancelled(models):
    prompt = [5 + i % 90 for i in range(3 * PREFILL_ROWS)]
    race, shares = lookahead.race(models, prompt, ["naive", "block"], max_new_tokens=2), []
    race.on_prefill = shares.append
    trace = finished(race)
    assert len(shares) == 3 and shares[0] == 0 and shares == sorted(shares) and shares[-1] < 1, (
        "read once, in three parts"
    )
    assert all(len(lane.tokens) == 2 for lane in trace.lanes)

    def cancel(share):
        if share:
            raise Cancelled

    race = lookahead.race(models, prompt, ["naive", "block"], max_new_tokens=2)
    race.on_prefill = cancel
    with pytest.raises(Cancelled):
        next(iter(race))
    assert not any(lane.steps for lane in race.result().lanes)
    again = finished(lookahead.race(models, prompt, ["naive", "block"], max_new_tokens=2))
    assert [lane.tokens for lane in again.lanes] == [lane.tokens for lane in trace.lanes]


@pytest.mark.timed
def test_a_slow_consumer_costs_no_time(models):
    """The consumer waits after every step. The clocks must not count this time."""
    race = lookahead.race(models, PROMPT, methods=["naive", "draft"], max_new_tokens=20)
    for _ in race:
        time.sleep(0.05)
    trace = race.result()
    assert sum(lane.clock_s for lane in trace.lanes) < 0.05 * sum(len(lane.steps) for lane in trace.lanes)


def test_a_race_that_is_closed_early_has_a_trace(models):
    race = lookahead.race(models, PROMPT, methods=["naive", "draft"], max_new_tokens=60)
    lane_steps = [lane_step for _, lane_step in zip(range(9), race, strict=False)]
    race.close()
    trace = race.result()
    assert sum(len(lane.steps) for lane in trace.lanes) == 9
    assert trace.stats(0)["finish"] is None
    assert lookahead.Trace.from_json(trace.to_json()) == trace
    assert lane_steps[-1].clock_s > 0


def test_a_race_that_has_not_begun_has_an_empty_trace(models):
    race = lookahead.race(models, PROMPT)
    assert [lane.steps for lane in race.result().lanes] == [[], []]
    assert race.result().verdict() is None


def test_methods_may_have_options_of_their_own(models):
    methods = ["naive", ("ngram", {"candidates": 1}), ("ngram", {"candidates": 3})]
    trace = finished(lookahead.race(models, PROMPT, methods=methods, max_new_tokens=30))
    assert [lane.options for lane in trace.lanes] == [{}, {"candidates": 1}, {"candidates": 3}]
    assert len({lane.text for lane in trace.lanes}) == 1


@pytest.mark.parametrize(
    ("methods", "options", "error", "word"),
    [
        (["nope"], {}, MethodError, "choose one of naive"),
        ([], {}, MethodError, "1 to 4"),
        ("naive", {}, MethodError, "list"),
        (["naive"] * 5, {}, MethodError, "1 to 4"),
        (["naive", "draft"], {"candidates": 2}, MethodError, "none of these methods"),
        (["naive"], {"color": "red"}, MethodError, "none of these methods"),
        ([("ngram", {"x": 1})], {}, MethodError, "its options are"),
        (["ngram"], {"candidates": 0}, SettingsError, "1 to 32"),
        (["ngram"], {"shortest": 9, "longest": 3}, SettingsError, "at most longest"),
        (["draft"], {"draft": "zz"}, LookaheadError, "no such draft"),
        (["naive"], {"max_new_tokens": 0}, SettingsError, "1 to"),
        (["naive"], {"max_new_tokens": -1}, SettingsError, "1 to"),
        (["naive"], {"max_new_tokens": 10**9}, SettingsError, "whole number"),
        (["naive"], {"max_new_tokens": 5000}, SettingsError, "context holds [0-9,]+ tokens"),
        (["naive"], {"max_new_tokens": True}, SettingsError, "whole number"),
        (["naive"], {"max_new_tokens": "12"}, SettingsError, "whole number"),
        (["naive"], {"temperature": float("nan")}, SettingsError, "0 to 100"),
        (["naive"], {"temperature": float("inf")}, SettingsError, "0 to 100"),
        (["naive"], {"temperature": -0.1}, SettingsError, "0 to 100"),
        (["naive"], {"temperature": "hot"}, SettingsError, "0 to 100"),
        (["naive"], {"top_p": 0}, SettingsError, "above 0"),
        (["naive"], {"top_k": -1}, SettingsError, "from 0"),
        (["naive"], {"repetition_penalty": 0}, SettingsError, "above 0"),
        (["naive"], {"repetition_penalty": 1e-30}, SettingsError, "at least 0.0001"),
        (["naive"], {"temperature": 1e-40}, SettingsError, "0, which is greedy, or at least 0.0001"),
        (["naive"], {"seed": -1}, SettingsError, "from 0"),
        (["naive"], {"k": 1000}, SettingsError, "from 0 to 64"),
        (["naive"], {"k": "many"}, SettingsError, "auto"),
        (["naive"], {"k": 2.5}, SettingsError, "whole number"),
        (["naive"], {"rule": "luck"}, SettingsError, "choose one of"),
        (["naive"], {"rule": "greedy", "temperature": 1.0}, SettingsError, "temperature 0"),
        (["naive"], {"rule": "rejection"}, SettingsError, "above 0"),
        (["naive"], {"stop": ("",)}, SettingsError, "stop strings"),
        (["naive"], {"stop": ("x",) * 50}, SettingsError, "stop strings"),
        (["naive"], {"chat": "yes"}, SettingsError, "true or false"),
    ],
)
def test_bad_options_are_refused_before_anything_runs(models, methods, options, error, word):
    with pytest.raises(error, match=word) as caught:
        lookahead.race(models, PROMPT, methods=methods, **options)
    assert isinstance(caught.value, ValueError)
    assert caught.value.field
    assert caught.value.hint


def test_decode_refuses_at_the_call_not_at_the_first_step(models):
    with pytest.raises(LookaheadError):
        lookahead.decode(models, "")
    with pytest.raises(LookaheadError):
        lookahead.decode(models, PROMPT, method="draft", unknown=1)
