"""Invalid and hostile input to the API, to plain HTTP, in links and in files. Each gets a clear refusal, nothing prints a
traceback, and the server still races afterwards.

The `app` of all tests fails at the end if it has printed a traceback. test_ops.py tests the limits that a host sets.
"""

from __future__ import annotations

import http.client
import json
import socket
import urllib.error
import urllib.parse
import urllib.request

import pytest
from conftest import ROOT, stand_in

from lookahead import LookaheadError
from lookahead.page.race_tab import arrive, make, open_
from lookahead.server import form
from lookahead.server.limits import Limits
from lookahead.server.runs import GONE, Run, Runs
from lookahead.trace.trace import Trace
from lookahead.trace.wire import Status

HUGE = 10**400
GOOD = {"prompt": "Once upon a time", "method": "draft", "max_new_tokens": 4, "k": "2", "temperature": 0, "seed": 0}

# A field of /race, its value, and a word of the refusal.
API = [
    ("prompt", "", "prompt"), ("prompt", None, "prompt"), ("prompt", 7, "prompt"), ("prompt", [], "prompt"),
    ("prompt", {"a": 1}, "prompt"), ("prompt", ["Once"], "prompt"), ("prompt", "a " * 500_000, "prompt"),
    ("prompt", [-1], "prompt"), ("prompt", [10**9], "prompt"), ("prompt", [True], "prompt"),
    ("method", "", "method"), ("method", "nope", "method"), ("method", "../../etc/passwd", "method"),
    ("method", "__class__", "method"), ("method", None, "method"), ("method", 3, "method"), ("method", ["draft"], "method"),
    ("method", "draft:draft=/etc", "method"), ("method", "<img src=x onerror=alert(1)>", "method"),
    ("max_new_tokens", 0, "max_new_tokens"), ("max_new_tokens", -1, "max_new_tokens"), ("max_new_tokens", 10**9, "max_new_tokens"),
    ("max_new_tokens", 1.5, "max_new_tokens"), ("max_new_tokens", "lots", "max_new_tokens"), ("max_new_tokens", None, "max_new_tokens"),
    ("max_new_tokens", HUGE, "max_new_tokens"), ("max_new_tokens", True, "max_new_tokens"), ("max_new_tokens", [4], "max_new_tokens"),
    ("k", "-1", "k"), ("k", "banana", "k"), ("k", "1e999", "k"), ("k", "nan", "k"), ("k", [2], "k"), ("k", "100000", "k"),
    ("temperature", -1, "temperature"), ("temperature", "hot", "temperature"), ("temperature", 1e308, "temperature"),
    ("temperature", "nan", "temperature"), ("temperature", "inf", "temperature"), ("temperature", {}, "temperature"),
    ("seed", -1, "seed"), ("seed", 2**70, "seed"), ("seed", 0.5, "seed"), ("seed", "x", "seed"), ("seed", None, "seed"),
]  # fmt: skip

LINKS = [
    ({"prompt": "x" * 20_001}, "prompt"), ({"prompt": "x", "methods": "draft,tree,ngram,suffix,self"}, "methods"),
    ({"prompt": "x", "methods": "nope"}, "method"), ({"prompt": "x", "k": "<b>"}, "k"), ({"prompt": "x", "seed": "1e999"}, "seed"),
    ({"prompt": "x", "max_new_tokens": "inf"}, "max_new_tokens"), ({"prompt": "x", "temperature": "nan"}, "temperature"),
    ({"prompt": "x", "draft": "/etc/passwd"}, "draft"), ({"prompt": "x", "rule": "none"}, "rule"),
    ({"prompt": "x", "options": "no-equals-sign"}, "option"), ({"recording": "../../app"}, "recording"),
    ({"recording": "story\r\nSet-Cookie: a=b"}, "recording"), ({"prompt": "x", "top_p": "\u0661\u0662"}, "top_p"),
    ({"prompt": "x", "methods": "draft,tree,self,ngram"}, "methods"), ({"prompt": "x", "top_p": "1e"}, "top_p"),
    ({"prompt": "x", "max_new_tokens": ""}, "max_new_tokens"), ({"prompt": "x", "k": "many"}, "k"),
]  # fmt: skip


def valid():
    """Return a bundled recording as data."""
    return json.loads((ROOT / "assets" / "traces" / "short.json").read_text(encoding="utf-8"))


def spoilt(change):
    data = valid()
    change(data)
    return json.dumps(data)


def deep(levels):
    return '{"schema":' + "[" * levels + "]" * levels + "}"


