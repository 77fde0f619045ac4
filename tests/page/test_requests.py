"""Requests that the page never sends, to each event and address: each gets a message, and the log quotes none."""

from __future__ import annotations

import http.client
import json
import socket
import tempfile
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lookahead.page.guard import MAX_BODY

CANARY = "canary-7f3a9"
FILE = {"path": f"/tmp/{CANARY}", "url": f"http://{CANARY}.example/x", "meta": {"_type": "gradio.FileData"}}
# The value of each input of an event.
WRONG = {
    "missing": [], "null": [None], "text": [CANARY], "number": [-(10**30)], "huge": [f"{CANARY} " * 20_000],
    "list": [[CANARY]], "object": [{CANARY: {CANARY: CANARY}}], "file": [FILE], "not a number": [float("nan")],
}  # fmt: skip
JSON = {"Content-Type": "application/json"}


class Plain:
    """One connection to the app, for requests without changes by a client."""

    def __init__(self, address):
        host, port = address.removeprefix("http://").split(":")
        self.line = http.client.HTTPConnection(host, int(port), timeout=30)

    def ask(self, method, path, body=None, headers=()):
        """Return the status and the text of the response."""
        self.line.request(method, path, body, {**JSON, **dict(headers)})
        response = self.line.getresponse()
        text = response.read().decode("utf-8", "replace")
        if response.will_close:
            self.line.close()
        return response.status, text

    def event(self, event, data):
        """Call an event of the page. Returns (success, text of the first output)."""
        session = uuid.uuid4().hex
        body = json.dumps({"fn_index": event["id"], "data": data, "session_hash": session})
        if not event["queue"]:
            status, text = self.ask("POST", "/gradio_api/run/predict", body)
            return status == 200, text
        status, text = self.ask("POST", "/gradio_api/queue/join", body)
        if status != 200:
            return False, text
        self.line.request("GET", f"/gradio_api/queue/data?session_hash={session}")
        stream = self.line.getresponse()
        try:
            while line := stream.readline().decode():
                if '"process_' in line and '"process_starts"' not in line:
                    message = json.loads(line.removeprefix("data: "))
                    return message["success"], json.dumps(message["output"])
        finally:
            stream.close()
            self.line.close()
        return False, ""


@pytest.fixture
def log(app):
    """The lines that the app has printed since the start of the test."""
    before = len(app.output())
    return lambda: app.output()[before:].splitlines()


def events_of(plain):
    config = json.loads(plain.ask("GET", "/config")[1])
    return [event for event in config["dependencies"] if event["backend_fn"]]


def check_log(log, requests):
    """Assert that the log quotes no request and has at most one line per request."""
    time.sleep(0.3)  # a response may come before its log line
    lines = log()
    text = "\n".join(lines)
    assert CANARY not in text.lower() and "fault" not in text and "Traceback" not in text, text[:3000]
    assert len(lines) <= requests, text[:3000]


def has_message(text):
    response = json.loads(text)
    return bool(response.get("error") or response.get("detail"))


def test_every_event_reports_wrong_values(app, address, log):
    events = [event for event in events_of(Plain(address)) if event["inputs"]]
    calls = [(event, values) for values in WRONG.values() for event in events]
    lines = threading.local()

    def call(request):
        event, values = request
        lines.plain = getattr(lines, "plain", None) or Plain(address)
        fine, text = lines.plain.event(event, values * len(event["inputs"]))
        return fine or has_message(text) or (event["id"], event["api_name"], str(values)[:40], text[:200])

    with ThreadPoolExecutor(8) as pool:
        assert [silent for silent in pool.map(call, calls) if silent is not True] == []
    check_log(log, len(calls))
    assert app.process.poll() is None


def test_a_private_event_is_refused(address):
    plain = Plain(address)
    config = json.loads(plain.ask("GET", "/config")[1])
    event = next(event for event in config["dependencies"] if not event["backend_fn"] and not event["queue"])
    fine, text = plain.event(event, [])
    assert not fine and "only the page may call it" in json.loads(text)["error"]


