"""The counts that Prometheus reads from ``/metrics``."""

import os
import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openset.rejector import Decisions


class Metrics:
    """Counts of one application; each has its own registry."""

    def __init__(self) -> None:
        self._registry = one = CollectorRegistry()
        labels = ["path", "status"]
        self._seconds = Histogram(
            "openset_request_seconds", "Time to answer.", labels, registry=one
        )
        self._samples = Counter(
            "openset_samples", "Samples decided on.", ["decision"], registry=one
        )

    def request(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request."""
        # Not the path that a client makes up.
        path = getattr(scope.get("route"), "path", "other")
        self._seconds.labels(path, status).observe(seconds)

    def samples(self, decided: Decisions) -> None:
        """Count the samples of a request."""
        n_rejected, n_invalid = decided.n_rejected, decided.n_invalid
        n_accepted = len(decided) - n_rejected - n_invalid
        counts = {"unknown": n_rejected, "invalid": n_invalid, "accepted": n_accepted}
        for decision, n in counts.items():
            self._samples.labels(decision).inc(n)

    def text(self) -> bytes:
        """Return all metrics, summed over the processes."""
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


class Watch:
    """Times the requests, and marks the answers with the version (ASGI middleware)."""

    def __init__(self, app: ASGIApp, metrics: Metrics, version: str) -> None:
        self._app, self._metrics, self._version = app, metrics, version

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> Any:
        """Answer a request of the server."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        start, status = time.perf_counter(), 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Openset-Rejector"] = self._version
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            self._metrics.request(scope, status, time.perf_counter() - start)
