"""A client of one inference server. It reads the kind and model of the server, and its texts as server-sent events.

Every wait, line and response has a limit. Every failure raises a `RemoteError`: no connection, a refused request (with the
server's message), a timeout, an interrupted stream, an invalid event. Passes received before the failure are kept.
"""

import asyncio
import json
import ssl
from codecs import getincrementaldecoder
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import cache
from io import IncrementalNewlineDecoder
from time import perf_counter
from typing import Any, Self

import httpx2

from ..core.numbers import seconds
from .addresses import RemoteError, Server
from .replies import UNREADABLE, VLLM, Completion, LlamaServer, OpenAI, SGLang, TensorRTLLM, text_in

KINDS: dict[str, type[OpenAI]] = {  # by the models' `owned_by`
    "vllm": VLLM, "sglang": SGLang, "llamacpp": LlamaServer, "tensorrt_llm": TensorRTLLM,
}  # fmt: skip
MALFORMED = (400, 404, 405, 415, 422, 501)  # statuses of servers that do not support a field or path
REFUSALS = {
    401: "it requires a valid key", 403: "it requires a valid key", 404: "it has no such model or path", 429: "it is overloaded",
    503: "it is overloaded",
}  # fmt: skip
MAX_LINE, MAX_LIST, MAX_BYTES = 1 << 20, 8 << 20, 64 << 20  # size of an event, of a list of models, of a response
MAX_MESSAGE = 200  # characters of a server's error message
DONE = "[DONE]"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to wait for a connection, the first event, the next event, and a complete response."""

    connect_s: float = 10.0
    first_s: float = 120.0
    between_s: float = 60.0
    total_s: float = 900.0


@cache
def _trusted() -> ssl.SSLContext:
    """Return the trusted certificates, read once because reading takes as long as a few tokens."""
    return httpx2.create_ssl_context(trust_env=False)


class Client:
    """A client of one server, for use in `async with`, also several times. `identify` sets `kind` and `model`."""

    def __init__(self, server: Server, timeouts: Timeouts | None = None):
        self.server, self.timeouts = server, timeouts or Timeouts()
        self.kind, self.model = OpenAI, ""
        self._accepted: dict[
            str, int
        ] = {}  # index of the request that the server accepts, by the path of the first one

    async def __aenter__(self) -> Self:
        """Open the HTTP client. It uses no proxies of the environment and follows no redirects."""
        headers = {"Authorization": f"Bearer {self.server.key}"} if self.server.key else {}
        timeout = httpx2.Timeout(None, connect=self.timeouts.connect_s)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)  # callers limit concurrency
        self._http = httpx2.AsyncClient(
            base_url=self.server.url, headers=headers, timeout=timeout, limits=limits, trust_env=False,
            verify=_trusted(),
        )  # fmt: skip
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    def error(self, hint: str, status: int | None = None) -> RemoteError:
        return RemoteError(self.server.name, hint, status)

    async def identify(self) -> None:
        """Set `kind` and `model` from the server's list of models, of which the first is used. Raises `RemoteError`."""
        text = await self.get_text("/v1/models")
        try:
            models = json.loads(text)["data"] or []
            names = [text_in(model["id"]) for model in models]
            kind = text_in(models[0].get("owned_by")) if models else ""
        except UNREADABLE:
            raise self.error("its list of models cannot be read.") from None
        if not names:
            raise self.error("it has no model.")
        self.kind, self.model = KINDS.get(kind, OpenAI), names[0]

    async def complete(self, prompt: str, most: int, chat: bool, schema: Mapping[str, Any] | None = None) -> Completion:
        """Return the completion of a prompt, of at most `most` tokens, that matches a JSON schema. Raises `RemoteError`."""
        reply = self.kind()
        async for _ in self.read(reply, prompt, most, chat, schema):
            pass
        return self.completion(reply)

    async def read(
        self, reply: OpenAI, prompt: str, most: int, chat: bool, schema: Mapping[str, Any] | None = None
    ) -> AsyncIterator[None]:
        """Read the response to a prompt into a new `reply`, and yield after each event.

        Further events may extend the last pass. Raises `RemoteError`; the reply keeps the received passes.
        """
        requests, is_complete = self.kind.requests(self.model, text_in(prompt), most, chat, schema), False
        first = requests[0][0]
        known = self._accepted.get(first, 0)
        for number, (path, body) in enumerate(requests[known:], known):
            try:
                async with aclosing(self._events(path, body | self.server.request)) as events:
                    async for event, at_s in events:
                        self._accepted[first], is_complete = number, event is None
                        if not is_complete:
                            reply.read(event, at_s)
                        yield
                break
            except RemoteError as error:
                if error.status not in MALFORMED or number + 1 == len(requests):
                    raise
            except UNREADABLE:
                raise self.error(f"its events are not those of {self.kind.name}.") from None
        if not reply.finish and not is_complete:
            raise self.error("its response was interrupted; the text received so far is kept.")

    def completion(self, reply: OpenAI) -> Completion:
        """Return the received passes with the server's counts. Raises `RemoteError` if the counts cannot be read."""
        try:
            return reply.completion()
        except UNREADABLE:
            raise self.error("its counts cannot be read.") from None

    async def get_text(self, path: str) -> str:
        """Return the text at a path. Raises `RemoteError`."""
        try:
            async with asyncio.timeout(self.timeouts.connect_s), self._http.stream("GET", path) as response:
                text = await _read_up_to(response, MAX_LIST)
        except (httpx2.HTTPError, OSError) as error:
            raise self._connection_error(error, self.timeouts.connect_s) from None
        if response.status_code != 200:
            raise self._refused(response.status_code, text)
        return text

    async def _events(self, path: str, body: Mapping[str, Any]) -> AsyncIterator[tuple[dict[str, Any] | None, float]]:
        """Yield each event of a response, None for `DONE`, with the seconds since the request. Raises `RemoteError`."""
        limits, start = self.timeouts, perf_counter()
        wait = limits.first_s
        headers = {"Connection": "close"} if self.kind.reconnects else {}

        def within(most_s: float) -> asyncio.Timeout:
            return asyncio.timeout(max(0.0, min(most_s, start + limits.total_s - perf_counter())))

        try:
            async with within(wait):
                request = self._http.build_request("POST", path, json=body, headers=headers)
                response = await self._http.send(request, stream=True)
            async with aclosing(response):
                if response.status_code != 200:
                    async with within(limits.between_s):
                        raise self._refused(response.status_code, await _read_up_to(response, MAX_LINE))
                stream = self._stream(response)
                while True:
                    try:
                        async with within(wait):
                            event = await anext(stream)
                    except StopAsyncIteration:
                        return
                    yield event, perf_counter() - start
                    if event is None:
                        return
                    wait = limits.between_s
        except (httpx2.HTTPError, OSError) as error:
            is_total = perf_counter() - start >= limits.total_s
            raise self._connection_error(error, limits.total_s if is_total else wait) from None

    async def _stream(self, response: httpx2.Response) -> AsyncIterator[dict[str, Any] | None]:
        """Yield the data of each event, and None for `DONE`.

        httpx2's `EventSource` requires an empty line after each event, which some servers leave out. So a first line that is a
        complete JSON document is an event.
        """
        data: list[str] = []
        size, has_event = 0, False
        async for line in self._lines(response):
            name, _, value = line.partition(":")
            if name == "error":  # older llama-servers
                raise self._server_error(value)
            has_event, is_end = has_event or name == "data", not line.strip()
            if name == "data" and value.strip():
                data.append(value.strip())
                size += len(line)
            if size > MAX_LINE:
                raise self._too_long()
            if data and (is_end or len(data) == 1):
                parsed = _parsed("\n".join(data))
                if is_end or parsed is not None:
                    yield self._event(parsed)
                    data, size = [], 0
        if not has_event:
            raise self.error("its response is not a stream of events.")

    async def _lines(self, response: httpx2.Response) -> AsyncIterator[str]:
        """Yield the lines of a body, which end with LF, CR or CRLF, then an empty line."""
        decoder = IncrementalNewlineDecoder(getincrementaldecoder("utf-8-sig")("replace"), translate=True)
        current, total = "", 0
        async for part in response.aiter_bytes():
            total += len(part)
            first, *more = decoder.decode(part).split("\n")
            current += first
            if max(map(len, (current, *more))) > MAX_LINE or total > MAX_BYTES:
                raise self._too_long()
            for line in more:
                yield current
                current = line
        yield current + decoder.decode(b"", final=True)
        yield ""  # ends the last event

    def _event(self, parsed: Any) -> dict[str, Any] | None:
        if parsed == DONE:
            return None
        if not isinstance(parsed, dict):
            raise self.error("it sends events that are not JSON.")
        if error := parsed.get("error") or (parsed.get("object") == "error" and parsed):
            raise self._server_error(error)
        return parsed

    def _server_error(self, error: Any) -> RemoteError:
        return self.error(f"it reported an error: {self._message(error)}")

    def _too_long(self) -> RemoteError:
        return self.error("its response is too long and was cut off.")

    def _refused(self, status: int, text: str) -> RemoteError:
        error: Any = text
        with suppress(ValueError, AttributeError, RecursionError):
            data = json.loads(text)
            error = data.get("error") or data.get("message") or data.get("detail") or data
        reason = REFUSALS.get(status, "it refused the request")
        return self.error(f"{reason} (status {status}: {self._message(error)}).", status)

    def _connection_error(self, error: Exception, waited_s: float) -> RemoteError:
        if isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout)):
            return self.error("no server responds at its address; is it running?")
        if isinstance(error, (TimeoutError, httpx2.TimeoutException)):
            return self.error(f"the request timed out after {seconds(waited_s)}.")
        return self.error("the connection was interrupted; the text received so far is kept.")

    def _message(self, error: Any) -> str:
        """Return a server's error message as one short line, without its address and key."""
        message = error.get("message") if isinstance(error, dict) else error
        line = " ".join(self.server.redact(text_in(str(message or error))).split())
        return line if len(line) <= MAX_MESSAGE else f"{line[:MAX_MESSAGE]}..."


async def _read_up_to(response: httpx2.Response, most: int) -> str:
    body = b""
    async for part in response.aiter_bytes():
        body += part
        if len(body) > most:
            break
    return body[:most].decode(errors="replace")


def _parsed(data: str) -> Any:
    try:
        return data if data == DONE else json.loads(data)
    except (ValueError, RecursionError):
        return None
