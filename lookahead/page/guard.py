"""The first and last thing before a visitor: what no page of ours sends is answered in words.

Such requests (a function that does not exist, a body that is not what it says) can raise deep in the web framework. They
get one plain answer, and the log one line instead of a page of them. Files are refused before they are read: pages send
recordings and prompts as text, and Gradio would keep whatever anybody uploads.

Knows HTTP. It does not know what was asked for.
"""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse

from ..server import logging
from ..trace.schema import MOST_BYTES
from . import gradio_internals

WORDS = "This request cannot be answered. Reload the page, or see the API's description."
FILES = "This server takes no files; a page sends recordings and prompts as text."
# Of Gradio's addresses, by a part of each: those that write files, and one that prints who asks.
CLOSED = {"upload", "deep_link", "process_recording", "monitoring"}

MOST_BODY = 5 * MOST_BYTES // 2  # bytes of a request: a recording as text in JSON, with its quotes escaped
LARGE = "This request is larger than anything that a page sends."


class TooLarge(Exception):
    """A request that does not say its size has more bytes than one may have."""


class Guard:
    """ASGI middleware."""

    def __init__(self, app: Any):
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the request on; answer it here where it is refused, or fails before an answer has begun."""
        begun, size = False, 0
        if scope["type"] == "http" and (refusal := _refusal(scope)):
            await refusal(scope, receive, send)
            return

        async def watched(message: Any) -> None:
            nonlocal begun
            begun = True
            await send(message)

        async def counted() -> Any:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > MOST_BODY:
                raise TooLarge
            return message

        try:
            await self._app(scope, counted, watched)
        except Exception as error:
            if begun or scope["type"] != "http":
                raise
            logging.failed("request")
            words = gradio_internals.missing(error) or WORDS
            await JSONResponse({"error": words}, status_code=400)(scope, receive, send)


def _refusal(scope: Any) -> JSONResponse | None:
    """The answer to what is refused before it is read."""
    headers = dict(scope["headers"])
    size, kind = headers.get(b"content-length", b""), headers.get(b"content-type", b"")
    if not CLOSED.isdisjoint(scope["path"].split("/")) or kind.lower().lstrip().startswith(b"multipart/"):
        return JSONResponse({"error": FILES}, status_code=403)
    if size.isdigit() and int(size) > MOST_BODY:
        return JSONResponse({"error": LARGE}, status_code=413)
    return None