ENDPOINTS = {
    "race": "prompt is 'missing'", "advise": "prompt is 'missing'", "link": "prompt is 'missing'", "choose": "family is 'missing'",
}  # fmt: skip


@pytest.mark.parametrize("name", ENDPOINTS)
def test_an_endpoint_names_a_missing_argument(address, name):
    plain = Plain(address)
    event = next(event for event in events_of(plain) if event["api_name"] == name)
    fine, text = plain.event(event, [])
    assert not fine and json.loads(text)["error"].startswith(ENDPOINTS[name])
    status, text = plain.ask("POST", f"/gradio_api/call/v2/{name}", "{}")
    assert status == 400 and json.loads(text)["error"] == f"{ENDPOINTS[name].split()[0]} is missing: give it."


def test_an_endpoint_fills_in_its_defaults(address):
    status, text = Plain(address).ask("POST", "/gradio_api/call/race", json.dumps({"data": ["Once", "draft", 4]}))
    assert status == 200
    status, text = Plain(address).ask("GET", f"/gradio_api/call/race/{json.loads(text)['event_id']}")
    trace = json.loads(text.strip().rpartition("data: ")[2])[0]
    assert [lane["method"] for lane in trace["lanes"]] == ["naive", "draft"] and trace["settings"]["k"] == "auto"


def rpc(method, **params):
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def tool(name, **arguments):
    return rpc("tools/call", name=name, arguments=arguments)