FILES = [
    "", "null", "[]", "true", '"trace"', "{", deep(100_000), '{"a":' * 50_000 + "1" + "}" * 50_000, "\x00\x01\x02", "\ufeff{}", "<html>",
    '{"schema": "lookahead-trace/1"}',
    spoilt(lambda d: d["lanes"][1]["steps"][1].update(verify_s=10**400)),
    spoilt(lambda d: d["lanes"][1]["steps"][1].update(emitted=["__import__('os')"])),
    spoilt(lambda d: d["lanes"][1]["steps"][1].update(index=2**80)),
    spoilt(lambda d: d["lanes"][0].update(method=["naive"])),
    spoilt(lambda d: d["lanes"][0].update(method="x" * 100_000)),
    spoilt(lambda d: d["prompt"].update(text="x" * 3_000_000)),
    spoilt(lambda d: d["costs"].update(rows=[0])),
    spoilt(lambda d: d["costs"].update(seconds=[])),
    spoilt(lambda d: d["settings"].update(seed=-1)),
    spoilt(lambda d: d.update(exactness="surely")),
    spoilt(lambda d: d.update(__proto__={"polluted": 1})),
    json.dumps(valid()).replace('"naive"', "NaN", 1),
    " " * (33 << 20),
]  # fmt: skip

HTTP = [
    ("GET", "/gradio_api/file=/etc/passwd", None), ("GET", "/gradio_api/file=../../../../etc/passwd", None),
    ("GET", "/gradio_api/file=app.py", None), ("GET", "/gradio_api/file=lookahead/family/models.py", None),
    ("GET", "/gradio_api/file=assets/models/pocket/target/config.json", None), ("GET", "/file=%2e%2e/app.py", None),
    ("GET", "/static/../../app.py", None), ("GET", "/assets/%2e%2e/%2e%2e/app.py", None), ("GET", "/nothing/here", None),
    ("POST", "/gradio_api/call/race", "not json"), ("POST", "/gradio_api/call/race", '{"data": "text"}'),
    ("POST", "/gradio_api/call/race", "[" * 100_000),
    ("POST", "/gradio_api/call/nothing", '{"data": []}'), ("POST", "/gradio_api/queue/join", '{"fn_index": 10000, "data": [], "session_hash": "x"}'),
    ("POST", "/gradio_api/queue/join", '{"fn_index": -1, "data": null}'), ("POST", "/gradio_api/component_server", "{}"),
    ("POST", "/gradio_api/component_server", '{"data": [["guess", 0]], "component_id": 1, "fn_name": "__class__", "session_hash": "x"}'),
    ("POST", "/gradio_api/upload", "no form"), ("PUT", "/", "x"), ("DELETE", "/config", None),
]  # fmt: skip


def ask(address, method, path, body=None, headers=()):
    """Send a request unchanged and return (status, text)."""
    host, port = address.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    connection.request(method, path, body, {"Content-Type": "application/json", **dict(headers)})
    response = connection.getresponse()
    return response.status, response.read(2_000_000).decode("utf-8", "replace")


def call_race(address, **changes):
    """Return the last event and its data of a call of /race, by plain HTTP."""
    data = list({**GOOD, **changes}.values())
    status, text = ask(address, "POST", "/gradio_api/call/race", json.dumps({"data": data}))
    if status != 200:
        return "refused", text
    with urllib.request.urlopen(f"{address}/gradio_api/call/race/{json.loads(text)['event_id']}", timeout=60) as stream:
        lines = stream.read().decode().strip().split("\n")
    return lines[-2].removeprefix("event: "), lines[-1].removeprefix("data: ")


def races(address):
    """Return whether the server still computes a race."""
    event, data = call_race(address)
    assert event == "complete"
    return len(json.loads(data)[0]["lanes"]) == 2


def test_the_api_refuses_and_continues(address):
    wrong = []
    for field, value, word in API:
        event, data = call_race(address, **{field: value})
        fine = event in ("error", "refused") and word in data and "Traceback" not in data and str(ROOT) not in data
        wrong += [] if fine else [(field, value if len(str(value)) < 60 else "long", event, data[:120])]
    assert wrong == []
    assert races(address)


@pytest.mark.parametrize(("method", "path", "body"), HTTP, ids=lambda x: str(x)[:50])
def test_plain_http_reveals_nothing(address, method, path, body):
    status, text = ask(address, method, path, body)
    assert status >= 400, (status, text[:200])
    assert "root:" not in text and "Start Lookahead" not in text and "Traceback" not in text and str(ROOT) not in text


def test_afterwards_it_still_races(address):
    assert races(address)


