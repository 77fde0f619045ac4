"""Exports: a table without formulas, and a page that plays anywhere and interprets no text of a trace."""

import base64
import csv
import gzip
import io
import json
import re
from pathlib import Path

import pytest
from chromium import until
from synthetic import lane, trace

from lookahead import Trace
from lookahead.core.text_files import FORMULA
from lookahead.core.version import VERSION
from lookahead.measure.decision import Report
from lookahead.page.lab import decision as lab_decision
from lookahead.page.race_tab import make
from lookahead.trace import assets, export, wire

HOSTILE = (
    "</script><script>window.hit=1</script> <img src=x onerror=\"window.hit=2\"> <!-- <script> ]]> & &lt; ${hit} $log "
    "\u202eright to left\u202c \U0001f468\u200d\U0001f469\u200d\U0001f467 \u2028\u2029 \u0000 e" + "\u0301" * 10_000
)  # fmt: skip


@pytest.fixture(scope="module")
def race():
    return trace(lane("naive"), lane("draft"), lane("lookahead"), lane("draft", opaque=True))


@pytest.fixture(scope="module")
def long():
    """Four lanes of 500 tokens, with the target's five most likely tokens at every test."""
    lanes = [lane(method, 500, k) for method, k in (("naive", 0), ("draft", 4), ("tree", 8), ("lookahead", 8))]
    return trace(*lanes, max_new_tokens=500)


def table(text):
    return list(csv.DictReader(io.StringIO(text, newline="")))


# ------------------------------------------------------------------ the table


def test_there_is_one_row_per_pass_and_the_sums_agree(race):
    rows = table(race.to_csv())
    assert len(rows) == sum(len(record.steps) for record in race.lanes)
    for number, record in enumerate(race.lanes):
        lane_rows = [row for row in rows if int(row["lane"]) == number]
        stats = race.stats(number)
        assert [int(row["pass"]) for row in lane_rows] == list(range(len(record.steps)))
        assert "".join(row["text"] for row in lane_rows) == record.text
        assert sum(int(row["tokens"]) for row in lane_rows) == stats["new_tokens"]
        assert sum(int(row["accepted"]) for row in lane_rows) == stats["num_accepted_draft_tokens"]
        assert float(lane_rows[-1]["clock_ms"]) == pytest.approx(1e3 * stats["clock_s"], abs=1e-3)
        assert lane_rows[-1]["finish"] == "length" and lane_rows[0]["kind"] == "prefill"
        if record.opaque:
            assert all(row["rows"] == row["drafted"] == row["draft"] == "" for row in lane_rows)
        else:
            assert sum(int(row["drafted"] or 0) for row in lane_rows) == stats["num_draft_tokens"]


def test_the_text_of_a_draft_is_its_paths():
    draft = {"tokens": [1, 2, 3, 4, 5], "parents": [-1, 0, 0, -1, -1], "pieces": [" a", " b", " c", " d", " w"]}
    record = export.DraftRecord(**draft, sources=["tree"] * 5, window=1)
    assert export._paths(record) == " a b |  a c |  d"


@pytest.mark.parametrize(
    "start", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\nx", "\uff1d1", "'", "=cmd|'/C calc'!A0"]
)
def test_no_cell_is_a_formula(race, start):
    data = json.loads(race.to_json())
    data["lanes"][1]["method"] = start
    data["lanes"][1]["steps"][1]["pieces"][0] = start
    data["lanes"][1]["steps"][1]["draft"]["pieces"][0] = start
    text = Trace.from_json(json.dumps(data)).to_csv()
    for row in table(text):
        assert not any(cell.startswith(FORMULA[:-1]) for cell in row.values())
    row = next(row for row in table(text) if row["method"] == f"'{start}" and row["pass"] == "1")
    assert row["draft"].startswith(f"'{start}")
    assert row["text"].removeprefix("'").startswith(start), "without the apostrophe, the text is the same"


def test_a_negative_time_stays_a_number():
    record = lane("naive", 3)
    step = record.steps[1].model_copy(update={"other_s": -0.0005})
    assert table(trace(record.model_copy(update={"steps": [step]})).to_csv())[0]["other_ms"] == "-0.5"


def test_the_page_exports_tables_for_spreadsheets(race):
    assert make(["csv", race.to_json(), ""]) == {"text": "\ufeff" + race.to_csv()}
    write = next(write for name, _, write in lab_decision.FILES if name == "decision.csv")
    assert write(Report((), rows=({"question": "=ä"},))).startswith("\ufeffmethod,question,")


def test_quotes_and_line_ends_are_preserved():
    record = lane("naive", 3)
    step = record.steps[1].model_copy(update={"pieces": ['a "b",\r\nc;\n']})
    text = trace(record.model_copy(update={"steps": [step]})).to_csv()
    assert text.split("\r\n")[0] == ",".join(export.COLUMNS)
    assert '"a ""b"",\r\nc;\n"' in text
    assert table(text)[0]["text"] == 'a "b",\r\nc;\n'


