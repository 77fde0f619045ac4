"""One text from one server: which kind it is, and its passes as they arrive.

Knows the kinds of servers. It does not know load, nor who looks on.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx2

from .llama_server import LlamaServer
from .openai import OpenAI
from .reply import Answer, Pass, Reply
from .servers import RemoteError, Server
from .sglang import SGLang
from .stream import Patience, events, text_of
from .vllm import VLLM

REPLIES: dict[str, type[Reply]] = {"vllm": VLLM, "sglang": SGLang, "llamacpp": LlamaServer}  # by who owns a model


@dataclass(frozen=True, slots=True)
class Known:
    """What runs at a server: its kind's reply, and the model that is asked there."""

    server: Server
    reply: type[Reply]
    model: str

    @property
    def kind(self) -> str:
        """By what name the kind goes."""
        return self.reply.name


async def look(opened: httpx2.AsyncClient, server: Server, patience: Patience) -> Known:
    """Find out what runs there, by its list of models. Raises `RemoteError`."""
    try:
        models = json.loads(await text_of(opened, server, "/v1/models", patience))["data"]
        names = [str(model["id"]) for model in models]
        kind = str(models[0].get("owned_by", ""))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, RemoteError):
            raise
        raise RemoteError(server.name, "its list of models cannot be read.") from None
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
        path, body = known.reply.request(known.model, prompt, most, chat)
        self._request = path, body | known.server.request
        self._reply = known.reply()

    async def passes(self) -> AsyncIterator[Pass]:
        """What arrives, as it does. Raises `RemoteError`."""
        server = self._known.server
        async for event, at_s in events(self._opened, server, *self._request, self._patience, self._reply.reconnects):
            try:
                arrived = self._reply.read(event, at_s)
            except (LookupError, TypeError, ValueError, AttributeError):
                raise RemoteError(server.name, f"its events are not those of {self._known.kind}.") from None
            for part in arrived:
                yield part
        if not self._reply.finish:
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
        except (LookupError, TypeError, ValueError, AttributeError):
            raise RemoteError(self._known.server.name, "its counts cannot be read.") from None

    async def whole(self) -> Answer:
        """All of it."""
        async for _ in self.passes():
            pass
        return self.answer()
