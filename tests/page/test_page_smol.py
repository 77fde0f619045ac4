"""Two families in a real browser: a visitor chooses a pretrained model in the Race tab and races it in real time."""

from __future__ import annotations

import json
import os
import time

import pytest
from gradio_client import Client
from test_page import STATE, press_race, race, wait_done

from lookahead.family import sources
from lookahead.measure.scenarios import ANSWERS

SOURCE = sources.named("smol")
is_installed = SOURCE.gguf or SOURCE.local_copy()
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not is_installed and not os.environ.get("CI"), reason="requirements-smol.txt is not installed"),
]
NAME = "SmolLM2: real answers"


LOADED_MS = 240_000  # for a race that first loads and measures the model, with two other workers


def choose(page, name=NAME):
    page.get_by_label("Models", exact=True).click()
    page.get_by_role("option", name=name).click()


def load(page):
    """Choose the family, and run a short race that loads the models. Returns the state after it."""
    choose(page)
    page.wait_for_function(f"{STATE}.run === 'recording-{ANSWERS[0].id}'")
    page.get_by_role("button", name="more", exact=True).click()
    page.get_by_label("new tokens, at most").fill("8")
    return wait_done(page, press_race(page), LOADED_MS)


def test_smol_is_chosen_raced_in_real_time_and_linked(visit, address):
    page, other = visit(), visit()
    choose(page)
    page.wait_for_function(f"{STATE}.run === 'recording-{ANSWERS[0].id}'")
    assert page.get_by_label("Prompt", exact=True).input_value() == ANSWERS[0].prompt
    page.locator(".la-statustext", has_text="played at its real speed").wait_for()
    for scenario in ANSWERS:
        page.locator(f"#la-chip-{scenario.id}").click()
        page.wait_for_function(f"{STATE}.run === 'recording-{scenario.id}'")
        assert page.get_by_label("Prompt", exact=True).input_value() == scenario.prompt
        page.wait_for_function(f"{STATE}.rate === 1")
        assert page.locator(".la-prompt").first.text_content().strip() == scenario.prompt, "without a template's words"
    assert not page.locator("#la-chip-tale").is_visible(), "chips for those who continue a text"
    page.get_by_role("button", name="more", exact=True).click()
    page.get_by_label("new tokens, at most").fill("24")
    shown = wait_done(page, press_race(page), LOADED_MS)
    assert shown["error"] is None
    assert shown["lanes"][0]["text"] == shown["lanes"][1]["text"] and shown["lanes"][1]["finished"]
    assert page.locator(".la-prompt").first.text_content().strip() == ANSWERS[-1].prompt
    page.locator(".la-machine", has_text="SmolLM2-135M-Instruct").wait_for(state="attached")
    assert "family=smol" in page.evaluate("window.lookahead.state().link || ''")
    assert race(other)["lanes"][1]["finished"]
    trace = json.loads(other.evaluate("window.lookahead.trace()"))
    assert trace["models"]["spec"] == "pocket", "another visitor's races are as they were"
    opened = visit("?family=smol")
    opened.wait_for_function(f"{STATE}.run === 'recording-{ANSWERS[0].id}'")
    assert opened.get_by_label("Prompt", exact=True).input_value() == ANSWERS[0].prompt
    opened.get_by_role("button", name="more", exact=True).click()
    opened.get_by_label("new tokens, at most").fill("12")
    raced = race(opened)["run"]
    opened.reload()
    opened.wait_for_function("window.lookahead && window.lookahead.state().restored")
    assert opened.evaluate(f"{STATE}.run") == raced, "the last race is restored instead"
    linked = visit("?family=smol&prompt=Hello&chat=True&max_new_tokens=8")
    linked.wait_for_function("document.querySelector('#la-family input').value.startsWith('SmolLM2')")
    assert linked.get_by_label("Prompt", exact=True).input_value() == "Hello"
    choose(linked, "pocket: instant")
    assert linked.get_by_label("Prompt", exact=True).input_value() == "Hello", "typed text stays"


def test_the_first_token_comes_at_once(visit):
    page = visit()
    load(page)
    page.locator("#la-chip-smol-list").click()
    before, start = press_race(page), time.perf_counter()
    page.wait_for_function(f"{STATE}.run !== {json.dumps(before)} && {STATE}.lanes.some(lane => lane.tokens)")
    assert time.perf_counter() - start < 5, "half a second on a machine with nothing else to do"


def test_reading_a_long_prompt_is_shown_and_can_be_stopped(visit):
    page = visit()
    load(page)
    page.get_by_label("Prompt", exact=True).fill("The harbour of the town is busy in the morning. " * 400)
    before = press_race(page)
    page.locator(".la-statustext", has_text="Reading the prompt.").wait_for()
    page.locator(".la-bar.la-on").wait_for()
    assert page.inner_text(".la-s-caption").strip() == "The prompt is read first."
    assert page.locator(".la-s-column").count() == 0, "nothing of the race before"
    page.get_by_role("button", name="Stop", exact=True).click()
    page.locator(".la-statustext", has_text="Stopped by you after 0 tokens.").wait_for()
    page.get_by_label("Prompt", exact=True).fill("Write one line about a harbour.")
    assert race(page)["lanes"][1]["finished"], "the models are free again, and as they were"
    assert page.evaluate(f"{STATE}.run") != before


def test_the_api_has_smol(address):
    client = Client(address, verbose=False)
    families = {family["name"]: family for family in client.predict(api_name="/families")}
    assert families["smol"]["description"] == NAME and families["pocket"]["loaded"]
    assert client.predict("smol", api_name="/choose")["models"]["target"] == SOURCE.repo
    trace = client.predict("The color of the sky is", "block", 12, "auto", 0.0, 0, api_name="/race")
    assert trace["models"]["spec"] == "smol" and trace["lanes"][0]["steps"]
    assert client.predict("pocket", api_name="/choose")["family"] == "pocket"
    with pytest.raises(Exception, match="choose one of"):
        client.predict("<b>", api_name="/choose")
