"""The exercise of lesson 9: its tests pass right code, show the first failing case of wrong code, and the code stays in its sandbox."""

import json

import pytest
from chromium import bare_page, exposed
from test_page_access import violations

from lookahead.trace import assets

pytestmark = pytest.mark.browser

PREFIX = "const n = draft.findIndex((w, i) => w !== predictions[i]); const a = n < 0 ? draft.length : n;"
IDS, END, COMPLETE = range(3)  # the tests of `verify`
# Body of `verify`: which of its tests fail, and a part of the hint of the first that fails.
MISTAKES = [
    (f"{PREFIX} return draft.slice(0, a);", {IDS, END, COMPLETE}, "correction is missing"),
    (f"{PREFIX} return [predictions[a]];", {IDS, END, COMPLETE}, "accepted tokens are missing"),
    (f"{PREFIX} return predictions.slice(0, a + 1);", {END}, "after the end"),
    (f"{PREFIX} const w = predictions.slice(0, Math.min(a + 1, draft.length)); const e = w.indexOf(end); return e < 0 ? w : w.slice(0, e + 1);", {END, COMPLETE}, ""),
    ("return predictions;", {IDS, END}, "continues after a rejection"),
    ("return draft;", {IDS, END, COMPLETE}, "every drafted token"),
    ("return [predictions[0]];", {END, COMPLETE}, "bonus is missing"),
    ("return draft.map(", None, "cannot be read"),
    ("throw new Error('no')", {IDS, END, COMPLETE}, ""),
]  # fmt: skip
# Body of `rejection`, and a part of the shown outcome; "" if it passes.
RULES = [
    ("return draw(p);", "60% of the drafted tokens"),
    ("return token;", "accepts every drafted token"),
    ("return u < p[token] / q[token] ? token : draw(p);", "draws from p"),
    ("return u < p[token] / q[token] ? token : draw(q);", "draws from q"),
    ("if (u < p[token] / q[token]) return token;", "draw it from the residual"),
    ("return u < p[token] / q[token] ? token : draw(p.map((x, i) => Math.max(0, x - q[i])));", ""),
]
OUTSIDE = """
const tries = {};
for (const name of ['document', 'localStorage', 'parent']) tries[name] = typeof globalThis[name];
fetch('http://localhost/secret').catch(() => {});
try { importScripts('http://localhost/secret'); } catch (error) { tries.scripts = error.name; }
try { const r = new XMLHttpRequest(); r.open('GET', 'http://localhost/secret', false); r.send(); tries.xhr = r.status; }
catch (error) { tries.xhr = error.name; }
return [origin, ...Object.values(tries)];
"""


def blank(browser, size=(900, 900), **options):
    styles = assets.style("page/app.css") + assets.style("page/teaching.css")
    script = exposed("learn/games.js", "learn/checks.js", "learn/sandbox.js")
    return bare_page(browser, "<body><main id=host></main>", styles, script, size, **options)


def mounted(page):
    page.evaluate("modules.games.mount(document.getElementById('host'), {kind: 'exercise', say: ''})")
    return page.locator(".la-x-task").all()


def tried(task, body):
    """Run a body in an editor, and return the text of the outcome."""
    task.get_by_role("textbox").fill(body)
    task.get_by_role("button", name="Run the tests").click()
    task.get_by_role("status").filter(has_not_text="Running").wait_for()
    return task.inner_text()


def test_right_code_passes_and_each_mistake_shows_its_case_and_a_hint(page):
    greedy, rejection = mounted(page)
    for body, failing, hint in MISTAKES:
        text = tried(greedy, body)
        assert hint in text
        if failing is not None:
            items = greedy.locator(".la-x-outcomes > li").all()
            assert {i for i, item in enumerate(items) if item.inner_text().startswith("✕")} == failing, body
            case = items[min(failing)].locator("dl").inner_text()
            assert all(word in case for word in ("draft", "predictions", "expected", "returned"))
    assert "the error no" in text, "of the last body"
    for body, words in RULES:
        text = tried(rejection, body)
        assert words in text and ("Tests passed: 1 of 1" in text) == (words == ""), body
    for task, kind in ((greedy, 0), (rejection, 1)):
        task.get_by_role("button", name="Show a solution").click()
        solution = task.locator(".la-x-solution pre").inner_text()
        assert solution == page.evaluate(f"modules.checks.TASKS[{kind}].solution")
        assert "✕" not in tried(task, solution)


def test_the_starters_fail_and_only_two_failed_attempts_offer_a_solution(page):
    for task in mounted(page):
        solution = task.get_by_role("button", name="Show a solution")
        body = task.get_by_role("textbox").input_value()
        assert "✕" in tried(task, body) and not solution.is_visible()
        tried(task, body)
        assert solution.is_visible()
    assert violations(page) == []
    task.get_by_role("textbox").press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Run the tests", "Tab leaves the editor"


def test_an_endless_loop_ends_and_the_text_stays(page):
    task = mounted(page)[0]
    body = "let n = 0;\nwhile (true) n++;"
    assert "did not end within 2 seconds" in tried(task, body)
    assert mounted(page)[0].get_by_role("textbox").input_value() == body, "after a reload of the widget"
    assert page.locator("iframe").count() == 0
    task.get_by_role("button", name="Start again")


def test_the_code_reaches_neither_the_page_nor_the_network(page):
    failures = []
    page.on("requestfailed", lambda request: failures.append((request.url, request.failure)))
    page.on("requestfinished", lambda request: failures.append((request.url, "finished")))
    names = {"names": ["a"], "cases": [{"values": [1]}]}
    for _ in range(5):  # a browser reports the requests of a worker later, or never if the worker has ended before
        report = page.evaluate("task => modules.sandbox.run(task)", {**names, "body": OUTSIDE})
        assert json.loads(report["values"][0]["value"]) == [
            "null", "undefined", "undefined", "undefined", "NetworkError", "NetworkError",
        ]  # fmt: skip
        page.wait_for_timeout(1000)
        if outcomes := {failure for url, failure in failures if "secret" in url}:
            break
    assert outcomes == {"csp"}, "the policy stops each request"
    for body, words in (
        ("globalThis.String = () => ({slice: () => 1}); return 1;", "the code sent an unknown message"),
        ("globalThis.String = null; return 1;", "the sandbox stopped"),
    ):
        assert page.evaluate("task => modules.sandbox.run(task)", {**names, "body": body}) == {"error": f'"{words}"'}
    hostile = "return '<img src=x onerror=window.hit=1>';"
    task = mounted(page)[0]
    assert "<img src=x" in tried(task, hostile)
    assert page.evaluate("window.hit") is None and page.locator("img").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_fits_a_phone(chromium, theme):
    page = blank(chromium, (390, 844))
    page.evaluate(f"document.body.classList.toggle('dark', {json.dumps(theme == 'dark')})")
    for task in mounted(page):
        for _ in range(2):
            tried(task, task.get_by_role("textbox").input_value())
        task.get_by_role("button", name="Show a solution").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    right = "Math.max(...[...document.querySelectorAll('.la-game *')].map(node => node.getBoundingClientRect().right))"
    assert page.evaluate(right) <= 390
    assert violations(page) == []
    assert page.problems == []
    page.close()
