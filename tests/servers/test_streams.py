"""Streams of third-party servers: reasoning, unusual chunks and lines, wrong types, sent over a socket."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lookahead.__main__ import main
from lookahead.core.events import SettingsError
from lookahead.measure.timing import Question
from lookahead.servers import report
from lookahead.servers.addresses import RemoteError, server_at
from lookahead.servers.background import complete
from lookahead.servers.client import Client, Timeouts
from lookahead.servers.load import SIDES, blocks, rounds_of
from lookahead.servers.race import ServerRace
from lookahead.trace.trace import Trace

pytestmark = pytest.mark.engines

SHORT = Timeouts(connect_s=5, first_s=5, between_s=5, total_s=10)
DONE = "data: [DONE]\n\n"
BROKEN = "interrupted"


def lines(*events, end=DONE):
    """Return the text of a stream: events as JSON, strings unchanged."""
    return "".join(e if isinstance(e, str) else f"data: {json.dumps(e)}\n\n" for e in events) + end


def chunk(finish=None, **delta):
    """Return a chunk of a chat."""
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None}


def usage(tokens, **more):
    return {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": tokens, **more}}


class Scripted:
    """A server that responds to every request with `parts`, `gap_s` seconds apart. `refuses(path, body)` is a status or None."""

    def __init__(self, parts, owner="unknown", refuses=lambda path, body: None, gap_s=0.0, models=None):
        self.parts = [
            part.encode() if isinstance(part, str) else part for part in ([parts] if isinstance(parts, str) else parts)
        ]
        self.refuses, self.gap_s, self.requests = refuses, gap_s, []
        self.models = {"data": [{"id": "target", "owned_by": owner}]} if models is None else models

    def handler(self):
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.respond(200 if self.path == "/v1/models" else 404, [json.dumps(scripted.models).encode()])

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                scripted.requests.append((self.path, body))
                status = scripted.refuses(self.path, body) or 200
                self.respond(status, scripted.parts if status == 200 else [b'{"error": {"message": "unknown field"}}'])

            def respond(self, status, parts):
                self.send_response(status)
                self.end_headers()  # HTTP/1.0: the response ends with the connection
                for part in parts:
                    self.wfile.write(part)
                    time.sleep(scripted.gap_s)

            def log_message(self, *_):
                pass

        return Handler


@contextmanager
def serving(*scripted):
    """Run the servers; yields their addresses."""
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), item.handler()) for item in scripted]
    for server in servers:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield [f"http://127.0.0.1:{server.server_port}" for server in servers]
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


def requested(scripted, chat=True, most=8):
    """Return the completion of a request. Raises the server's error."""
    with serving(scripted) as (url,):
        server = server_at(url, "fast", {})

        async def work():
            async with Client(server, SHORT) as client:
                await client.identify()
                return await client.complete("A prompt", most, chat)

        return complete(work)


def raced(plain, fast, chat=True):
    """Return the trace of a race, and the error at its end or None."""
    with serving(plain, fast) as urls:
        servers = [server_at(url, name, {}) for url, name in zip(urls, ("plain", "fast"), strict=True)]
        race, error = ServerRace(servers, "A prompt", 8, chat, SHORT), None
        try:
            for _ in race:
                pass
        except RemoteError as failed:
            error = failed
        return Trace.from_json(race.result().to_json()), error


def loaded(plain, fast):
    """Return the report on two servers."""
    prompts = [Question("a", "all", "A prompt", True)]

    async def work(urls):
        servers = [server_at(url, name, {}) for url, name in zip(urls, ("plain", "fast"), strict=True)]
        sides = dict(zip(SIDES, servers, strict=True))
        clients, *done = [item async for item in blocks(sides, prompts, rounds_of([1], 1), 8, SHORT)]
        return report.from_blocks(clients, prompts, done, 8)

    with serving(plain, fast) as urls:
        return complete(lambda: work(urls))


