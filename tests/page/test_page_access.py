"""Accessibility without color, mouse or screen: axe-core on each state of the page, light and dark, and the Tab key."""

import json

import pytest
from axe_playwright_python.sync_playwright import Axe

pytestmark = pytest.mark.browser
STATE = "window.lookahead.state()"
SCREENS = pytest.mark.parametrize(
    ("scheme", "size"), [("light", (1440, 900)), ("dark", (390, 844))], ids=["light-desktop", "dark-phone"]
)  # at its end, each test checks the other scheme, too


def in_other_colors(page, scheme):
    """Switch the page from light to dark or back, and return it."""
    page.emulate_media(color_scheme={"light": "dark", "dark": "light"}[scheme])
    page.wait_for_function(f"document.body.classList.contains('dark') === {json.dumps(scheme == 'light')}")
    return page


def violations(page):
    """Return the violations that axe-core rates moderate, serious or critical.

    A second check follows the first, because a button may be changing its color during the first.
    """
    return _violations(page) and _violations(page)


def _violations(page):
    page.wait_for_function(
        "!document.getAnimations().some(a => a instanceof CSSTransition && a.playState === 'running')"
    )
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    found = page.evaluate("axe.run({resultTypes: ['violations']}).then(results => results.violations)")
    alone = not page.locator("gradio-app").count()  # a widget without the page's heading and landmarks
    ignored = {"page-has-heading-one", "landmark-one-main", "region"} if alone else set()
    return [
        (v["id"], v["help"], [node["target"] for node in v["nodes"]][:4])
        for v in found
        if v["impact"] != "minor" and v["id"] not in ignored
    ]


@SCREENS
def test_no_violation(visit, scheme, size):
    page = visit(color_scheme=scheme, viewport={"width": size[0], "height": size[1]})
    assert violations(page) == [], "first visit"
    page.get_by_role("button", name="more", exact=True).click()
    page.get_by_label("new tokens, at most").fill("32")
    before = page.evaluate(STATE)["run"]
    page.get_by_role("button", name="Race", exact=True).click()
    page.wait_for_function(f"{STATE}.run !== {json.dumps(before)} && {STATE}.done")
    page.wait_for_function("!document.querySelector('#la-race').disabled")
    page.locator("body").press("End")
    page.wait_for_timeout(500)  # until the button's colors have changed
    assert violations(page) == [], "after a race, with all settings open"
    page.get_by_role("button", name="open the pass").click()
    assert page.locator(".la-inspector").is_visible()
    assert violations(page) == [], "a pass open"
    page.locator(".la-inspector").get_by_role("button", name="close").click()
    for view in ("failures", "entropy"):
        page.get_by_role("button", name=view, exact=True).click()
        assert violations(page) == [], view
    page.locator(".la-play").press("?")
    assert page.get_by_role("dialog", name="Keys").is_visible()
    assert violations(page) == [], "help"
    assert violations(in_other_colors(page, scheme)) == [], "the other colors"


def test_every_control_is_reached_by_tab(visit):
    page = visit()
    wanted = page.evaluate(
        """() => [...document.querySelectorAll('button, input, textarea, summary, [tabindex="0"]')]
        .filter(n => n.getClientRects().length && !n.disabled && n.tabIndex >= 0 && getComputedStyle(n).visibility === 'visible'
          && !n.closest('details:not([open]) > :not(summary)')).length"""
    )
    page.evaluate("document.activeElement.blur()")
    seen = set()
    for _ in range(wanted + 10):
        page.keyboard.press("Tab")
        seen.add(
            page.evaluate(
                "(() => { const n = document.activeElement; n.laSeen = n.laSeen || Math.random(); return n === document.body ? 0 : n.laSeen; })()"
            )
        )
    assert len(seen - {0}) >= wanted