def test_a_race_without_lanes_is_a_heading():
    assert trace().to_csv() == ",".join(export.COLUMNS) + "\r\n"


# ------------------------------------------------------------------ the page as text


def embedded(page):
    """Return the log in the page: its text, and its unpacked events."""
    (packed,) = re.findall(r'<script type="text/plain" id="replay-log">(.*?)</script>', page, re.DOTALL)
    return packed, json.loads(gzip.decompress(base64.b64decode(packed)))


def test_a_page_is_small_and_complete(long):
    page = long.replay_html()
    size = len(page.encode())
    assert size < 500_000, f"{size:,} bytes"
    assert f"Made with Lookahead {VERSION}" in page and "A processor, 2 cores, bfloat16, bit-exact" in page
    assert not re.search(r"https?://(?!www\.w3\.org)", page), "no address but the name of SVG"


def test_it_links_to_the_app_only():
    from lookahead.trace.export import replay_html

    race = trace(lane("naive"), lane("draft"))
    assert '<a href="https://me.hf.space/">Lookahead</a>' in replay_html(race, app_url="https://me.hf.space/")
    for other in ("", "javascript:alert(1)", "ftp://x", 'https://x/"><script>', "https://[", "https://" + "x" * 600):
        page = replay_html(race, app_url=other)
        assert "<h1>Lookahead</h1>" in page or "&quot;&gt;&lt;script&gt;" in page


def test_the_policy_loads_and_sends_nothing(race):
    page = race.replay_html()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert parts["default-src"] == parts["base-uri"] == parts["form-action"] == "'none'"
    assert "unsafe" not in policy and parts.keys() & {"connect-src", "img-src"} == set()
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == len(re.findall(r"<style>", page)) == 1
    assert parts["script-src"] == assets.csp_hash(scripts[0])


def rounded_log(race, caption):
    """The events that a page should have."""
    return [json.loads(json.dumps(export.round_floats(event.to_dict()))) for event in wire.events(race, caption)]


def test_the_trace_is_in_the_page_once(race):
    page = race.replay_html()
    _, batch = embedded(page)
    assert batch["end"] and batch["run"]
    assert batch["ev"] == rounded_log(race, batch["ev"][0]["caption"])
    assert page == race.replay_html(), "the same race gives the same file"


def test_hostile_text_is_escaped_everywhere(race):
    evil = {"machine": race.machine.model_copy(update={"cpu": HOSTILE[:190]}), "created": "<b>" + HOSTILE[:150]}
    lanes = [race.lanes[0], race.lanes[1].model_copy(update={"method": "</title><svg onload=alert(1)>"})]
    page = trace(*lanes, prompt=HOSTILE, **evil).replay_html(HOSTILE)
    packed, batch = embedded(page)
    assert re.fullmatch(r"[\w+/=]+", packed)
    assert batch["ev"][0]["trace"]["prompt"]["text"] == HOSTILE
    assert not re.search("[\u2028-\u202e\u2066-\u2069\0]", page)
    assert page.count("</script") == page.count("<script") == 2 and "<img" not in page and "<svg" not in page
    assert page.count("</title") == 1 and "<!--" not in page


def test_a_text_becomes_one_line_of_limited_length():
    assert export._one_line("a\n\nb\u202ec\x07  d", 60) == "a bc d"
    assert export._one_line("e" + "\u0301" * 50 + "f", 60) == "e\u0301\u0301f"
    assert export._one_line("word " * 50, 20) == "word word word wo..."
    assert export._one_line(" \u200b ", 20) == ""


def test_seconds_keep_microseconds_and_other_numbers_four_decimals():
    data = {"x_s": 0.00123456, "p": 0.123456, "n": 3, "on": True, "costs": {"rows": [1], "seconds": [0.00123456]}}
    assert export.round_floats(data) == {
        "x_s": 0.001235, "p": 0.1235, "n": 3, "on": True, "costs": {"rows": [1], "seconds": [0.001235]},
    }  # fmt: skip


# ------------------------------------------------------------------ the page in a browser


@pytest.fixture
def opened(chromium, tmp_path):
    """Open a trace's page from disk. Afterwards, it must have fetched nothing and logged nothing."""
    contexts, urls, messages = [], [], []

    def open_(race, caption=None, size=(1280, 900), **options):
        path = Path(tmp_path) / "replay.html"
        path.write_text(race.replay_html(caption), encoding="utf-8")
        context = chromium.new_context(viewport={"width": size[0], "height": size[1]}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: urls.append(request.url))
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.goto(path.as_uri())
        until(page, f"window.lookahead && {STATE}.run")
        return page

    yield open_
    assert messages == []
    assert {url for url in urls if not url.startswith("blob:")} <= {(Path(tmp_path) / "replay.html").as_uri()}
    for context in contexts:
        context.close()