BOUND = "multipart/form-data; boundary=b"
FORM = f'--b\r\nContent-Disposition: form-data; name="files"; filename="{CANARY}.txt"\r\n\r\n{CANARY}\r\n--b--\r\n'
MCP = {"Accept": "application/json, text/event-stream"}
JOIN, CALL, RUN, SERVE, SPEAK = (
    f"/gradio_api/{name}" for name in ("queue/join", "call/race", "run/predict", "component_server", "mcp/")
)
OF_EVENT = {"fn_index": 2, "data": [CANARY] * 17, "session_hash": CANARY}
REQUESTS = [
    *(("GET", path, None, {}) for path in (
        f"/{CANARY}", f"/?{CANARY}=%ff", f"/gradio_api/file={CANARY}", f"/gradio_api/file=/etc/{CANARY}", f"/static/{CANARY}",
        f"/assets/{CANARY}", f"/svelte/{CANARY}", f"/gradio_api/queue/data?session_hash={CANARY}", "/gradio_api/queue/data",
        f"/gradio_api/call/race/{CANARY}", f"/gradio_api/upload_progress?upload_id={CANARY}", f"/monitoring/{CANARY}",
        f"/gradio_api/deep_link?session_hash={CANARY}", f"/?deep_link={CANARY}", f"/gradio_api/stream/{CANARY}/1/2/playlist.m3u8",
        f"/gradio_api/proxy=http://{CANARY}.example", f"/gradio_api/custom_component/{CANARY}/a/b/c", f"/{CANARY}" * 300,
        f"/gradio_api/vibe-code?{CANARY}", f"/pwa_icon/{CANARY}", f"/gradio_api/info?{CANARY}=1", "/gradio_api/mcp/",
    )),
    *(("POST", path, json.dumps(body), {}) for path, body in (
        (JOIN, OF_EVENT), (JOIN, {**OF_EVENT, "fn_index": 10_000}), (JOIN, {**OF_EVENT, "fn_index": CANARY}),
        (JOIN, {**OF_EVENT, "data": {CANARY: 1}}), (JOIN, {**OF_EVENT, "trigger_id": 10_000}),
        (JOIN, {**OF_EVENT, "event_data": {CANARY: CANARY}}), (JOIN, {CANARY: CANARY}), (JOIN, [CANARY]),
        (RUN, OF_EVENT), (RUN, {**OF_EVENT, "fn_index": 32}), (RUN, {"data": [CANARY]}), (f"/gradio_api/run/{CANARY}", {"data": [CANARY]}),
        ("/gradio_api/api/link", {"data": [{CANARY: 1}]}), ("/gradio_api/api/link", {"data": [CANARY, CANARY]}),
        (f"/gradio_api/call/{CANARY}", {"data": [CANARY]}), (CALL, {"data": CANARY}), (CALL, {"data": [[CANARY]] * 6}),
        (CALL, {"data": [FILE]}), (CALL, {"data": []}), ("/gradio_api/call/v2/race", {CANARY: CANARY}),
        ("/gradio_api/call/v2/race", {"method": CANARY}), (f"/gradio_api/call/v2/{CANARY}", {}),
        (SERVE, {"data": CANARY, "component_id": 1, "fn_name": CANARY, "session_hash": CANARY}),
        (SERVE, {"data": CANARY, "component_id": CANARY, "fn_name": "make", "session_hash": [CANARY]}), (SERVE, {CANARY: 1}),
        ("/gradio_api/cancel", {"session_hash": CANARY, "fn_index": 2, "event_id": CANARY}), ("/gradio_api/cancel", CANARY),
        ("/gradio_api/reset", {"event_id": CANARY}), ("/login", {"username": CANARY}), (f"/{CANARY}", {CANARY: 1}),
        (f"/gradio_api/stream/{CANARY}", {"data": [CANARY]}), ("/gradio_api/vibe-edit", {"prompt": CANARY}),
    )),
    *(("POST", path, body, {}) for path in (JOIN, RUN, CALL, SERVE, SPEAK) for body in (f"{{{CANARY}", "[" * 50_000, b"\xff" * 9)),
    *(("POST", path, FORM, {"Content-Type": BOUND}) for path in ("/gradio_api/upload", SERVE, "/gradio_api/process_recording", "/login")),
    ("POST", "/gradio_api/upload", CANARY, {}), ("POST", "/gradio_api/upload", CANARY, {"Content-Type": f"multipart/form-data; {CANARY}"}),
    *(("POST", SPEAK, body, MCP) for body in (
        rpc(CANARY), rpc("initialize"), tool(CANARY), tool("race"), tool("race", prompt=CANARY, method=CANARY), tool("race", canary=CANARY),
        tool("race", prompt="Once", schema=f"({CANARY}"),
        tool("race", prompt={CANARY: 1}), tool("link", prompt=[CANARY]), rpc("tools/call", canary=CANARY), rpc("prompts/get", name=CANARY),
        rpc("resources/read", uri=f"file:///{CANARY}"), rpc("resources/read", uri=CANARY), json.dumps([CANARY]), json.dumps({CANARY: 1}),
    )),
    ("POST", SPEAK, tool("race"), {**MCP, "Mcp-Session-Id": CANARY}), ("POST", SPEAK, tool("race"), {"Accept": CANARY}),
    (CANARY.upper(), "/", None, {}), ("DELETE", SPEAK, None, {"Mcp-Session-Id": CANARY}),
    *((verb, path, body, headers) for verb, path, body in (("GET", "/", None), ("GET", "/config", None), ("POST", JOIN, json.dumps(OF_EVENT)))
      for headers in (
        {"Host": f"{CANARY}<>"}, {"X-Forwarded-Host": f'{CANARY}"<'}, {"X-Forwarded-Proto": CANARY}, {"Origin": f"http://[{CANARY}"},
        {"Content-Type": CANARY}, {"Cookie": CANARY}, {"Referer": f"http://[{CANARY}"}, {"X-Forwarded-Prefix": f"http://[{CANARY}"},
        {"Authorization": f"Basic {CANARY}"}, {"Content-Encoding": CANARY}, {"Range": CANARY}, {"Accept-Language": CANARY},
        {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": CANARY},
    )),
]  # fmt: skip


def raw(address, text, wait_s=0.1):
    """Send bytes unchanged, then drop the connection."""
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as line:
        line.sendall(text.encode())
        time.sleep(wait_s)


def test_the_log_quotes_no_request_and_has_at_most_one_line_each(app, address, log):
    requests = [request for request in REQUESTS if "upload_progress" not in request[1]]  # it waits for three seconds

    def ask(request):
        try:
            status, text = Plain(address).ask(*request)
        except http.client.HTTPException:  # the response was cut
            return True
        return status < 400 or bool(text) or status in (404, 405) or (request[1], status)

    with ThreadPoolExecutor(8) as pool:
        assert [silent for silent in pool.map(ask, requests) if silent is not True] == []
    check_log(log, len(requests))
    assert app.process.poll() is None


def test_a_dropped_connection_writes_at_most_one_line(address, log):
    body = json.dumps({"data": [f"{CANARY} once upon a time", "draft", 900]})
    event_id = json.loads(Plain(address).ask("POST", "/gradio_api/call/race", body)[1])["event_id"]
    call = tool("race", prompt=CANARY, max_new_tokens=900)
    head = f"HTTP/1.1\r\nHost: x\r\nX-{CANARY}: {CANARY}\r\n"
    half = f"{head}Content-Type: application/json\r\nAccept: {MCP['Accept']}\r\nContent-Length: 999\r\n\r\n{{{CANARY}"
    complete = (
        f"{head}Content-Type: application/json\r\nAccept: {MCP['Accept']}\r\nContent-Length: {len(call)}\r\n\r\n{call}"
    )
    dropped = [
        f"POST /{CANARY} HTTP/1.1\r\n", f"GET / {head}\r\n", f"GET /config {head}\r\n", f"GET /gradio_api/heartbeat/{CANARY} {head}\r\n",
        f"GET /gradio_api/call/race/{event_id} {head}\r\n", f"{CANARY}\r\n\r\n", f"GET /gradio_api/queue/data?session_hash={CANARY} {head}\r\n",
        *(f"POST {path} {half}" for path in (JOIN, CALL, SERVE, SPEAK, "/gradio_api/upload")), f"POST {SPEAK} {complete}",
    ]  # fmt: skip
    for text in dropped:
        raw(address, text)
    check_log(log, len(dropped))


def test_files_of_any_size_are_refused_and_not_stored(address):
    folder = Path(tempfile.gettempdir()) / "gradio"
    kept = set(folder.rglob("*"))
    for body in (FORM, FORM.replace(CANARY, "x" * 20_000_000)):
        for path in ("/gradio_api/upload", "/gradio_api/upload/", "/gradio_api/upload?upload_id=1", SERVE):
            status, text = Plain(address).ask("POST", path, body, {"Content-Type": BOUND})
            assert status == 403 and "accepts no files" in json.loads(text)["error"]
    assert Plain(address).ask("GET", f"/gradio_api/deep_link?session_hash={CANARY}")[0] == 403
    assert {path for path in set(folder.rglob("*")) - kept if path.is_file()} == set()


def test_a_request_has_a_size_limit(address):
    text = json.dumps({**OF_EVENT, "data": ["x" * (MAX_BODY + 1)]})
    status, response = Plain(address).ask("POST", JOIN, text)
    assert status == 413 and "larger than anything" in json.loads(response)["error"]
    parts = (text[at : at + 1_000_000].encode() for at in range(0, len(text), 1_000_000))  # without a Content-Length
    status, response = Plain(address).ask("POST", JOIN, parts)
    assert status == 413 and "larger than anything" in json.loads(response)["error"]


@pytest.mark.parametrize("values", ["[1" + ",1" * 5_000_000 + "]", '["a"' + ',"a"' * 3_000_000 + "]", "[" * 12_000_000])
def test_a_request_with_many_values_is_refused(address, values):
    status, response = Plain(address).ask("POST", JOIN, f'{{"data": [{values}]}}')
    assert status == 413 and "larger than anything" in json.loads(response)["error"]


def test_sessions_keep_almost_no_memory(app, address):
    """For each session, Gradio would keep a copy of each component and each value: more than a megabyte."""
    event = next(event for event in events_of(Plain(address)) if event["api_name"] == "begin_with")

    def visit(_):
        return Plain(address).event(event, ["pocket", "x" * 100_000, False])[0]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(visit, range(20)))  # the first visits need memory once
        before = app.memory()
        assert all(pool.map(visit, range(120)))
    assert app.memory() - before < 40, "for this many visitors it would be more than a hundred"
