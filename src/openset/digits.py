"""Outputs of a small real network, for examples: :func:`openset.demo`."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from openset._types import UNKNOWN
from openset.outputs import Outputs

N_KNOWN = 6


class Demo(NamedTuple):
    """Outputs of the network on each part of the data.

    `surrogate` and `unseen` hold two unknown digits each: the former are used to choose
    a threshold, the latter to test it.
    """

    train: Outputs
    validation: Outputs
    test: Outputs
    surrogate: Outputs
    unseen: Outputs


def demo(seed: int = 0) -> Demo:
    """Train a small network on six handwritten digits; return its outputs on all ten.

    The images come with scikit-learn: nothing is downloaded, and it takes a second.

    Parameters
    ----------
    seed
        Chooses the six known digits, two for the surrogate and two unseen ones.

    Examples
    --------
    >>> import openset as ops
    >>> parts = ops.demo()
    >>> parts.train
    Outputs(n=541, logits=(541, 6) float64, features=(541, 64) float64, head, \
groups=6, numpy)
    >>> parts.train.classes[:3]
    ('digit 2', 'digit 3', 'digit 4')
    """
    from sklearn.datasets import load_digits  # noqa: PLC0415  # slow to import
    from sklearn.model_selection import train_test_split  # noqa: PLC0415
    from sklearn.neural_network import MLPClassifier  # noqa: PLC0415

    order = np.random.default_rng(seed).permutation(10)
    known, near, unseen = np.sort(order[:N_KNOWN]), order[N_KNOWN:8], order[8:]
    images, digits = load_digits(return_X_y=True)
    images = images / 16
    labels = np.full(digits.size, UNKNOWN)
    for label, digit in enumerate(known):
        labels[digits == digit] = label

    half: dict[str, Any] = {"test_size": 0.5, "random_state": 0}
    rows = np.flatnonzero(labels != UNKNOWN)
    train, rest = train_test_split(rows, stratify=labels[rows], **half)
    validation, test = train_test_split(rest, stratify=labels[rest], **half)
    network = MLPClassifier((64,), max_iter=1000, alpha=1e-3, random_state=0)
    network.fit(images[train], labels[train])
    (hidden, last), (bias, last_bias) = network.coefs_, network.intercepts_

    def outputs(rows: NDArray[np.intp]) -> Outputs:
        features = np.maximum(images[rows] @ hidden + bias, 0)
        return Outputs(
            logits=features @ last + last_bias,
            features=features,
            labels=labels[rows],
            groups=[f"digit {digit}" for digit in digits[rows]],
            classes=[f"digit {digit}" for digit in known],
            weight=last.T,
            bias=last_bias,
        )

    others = (np.flatnonzero(np.isin(digits, pair)) for pair in (near, unseen))
    return Demo(*map(outputs, (train, validation, test, *others)))
