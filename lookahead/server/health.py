"""What whoever runs a server may ask it: `/healthz`, whether it computes; `/metrics`, how much, for Prometheus. And
`/loading`, which the loading page (web.py) requests, reports that loading is over; `/card.png` is the picture of links to the page.

Both are answered beside the page, without a place in the queue and without the threads that visitors wait in, so they
answer when nothing else does. Neither tells anything about a visitor.

Knows Starlette's routes, the queue and, where it is asked for, prometheus_client. It does not know the page.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from ..core.version import VERSION
from ..trace.assets import ASSETS
from . import logging
from .limits import Telling
from .queue import queue
from .state import ServerState

MISSING = "LOOKAHEAD_METRICS is 1, but prometheus_client is not installed: /metrics is not served. Install it with pip."


def routes(server: ServerState, telling: Telling) -> list[Route]:
    """The addresses beside the page's."""

    async def healthz(request: Request) -> JSONResponse:
        report = health(server, telling)
        return JSONResponse(report, status_code=200 if report["status"] == "ok" else 503)

    async def loading(request: Request) -> JSONResponse:
        return JSONResponse({"status": "ready", "ready": True, "text": "ready", "share": 1.0})

    async def card(request: Request) -> FileResponse:
        return FileResponse(ASSETS / "card.png", media_type="image/png")

    addresses = [Route("/healthz", healthz), Route("/loading", loading), Route("/card.png", card)]
    if telling.metrics and importlib.util.find_spec("prometheus_client") is None:
        logging.LOGGER.warning(MISSING)
    elif telling.metrics:
        addresses.append(_metrics())
    return addresses


def health(server: ServerState, telling: Telling) -> dict[str, Any]:
    """What /healthz says: "ok"; "stuck", a pass hangs; "dead", nothing would be computed; "closing"."""
    status = "dead" if not queue.alive() else "stuck" if queue.stuck() else "closing" if queue.closed else "ok"
    return {
        "status": status, "version": VERSION, "revision": telling.revision, "models": [family.models.spec for family in server.families],
        "waiting": queue.waiting(), "computing_s": round(queue.computing_s(), 1),
    }  # fmt: skip


def _metrics() -> Route:
    import prometheus_client as prometheus
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    class Counts:
        """The queue's counts, read when somebody asks."""

        def collect(self) -> Iterator[Any]:
            begun = CounterMetricFamily("lookahead_runs_begun", "Runs that were begun.", labels=["kind"])
            for kind, number in sorted(queue.begun.items()):
                begun.add_metric([kind], number)
            over = CounterMetricFamily("lookahead_runs", "Runs by what became of them.", labels=["kind", "outcome"])
            for (kind, outcome), number in sorted(queue.counts.items()):
                over.add_metric([kind, outcome], number)
            yield from (begun, over)
            yield CounterMetricFamily("lookahead_tokens", "Tokens written.", queue.tokens)
            yield CounterMetricFamily("lookahead_computed_seconds", "Seconds of computing.", queue.computed_s)
            yield CounterMetricFamily("lookahead_waited_seconds", "Seconds that runs have waited.", queue.waited_s)
            yield GaugeMetricFamily("lookahead_waiting", "Runs that wait.", queue.waiting())
            yield GaugeMetricFamily("lookahead_computing_seconds", "Age of the run at work.", queue.computing_s())

    registry = prometheus.CollectorRegistry()
    registry.register(Counts())
    prometheus.ProcessCollector(registry=registry)  # memory, on Linux

    async def metrics(request: Request) -> Response:
        return Response(prometheus.generate_latest(registry), media_type=prometheus.CONTENT_TYPE_LATEST)

    return Route("/metrics", metrics)