STREAMS = {
    "vLLM: reasoning": (lines(chunk(role="assistant", content=""), chunk(reasoning="Let"), chunk(reasoning=" me"), chunk(content="So"), chunk("stop"), usage(3)), "Let meSo", 3),
    "DeepSeek, SGLang, llama.cpp: reasoning_content": (lines(chunk(reasoning_content="Hm", content=None), chunk(content="So", reasoning_content=None), chunk("stop")), "HmSo", 2),
    "reasoning alone": (lines(chunk(reasoning_content="Hm"), chunk(reasoning_content=" hm"), chunk("length"), usage(2)), "Hm hm", 2),
    "both names of one text": (lines(chunk(reasoning="Hm", reasoning_content="Hm", content=""), chunk("stop", content="So")), "HmSo", 2),
    "OpenRouter: comments, reasoning with empty content": (lines(": OPENROUTER PROCESSING\n\n", chunk(reasoning="Hm", content="", reasoning_details=[{"type": "reasoning.text", "text": "Hm"}]), ": OPENROUTER PROCESSING\n\n", chunk("stop", content="So"), usage(7)), "HmSo", 7),
    "OpenRouter: a plain prompt": (lines({"choices": [{"text": "", "reasoning": "Hm"}]}, {"choices": [{"text": "So", "finish_reason": "stop"}]}), "HmSo", 2),
    "Mistral: parts": (lines(chunk(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}]), chunk("stop", content=[{"type": "text", "text": "S"}, "o"])), "HmSo", 2),
    "a refusal": (lines(chunk(refusal="No"), chunk("stop", refusal=".")), "No.", 2),
    "no choices": (lines({"object": "ping"}, chunk(content="So"), {"id": "x", "usage": None}, chunk("stop")), "So", 1),
    "choices null": (lines({"choices": None}, chunk(content="So"), chunk("stop"), {"choices": None, "usage": {"completion_tokens": 4}}), "So", 4),
    "choices empty at first": (lines({"choices": [], "prompt_filter_results": []}, chunk("stop", content="So")), "So", 1),
    "delta null or absent": (lines({"choices": [{"delta": None}]}, chunk(content="So"), {"choices": [{"finish_reason": "stop"}]}), "So", 1),
    "usage null, then zero": (lines(chunk("stop", content="So"), {"choices": [], "usage": {"completion_tokens": None}}, {"choices": [], "usage": {"completion_tokens": 0}}), "So", 1),
    "usage with every chunk": (lines(*({**chunk(content=str(i)), "usage": {"completion_tokens": i + 1}} for i in range(3)), {**chunk("stop"), "usage": {"completion_tokens": 5}}), "012", 5),
    "reasoning counted apart": (lines(chunk(reasoning_content="Hm"), chunk("stop", content="So"), usage(2, total_tokens=17, completion_tokens_details={"reasoning_tokens": 10})), "HmSo", 12),
    "reasoning counted with the rest": (lines(chunk(reasoning_content="Hm"), chunk("stop", content="So"), usage(12, total_tokens=17, completion_tokens_details={"reasoning_tokens": 10})), "HmSo", 12),
    "unknown fields": (lines("event: chunk\nid: 7\nretry: 100\nflavour: sour\nbare\n", chunk(content="So"), ":\n:comment\n", chunk("stop")), "So", 1),
    "data without a space": (lines(chunk(content="So"), chunk("stop")).replace("data: ", "data:"), "So", 1),
    "data over two lines": (lines('data: {"choices": [{"delta":\ndata: {"content": "So"}}]}\n\n', chunk("stop")), "So", 1),
    "data over many lines": (lines("".join(f"data: {line}\n" for line in json.dumps(chunk("stop", content="So"), indent=1).splitlines()) + "\n"), "So", 1),
    "CRLF": (lines(chunk(content="So"), 'data: {"choices": [{"delta":\ndata: {"content": "!"}}]}\n\n', chunk("stop")).replace("\n", "\r\n"), "So!", 2),
    "CR": (lines(chunk(content="So"), chunk("stop")).replace("\n", "\r"), "So", 1),
    "no empty lines": (lines(chunk(content="So"), chunk("stop")).replace("\n\n", "\n"), "So", 1),
    "a byte-order mark": ("\ufeff" + lines(chunk(content="So"), chunk("stop")), "So", 1),
    "line separators inside": (lines('data: {"choices": [{"delta": {"content": "a\u2028b\u2029c\x85d"}}]}\n\n', chunk("stop")), "a\u2028b\u2029c\x85d", 1),
    "half a surrogate pair": (lines(chunk(content="\ud83d"), chunk("stop", content="\ude00")), "\ufffd\ufffd", 2),
    "no [DONE]": (lines(chunk(content="So"), chunk("stop"), end=""), "So", 1),
    "no [DONE], no last line end": (lines(chunk(content="So"), chunk("stop"), end="").rstrip(), "So", 1),
    "no reason, but [DONE]": (lines(chunk(content="So")), "So", 1),
    "no text at all": (lines(chunk(role="assistant"), chunk("stop"), usage(0)), "", 0),
}  # fmt: skip


