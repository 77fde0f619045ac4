"""Requests that no page of ours sends, to every event and address: each is answered in words, and the log quotes none."""

from __future__ import annotations

import http.client
import json
import socket
import time
import uuid

import pytest

CANARY = "canary-7f3a9"
FILE = {"path": f"/tmp/{CANARY}", "url": f"http://{CANARY}.example/x", "meta": {"_type": "gradio.FileData"}}
# Every input of an event has this value; without any it gets no input at all.
WRONG = {
    "missing": None, "null": [None], "text": [CANARY], "number": [-(10**30)], "huge": [f"{CANARY} " * 20_000],
    "list": [[CANARY]], "object": [{CANARY: {CANARY: CANARY}}], "file": [FILE], "not a number": [float("nan")],
}  # fmt: skip
JSON = {"Content-Type": "application/json"}


class Plain:
    """One connection to the app, on which requests are sent as they stand."""

    def __init__(self, address):
        host, port = address.removeprefix("http://").split(":")
        self.line = http.client.HTTPConnection(host, int(port), timeout=30)

    def ask(self, method, path, body=None, headers=()):
        """Status and text of the answer."""
        self.line.request(method, path, body, {**JSON, **dict(headers)})
        answer = self.line.getresponse()
        text = answer.read().decode("utf-8", "replace")
        if answer.will_close:
            self.line.close()
        return answer.status, text

    def event(self, event, data):
        """(whether it has a result, text) of a call of an event of the page, by its number; of work only the first news."""
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
def plain(address):
    return Plain(address)


@pytest.fixture
def log(app):
    """What the app has printed since the test began, a line for an item."""
    before = len(app.output())
    return lambda: app.output()[before:].splitlines()


def events_of(plain):
    config = json.loads(plain.ask("GET", "/config")[1])
    return [event for event in config["dependencies"] if event["backend_fn"]]


@pytest.mark.parametrize("wrong", WRONG)
def test_every_event_answers_wrong_values_in_words(app, plain, log, wrong):
    silent, calls = [], 0
    for event in events_of(plain):
        if not event["inputs"]:
            continue
        data = [] if WRONG[wrong] is None else WRONG[wrong] * len(event["inputs"])
        fine, text = plain.event(event, data)
        calls += 1
        if not fine and not (json.loads(text).get("error") or json.loads(text).get("detail")):
            silent.append((event["id"], event["api_name"], text[:200]))
    print(calls, log()[:40])
    assert silent == []
    text = "\n".join(log())
    assert CANARY not in text and "fault" not in text and "Traceback" not in text, text[:2000]
    assert len(log()) <= calls
    assert app.process.poll() is None


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
    """Bytes sent as they stand, and a connection that is dropped then."""
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as line:
        line.sendall(text.encode())
        time.sleep(wait_s)
