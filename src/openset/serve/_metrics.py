"""The counts that Prometheus reads from ``/metrics``.

With several workers `prometheus_client` keeps the counts of each process in files of
the folder ``PROMETHEUS_MULTIPROC_DIR``; whichever process answers adds them up.
"""

import os
from collections import deque

import numpy as np
from numpy.typing import NDArray
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

from openset.rejector import Decisions, Rejector

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable in which `prometheus_client` looks for its folder."""

PATHS = ("/predict", "/healthz", "/metrics", "/rejector", "/openapi.json", "/", "/v2")
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_WINDOW = 1000  # samples the unknown rate looks back on
_EDGES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)  # shares of calibration


class Metrics:
    """Counts of one application; each has its own registry."""

    def __init__(self, rejector: Rejector) -> None:
        self._registry = CollectorRegistry()
        self._recent: deque[tuple[int, int]] = deque()  # samples, unknowns per request
        self._n_recent = self._n_recent_unknown = 0
        self._children: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self._requests = Counter(
            "openset_requests",
            "Requests answered.",
            ["path", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "openset_request_seconds",
            "Time from the headers of a request to the last byte of its answer.",
            ["path"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        samples = Counter(
            "openset_samples",
            "Samples decided on: accepted as known, rejected as unknown, or invalid.",
            ["decision"],
            registry=self._registry,
        )
        kinds = ("accepted", "unknown", "invalid")
        self._accepted, self._unknown, self._invalid = map(samples.labels, kinds)
        self._rate = Gauge(
            "openset_unknown_rate",
            f"Share of unknowns among the last valid samples, {_WINDOW} or a request "
            "more (of several processes: of the one that answered last).",
            multiprocess_mode="mostrecent",
            registry=self._registry,
        )
        Gauge(
            "openset_threshold",
            "The calibrated threshold.",
            multiprocess_mode="mostrecent",
            registry=self._registry,
        ).set(rejector.threshold.value)
        # A Histogram counts one value at a time, and a request has thousands. Gauges
        # named like its buckets are read by histogram_quantile just the same.
        known = Gauge(
            "openset_knownness_bucket",
            "Samples up to this knownness; edges are quantiles of the calibration "
            "scores.",
            ["le"],
            multiprocess_mode="sum",
            registry=self._registry,
        )
        self._edges = _edges(rejector)
        names = [*map(repr, self._edges.tolist()), "+Inf"]
        self._buckets = [known.labels(name) for name in names]

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        if path not in PATHS:  # whatever a client makes up is one path
            path = "/v2" if path.startswith("/v2/") else "other"
        children = self._children.get((path, status))
        if children is None:  # finding them by their labels takes longer than counting
            count, clock = self._requests.labels(path, status), self._seconds
            children = self._children[path, status] = count, clock.labels(path)
        children[0].inc()
        children[1].observe(seconds)

    def samples(self, decisions: Decisions) -> None:
        """Count the samples of a request."""
        self._invalid.inc(decisions.n_invalid)
        known = decisions.known[~decisions.is_invalid]
        n, n_unknown = known.size, decisions.n_rejected
        if not n:
            return
        self._accepted.inc(n - n_unknown)
        self._unknown.inc(n_unknown)
        # Prometheus counts values <= edge, hence side="left".
        places = np.searchsorted(self._edges, known, side="left")
        counts = np.bincount(places, minlength=len(self._buckets)).cumsum().tolist()
        for bucket, count in zip(self._buckets, counts, strict=True):
            if count:
                bucket.inc(count)
        self._recent.append((n, n_unknown))
        self._n_recent += n
        self._n_recent_unknown += n_unknown
        while self._n_recent - self._recent[0][0] >= _WINDOW:
            old, old_unknown = self._recent.popleft()
            self._n_recent -= old
            self._n_recent_unknown -= old_unknown
        self._rate.set(self._n_recent_unknown / self._n_recent)

    def text(self) -> bytes:
        """Return all metrics, summed over the processes."""
        if FOLDER not in os.environ:
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


def _edges(rejector: Rejector) -> NDArray[np.float64]:
    sides = [
        grid[np.rint(np.array(_EDGES) * (grid.size - 1)).astype(int)]
        for grid in rejector.reference.values()
    ]
    edges = np.unique(np.concatenate(sides))
    return edges[np.isfinite(edges)]
