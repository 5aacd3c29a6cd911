"""Samples that several tests of detectors draw."""

import numpy as np

from openset import Outputs


def blobs(n, seed, *, n_classes=3, d=2, apart=5.0):
    """Draw features of classes around centres that are always the same."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n)
    centres = np.random.default_rng(9).normal(0, apart, (n_classes, d))
    return Outputs(features=centres[labels] + rng.normal(size=(n, d)), labels=labels)