@pytest.mark.parametrize("name", STREAMS)
def test_streams_are_read(name):
    stream, text, tokens = STREAMS[name]
    completion = requested(Scripted(stream))
    assert (completion.text, completion.tokens) == (text, tokens)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_stream_may_be_split_at_any_byte(end):
    text = "Gr\u00fc\u00dfe \U0001f600 \u4f60\u597d"
    stream = lines(
        *(json.dumps(chunk(content=c), ensure_ascii=False).join(["data: ", "\n\n"]) for c in text), chunk("stop")
    )
    data = stream.replace("\n", end).encode()
    assert requested(Scripted([data[i : i + 1] for i in range(len(data))])).text == text


@pytest.mark.timed
def test_reasoning_is_timed_and_counted():
    stream = [lines(chunk(role="assistant", content=""), chunk(reasoning="Hm"), end="")]
    stream += [lines(chunk(reasoning=" hm"), end=""), lines(chunk("stop", content="So"), usage(3))]
    level = loaded(Scripted(stream, gap_s=0.15), Scripted(stream, gap_s=0.15))["levels"][0]
    assert level["identical"] == 1
    assert level["latency"]["speculative"]["first_token_s"] < 0.15, "the first token belongs to the reasoning"
    assert 0.1 < level["latency"]["speculative"]["gap_p50_s"] < 0.25
    assert 4 < level["tokens_per_second"] < 10, "three tokens in two gaps"


def test_reasoning_is_compared():
    plain, fast = (Scripted(lines(chunk(reasoning=text), chunk("stop", content="So"))) for text in ("Hm", "Ha"))
    measured = loaded(plain, fast)
    assert measured["levels"][0]["identical"] == 0 and measured["rows"][0]["first_difference"] == 1
    trace, error = raced(plain, fast)
    assert error is None and trace.agreement(1)["badge"] == "differs at character 2"


EMPTY = lines(chunk(role="assistant", content=""), chunk("stop"), usage(0))


def test_two_empty_texts_are_not_identical(capsys, tmp_path):
    empty = Scripted(EMPTY), Scripted(EMPTY)
    measured = loaded(*empty)
    assert measured["rows"][0]["identical"] is None and measured["levels"][0]["identical"] == 0
    assert "nothing to compare" in " ".join(measured["levels"][0]["remarks"])
    trace, error = raced(*empty)
    assert error is None and trace.agreement(1)["identical"] is None
    assert trace.agreement(1)["badge"] == "no text to compare"
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"id": "a", "prompt": "One", "chat": true}\n')
    with serving(*empty) as (plain, fast):
        arguments = ["--baseline", plain, "--speculative", fast, "--prompts", str(prompts)]
        assert main(["attach", *arguments, "--concurrency", "1", "--repeat", "1"]) == 0
        assert "nothing to compare" in " ".join(capsys.readouterr().out.split())
        assert main(["decide", *arguments, "--seconds", "5"]) == 2
        assert "no prompt has text from both servers" in capsys.readouterr().err


def test_half_a_surrogate_pair_in_a_prompt_is_replaced():
    scripted = Scripted(lines(chunk("stop", content="So")))
    with serving(scripted) as (url,):
        servers = [server_at(url, name, {}) for name in ("plain", "fast")]
        race = ServerRace(servers, "half \ud800", 8, True, SHORT)
        assert [lane_step for lane_step in race if lane_step] and race.result().prompt.text == "half \ufffd"
    assert scripted.requests[0][1]["messages"][0]["content"] == "half \ufffd"


def test_one_empty_text_is_a_difference():
    full = lines(chunk(content="So"), chunk("stop"))
    measured = loaded(Scripted(full), Scripted(EMPTY))
    assert measured["rows"][0]["identical"] is False and measured["rows"][0]["first_difference"] == 0
    trace, _ = raced(Scripted(full), Scripted(EMPTY))
    assert trace.agreement(1)["badge"] == "no text to compare" and "One of" in trace.agreement(1)["detail"]


def test_texts_are_compared_if_only_one_server_sends_ids():
    plain = lines({"choices": [{"text": "So", "token_ids": [7], "finish_reason": "stop"}]})
    text = lines({"choices": [{"text": "So", "finish_reason": "stop"}]})
    assert loaded(Scripted(plain, "vllm"), Scripted(text))["rows"][0]["identical"] is True


def deep(depth):
    return f"data: {'[' * depth}{']' * depth}\n\n"


