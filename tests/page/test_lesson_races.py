"""Each race of each lesson shows the effect that its lesson describes. Races are reproducible, so each reader sees it."""

import pytest

import lookahead
from lookahead.core.events import WINDOW
from lookahead.measure import recordings
from lookahead.page.learn import lessons
from lookahead.page.learn import widgets as kinds
from lookahead.server import form

RACES = {
    f"{lesson.name}-{number}": widget
    for lesson in lessons.lessons()
    for number, widget in enumerate(part for part in lesson.parts if isinstance(part, kinds.Race))
}


@pytest.fixture(scope="module")
def raced(models):
    """Return the trace of a lesson's race by the race's id."""
    traces = {}

    def run(name):
        if name not in traces:
            widget = RACES[name]
            fields = {**form.DEFAULTS, **widget.settings, "draft": widget.draft}
            options = form.options(fields) | widget.options
            methods = form.lanes(widget.methods[-1], widget.methods[:-1])
            race = lookahead.race(models, widget.prompt, methods, **options)
            assert all(lane_step.step.seconds >= 0 for lane_step in race)
            traces[name] = race.result()
        return traces[name]

    return run


def lanes(trace, *methods):
    return [lane for lane in trace.lanes if lane.method in methods or (not methods and lane.method != "naive")]


@pytest.mark.parametrize("name", RACES)
def test_all_lanes_draft_and_write_the_same_text(raced, name):
    trace = raced(name)
    naive = trace.lanes[0]
    assert len(naive.verified) == len(naive.tokens)
    for lane in lanes(trace):
        assert lane.opaque or any(step.draft.tokens for step in lane.verified), lane.method
        assert lane.tokens == naive.tokens


@pytest.mark.parametrize("name", [name for name in RACES if not name.startswith("06")])
def test_drafting_saves_passes(raced, name):
    """Lesson 6 shows a draft model that does not help. N-grams in a new story of lesson 3 need not help either."""
    for lane in lanes(raced(name)):
        if (lane.method, name[:2]) != ("ngram", "03"):
            assert len(lane.verified) < 0.9 * len(lane.tokens), lane.method


def test_the_races_with_four_drafted_tokens_draft_four(raced):
    for name in (name for name, widget in RACES.items() if widget.settings.get("k") == 4):
        for lane in lanes(raced(name), "draft", "medusa"):
            left = len(lane.tokens)
            for step in lane.verified:
                assert len(step.draft.tokens) == min(4, left - 1), (name, lane.method)
                left -= len(step.emitted)


def test_lesson_5_has_a_window_in_its_passes(raced):
    (name,) = (name for name in RACES if name.startswith("05"))
    (lane,) = lanes(raced(name))
    with_window = [step for step in lane.verified if WINDOW in step.statuses]
    assert len(with_window) > len(lane.verified) / 2
    assert any(step.draft.ngram_origins for step in lane.verified if "accepted" in step.statuses)


def test_lesson_6_shows_a_draft_that_loses(raced):
    (name,) = (name for name in RACES if name.startswith("06"))
    (lane,) = lanes(raced(name))
    drafted = sum(len(step.draft.tokens) for step in lane.verified)
    assert sum(step.statuses.count("accepted") for step in lane.verified) < 0.2 * drafted


def test_lesson_6_auto_almost_stops_drafting():
    lane = recordings.read("mismatch").lanes[-1]
    drafted = [len(step.draft.tokens) for step in lane.verified]
    assert sum(drafted[:20]) > 0 and sum(1 for tokens in drafted[20:] if tokens) <= 8


def test_lesson_8_lookup_pays(raced):
    name = [name for name in RACES if name.startswith("08")][-1]
    (lane,) = lanes(raced(name), "suffix")
    assert len(lane.verified) < 0.8 * len(lane.tokens)


def test_lesson_10_every_generation_drafts(raced):
    name = [name for name in RACES if name.startswith("10")][-1]
    for lane in lanes(raced(name), "mtp", "eagle", "block"):
        assert sum(bool(step.draft.tokens) for step in lane.verified) > 0.7 * len(lane.verified)
