"""HTTP and server-sent events, with limits on every wait, line and answer.

Every failure becomes a `RemoteError` with a sentence for a reader: no connection, a refusal with the server's own words, a
silence, a broken stream, an event that cannot be read. The caller keeps what arrived before.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from codecs import getincrementaldecoder
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from io import IncrementalNewlineDecoder
from time import perf_counter
from typing import Any

import httpx2

from ..core.numbers import seconds
from .addresses import RemoteError, Server
from .reply import text_in

MOST_LINE, MOST_LIST, MOST_BYTES = 1 << 20, 8 << 20, 64 << 20  # of an event, of a list of models, of an answer
MOST_WORDS = 200  # characters of a server's own words
DONE = "[DONE]"
Client = httpx2.AsyncClient


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to wait for a connection, for the first event, between two events, and for a whole answer."""

    connect_s: float = 10.0
    first_s: float = 120.0
    between_s: float = 60.0
    whole_s: float = 900.0


@asynccontextmanager
async def connect(server: Server, timeouts: Timeouts) -> AsyncIterator[Client]:
    """Open a client for a server. It uses no proxies of the environment and follows no redirects."""
    timeout = httpx2.Timeout(None, connect=timeouts.connect_s)
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)  # the callers limit their readers
    async with httpx2.AsyncClient(
        base_url=server.url, headers=server.headers, timeout=timeout, limits=limits, trust_env=False, verify=_trusted()
    ) as opened:
        yield opened


@cache
def _trusted() -> ssl.SSLContext:
    """Return the trusted certificates. Reading them takes as long as a few tokens."""
    return httpx2.create_ssl_context(trust_env=False)


async def get_text(opened: Client, server: Server, path: str, timeouts: Timeouts) -> str:
    """Return the text at a path. Raises `RemoteError`."""
    try:
        async with asyncio.timeout(timeouts.connect_s):
            async with opened.stream("GET", path) as response:
                text = await _beginning(response, MOST_LIST)
    except (httpx2.HTTPError, OSError) as error:
        raise _lost(server, error, timeouts.connect_s) from None
    if response.status_code != 200:
        raise _refused(server, response.status_code, text)
    return text


async def _beginning(response: httpx2.Response, most: int = MOST_LINE) -> str:
    """Return the first bytes of a body as text."""
    whole = b""
    async for part in response.aiter_bytes():
        whole += part
        if len(whole) > most:
            break
    return whole[:most].decode(errors="replace")


async def events(
    opened: Client, server: Server, path: str, body: Mapping[str, Any], timeouts: Timeouts, closes: bool = False
) -> AsyncIterator[tuple[dict[str, Any] | None, float]]:
    """Yield the events of a streamed answer, each with the seconds since the request, and None for an announced end.

    `closes` uses a connection for this request only. Raises `RemoteError`.
    """
    start, wait = perf_counter(), timeouts.first_s
    headers = {"Connection": "close"} if closes else {}

    def within(most_s: float) -> asyncio.Timeout:
        return asyncio.timeout(max(0.0, min(most_s, start + timeouts.whole_s - perf_counter())))

    try:
        async with within(wait):
            response = await opened.send(opened.build_request("POST", path, json=body, headers=headers), stream=True)
        try:
            if response.status_code != 200:
                async with within(timeouts.between_s):
                    raise _refused(server, response.status_code, await _beginning(response))
            stream = _stream(response, server)
            while True:
                try:
                    async with within(wait):
                        event = await anext(stream)
                except StopAsyncIteration:
                    return
                yield event, perf_counter() - start
                if event is None:
                    return
                wait = timeouts.between_s
        finally:
            await response.aclose()
    except (httpx2.HTTPError, OSError) as error:
        waited = timeouts.whole_s if perf_counter() - start >= timeouts.whole_s else wait
        raise _lost(server, error, waited) from None


