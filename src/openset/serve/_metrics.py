"""The counts that Prometheus reads from ``/metrics``.

Each server process keeps its counts in one row of a table in shared memory; the process
that answers ``/metrics`` adds up all rows.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector

from openset.rejector import Rejector

PATHS = ("/predict", "/healthz", "/metrics", "/rejector", "/openapi.json", "/", "other")
_PLACE = {path: i for i, path in enumerate(PATHS)}
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_WINDOW = 1000  # samples the unknown rate looks back on
_EDGES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)  # shares of calibration

ROW = np.dtype(
    [
        ("requests", "i8", (len(PATHS), 600)),  # by status
        ("seconds", "i8", (len(PATHS), len(_SECONDS) + 1)),
        ("seconds_sum", "f8", len(PATHS)),
        ("samples", "i8", 2),  # accepted, unknown
        ("recent", "i8", 2),  # the last samples, unknowns among them
        ("known", "i8", 2 * len(_EDGES) + 1),
        ("is_ready", "i8"),
        ("held", "i8"),  # bytes of bodies in flight
    ]
)
"""The counts of one server process."""


class Metrics(Collector):
    """Counts of one application; each has its own registry."""

    def __init__(self, rejector: Rejector) -> None:
        self.registry = CollectorRegistry()
        self._threshold = rejector.threshold.value
        self._edges = _edges(rejector)
        self._recent: deque[tuple[int, int]] = deque()  # samples, unknowns per request
        self.join(np.zeros(1, ROW), 0)
        self.registry.register(self)

    def join(self, rows: NDArray[np.void], place: int) -> None:
        """Count in row `place` from now on, and report the sum of all rows."""
        self._rows = rows
        self._requests = rows["requests"][place]
        self._seconds = rows["seconds"][place]
        self._seconds_sum = rows["seconds_sum"][place]
        self._samples = rows["samples"][place]
        self._recent_sums = rows["recent"][place]
        self._known = rows["known"][place]
        # A process that replaces another one has no recent samples.
        self._recent_sums[:] = 0

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        place = _PLACE.get(path, len(PATHS) - 1)
        self._requests[place, status] += 1
        self._seconds[place, bisect_left(_SECONDS, seconds)] += 1
        self._seconds_sum[place] += seconds

    def samples(self, known: NDArray[np.float64], n_unknown: int) -> None:
        """Count the samples of a request."""
        n = known.size
        self._samples += (n - n_unknown, n_unknown)
        # Prometheus counts values <= edge, hence side="left".
        places = np.searchsorted(self._edges, known, side="left")
        self._known += np.bincount(places, minlength=self._known.size)
        self._recent.append((n, n_unknown))
        self._recent_sums += (n, n_unknown)
        while self._recent_sums[0] - self._recent[0][0] >= _WINDOW:
            self._recent_sums -= self._recent.popleft()

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, summed over the processes."""
        rows = self._rows
        yield from _of_requests(rows)
        samples = CounterMetricFamily(
            "openset_samples",
            "Samples decided on, accepted as known or rejected as unknown.",
            labels=["decision"],
        )
        counts = rows["samples"].sum(axis=0).tolist()
        for decision, n in zip(("accepted", "unknown"), counts, strict=True):
            samples.add_metric([decision], n)
        yield samples
        n, n_unknown = rows["recent"].sum(axis=0).tolist()
        yield GaugeMetricFamily(
            "openset_unknown_rate",
            f"Share of unknowns among the last samples, {_WINDOW} or a request more "
            "(of each process).",
            n_unknown / n if n else 0.0,
        )
        # No sum: knownness may be negative or infinite.
        yield HistogramMetricFamily(
            "openset_knownness",
            "Knownness of the samples; edges are quantiles of the calibration scores.",
            buckets=_buckets(self._edges.tolist(), rows["known"].sum(axis=0)),
            sum_value=None,
        )
        yield GaugeMetricFamily(
            "openset_threshold", "The calibrated threshold.", self._threshold
        )


def _of_requests(rows: NDArray[np.void]) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        "openset_requests", "Requests answered.", labels=["path", "status"]
    )
    counts = rows["requests"].sum(axis=0)
    for place, status in np.argwhere(counts):
        labels = [PATHS[place], str(status)]
        requests.add_metric(labels, int(counts[place, status]))
    yield requests
    seconds = HistogramMetricFamily(
        "openset_request_seconds",
        "Time from the first byte of a request to the last of its answer.",
        labels=["path"],
    )
    parts, sums = rows["seconds"].sum(axis=0), rows["seconds_sum"].sum(axis=0)
    for place in np.flatnonzero(parts.any(axis=1)):
        buckets = _buckets(_SECONDS, parts[place])
        seconds.add_metric([PATHS[place]], buckets, float(sums[place]))
    yield seconds


def _buckets(
    edges: Sequence[float], counts: NDArray[np.int64]
) -> list[tuple[str, float]]:
    names = [*(repr(float(edge)) for edge in edges), "+Inf"]
    # One count more than edges; rows have room for the largest number of edges.
    cumulative = counts[: len(names)].cumsum().tolist()
    return list(zip(names, cumulative, strict=True))


def _edges(rejector: Rejector) -> NDArray[np.float64]:
    sides = [
        grid[np.rint(np.array(_EDGES) * (grid.size - 1)).astype(int)]
        for grid in rejector.reference.values()
    ]
    edges = np.unique(np.concatenate(sides))
    return edges[np.isfinite(edges)]
