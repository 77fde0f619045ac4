"""A client of one inference server: its kind and model, and its texts, whose passes arrive as server-sent events.

Every wait, line and answer has a limit. Every failure becomes a `RemoteError` with a sentence for a reader: no connection, a
refusal with the server's own words, a silence, a broken stream, an event that cannot be read. What arrived before stays.
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
from .replies import UNREADABLE, VLLM, Answer, LlamaServer, OpenAI, SGLang, text_in

KINDS: dict[str, type[OpenAI]] = {"vllm": VLLM, "sglang": SGLang, "llamacpp": LlamaServer}  # by the models' `owned_by`
MALFORMED = (400, 404, 405, 415, 422, 501)  # the statuses with which servers refuse an unknown field or path
REFUSALS = {
    401: "it wants another key", 403: "it wants another key", 404: "it has no such model or path", 429: "it is overloaded",
    503: "it is overloaded",
}  # fmt: skip
MOST_LINE, MOST_LIST, MOST_BYTES = 1 << 20, 8 << 20, 64 << 20  # of an event, of a list of models, of an answer
MOST_WORDS = 200  # characters of a server's own words
DONE = "[DONE]"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to wait for a connection, for the first event, between two events, and for a whole answer."""

    connect_s: float = 10.0
    first_s: float = 120.0
    between_s: float = 60.0
    whole_s: float = 900.0


@cache
def _trusted() -> ssl.SSLContext:
    """Return the trusted certificates. Reading them takes as long as a few tokens."""
    return httpx2.create_ssl_context(trust_env=False)


