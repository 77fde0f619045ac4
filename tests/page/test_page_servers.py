"""A race between servers in a real browser: chosen by name, drawn with counts and without invented words, kept and linked."""

import json

import pytest
from fakeserver import WORDS, Fake, serving
from test_page import STATE, race

pytestmark = pytest.mark.browser
MOST = 24
TEXT = "".join(WORDS[:MOST])


@pytest.fixture
def servers(monkeypatch, request):
    """Two servers that the operator has named; the parameter is the second one's fault."""
    fault = getattr(request, "param", None)
    with serving(Fake(speed=0.01)) as plain, serving(Fake(runs=(2, 0, 4, 1), speed=0.01, fault=fault)) as fast:
        monkeypatch.setenv("LOOKAHEAD_SERVERS", f"plain={plain},fast={fast}")
        monkeypatch.setenv("LOOKAHEAD_SERVER_KEY_FAST", "s3cret-key")
        yield plain, fast


LINK = f"?family=servers%3Aplain%2Cfast&prompt=A+prompt&max_new_tokens={MOST}"


def test_servers_are_chosen_by_name_and_raced(visit, servers):
    page = visit()
    page.get_by_label("Models", exact=True).click()
    page.get_by_role("option", name="fast beside plain: servers").click()
    page.locator(".la-machine", has_text="as seen from here").wait_for()
    page.get_by_label("Method", exact=True).wait_for(state="hidden")
    page.get_by_role("button", name="more", exact=True).click()
    page.get_by_label("new tokens, at most").fill(str(MOST))
    shown = race(page)
    assert shown["error"] is None and [lane["text"] for lane in shown["lanes"]] == [TEXT, TEXT]
    names = page.locator(".la-lanehead .la-name").all_inner_texts()
    assert names == ["plain", "fast"]
    page.get_by_role("button", name="keep", exact=True).click()
    unseen = page.locator(".la-lane").nth(1).locator(".la-unseen")
    steps = Fake(runs=(2, 0, 4, 1)).passes(MOST)[1:]
    assert unseen.all_inner_texts() == [f"{4 - accepted} rejected" for _, accepted in steps if accepted < 4]
    trace = json.loads(page.evaluate("window.lookahead.trace()"))
    assert [lane["options"]["kind"] for lane in trace["lanes"]] == ["vllm", "vllm"]
    whole = page.content() + json.dumps(trace)
    assert "s3cret-key" not in whole and not any(url in whole for url in servers)
    assert "family=servers" in page.evaluate("window.lookahead.state().link || ''")


def test_a_link_names_servers(visit, servers):
    page = visit(LINK)
    page.wait_for_function("document.querySelector('#la-family input').value.startsWith('fast beside plain')")
    assert race(page)["lanes"][1]["text"] == TEXT


@pytest.mark.parametrize("servers", ["error event"], indirect=True)
def test_a_server_that_fails_says_so_and_keeps_what_arrived(visit, servers):
    page = visit(LINK)
    page.wait_for_function("document.querySelector('#la-family input').value.startsWith('fast beside plain')")
    page.get_by_role("button", name="Race", exact=True).click()
    page.wait_for_function(f"{STATE}.error && {STATE}.error.includes('out of memory')")
    lanes = page.evaluate(f"{STATE}.lanes")
    assert lanes[0]["text"] == TEXT and lanes[1]["text"].startswith(" w0")
