"""Prediction sets, as a graph."""

import numpy as np

from openset.integrations.onnx._graph import Var, larger
from openset.integrations.onnx._sample import is_top
from openset.rejector import SetRule


def contains(rule: SetRule, logits: Var, top: Var) -> Var:
    """Tell which classes are in the set of each sample, shape (n, C).

    Mirrors `SetRule.contains`, in float64.

    Parameters
    ----------
    rule
        Of a rejector.
    logits
        One row per sample.
    top
        Predicted class of each sample, as a column.
    """
    z = logits.cast(np.float64)
    powers = (z - z.max()).exp()
    p = powers / powers.sum()
    scores = 1.0 - p if rule.method == "lac" else _raps(p, rule.penalty, rule.free)
    limits = logits.graph.constant(rule.limits, np.float64)
    return (scores <= limits) | is_top(logits, top)


def _raps(p: Var, penalty: float, free: int) -> Var:
    ordered, order = p.top()
    beyond = p.places() + (1 - free)  # rank of each column, from 1, minus `free`
    beyond = larger(beyond, p.graph.constant(0, np.int64)).cast(np.float64)
    before = ordered.cumsum() - ordered + penalty * beyond
    return p.graph.op("ScatterElements", p, order, before, axis=1)