STATE = "window.lookahead.state()"
SEEK = """t => { const scrub = document.querySelector('.la-scrub'); scrub.value = t; scrub.dispatchEvent(new Event('input')); }"""
EVENTS = "JSON.stringify(document.getElementById('replay').laTimeline.log.events)"
FITS = "document.documentElement.scrollWidth <= innerWidth"


@pytest.mark.browser
def test_only_decimals_are_lost(opened, race):
    page = opened(race, "here")
    events = json.loads(page.evaluate(EVENTS))
    assert events == rounded_log(race, "here")
    assert [wire.EVENT.validate_python(event).kind for event in events][:: len(events) - 1] == ["begin", "end"]
    data = events[0]["trace"]
    for number, record in enumerate(data["lanes"]):
        record["steps"] = [e["step"] for e in events if e["kind"] == "step" and e["lane"] == number]
    saved = Trace.from_json(json.dumps(data))
    assert [record.text for record in saved.lanes] == [record.text for record in race.lanes]
    assert saved.stats(1)["speedup"] == pytest.approx(race.stats(1)["speedup"], rel=1e-3)


@pytest.mark.browser
def test_it_plays_and_scrubs_from_a_disk(opened, race):
    page = opened(race, "A race from the library.")
    state = page.evaluate(STATE)
    assert state["playing"] and state["done"] and state["status"] == "recording"
    until(page, f"{STATE}.t > 0.02")
    assert [row["text"] for row in state["lanes"]] == [record.text for record in race.lanes]
    assert "A race from the library." in page.inner_text(".la-status")
    assert f"Made with Lookahead {VERSION}" in page.inner_text("footer")
    page.click(".la-play")
    assert page.evaluate(f"{STATE}.playing") is False
    end = max(record.clock_s for record in race.lanes)
    page.evaluate(SEEK, end)
    assert page.evaluate(f"{STATE}.t") == pytest.approx(end, abs=1e-4)
    assert race.lanes[0].text.strip() in page.locator(".la-lane").nth(0).text_content()
    page.click(".la-open")
    page.evaluate(SEEK, 0)
    assert race.lanes[0].steps[1].pieces[0] not in page.locator(".la-lane .la-pass").all_text_contents()
    assert page.evaluate(FITS)


@pytest.mark.browser
def test_it_follows_the_system_into_the_dark(opened, race):
    page = opened(race, color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate("document.body.classList.contains('dark')")
    dark = page.evaluate(ground)
    page.emulate_media(color_scheme="light")
    until(page, "!document.body.classList.contains('dark')")
    assert page.evaluate(ground) != dark


@pytest.mark.browser
def test_hostile_text_neither_runs_nor_breaks_the_page(opened, race):
    data = json.loads(race.to_json())
    for number, step in enumerate(data["lanes"][1]["steps"][1:]):
        text = HOSTILE[: 300 if number else 9000]
        step["pieces"], step["draft"]["pieces"] = (
            [text for _ in step["pieces"]],
            [text for _ in step["draft"]["pieces"]],
        )
    page = opened(Trace.from_json(json.dumps({**data, "prompt": {**data["prompt"], "text": HOSTILE}})), HOSTILE)
    page.evaluate(SEEK, 0.02)
    page.click(".la-open")
    page.evaluate(SEEK, 0.1)
    page.wait_for_timeout(100)
    assert page.evaluate("window.hit") is None
    assert page.locator(".la-timeline img, .la-timeline script, header img").count() == 0
    assert "<img src=x onerror" in page.text_content(".la-prompt")
    assert page.evaluate(FITS)
    boxes = page.evaluate("[...document.querySelectorAll('.la-scroll')].map(n => n.getBoundingClientRect().height)")
    assert len(set(boxes)) == 1 and boxes[0] < 400
    assert page.evaluate("document.querySelector('.la-transport').getBoundingClientRect().height") < 200
    assert "\u202e" not in page.title() and len(page.title()) < 90


@pytest.mark.browser
def test_it_fits_a_phone(opened, race):
    page = opened(race, size=(390, 844))
    page.wait_for_timeout(100)
    assert page.evaluate(FITS)


@pytest.mark.browser
def test_an_injected_script_would_be_stopped(chromium, race, tmp_path):
    """If the escaping failed, the policy would still block the script."""
    bad = "<script>window.hit = 1</script><img src=x onerror='window.hit = 2'></main>"
    path = tmp_path / "bad.html"
    path.write_text(race.replay_html().replace("</main>", bad), encoding="utf-8")
    page = chromium.new_page()
    page.goto(path.as_uri())
    until(page, f"window.lookahead && {STATE}.done")  # the page's script runs
    assert page.evaluate("window.hit") is None
    page.close()


@pytest.mark.browser
def test_a_damaged_file_shows_a_message(chromium, race, tmp_path):
    path = tmp_path / "damaged.html"
    path.write_text(re.sub(r'(id="replay-log">.{200}).', r"\1", race.replay_html()), encoding="utf-8")
    page = chromium.new_page()
    page.goto(path.as_uri())
    page.get_by_text("cannot be read: the file is damaged").wait_for()
    page.close()
