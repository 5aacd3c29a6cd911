"""What Prometheus reads from ``/metrics``."""

from collections import deque
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from openset.rejector import Rejector

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_WINDOW = 1000  # samples the unknown-rate gauge looks back on
_EDGES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)  # shares of calibration


class Metrics:
    """Counts of one application; each has its own registry."""

    def __init__(self, rejector: Rejector) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "openset_requests",
            "Requests answered.",
            ["path", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "openset_request_seconds",
            "Time from the first byte of a request to the last of its answer.",
            ["path"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._samples = Counter(
            "openset_samples",
            "Samples decided on, accepted as known or rejected as unknown.",
            ["decision"],
            registry=self.registry,
        )
        for decision in ("accepted", "unknown"):
            self._samples.labels(decision)  # zero, not absent, before the first sample
        self._rate = Gauge(
            "openset_unknown_rate",
            f"Share of unknowns among the last samples, {_WINDOW} or a request more.",
            registry=self.registry,
        )
        self._recent: deque[tuple[int, int]] = deque()  # samples, unknowns per request
        self._recent_sums = np.zeros(2, dtype=np.int64)
        self._known = _Knownness(_edges(rejector))
        self.registry.register(self._known)
        threshold = Gauge(
            "openset_threshold", "The calibrated threshold.", registry=self.registry
        )
        threshold.set(rejector.threshold.value)

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def samples(self, known: NDArray[np.float64], n_unknown: int) -> None:
        """Count the samples of a request."""
        n = known.size
        self._samples.labels("unknown").inc(n_unknown)
        self._samples.labels("accepted").inc(n - n_unknown)
        self._known.add(known)
        self._recent.append((n, n_unknown))
        self._recent_sums += (n, n_unknown)
        while self._recent_sums[0] - self._recent[0][0] >= _WINDOW:
            self._recent_sums -= self._recent.popleft()
        self._rate.set(self._recent_sums[1] / self._recent_sums[0])


class _Knownness(Collector):
    """A histogram that takes whole batches; the client library's takes one value."""

    def __init__(self, edges: NDArray[np.float64]) -> None:
        self._edges = edges
        self._counts = np.zeros(edges.size + 1, dtype=np.int64)

    def add(self, known: NDArray[np.float64]) -> None:
        # Prometheus counts values <= edge, hence side="left".
        places = np.searchsorted(self._edges, known, side="left")
        self._counts += np.bincount(places, minlength=self._counts.size)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        cumulative = self._counts.cumsum().tolist()
        names = [*map(repr, self._edges.tolist()), "+Inf"]
        # No sum: knownness may be negative or infinite.
        yield HistogramMetricFamily(
            "openset_knownness",
            "Knownness of the samples; edges are quantiles of the calibration scores.",
            buckets=list(zip(names, cumulative, strict=True)),
            sum_value=None,
        )


def _edges(rejector: Rejector) -> NDArray[np.float64]:
    sides = [
        grid[np.rint(np.array(_EDGES) * (grid.size - 1)).astype(int)]
        for grid in rejector.reference.values()
    ]
    edges = np.unique(np.concatenate(sides))
    return edges[np.isfinite(edges)]