WRONG = {
    **{f"choices {value!r}": (lines({"choices": value}), "not those of") for value in (3, "text", {"a": 1}, [None], [[]], [3], True)},
    **{f"delta {value!r}": (lines({"choices": [{"delta": value}]}), "not those of") for value in (3, "text", [1])},
    **{f"content {value!r}": (lines(chunk(content=value)), "not those of") for value in (3, {"text": "a"}, [3], [[3]], True)},
    **{f"reasoning {value!r}": (lines(chunk(reasoning=value)), "not those of") for value in (3, {"a": "b"})},
    **{f"reason {value!r}": (lines(chunk(value)), "not those of") for value in (3, {"type": "stop"})},
    **{f"ids {value!r}": (lines({"choices": [{"text": "a", "token_ids": value}]}), "not those of") for value in (3, "12", ["x"], [None], {"a": 1})},
    **{f"prompt ids {value!r}": (lines({"choices": [{"text": "a", "prompt_token_ids": value}]}), "not those of") for value in (3, "12")},
    **{f"usage {value!r}": (lines(chunk("stop", content="a"), {"choices": [], "usage": value}), "counts cannot be read") for value in (3, "text", [1], {"completion_tokens": [1]}, {"completion_tokens": "many"}, {"completion_tokens": -4}, {"completion_tokens": 1e400}, {"completion_tokens": 10**400}, {"completion_tokens": 3, "completion_tokens_details": [1]})},
    "an endless count": ('data: {"choices": [], "usage": {"completion_tokens": Infinity}}\n\n' + lines(chunk("stop", content="a")), "counts cannot be read"),
    "an id without an end": ('data: {"choices": [{"text": "a", "token_ids": [Infinity]}]}\n\n', "not those of"),
    "a list": (lines("data: [1]\n\n"), "not JSON"),
    "a number": (lines("data: 7\n\n"), "not JSON"),
    "null": (lines("data: null\n\n"), "not JSON"),
    "half a document": (lines('data: {"choices": [\n\n'), "not JSON"),
    "depth": (deep(400_000), "not JSON"),
    "an error": (lines(chunk(content="a"), {"error": {"message": "out of memory", "code": 500}}), "out of memory"),
    "an error in words": (lines({"error": "out of memory"}), "out of memory"),
    "an error with choices": (lines({"choices": [{"delta": {"content": ""}, "finish_reason": "error"}], "error": {"code": 502, "message": "out of memory"}}), "out of memory"),
    "an error object": (lines({"object": "error", "message": "out of memory", "code": 400}), "out of memory"),
    "an error field": ('error: {"message": "out of memory"}\n\n', "out of memory"),
    "an error of any type": (lines({"error": [1, 2]}), "[1, 2]"),
    "an error in halves": (lines({"error": "out of \ud83d memory"}), "out of \ufffd memory"),
    "a page": ("<html>\n<p>hello: world</p>\n</html>\n", "not a stream of events"),
    "a document of JSON": (json.dumps({"choices": [{"message": {"content": "So"}}]}), "not a stream of events"),
    "Ollama's own lines": ('{"response": "So", "done": false}\n{"response": "", "done": true}\n', "not a stream of events"),
    "nothing": ("", "not a stream of events"),
    "a cut stream": (lines(chunk(content="So"), end=""), BROKEN),
    "one endless line": ("data: " + "x" * (2 << 20), "too long"),
    "an endless event": ("data: x\n" * 200_000, "too long"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_an_invalid_stream_raises_a_clear_error(name):
    stream, message = WRONG[name]
    with pytest.raises(RemoteError) as error:
        requested(Scripted(stream))
    assert message in str(error.value) and str(error.value).startswith("server is 'fast': ")
    str(error.value).encode()  # it can be encoded as UTF-8


@pytest.mark.parametrize("name", ["choices 3", "usage [1]", "an endless count", "an id without an end"])
def test_a_race_with_an_invalid_stream_raises_a_clear_error(name):
    trace, error = raced(Scripted(lines(chunk(content="So"), chunk("stop"))), Scripted(WRONG[name][0]))
    assert WRONG[name][1] in str(error) and trace.lanes[0].text == "So"


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"content": None}, "not those of"), ({"content": 3}, "not those of"), ({}, "not those of"),
        ({"content": "a", "tokens": "12"}, "not those of"), ({"content": "a", "timings": [1]}, "not those of"),
        ({"content": "a", "timings": {"draft_n": -1}}, "not those of"), ({"content": "a", "stop": True, "stop_type": [1]}, "not those of"),
    ],
)  # fmt: skip
def test_an_invalid_event_of_llama_server_raises_a_clear_error(event, message):
    with pytest.raises(RemoteError, match=message):
        requested(Scripted(lines(event), "llamacpp"))


