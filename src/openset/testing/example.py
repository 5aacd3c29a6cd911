"""Synthetic outputs of a small network, for the checks."""

from typing import Any

import numpy as np

from openset.outputs import Outputs

N_CLASSES, WIDTH = 4, 32


def example_outputs(
    n: int, *, seed: int = 0, unknown: float = 0.0, dtype: Any = np.float64
) -> Outputs:
    """Return `n` samples of four classes, a share `unknown` of them of no class.

    Each class activates its own eight features, on top of weak random activity; an
    unknown sample has only the latter. Features are not negative, as after a ReLU, and
    the logits are exactly those of the head.

    Examples
    --------
    >>> example_outputs(6, unknown=0.5).labels
    array([-1, -1, -1,  3,  0,  1])
    """
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % N_CLASSES
    labels[: round(n * unknown)] = -1
    features = np.abs(rng.normal(scale=0.4, size=(n, WIDTH)))
    block = np.arange(WIDTH) * N_CLASSES // WIDTH
    is_own = block[None, :] == labels[:, None]
    features = features + 2.0 * is_own
    weight = np.where(block[None, :] == np.arange(N_CLASSES)[:, None], 0.5, -0.2)
    weight = weight + np.random.default_rng(99).normal(scale=0.02, size=weight.shape)
    bias = np.array([0.1, -0.1, 0.2, 0.0])
    return Outputs(
        logits=(features @ weight.T + bias).astype(dtype),
        features=features.astype(dtype),
        labels=labels,
        weight=weight.astype(dtype),
        bias=bias.astype(dtype),
    )


def in_library(outputs: Outputs, xp: Any, dtype: Any = None) -> Outputs:
    """Return the outputs as arrays of another library (and another dtype)."""
    arrays = {}
    for name in ("logits", "features", "weight", "bias"):
        values = getattr(outputs, name)
        if values is not None:
            # A copy: torch needs writable memory.
            values = np.array(values, dtype=dtype)
            arrays[name] = xp.asarray(values)
    return Outputs(**arrays, labels=outputs.labels, groups=outputs.groups)
