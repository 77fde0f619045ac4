"""Middleware that rejects requests that no page sends, with one sentence.

Such requests (an unknown function, a malformed body) can raise deep in the web framework. The log gets one line instead of
a traceback. Files are refused before they are read, because pages send only text and Gradio would store each upload.
"""

from json.decoder import scanstring
from typing import Any

from starlette.responses import JSONResponse

from ..server import logging
from ..trace.parsing import MAX_BYTES
from . import gradio_internals

INVALID = "This request is not valid. Reload the page, or read the API's description."
FILES = "This server accepts no files. Pages send recordings and prompts as text."
# Segments of the paths at which Gradio writes files, and of one at which it prints a URL.
CLOSED = {"upload", "deep_link", "process_recording", "monitoring"}
MAX_BODY = 5 * MAX_BYTES // 2  # bytes of a request: a recording as text in JSON, with its quotes escaped
LARGE = "This request is larger than anything that a page sends."
# A large request of a page is one text. Many values or escapes would block the interpreter while they are parsed.
MAX_PLAIN = 1 << 20  # bytes of a request whose values are not counted
MAX_VALUES, MAX_ESCAPES = 20_000, 8_000_000


class Guard:
    """ASGI middleware that responds to such requests with an error as JSON."""

    def __init__(self, app: Any):
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = None if (refusal := _refusal(scope)) else await _body(receive)
        if refusal is None and _is_large(body):
            refusal = JSONResponse({"error": LARGE}, status_code=413)
        if refusal:
            await refusal(scope, receive, send)
            return
        started, unread = False, [{"type": "http.request", "body": bytes(body), "more_body": False}]
        del body

        async def tracked_send(message: Any) -> None:
            nonlocal started
            started = True
            await send(message)

        async def replayed_receive() -> Any:
            return unread.pop() if unread else await receive()

        try:
            await self._app(scope, replayed_receive, tracked_send)
        except Exception as error:
            if started:
                raise
            logging.failed("request")
            message = gradio_internals.missing(error) or INVALID
            await JSONResponse({"error": message}, status_code=400)(scope, receive, send)


async def _body(receive: Any) -> bytearray:
    """Return the body of a request, or its beginning if it is too large or the connection ends."""
    body, more = bytearray(), True
    while more and len(body) <= MAX_BODY:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


def _is_large(body: bytearray) -> bool:
    if len(body) <= MAX_PLAIN:
        return False
    return len(body) > MAX_BODY or body.count(b"\\") > MAX_ESCAPES or _values(body) > MAX_VALUES


def _values(body: bytearray) -> int:
    """Return the number of values in a JSON body, without those inside its texts. Counting ends at `MAX_VALUES`."""
    text, values, index = body.decode(errors="replace"), 0, 0
    while values <= MAX_VALUES and index < len(text):
        quote = text.find('"', index)
        end = len(text) if quote < 0 else quote
        values += sum(text.count(mark, index, end) for mark in ",[{")
        try:
            index = scanstring(text, quote + 1)[1] if quote >= 0 else end
        except ValueError:  # the parser fails at the same character
            return values
    return values


def _refusal(scope: Any) -> JSONResponse | None:
    headers = dict(scope["headers"])
    size, kind = headers.get(b"content-length", b""), headers.get(b"content-type", b"")
    if not CLOSED.isdisjoint(scope["path"].split("/")) or kind.lower().lstrip().startswith(b"multipart/"):
        return JSONResponse({"error": FILES}, status_code=403)
    if size.isdigit() and int(size) > MAX_BODY:
        return JSONResponse({"error": LARGE}, status_code=413)
    return None
