"""Outputs of a made-up network, to calibrate rejectors on."""

import warnings

import numpy as np

from openset import Outputs, Rejector

WEIGHT = np.random.default_rng(0).normal(size=(4, 8))


def drawn(n=120, *, seed=0, unknown=False, labelled=True, classes=tuple("abcd")):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, n)
    features = rng.normal(size=(n, 8)) + (0 if unknown else 1.5) * WEIGHT[labels]
    truth = np.full(n, -1) if unknown else labels
    return Outputs(
        features=features,
        logits=features @ WEIGHT.T,
        labels=truth if labelled else None,
        classes=classes,
    )


def calibrated(fitted, **options):
    """Calibrate without warnings: on 200 known samples and as many unknown ones."""
    options = {
        "known": drawn(200, seed=2),
        "surrogate": drawn(200, seed=3, unknown=True),
        **options,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Rejector.calibrate(fitted, **options)
