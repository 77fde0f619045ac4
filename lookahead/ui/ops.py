"""What whoever runs a server may ask it: `/healthz`, whether it computes; `/metrics`, how much, for Prometheus.

Both are answered beside the page, without a place in the line and without the threads that visitors wait in, so they
answer when nothing else does. Neither tells anything about a visitor.

Knows Starlette's routes, the desk and, where it is asked for, prometheus_client. It does not know the page.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .. import worker
from ..limits import Telling
from ..version import VERSION
from . import journal
from .desk import desk
from .stage import Stage

MISSING = "LOOKAHEAD_METRICS is 1, but prometheus_client is not installed: /metrics is not served. Install it with pip."


def routes(stage: Stage, telling: Telling) -> list[Route]:
    """The addresses beside the page's."""

    async def healthz(request: Request) -> JSONResponse:
        told = health(stage, telling)
        return JSONResponse(told, status_code=200 if told["status"] == "ok" else 503)

    found = [Route("/healthz", healthz)]
    if telling.metrics and importlib.util.find_spec("prometheus_client") is None:
        journal.LOGGER.warning(MISSING)
    elif telling.metrics:
        found.append(_metrics())
    return found


def health(stage: Stage, telling: Telling) -> dict[str, Any]:
    """What /healthz says: "ok"; "stuck", a pass hangs; "dead", nothing would be computed; "closing"."""
    status = "dead" if not worker.alive() else "stuck" if desk.stuck() else "closing" if desk.closed else "ok"
    return {
        "status": status, "version": VERSION, "revision": telling.revision, "models": stage.models.spec,
        "waiting": worker.waiting(), "computing_s": round(worker.computing_s(), 1),
    }  # fmt: skip


def _metrics() -> Route:
    import prometheus_client as prometheus
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    class Desk:
        """The desk's counts, read when somebody asks."""

        def collect(self) -> Iterator[Any]:
            begun = CounterMetricFamily("lookahead_runs_begun", "Runs whose turn has come.", labels=["kind"])
            for kind, number in sorted(desk.begun.items()):
                begun.add_metric([kind], number)
            over = CounterMetricFamily("lookahead_runs", "Runs by what became of them.", labels=["kind", "outcome"])
            for (kind, outcome), number in sorted(desk.counts.items()):
                over.add_metric([kind, outcome], number)
            yield from (begun, over)
            yield CounterMetricFamily("lookahead_tokens", "Tokens written.", desk.tokens)
            yield CounterMetricFamily("lookahead_computed_seconds", "Seconds of computing.", desk.computed_s)
            yield CounterMetricFamily("lookahead_waited_seconds", "Seconds that runs have waited.", desk.waited_s)
            yield GaugeMetricFamily("lookahead_waiting", "Runs that wait for their turn.", worker.waiting())
            yield GaugeMetricFamily("lookahead_computing_seconds", "Age of the run at work.", worker.computing_s())

    registry = prometheus.CollectorRegistry()
    registry.register(Desk())
    prometheus.ProcessCollector(registry=registry)  # memory, on Linux

    async def metrics(request: Request) -> Response:
        return Response(prometheus.generate_latest(registry), media_type=prometheus.CONTENT_TYPE_LATEST)

    return Route("/metrics", metrics)