@pytest.mark.parametrize(
    "query",
    ["prompt=%0d%0aSet-Cookie:%20a=b", "recording=%00", "lesson=..%2f..%2fapp", "prompt=" + "x" * 60_000, "%ff%fe=%ff"],
    ids=lambda q: q[:20],
)
def test_a_query_becomes_no_header_and_no_markup(address, query):
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as raw:
        raw.sendall(f"GET /?{query} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            part = raw.recv(65536)
            if not part:
                break
            head += part
    assert head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 4"))
    assert b"a=b" not in head.split(b"\r\n\r\n")[0]


FORGED = "http://evil.example"


@pytest.mark.parametrize("path", ["/", "/config"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": FORGED, "Referer": FORGED},
        {"X-Forwarded-Prefix": "/evil.example"},
        {"Cookie": "session=" + "a" * 8000},
    ],
    ids=lambda headers: next(iter(headers)),
)
def test_forged_headers_change_nothing(address, path, headers):
    assert ask(address, "GET", path, headers=headers) == ask(address, "GET", path)


@pytest.mark.parametrize("path", ["/", "/config"])
@pytest.mark.parametrize("proto", ["http", "javascript"])
def test_a_forged_host_changes_only_the_addresses_in_its_response(address, path, proto):
    """With a proxy, the page must request the visitor's host, so Gradio reads it from this header.

    It becomes the root of http addresses in this one response only.
    """
    plain = ask(address, "GET", path)
    status, text = ask(address, "GET", path, headers={"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": proto})
    assert status == 200 and text.count("evil.example") == text.count(FORGED) > 0
    assert text.replace(FORGED, address) == plain[1]
    assert ask(address, "GET", path) == plain, "the next response does not have it"


@pytest.mark.parametrize("path", ["/", "/config"])
@pytest.mark.parametrize("markup", ['"><script>hit()</script>', "\\</script><script>hit()"])
def test_a_forged_host_becomes_no_markup(address, path, markup):
    status, text = ask(address, "GET", path, headers={"X-Forwarded-Host": f"evil.example{markup}"})
    plain = ask(address, "GET", path)[1]
    assert status >= 400 or (text.count("<script"), text.count("</script")) == (
        plain.count("<script"),
        plain.count("</script"),
    )
    assert status < 500
    assert ask(address, "GET", path, headers={"X-Forwarded-Host": "javascript:alert(1)//"})[0] == 400


@pytest.mark.parametrize(("query", "word"), LINKS, ids=lambda x: str(x)[:50])
def test_an_invalid_link_shows_the_reason(query, word):
    refusal = arrive(stand_in(Limits()), query)["lanes"]
    message = json.loads(refusal)["error"]
    assert message.startswith("This link is not valid.") and word in message and "<" not in refusal


@pytest.mark.parametrize("text", FILES, ids=lambda text: repr(text[:24]))
def test_a_file_that_is_no_recording_is_refused(text):
    with pytest.raises(LookaheadError):
        Trace.from_json(text)
    assert set(json.loads(open_(text))) == {"error"}
    for kind in ("csv", "replay"):
        assert set(make([kind, text])) == {"error"}


@pytest.mark.parametrize(
    "request_", [None, [], ["csv"], "csv", ["sh", "{}"], [["csv"], "{}"], {"kind": "csv"}, ["csv", None], 5], ids=str
)
def test_only_offered_files_are_created(request_):
    assert set(make(request_)) == {"error"}


@pytest.mark.parametrize("value", [None, 7, ["x"], {"a": 1}, b"{}"], ids=str)
def test_an_opened_file_must_be_text(value):
    assert set(json.loads(open_(value))) == {"error"}


def test_runs_of_other_visitors_cannot_be_requested():
    runs, run = Runs(), Run()
    runs.remember(run)
    run.add(Status(text="begun"))
    assert len(run.id) >= 16
    for request in (None, [], run.id, "x", [run.id], [run.id, "0"], [run.id, -1], [run.id, True], [run.id, 0, 0],
                    [None, 0], [[run.id], 0], [{"$ne": ""}, 0], [0, 0], {"run": run.id}):  # fmt: skip
        assert runs.resend(request) is None, request
    for unknown in (run.id[:-1], "*", run.id.swapcase()):
        assert GONE in runs.resend([unknown, 0]) and "begun" not in runs.resend([unknown, 0]), unknown
    assert len({Run().id for _ in range(200)}) == 200


def test_hostile_text_is_returned_as_text(address):
    for prompt in (
        "</script><script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "\u202eevil\u202c",
        "a" + "\u0301" * 200,
        "\U0001f438\u200d\u200d",
        "{{7*7}} ${7*7} %s",
    ):
        event, data = call_race(address, prompt=prompt)
        assert event == "complete"
        assert json.loads(data)[0]["prompt"]["text"] == prompt


def test_the_form_evaluates_no_code():
    for name in (*form.INTEGERS, *form.FLOATS):
        for value in ("__import__('os')", "1;2", "0x10", "1_0_0_", [], {}, None, True, float("nan")):
            try:
                out = form.options({**form.DEFAULTS, name: value})
            except LookaheadError:
                continue
            assert out[name] != out[name] or isinstance(out[name], (int, float))  # nan is refused by the settings
