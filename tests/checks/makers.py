"""Small studies for the tests of the checks."""

import numpy as np

from openset import Scores, checks
from openset.results import Result, Results


def look(code, **study):
    """Run all checks; return the one that is asked for."""
    (finding,) = [f for f in checks.run(**study) if f.code == code]
    return finding


def scores(n_known=200, n_unknown=200, *, gap=1.5, seed=0, unknown_group=None):
    """Two normal clouds, knowns higher by `gap`, two classes named rightly."""
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(n_known) % 2, np.full(n_unknown, -1)])
    known = rng.normal(size=labels.size) + gap * (labels >= 0)
    groups = None
    if unknown_group is not None:
        groups = np.where(labels >= 0, "known", unknown_group)
    predicted = np.where(labels >= 0, labels, 0)
    return Scores(labels=labels, predicted=predicted, known=known, groups=groups)


def results(**values):
    """One method per keyword, one seed per value, the metric is OpenAUC."""
    return Results(
        Result(detector=name, seed=seed, metric="openauc", value=value)
        for name, column in values.items()
        for seed, value in enumerate(column)
    )


def reported(*metrics):
    """Results that report these metrics once."""
    return Results(Result(detector="msp", metric=name, value=0.5) for name in metrics)
