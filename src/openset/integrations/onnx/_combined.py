"""The ranks of a combined detector, as a graph."""

import math

import numpy as np
from numpy.typing import NDArray

from openset.integrations.onnx._graph import Graph, Var, larger, lesser, where


def rank(scores: Var, table: NDArray[np.float64]) -> Var:
    """Rank a column of scores from 0 to 1, by a table of knots, in float64.

    Mirrors `openset.detectors.combined.rank`; there is no binary search in ONNX, so
    all knots are compared and counted. NaN stays NaN.
    """
    graph = scores.graph
    knots, ranks = table
    first, last = (graph.constant(float(x), np.float64) for x in knots[[0, -1]])
    s = scores.cast(np.float64)
    inside = lesser(larger(s, first), last)
    count = _count(graph.constant(knots[None, :], np.float64) < inside)
    ends = (
        graph.constant(end, np.int64)
        for end in (min(1, knots.size - 1), knots.size - 1)
    )
    least, most = ends
    right = lesser(larger(count, least), most)
    at, of = (graph.constant(values, np.float64) for values in (knots, ranks))
    left = larger(right - 1, graph.constant(0, np.int64))
    low, high = at.entries(left), at.entries(right)
    width = where(high > low, high - low, graph.constant(1.0, np.float64))
    below = of.entries(left)
    ranked = below + (inside - low) / width * (of.entries(right) - below)
    return where(s.is_nan(), graph.constant(math.nan, np.float64), ranked)


def weighed(graph: Graph, ranks: list[Var], weights: NDArray[np.float64]) -> Var:
    """Return the weighted sum of ranks or scores, as a column of float32."""
    total = graph.constant(0.0, np.float64)
    for ranked, weight in zip(ranks, weights.tolist(), strict=True):
        total = total + ranked * weight
    return total.cast(np.float32)


def _count(mask: Var) -> Var:
    return mask.cast(np.int64).sum()
