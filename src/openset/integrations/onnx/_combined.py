"""The ranks of a combined detector, as a graph."""

import math

import numpy as np
from numpy.typing import NDArray

from openset.integrations.onnx._graph import Graph, Var, larger, lesser, where


def rank(scores: Var, knots: NDArray[np.float64]) -> Var:
    """Rank a column of scores among sorted knots, from 0 to 1, in float64.

    Mirrors `openset.detectors.combined.rank`; there is no binary search in ONNX, so
    all knots are compared and counted. NaN stays NaN.
    """
    graph = scores.graph
    s = scores.cast(np.float64)
    row = graph.constant(knots[None, :], np.float64)
    left = _count(row < s)
    right = _count(row <= s)
    last = knots.size - 1
    table = graph.constant(knots, np.float64)
    under = table.entries(larger(left - 1, graph.constant(0, np.int64)))
    over = table.entries(lesser(left, graph.constant(last, np.int64)))
    zero, one = (graph.constant(value, np.float64) for value in (0.0, 1.0))
    is_between = over > under
    width = where(is_between, over - under, one)
    inside = where(is_between, s - under, zero) / width
    first, after = left.cast(np.float64), right.cast(np.float64)
    place = where(right > left, (first + after - 1.0) / 2.0, first - 1.0 + inside)
    place = where(left > last, graph.constant(float(last), np.float64), place)
    place = where(right.equals(0), zero, place)
    ranked = place / float(max(last, 1))
    return where(s.is_nan(), graph.constant(math.nan, np.float64), ranked)


def weighed(graph: Graph, ranks: list[Var], weights: NDArray[np.float64]) -> Var:
    """Return the weighted sum of ranks or scores, as a column of float32."""
    total = graph.constant(0.0, np.float64)
    for ranked, weight in zip(ranks, weights.tolist(), strict=True):
        total = total + ranked * weight
    return total.cast(np.float32)


def _count(mask: Var) -> Var:
    return mask.cast(np.int64).sum()
