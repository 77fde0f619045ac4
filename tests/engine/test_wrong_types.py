"""Values of a wrong type for every public argument: the call raises a `LookaheadError` that names the argument."""

import pytest

import lookahead
from lookahead import LookaheadError, SettingsError
from lookahead.core.events import MAX_SEED, Settings
from lookahead.server import form


def named(value):
    """Return a test id for a value that is the same in every process."""
    return "object" if type(value) is object else repr(value)


WRONG = [None, [], {}, object(), b"x", "x", float("nan"), -1, True, (1, 2), 1e300, 2**70]
SETTINGS = (
    "max_new_tokens",
    "k",
    "temperature",
    "top_k",
    "top_p",
    "repetition_penalty",
    "seed",
    "rule",
    "stop",
    "costs",
)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("value", WRONG, ids=named)
def test_a_setting(name, value):
    if (name, value) in (("stop", []), ("stop", "x")):  # in range
        return
    with pytest.raises(SettingsError, match=f"{name} is"):
        Settings(**{name: value})


@pytest.mark.parametrize("name", ["chat", "details"])
@pytest.mark.parametrize("value", [None, 1, "yes", []], ids=named)
def test_a_switch(name, value):
    with pytest.raises(SettingsError, match=f"{name} is .* give true or false"):
        Settings(**{name: value})


@pytest.mark.parametrize("stop", [None, 5, 1.5, object(), {"a": 1}, [5], [None], [""]], ids=named)
def test_stop_strings(stop):
    with pytest.raises(SettingsError, match="stop is"):
        Settings(stop=stop)


@pytest.mark.parametrize("draft", [[], None, 5, {}, ("draft",), ""], ids=named)
@pytest.mark.parametrize("method", ["draft", "tree", "hybrid", "hf-assisted"])
def test_the_name_of_a_draft_model(models, method, draft):
    with pytest.raises(LookaheadError, match="draft is"):
        lookahead.decode(models, "Once", method, draft=draft)


@pytest.mark.parametrize(
    "methods", [None, 5, "draft", [], {}, [None], [5], [("draft",)], [("draft", 5)], [()], [["draft"]]], ids=named
)
def test_the_methods_of_a_race(models, methods):
    with pytest.raises(LookaheadError, match=r"methods? is"):
        lookahead.race(models, "Once", methods)


@pytest.mark.parametrize("prompt", [None, 5, {}, [None], [1.5], [[1]], [True], b"Once", object(), "", []], ids=named)
def test_the_prompt(models, prompt):
    with pytest.raises(LookaheadError, match="prompt is"):
        lookahead.decode(models, prompt, "naive")


@pytest.mark.parametrize("seed", [2**53, 2**63 - 1, 2**63, 2**64, 10**30, -1])
def test_a_seed_that_a_browser_cannot_represent_is_refused(seed):
    with pytest.raises(SettingsError, match=r"seed is .*from 0 to 9,007,199,254,740,991"):
        Settings(seed=seed)


def test_the_largest_seed_is_the_same_everywhere(models):
    assert form.options({"seed": str(MAX_SEED)})["seed"] == form.options({"seed": float(MAX_SEED)})["seed"] == MAX_SEED
    for rule in ("coupled", "rejection"):
        options = {"temperature": 1.0, "rule": rule, "max_new_tokens": 4, "seed": MAX_SEED}
        for method in ("draft", "hf-generate"):
            race = lookahead.race(models, "Once", ["naive", method], **options)
            assert all(lane_step.step for lane_step in race)
            assert lookahead.Trace.from_json(race.result().to_json()).settings.seed == MAX_SEED