@pytest.mark.parametrize(
    "metrics",
    [3, [1], {"speculative_decoding": 3}, {"speculative_decoding": {}}, {"speculative_decoding": {"num_draft_tokens": None}},
     {"speculative_decoding": {"num_draft_tokens": 4, "num_accepted_draft_tokens": -1, "num_spec_steps": 1}},
     {"speculative_decoding": {"num_draft_tokens": 4, "num_accepted_draft_tokens": 1, "num_spec_steps": 1, "per_step_accepted": 3}}],
)  # fmt: skip
def test_invalid_metrics_of_vllm_raise_a_clear_error(metrics):
    stream = lines({"choices": [{"text": "a", "token_ids": [1], "finish_reason": "stop"}], "metrics": metrics})
    if metrics == {"speculative_decoding": {}}:
        assert requested(Scripted(stream, "vllm")).counts is None
        return
    with pytest.raises(RemoteError, match=r"not those of|cannot be read"):
        requested(Scripted(stream, "vllm"))


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ({"data": []}, "has no model"), ({"data": None}, "has no model"), ({}, "cannot be read"), ([], "cannot be read"),
        ({"data": [{}]}, "cannot be read"), ({"data": [{"id": 3}]}, "cannot be read"), ({"data": [None]}, "cannot be read"),
        ({"data": [{"id": "a", "owned_by": 3}]}, "cannot be read"), ({"data": 3}, "cannot be read"), (3, "cannot be read"),
    ],
)  # fmt: skip
def test_an_invalid_list_of_models_raises_a_clear_error(models, message):
    with pytest.raises(RemoteError, match=message):
        requested(Scripted(lines(chunk("stop")), models=models))


@pytest.mark.parametrize(
    "url", ["http://host:99999", "http://[::1", "http://host:0", "http://:8000", "http://host:abc"]
)
def test_an_invalid_address_is_refused(url):
    with pytest.raises(SettingsError, match="localhost:8000"):
        server_at(url, "fast", {})


# ------------------------------------------------------------------ fields that a server may not support


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize(
    ("owner", "fields"),
    [
        ("unknown", ("stream_options",)), ("vllm", ("return_token_ids", "stream_options")),
        ("sglang", ("return_spec_tokens_details", "return_token_ids")),
    ],
)  # fmt: skip
def test_a_request_is_repeated_without_a_refused_field(owner, fields, status):
    scripted = Scripted(
        lines(chunk(content="So"), chunk("stop")),
        owner,
        refuses=lambda path, body: status if any(name in body for name in fields) else None,
    )
    assert requested(scripted).text == "So"
    assert fields[0] in scripted.requests[0][1] and not set(fields) & set(scripted.requests[-1][1])
    scripted.requests.clear()
    level = loaded(scripted, scripted)["levels"][0]
    refused = [body for _, body in scripted.requests if set(fields) & set(body)]
    assert level["failed"] == 0 and level["identical"] == 1
    assert len(refused) <= 2 * 2, "each server refuses before the first text only"


def test_a_refused_prompt_does_not_change_the_next_request():
    refusing = [True]
    scripted = Scripted(lines(chunk("stop", content="So")), "vllm", refuses=lambda *_: 400 if refusing[0] else None)
    with serving(scripted) as (url,):
        server = server_at(url, "fast", {})

        async def work():
            async with Client(server, SHORT) as client:
                await client.identify()
                with pytest.raises(RemoteError, match="unknown field"):
                    await client.complete("Long", 8, True)
                refusing[0] = False
                return await client.complete("Short", 8, True)

        assert complete(work).text == "So"
    assert "return_token_ids" in scripted.requests[-1][1]


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_other_refused_requests_are_not_repeated(status):
    scripted = Scripted("", "vllm", refuses=lambda *_: status)
    with pytest.raises(RemoteError):
        requested(scripted)
    assert len(scripted.requests) == 1


# ------------------------------------------------------------------ SGLang

DETAILS = {
    "spec_accept_rate": 0.5, "spec_accept_length": 3.0, "spec_num_correct_drafts": 8, "spec_num_proposed_drafts": 16,
    "spec_verify_ct": 4, "spec_correct_drafts_histogram": [1, 0, 2, 0, 1],
}  # fmt: skip


