"""The bundled recordings: their races, their size, and that reading one restores the trace."""

import json
from importlib import import_module

import pytest
from synthetic import lane, trace

from lookahead import SettingsError, Trace, TraceError
from lookahead.__main__ import main
from lookahead.measure import recordings
from lookahead.measure.scenarios import SCENARIOS, TAUGHT

BY_ID = {scenario.id: scenario for scenario in SCENARIOS}


@pytest.fixture
def raced(monkeypatch):
    """Replace the race with one that returns a small trace; the value is the list of its calls."""
    calls = []
    result = trace(lane("naive", 12), lane("draft", 12), max_new_tokens=12)

    class Fake(list):
        def result(self):
            return result

    def race(models, prompt, methods, **options):
        calls.append((models, prompt, methods, options))
        return Fake([1, 2])

    monkeypatch.setattr(import_module("lookahead.trace.race"), "race", race)
    return calls


def test_every_scenario_is_raced_with_its_options(raced, tmp_path):
    updates = list(recordings.write("models", tmp_path / "new", SCENARIOS))
    files = updates[-1].result
    assert [path.name for path in files] == [f"{scenario.id}.json" for scenario in SCENARIOS]
    recorded = raced[1:]
    assert raced[0] == recorded[0], "the first race is a warm-up"
    for scenario, (models, prompt, methods, options) in zip(SCENARIOS, recorded, strict=True):
        assert (models, prompt, methods) == ("models", scenario.prompt, ["naive", *scenario.further, scenario.method])
        assert options["seed"] == recordings.SEED and options["chat"] == scenario.chat
        assert options["max_new_tokens"] <= recordings.MAX_NEW_TOKENS
        assert scenario.options.items() <= options.items()
    assert updates[0].text == "story" and updates[-1].done == updates[-1].total == len(SCENARIOS)


def test_a_recording_is_short_and_restores_the_trace(tmp_path):
    race = trace(*(lane(method, 128, 8) for method in ("naive", "hybrid")), max_new_tokens=128)
    text = recordings.compact(race)
    assert len(text) < 150_000 and len(text) < 0.8 * len(race.to_json())
    restored = Trace.from_json(text)
    assert json.loads(text)["schema"] == "lookahead-trace/1"
    assert [record.text for record in restored.lanes] == [record.text for record in race.lanes]
    assert restored.lanes[1].steps[3].draft == race.lanes[1].steps[3].draft
    assert recordings.compact(restored) == text, "rounding twice changes nothing"
    for lane_restored, original in zip(restored.lanes, race.lanes, strict=True):
        assert lane_restored.clock_s == pytest.approx(original.clock_s, abs=1e-6 * 2 * len(original.steps))
    assert restored.stats(1)["speedup"] == pytest.approx(race.stats(1)["speedup"], rel=1e-3)


def test_read_accepts_only_ids_of_scenarios(raced, tmp_path):
    list(recordings.write(None, tmp_path, [BY_ID["hot"]]))
    assert recordings.read("hot", tmp_path) is not None
    for name in ("story", "nothing", "../traces/story", "", "hot.json", "/etc/passwd"):
        assert recordings.read(name, tmp_path) is None
    (tmp_path / "hot.json").write_text("{}", encoding="utf-8")
    with pytest.raises(TraceError):
        recordings.read("hot", tmp_path)


def test_the_story_is_bundled():
    story = recordings.read("story")
    assert story.prompt.text == BY_ID["story"].prompt
    assert [record.method for record in story.lanes] == ["naive", BY_ID["story"].method]


def test_scenarios_are_chosen_by_id():
    assert recordings.choose(None, "pocket") == [*SCENARIOS, *TAUGHT]
    assert [scenario.id for scenario in recordings.choose("hot, story", "pocket")] == ["story", "hot"]
    with pytest.raises(SettingsError, match="choose from story"):
        recordings.choose("story,nope", "pocket")


def test_invalid_arguments_print_a_message(tmp_path, capsys, monkeypatch):
    assert main(["record", "--only", "nope"]) == 2
    assert "choose from story" in capsys.readouterr().err
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setattr("lookahead.family.hub.load", lambda spec: None)
    assert main(["record", "--only", "short", "--out", str(tmp_path / "file")]) == 2
    assert "give another folder" in capsys.readouterr().err


def test_the_command_prints_the_files(raced, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("lookahead.family.hub.load", lambda spec: None)
    assert main(["record", "--only", "short,hot", "--out", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" ")[0] for line in lines] == [str(tmp_path / "hot.json"), str(tmp_path / "short.json")]


def test_a_real_recording(models, tmp_path):
    list(recordings.write(models, tmp_path, [BY_ID["short"]]))
    race = recordings.read("short", tmp_path)
    assert race.lanes[0].text == race.lanes[1].text
    assert len(race.lanes[0].tokens) <= 12
    assert (tmp_path / "short.json").stat().st_size < 20_000
