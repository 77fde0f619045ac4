"""One text from one server: which kind it is, and its passes as they arrive.

Knows the kinds of servers. It does not know load, nor who looks on.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import httpx2

from .llama_server import LlamaServer
from .openai import OpenAI
from .reply import UNREADABLE, Answer, Pass, Reply, text_in
from .servers import RemoteError, Server
from .sglang import SGLang
from .stream import Patience, events, text_of
from .vllm import VLLM

REPLIES: dict[str, type[Reply]] = {"vllm": VLLM, "sglang": SGLang, "llamacpp": LlamaServer}  # by who owns a model
MALFORMED = (400, 404, 405, 415, 422, 501)  # how servers refuse a field or a path that they do not know


@dataclass(slots=True)
class Known:
    """A server's kind, its model, and the index of the first request that it accepted. Later texts begin with that one."""

    server: Server
    reply: type[Reply]
    model: str
    request: int = 0

    @property
    def kind(self) -> str:
        """By what name the kind goes."""
        return self.reply.name


async def look(opened: httpx2.AsyncClient, server: Server, patience: Patience) -> Known:
    """Find out what runs there, by its list of models. Raises `RemoteError`."""
    try:
        models = json.loads(await text_of(opened, server, "/v1/models", patience))["data"] or []
        names = [text_in(model["id"]) for model in models]
        kind = text_in(models[0].get("owned_by")) if models else ""
    except UNREADABLE as error:
        if isinstance(error, RemoteError):
            raise
        raise RemoteError(server.name, "its list of models cannot be read.") from None
    if not names:
        raise RemoteError(server.name, "it has no model.")
    if server.model and server.model not in names:
        raise RemoteError(server.name, f"it has no model {server.model!r}; it has {', '.join(names[:8])}.")
    return Known(server, REPLIES.get(kind, OpenAI), server.model or names[0])


class Asking:
    """A text that is being asked for: iterate for passes, then `answer()`. After an error what had arrived is there too."""

    def __init__(
        self,
        opened: httpx2.AsyncClient,
        known: Known,
        prompt: str,
        most: int,
        chat: bool,
        patience: Patience | None = None,
    ):
        self._opened, self._known, self._patience = opened, known, patience or Patience()
        self._requests = known.reply.requests(known.model, text_in(prompt), most, chat)
        self._reply = known.reply()

    async def _events(self) -> AsyncIterator[tuple[dict[str, Any] | None, float]]:
        """The events of the first request that is not refused as malformed. Raises `RemoteError`."""
        known, reconnects = self._known, self._reply.reconnects
        for number, (path, body) in enumerate(self._requests[known.request :], known.request):
            request = path, body | known.server.request
            try:
                async with aclosing(
                    events(self._opened, known.server, *request, self._patience, reconnects)
                ) as arriving:
                    async for event in arriving:
                        known.request = number
                        yield event
                return
            except RemoteError as error:
                if error.status not in MALFORMED or number + 1 == len(self._requests):
                    raise

    async def passes(self) -> AsyncIterator[Pass]:
        """What arrives, as it does. Raises `RemoteError`."""
        server, is_whole = self._known.server, False
        async with aclosing(self._events()) as arriving:
            async for event, at_s in arriving:
                is_whole = event is None
                try:
                    arrived = [] if is_whole else self._reply.read(event, at_s)
                except UNREADABLE:
                    raise RemoteError(server.name, f"its events are not those of {self._known.kind}.") from None
                for part in arrived:
                    yield part
        if not self._reply.finish and not is_whole:
            raise RemoteError(server.name, "its answer broke off before its end; what had arrived stays.")

    @property
    def arrived(self) -> list[Pass]:
        """The passes so far; the last may still grow."""
        return self._reply.passes

    @property
    def prompt_ids(self) -> tuple[int, ...]:
        """The prompt's token ids, as far as the server has given them."""
        return self._reply.prompt_ids

    def answer(self) -> Answer:
        """What has arrived so far, with the server's counts. Raises `RemoteError` where they cannot be read."""
        try:
            return self._reply.answer()
        except UNREADABLE:
            raise RemoteError(self._known.server.name, "its counts cannot be read.") from None

    async def whole(self) -> Answer:
        """All of it."""
        async for _ in self.passes():
            pass
        return self.answer()
