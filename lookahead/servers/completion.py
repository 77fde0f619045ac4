"""One text of one server: which kind of server it is, and its passes as they arrive."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from .addresses import RemoteError, Server
from .llama_server import LlamaServer
from .openai import OpenAI
from .reply import UNREADABLE, Answer, Pass, text_in
from .sglang import SGLang
from .stream import Client, Timeouts, events, get_text
from .vllm import VLLM

REPLIES: dict[str, type[OpenAI]] = {
    "vllm": VLLM,
    "sglang": SGLang,
    "llamacpp": LlamaServer,
}  # by the models' `owned_by`
MALFORMED = (400, 404, 405, 415, 422, 501)  # the statuses with which servers refuse an unknown field or path


@dataclass(slots=True)
class Known:
    """A server's kind and model, and the index of the first request that it accepted. Later texts begin with that request."""

    server: Server
    reply: type[OpenAI]
    model: str
    request: int = 0


async def identify(opened: Client, server: Server, timeouts: Timeouts) -> Known:
    """Return the server's kind and first model, from its list of models. Raises `RemoteError`."""
    try:
        models = json.loads(await get_text(opened, server, "/v1/models", timeouts))["data"] or []
        names = [text_in(model["id"]) for model in models]
        kind = text_in(models[0].get("owned_by")) if models else ""
    except UNREADABLE as error:
        if isinstance(error, RemoteError):
            raise
        raise RemoteError(server.name, "its list of models cannot be read.") from None
    if not names:
        raise RemoteError(server.name, "it has no model.")
    return Known(server, REPLIES.get(kind, OpenAI), names[0])


class Completion:
    """A request for a text: iterate over `passes()`, then call `answer()`. After an error it has what arrived before."""

    def __init__(
        self, opened: Client, known: Known, prompt: str, most: int, chat: bool, timeouts: Timeouts | None = None
    ):  # fmt: skip
        self._opened, self._known, self._timeouts = opened, known, timeouts or Timeouts()
        self._requests = known.reply.requests(known.model, text_in(prompt), most, chat)
        self.reply = known.reply()  # what has arrived; its last pass may still grow

    async def _events(self) -> AsyncIterator[tuple[dict[str, Any] | None, float]]:
        """Yield the events of the first request that is not refused as malformed. Raises `RemoteError`."""
        known, closes = self._known, self.reply.reconnects
        for number, (path, body) in enumerate(self._requests[known.request :], known.request):
            stream = events(self._opened, known.server, path, body | known.server.request, self._timeouts, closes)
            try:
                async with aclosing(stream) as arriving:
                    async for event in arriving:
                        known.request = number
                        yield event
                return
            except RemoteError as error:
                if error.status not in MALFORMED or number + 1 == len(self._requests):
                    raise

    async def passes(self) -> AsyncIterator[Pass]:
        """Yield what arrives, as it does. Raises `RemoteError`."""
        server, is_whole = self._known.server, False
        async with aclosing(self._events()) as arriving:
            async for event, at_s in arriving:
                is_whole = event is None
                try:
                    arrived = [] if is_whole else self.reply.read(event, at_s)
                except UNREADABLE:
                    raise RemoteError(server.name, f"its events are not those of {self._known.reply.name}.") from None
                for part in arrived:
                    yield part
        if not self.reply.finish and not is_whole:
            raise RemoteError(server.name, "its answer broke off before its end; what had arrived stays.")

    def answer(self) -> Answer:
        """Return what has arrived so far, with the server's counts. Raises `RemoteError` if they cannot be read."""
        try:
            return self.reply.answer()
        except UNREADABLE:
            raise RemoteError(self._known.server.name, "its counts cannot be read.") from None

    async def whole(self) -> Answer:
        """Return the whole answer. Raises `RemoteError`."""
        async for _ in self.passes():
            pass
        return self.answer()
