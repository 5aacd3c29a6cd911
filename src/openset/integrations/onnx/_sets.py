"""Prediction sets, as a graph."""

import numpy as np

from openset.integrations.onnx._graph import Var
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
    limit = logits.graph.constant((rule.limit,), np.float64)
    return (1.0 - p <= limit) | is_top(logits, top)
