"""The last thing before a visitor: a request that breaks the server's own machinery is answered in words.

Requests that no page of ours sends (a function that does not exist, a body that is not what it says) can raise deep in
the web framework. They get one plain answer, and the log one line instead of a page of them.

Knows HTTP. It does not know what was asked for.
"""

from __future__ import annotations

import logging
from typing import Any

from starlette.responses import JSONResponse

logger = logging.getLogger("lookahead")
WORDS = "This request cannot be answered. Reload the page, or see the API's description."


class Guard:
    """ASGI middleware."""

    def __init__(self, app: Any):
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the request on; answer it here where that fails before an answer has begun."""
        begun = False

        async def watched(message: Any) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            if begun or scope["type"] != "http":
                raise
            logger.warning("a request to %s failed: %s", scope.get("path", "?")[:80], type(error).__name__)
            await JSONResponse({"error": WORDS}, status_code=400)(scope, receive, send)
