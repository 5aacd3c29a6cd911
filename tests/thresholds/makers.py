"""Scores to choose thresholds on."""

import numpy as np

from openset import Scores


def scattered(seed, n=400, *, decimals=None, gap=2.0):
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(n) < 0.6, rng.integers(0, 5, n), -1)
    known = rng.normal(size=n) + gap * (labels >= 0)
    return Scores(
        labels=labels,
        predicted=np.where(rng.random(n) < 0.8, np.maximum(labels, 0), 2),
        known=known if decimals is None else known.round(decimals),
    )


def grouped(seed, n=300, *, near=1.0, far=-1.0, known=2.5, groups=True):
    """Half knowns, a quarter unknowns near them, a quarter far."""
    rng = np.random.default_rng(seed)
    names = np.repeat(["known", "near", "far"], [2 * n, n, n])
    centre = np.repeat([known, near, far], [2 * n, n, n])
    labels = np.where(names == "known", rng.integers(0, 3, 4 * n), -1)
    wrong = rng.random(4 * n) < 0.1
    return Scores(
        labels=labels,
        predicted=np.where(wrong, 3, np.maximum(labels, 0)),
        known=centre + rng.normal(size=4 * n),
        groups=names if groups else None,
        n_classes=4,
    )
