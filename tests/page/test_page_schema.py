"""A schema on the page: an error under its field, forced tokens with their own look, and the time of masks in a pass."""

import json

import pytest
from playwright.sync_api import expect
from test_page import STATE, state
from test_page_access import violations

pytestmark = pytest.mark.browser
ANIMAL = {
    "type": "object",
    "properties": {"<img src=x>": {"enum": ["cat", "dog"]}, "weight": {"type": "integer", "minimum": 1, "maximum": 99}},
    "required": ["<img src=x>", "weight"],
    "additionalProperties": False,
}


def test_a_schema_is_checked_raced_and_shown(visit):
    page = visit()
    page.get_by_role("button", name="JSON by schema").click()
    page.wait_for_function(f"{STATE}.run === 'recording-schema'")
    page.locator("#la-more-button").click()
    field = page.locator("#la-field-schema textarea")
    assert json.loads(field.input_value())["type"] == "array", "the chip fills it in"

    field.fill('{"type": "objekt"}')
    page.get_by_role("button", name="Race", exact=True).click()
    expect(page.locator("#la-field-schema .la-field-error")).to_contain_text("Invalid type: objekt")

    field.fill(json.dumps(ANIMAL))
    page.get_by_role("button", name="Race", exact=True).click()
    page.wait_for_function(f"{STATE}.done && {STATE}.lanes[2]?.finished && {STATE}.lanes[2].text.startsWith('{{')")
    for lane in state(page)["lanes"]:
        animal = json.loads(lane["text"])
        assert animal["<img src=x>"] in ("cat", "dog") and 1 <= animal["weight"] <= 99
    assert page.locator("img[src=x]").count() == 0, "a schema is text"
    forced = page.locator(".la-lanes .la-forced")
    look = forced.first.evaluate("node => [getComputedStyle(node).textDecorationStyle, node.textContent]")
    assert forced.count() > 8 and look[0] == "double"
    expect(page.locator(".la-legend .la-forced")).to_be_visible()
    page.get_by_role("button", name="open the pass").click()
    expect(page.locator(".la-inspector .la-i-key")).to_contain_text("masks")
    assert violations(page) == []

    page.get_by_role("button", name="story").first.click()
    page.wait_for_function(f"{STATE}.run === 'recording-story'")
    expect(page.locator(".la-legend .la-forced")).to_be_hidden()
    assert field.input_value() == "", "another chip removes it"