def sglang_chat(details):
    """Return a chat of SGLang: chunks with the role, reasoning, text, the finish reason, `sglext` alone, and usage alone."""
    extension = {"choices": [], "sglext": {"spec_tokens_details": details}, "usage": None}
    return lines(
        chunk(role="assistant", content=""), chunk(reasoning_content="Hm", content=None), chunk(content="So"), chunk("stop"),
        extension, usage(12),
    )  # fmt: skip


@pytest.mark.parametrize("details", [DETAILS, [DETAILS]])
def test_counts_are_requested_from_sglang(details):
    scripted = Scripted(sglang_chat(details), "sglang")
    completion = requested(scripted)
    ((path, body),) = scripted.requests
    assert path == "/v1/chat/completions" and body["return_spec_tokens_details"] is True
    assert completion.counts == (16, 8, 4) and completion.tokens == 12 and completion.text == "HmSo"
    level = loaded(Scripted(EMPTY), scripted)["levels"][0]
    assert level["mean_acceptance_length"] == 3.0 and level["draft_acceptance_rate"] == 0.5


def test_counts_are_requested_without_ids_if_sglang_refuses_ids_in_streams():
    refuses = lambda path, body: 400 if "return_token_ids" in body else None  # noqa: E731
    assert requested(Scripted(sglang_chat(DETAILS), "sglang", refuses=refuses)).counts == (16, 8, 4)


@pytest.mark.parametrize("details", [None, {}, {"spec_verify_ct": 4}])
def test_sglang_without_details_has_no_counts(details):
    assert requested(Scripted(sglang_chat(details), "sglang")).counts is None


@pytest.mark.parametrize(
    "details",
    [3, "text", [DETAILS, DETAILS], {**DETAILS, "spec_verify_ct": "x"}, {**DETAILS, "spec_num_correct_drafts": -1}],
)
def test_invalid_details_raise_a_clear_error(details):
    with pytest.raises(RemoteError, match=r"not those of|cannot be read"):
        requested(Scripted(sglang_chat(details), "sglang"))


def generated(final, incremental=False):
    """Return a response of SGLang's `/generate`: passes of 1, 3 and 2 tokens. `final` are the counts of the last event."""
    texts, sizes, events, sent = [" a", " a a a", " b c"], [1, 3, 2], [], 0
    for i, (text, size) in enumerate(zip(texts, sizes, strict=True)):
        sent, last = sent + size, i == 2
        meta = {
            "completion_tokens": sent,
            "finish_reason": {"type": "length"} if last else None,
            **(final if last else {}),
        }
        events.append({
            "text": text if incremental else "".join(texts[: i + 1]), "meta_info": meta,
            "output_ids": list(range(sent - size if incremental else 0, sent)),
        })  # fmt: skip
    return lines(*events)


NAMES = [
    ("spec_num_proposed_drafts", "spec_num_correct_drafts"), ("spec_proposed_drafts", "spec_accepted_drafts"),
    ("spec_draft_token_num", "spec_accept_token_num"),
]  # fmt: skip


@pytest.mark.parametrize("incremental", [False, True])
@pytest.mark.parametrize(("drafted", "accepted"), NAMES)
def test_counts_of_a_whole_text_are_not_those_of_its_last_pass(drafted, accepted, incremental):
    scripted = Scripted(generated({drafted: 8, accepted: 3, "spec_verify_ct": 2}, incremental), "sglang")
    completion = requested(scripted, chat=False)
    assert scripted.requests[0][0] == "/generate" and scripted.requests[0][1]["return_spec_tokens_details"] is True
    assert completion.text == " a a a a b c" and completion.ids == tuple(range(6)) and completion.finish == "length"
    assert completion.counts == (8, 3, 2) and completion.differs is None
    assert [(part.drafted, part.accepted) for part in completion.passes] == [(None, None)] * 3


def test_without_generate_the_openai_endpoint_of_sglang_is_used():
    scripted = Scripted(
        lines({"choices": [{"text": "So", "token_ids": [5], "finish_reason": "stop"}]}, {"choices": [], "sglext": {"spec_tokens_details": DETAILS}}),
        "sglang", refuses=lambda path, body: 404 if path == "/generate" else None,
    )  # fmt: skip
    completion = requested(scripted, chat=False)
    assert (
        scripted.requests[-1][0] == "/v1/completions" and scripted.requests[-1][1]["return_spec_tokens_details"] is True
    )
    assert completion.ids == (5,) and completion.counts == (16, 8, 4)