async def _stream(response: httpx2.Response, server: Server) -> AsyncIterator[dict[str, Any] | None]:
    """Yield the data of each event, and None for the last. Raises `RemoteError`. Unknown fields are ignored.

    An empty line ends an event. A first line that is a whole JSON document does not wait for it, because some servers leave
    empty lines out.
    """
    data: list[str] = []
    size, has_event = 0, False
    async for line in _lines(response, server):
        name, _, value = line.partition(":")
        if name == "error":  # older llama-servers
            raise _ended(server, value)
        has_event, is_end = has_event or name == "data", not line.strip()
        if is_data := name == "data" and bool(value.strip()):
            data.append(value.strip())
            size += len(line)
        if size > MOST_LINE:
            raise _too_much(server)
        if data and (is_end or (is_data and len(data) == 1)):
            parsed = _parsed("\n".join(data))
            if is_end or parsed is not None:
                yield _event(server, parsed)
                data, size = [], 0
    if not has_event:
        raise RemoteError(server.name, "it sends something else than a stream of events.")


async def _lines(response: httpx2.Response, server: Server) -> AsyncIterator[str]:
    """Yield the lines of a body, which end with LF, CR or both, and an empty line at its end."""
    decoder = IncrementalNewlineDecoder(getincrementaldecoder("utf-8-sig")("replace"), translate=True)
    rest, whole = "", 0
    async for part in response.aiter_bytes():
        whole += len(part)
        first, *more = decoder.decode(part).split("\n")
        rest += first
        if max(map(len, (rest, *more))) > MOST_LINE or whole > MOST_BYTES:
            raise _too_much(server)
        for line in more:
            yield rest
            rest = line
    yield rest + decoder.decode(b"", final=True)
    yield ""  # the stream's end ends its last event


def _parsed(data: str) -> Any:
    """Return the parsed data of an event; None if it is not JSON."""
    try:
        return data if data == DONE else json.loads(data)
    except (ValueError, RecursionError):
        return None


def _event(server: Server, parsed: Any) -> dict[str, Any] | None:
    """Return the data of an event, None for the last. Raises `RemoteError`."""
    if parsed == DONE:
        return None
    if not isinstance(parsed, dict):
        raise RemoteError(server.name, "it sends events that are not JSON.")
    if error := parsed.get("error") or (parsed.get("object") == "error" and parsed):
        raise _ended(server, error)
    return parsed


def _ended(server: Server, error: Any) -> RemoteError:
    """Return the error for an error event in the stream."""
    return RemoteError(server.name, f"it ended its answer: {_words(server, error)}")


def _too_much(server: Server) -> RemoteError:
    return RemoteError(server.name, "it sends more than an answer has; it was cut off.")


def _refused(server: Server, status: int, words: str) -> RemoteError:
    """Return the error for a status that is not 200."""
    try:
        data = json.loads(words)
        words = _words(server, data.get("error") or data.get("message") or data.get("detail") or data)
    except (ValueError, AttributeError, RecursionError):
        words = _words(server, words)
    reason = {401: "it wants another key", 403: "it wants another key", 404: "it has no such model or path"}
    kind = reason.get(status, "it is overloaded" if status in (429, 503) else "it refused")
    return RemoteError(server.name, f"{kind} (status {status}: {words}).", status)


def _words(server: Server, error: Any) -> str:
    """Return a server's own words as one short line without its secrets."""
    words = error.get("message") if isinstance(error, dict) else error
    line = " ".join(server.hidden(text_in(str(words or error))).split())
    return line if len(line) <= MOST_WORDS else f"{line[:MOST_WORDS]}..."


def _lost(server: Server, error: Exception, waited_s: float) -> RemoteError:
    """Return the error for a connection that was not made, or broke."""
    if isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout)):
        sentence = "nothing answers at its address; is it running?"
    elif isinstance(error, (TimeoutError, httpx2.TimeoutException)):
        sentence = f"it was silent for {seconds(waited_s)} and was given up."
    else:
        sentence = "the connection broke off; what had arrived stays."
    return RemoteError(server.name, sentence)
