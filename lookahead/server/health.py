"""Further addresses of the server: `/healthz`, `/metrics` for Prometheus, `/loading` and `/card.png`.

The loading page (web.py) polls `/loading` until it reports "ready". `/card.png` is the preview image of links to the page.
The addresses need neither the queue nor a thread of the page, so they respond even if a pass hangs. They report nothing
about visitors.
"""

import importlib.util
from collections.abc import Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from ..core.folders import ASSETS
from ..core.version import VERSION
from . import logging
from .limits import LogSettings
from .queue import queue
from .state import ServerState

MISSING = "LOOKAHEAD_METRICS is 1, but prometheus_client is not installed: /metrics is not served. Install it with pip."


def routes(server: ServerState, log_settings: LogSettings) -> list[Route]:
    """Return the routes of these addresses."""

    async def healthz(request: Request) -> JSONResponse:
        report = health(server, log_settings)
        return JSONResponse(report, status_code=200 if report["status"] == "ok" else 503)

    async def card(request: Request) -> FileResponse:
        return FileResponse(ASSETS / "card.png", media_type="image/png")

    loading = JSONResponse({"status": "ready", "ready": True, "text": "ready", "share": 1.0})
    addresses = [Route("/healthz", healthz), Route("/loading", loading, methods=["GET"]), Route("/card.png", card)]
    if log_settings.metrics and importlib.util.find_spec("prometheus_client") is None:
        logging.LOGGER.warning(MISSING)
    elif log_settings.metrics:
        addresses.append(_metrics())
    return addresses


def health(server: ServerState, log_settings: LogSettings) -> dict[str, Any]:
    """Return the report of /healthz. Its status is "ok", "closing", "stuck" (a pass hangs) or "dead" (no computing thread)."""
    status = "dead" if not queue.alive() else "stuck" if queue.stuck() else "closing" if queue.closed else "ok"
    return {
        "status": status, "version": VERSION, "revision": log_settings.revision, "models": [family.models.spec for family in server.families],
        "waiting": queue.waiting(), "computing_s": round(queue.computing_s(), 1),
    }  # fmt: skip


def _metrics() -> Route:
    import prometheus_client as prometheus
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    class Counts:
        def collect(self) -> Iterator[Any]:
            started = CounterMetricFamily("lookahead_runs_begun", "Runs that were started.", labels=["kind"])
            ended = CounterMetricFamily("lookahead_runs", "Runs by outcome.", labels=["kind", "outcome"])
            for family, counts in ((started, {(kind,): n for kind, n in queue.started.items()}), (ended, queue.counts)):
                for labels, number in sorted(counts.items()):
                    family.add_metric(labels, number)
            yield from (started, ended)
            yield CounterMetricFamily("lookahead_tokens", "Tokens written.", queue.tokens)
            yield CounterMetricFamily("lookahead_computed_seconds", "Seconds of computing.", queue.computed_s)
            yield CounterMetricFamily("lookahead_waited_seconds", "Seconds that runs have waited.", queue.waited_s)
            yield GaugeMetricFamily("lookahead_waiting", "Runs that wait.", queue.waiting())
            yield GaugeMetricFamily("lookahead_computing_seconds", "Seconds of the current run.", queue.computing_s())

    registry = prometheus.CollectorRegistry()
    registry.register(Counts())
    prometheus.ProcessCollector(registry=registry)  # memory, on Linux

    async def metrics(request: Request) -> Response:
        return Response(prometheus.generate_latest(registry), media_type=prometheus.CONTENT_TYPE_LATEST)

    return Route("/metrics", metrics)