class Client:
    """One server, in `async with`, which may be entered again. `identify` sets its `kind` and `model`."""

    def __init__(self, server: Server, timeouts: Timeouts | None = None):
        self.server, self.timeouts = server, timeouts or Timeouts()
        self.kind, self.model = OpenAI, ""
        self.request = 0  # the first of a kind's requests that the server does not refuse

    async def __aenter__(self) -> Self:
        """Open connections. They use no proxies of the environment and follow no redirects."""
        timeout = httpx2.Timeout(None, connect=self.timeouts.connect_s)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)  # the callers limit their readers
        self._http = httpx2.AsyncClient(
            base_url=self.server.url, headers=self.server.headers, timeout=timeout, limits=limits, trust_env=False,
            verify=_trusted(),
        )  # fmt: skip
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    def error(self, sentence: str, status: int | None = None) -> RemoteError:
        return RemoteError(self.server.name, sentence, status)

    async def identify(self) -> None:
        """Read the server's kind and first model from its list of models. Raises `RemoteError`."""
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

    async def complete(self, prompt: str, most: int, chat: bool) -> Answer:
        """Return the whole answer to a prompt, of at most `most` tokens. Raises `RemoteError`."""
        reply = self.kind()
        async for _ in self.read(reply, prompt, most, chat):
            pass
        return self.answer(reply)

    async def read(self, reply: OpenAI, prompt: str, most: int, chat: bool) -> AsyncIterator[None]:
        """Read the answer to a prompt into a new `reply`, and yield after each event. The last pass may still grow. Raises
        `RemoteError`; the reply keeps what has arrived."""
        requests, is_whole = self.kind.requests(self.model, text_in(prompt), most, chat), False
        for number, (path, body) in enumerate(requests[self.request :], self.request):
            try:
                async with aclosing(self._events(path, body | self.server.request)) as arriving:
                    async for event, at_s in arriving:
                        self.request, is_whole = number, event is None
                        if not is_whole:
                            reply.read(event, at_s)
                        yield
                break
            except RemoteError as error:
                if error.status not in MALFORMED or number + 1 == len(requests):
                    raise
            except UNREADABLE:
                raise self.error(f"its events are not those of {self.kind.name}.") from None
        if not reply.finish and not is_whole:
            raise self.error("its answer broke off before its end; what had arrived stays.")

    def answer(self, reply: OpenAI) -> Answer:
        """Return what has arrived so far, with the server's counts. Raises `RemoteError` if they cannot be read."""
        try:
            return reply.answer()
        except UNREADABLE:
            raise self.error("its counts cannot be read.") from None

    async def get_text(self, path: str) -> str:
        """Return the text at a path. Raises `RemoteError`."""
        try:
            async with asyncio.timeout(self.timeouts.connect_s):
                async with self._http.stream("GET", path) as response:
                    text = await _beginning(response, MOST_LIST)
        except (httpx2.HTTPError, OSError) as error:
            raise self._lost(error, self.timeouts.connect_s) from None
        if response.status_code != 200:
            raise self._refused(response.status_code, text)
        return text

    async def _events(self, path: str, body: Mapping[str, Any]) -> AsyncIterator[tuple[dict[str, Any] | None, float]]:
        """Yield a streamed answer's events with the seconds since the request, None for an announced end. Raises `RemoteError`."""
        limits, start = self.timeouts, perf_counter()
        wait = limits.first_s
        headers = {"Connection": "close"} if self.kind.reconnects else {}

        def within(most_s: float) -> asyncio.Timeout:
            return asyncio.timeout(max(0.0, min(most_s, start + limits.whole_s - perf_counter())))

        try:
            async with within(wait):
                request = self._http.build_request("POST", path, json=body, headers=headers)
                response = await self._http.send(request, stream=True)
            async with aclosing(response):
                if response.status_code != 200:
                    async with within(limits.between_s):
                        raise self._refused(response.status_code, await _beginning(response, MOST_LINE))
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
            raise self._lost(error, limits.whole_s if perf_counter() - start >= limits.whole_s else wait) from None

    async def _stream(self, response: httpx2.Response) -> AsyncIterator[dict[str, Any] | None]:
        """Yield the data of each event, and None for the last. Some servers leave out the empty line after an event, which
        httpx2's `EventSource` requires. So a first line that is a whole JSON document is an event."""
        data: list[str] = []
        size, has_event = 0, False
        async for line in self._lines(response):
            name, _, value = line.partition(":")
            if name == "error":  # older llama-servers
                raise self._ended(value)
            has_event, is_end = has_event or name == "data", not line.strip()
            if name == "data" and value.strip():
                data.append(value.strip())
                size += len(line)
            if size > MOST_LINE:
                raise self._too_much()
            if data and (is_end or len(data) == 1):
                parsed = _parsed("\n".join(data))
                if is_end or parsed is not None:
                    yield self._event(parsed)
                    data, size = [], 0
        if not has_event:
            raise self.error("it sends something else than a stream of events.")

    async def _lines(self, response: httpx2.Response) -> AsyncIterator[str]:
        """Yield the lines of a body, which end with LF, CR or both, and an empty line at its end."""
        decoder = IncrementalNewlineDecoder(getincrementaldecoder("utf-8-sig")("replace"), translate=True)
        rest, whole = "", 0
        async for part in response.aiter_bytes():
            whole += len(part)
            first, *more = decoder.decode(part).split("\n")
            rest += first
            if max(map(len, (rest, *more))) > MOST_LINE or whole > MOST_BYTES:
                raise self._too_much()
            for line in more:
                yield rest
                rest = line
        yield rest + decoder.decode(b"", final=True)
        yield ""  # the stream's end ends its last event

    def _event(self, parsed: Any) -> dict[str, Any] | None:
        if parsed == DONE:
            return None
        if not isinstance(parsed, dict):
            raise self.error("it sends events that are not JSON.")
        if error := parsed.get("error") or (parsed.get("object") == "error" and parsed):
            raise self._ended(error)
        return parsed

    def _ended(self, error: Any) -> RemoteError:
        return self.error(f"it ended its answer: {self._words(error)}")

    def _too_much(self) -> RemoteError:
        return self.error("it sends more than an answer has; it was cut off.")

    def _refused(self, status: int, text: str) -> RemoteError:
        words: Any = text
        with suppress(ValueError, AttributeError, RecursionError):
            data = json.loads(text)
            words = data.get("error") or data.get("message") or data.get("detail") or data
        return self.error(f"{REFUSALS.get(status, 'it refused')} (status {status}: {self._words(words)}).", status)

    def _lost(self, error: Exception, waited_s: float) -> RemoteError:
        if isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout)):
            return self.error("nothing answers at its address; is it running?")
        if isinstance(error, (TimeoutError, httpx2.TimeoutException)):
            return self.error(f"it was silent for {seconds(waited_s)} and was given up.")
        return self.error("the connection broke off; what had arrived stays.")

    def _words(self, error: Any) -> str:
        """Return a server's own words as one short line without its secrets."""
        words = error.get("message") if isinstance(error, dict) else error
        line = " ".join(self.server.hidden(text_in(str(words or error))).split())
        return line if len(line) <= MOST_WORDS else f"{line[:MOST_WORDS]}..."


async def _beginning(response: httpx2.Response, most: int) -> str:
    whole = b""
    async for part in response.aiter_bytes():
        whole += part
        if len(whole) > most:
            break
    return whole[:most].decode(errors="replace")


def _parsed(data: str) -> Any:
    try:
        return data if data == DONE else json.loads(data)
    except (ValueError, RecursionError):
        return None
