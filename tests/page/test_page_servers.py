"""A race between servers in a real browser: chosen by name, drawn with counts only, saved and linked."""

import base64
import json

import pytest
from conftest import started
from fakeserver import WORDS, Fake, serving
from playwright.sync_api import expect
from test_page import STATE, race

pytestmark = pytest.mark.browser
MAX_TOKENS = 24
TEXT = "".join(WORDS[:MAX_TOKENS])


@pytest.fixture(scope="module")
def servers():
    """The operator's servers: one without speculation, one with it, one that fails during a race."""
    runs = {"runs": (2, 0, 4, 1), "speed": 0.01}
    with (
        serving(Fake(speed=0.01)) as plain,
        serving(Fake(**runs)) as fast,
        serving(Fake(**runs, fault="error event")) as failing,
    ):
        yield {"plain": plain, "fast": fast, "failing": failing}


@pytest.fixture(scope="module")
def address(tmp_path_factory, servers):
    """The address of an app with these servers."""
    named = ",".join(f"{name}={url}" for name, url in servers.items())
    variables = {"LOOKAHEAD_SERVERS": named, "LOOKAHEAD_SERVER_KEY_FAST": "s3cret-key"}
    with started(tmp_path_factory.mktemp("servers"), **variables) as running:
        yield running.url
    assert "s3cret-key" not in running.output() and not any(url in running.output() for url in servers.values())


LINK = f"?family=servers%3Aplain%2Cfast&prompt=A+prompt&max_new_tokens={MAX_TOKENS}"


def test_servers_are_chosen_by_name_and_raced(visit, servers):
    page = visit()
    page.get_by_label("Models", exact=True).click()
    page.get_by_role("option", name="fast vs plain").click()
    page.locator(".la-machine", has_text="measured from this machine").wait_for()
    page.get_by_label("Method", exact=True).wait_for(state="hidden")
    page.get_by_role("button", name="more", exact=True).click()
    page.get_by_label("new tokens, at most").fill(str(MAX_TOKENS))
    shown = race(page)
    assert shown["error"] is None and [lane["text"] for lane in shown["lanes"]] == [TEXT, TEXT]
    names = page.locator(".la-cell[role=rowheader]").all_inner_texts()
    assert names == ["plain", "fast"]
    page.get_by_role("button", name="keep", exact=True).click()
    unseen = page.locator(".la-lane").nth(1).locator(".la-hatched")
    steps = Fake(runs=(2, 0, 4, 1)).passes(MAX_TOKENS)[1:]
    expect(unseen).to_have_text([f"{5 - len(run)} rejected" for run, _ in steps if len(run) < 5])  # during playback
    trace = json.loads(page.evaluate("window.lookahead.trace()"))
    assert [lane["options"]["kind"] for lane in trace["lanes"]] == ["vllm", "vllm"]
    content = page.content() + json.dumps(trace)
    assert "s3cret-key" not in content and not any(url in content for url in servers.values())
    assert "family=servers" in page.evaluate("window.lookahead.state().link || ''")


def test_a_link_names_servers(visit):
    page = visit(LINK)
    page.wait_for_function("document.querySelector('#la-family input').value.startsWith('fast vs plain')")
    assert race(page)["lanes"][1]["text"] == TEXT


def test_a_failing_server_shows_an_error_and_keeps_the_text(visit):
    page = visit(LINK.replace("Cfast", "Cfailing"))
    page.wait_for_function("document.querySelector('#la-family input').value.startsWith('failing vs plain')")
    page.get_by_role("button", name="Race", exact=True).click()
    page.wait_for_function(f"{STATE}.error && {STATE}.error.includes('out of memory')")
    lanes = page.evaluate(f"{STATE}.lanes")
    assert lanes[0]["text"] == TEXT and lanes[1]["text"].startswith(" w0")


def test_the_lab_decides_for_servers(visit):
    page = visit()
    page.get_by_role("tab", name="Lab").click()
    page.get_by_role("tab", name="Should I turn it on?").click()
    section = page.locator(".la-section:visible")
    section.get_by_label("on", exact=True).click()
    page.get_by_role("option", name="fast vs plain").click()
    for budget in ("15 seconds", "two minutes"):  # in 15 seconds, a slow machine measures one text at a time only
        section.get_by_label("measure for").click()
        page.get_by_role("option", name=budget).click()
        section.get_by_role("button", name="Find out").click()
        expect(section.locator(".la-status-line").first).to_contain_text("Done.", timeout=240_000)
        assert section.locator(".la-answer").first.inner_text().startswith(("On: ", "Off: "))
        if "Several texts at once: " in section.inner_text():
            break
    assert "Several texts at once: " in section.inner_text()
    assert section.locator(".js-plotly-plot .scatterlayer .point").count() >= 2


def test_the_lab_diagnoses_servers(visit, servers):
    page = visit()
    page.get_by_role("tab", name="Lab").click()
    page.get_by_role("tab", name="Server doctor").click()
    section = page.locator(".la-section:visible")
    section.get_by_label("measure for").click()
    page.get_by_role("option", name="15 seconds").click()
    section.get_by_role("button", name="Diagnose").click()
    expect(section.locator(".la-answer").first).to_be_visible(timeout=60_000)
    section.get_by_role("button", name="Stop").click()
    links = section.locator("a[download]")
    assert links.all_inner_texts() == ["doctor.md", "doctor.json"]
    report = base64.b64decode(links.last.get_attribute("href").partition(",")[2]).decode()
    document = json.loads(report)
    assert document["findings"][0]["title"] in section.inner_text() and document["advice"] in section.inner_text()
    assert document["servers"]["speculative"]["name"] == "fast" and not any(url in report for url in servers.values())
