"""Detectors that measure distances to training samples or class means."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from openset import _check, _xp
from openset.detectors.base import Array, Batch, Detector, State, Training
from openset.detectors.batch import add_by_group
from openset.detectors.constraints import Number

_BLOCK = 1 << 20  # comparisons of samples with the bank that are held at a time


@dataclass(frozen=True, kw_only=True)
class OSNN(Detector):
    r"""Minus the ratio of the distances to the nearest sample and the next class.

    .. math:: s(x) = -\frac{d(x, t)}{d(x, u)} \in [-1, 0]

    where t is the nearest training sample and u the nearest one of another class than
    t's. The class is that of t. If x coincides with samples of two classes, s = -1.
    With a single class there is no u, and fit raises.

    References
    ----------
    Mendes Júnior et al., "Nearest neighbors distance ratio open-set classifier",
    Machine Learning 106, 2017.

    Examples
    --------
    >>> from openset import Outputs
    >>> train = Outputs(features=[[0.0], [1.0], [4.0]], labels=[0, 0, 1])
    >>> new = Outputs(features=[[1.0], [2.0], [100.0]], labels=[0, 0, -1])
    >>> scores = OSNN().fit(train).score(new)
    >>> scores.known.round(2)  # 0 / 3, 1 / 2, 96 / 99
    array([-0.  , -0.5 , -0.97])
    >>> scores.predicted
    array([0, 0, 1])
    """

    fit_needs = ("features", "labels")
    score_needs = ("features",)
    costs = ("n d", "n d")
    paper = "Mendes Júnior et al. 2017"
    score_scale = "-ratio, in [-1, 0]"

    def fit_state(self, train: Training) -> dict[str, Any]:
        why = "The ratio compares the nearest class with the next one"
        need_two_classes("OSNN", train, why)
        centre, bank = centred(train)
        # A copy: a fitted detector must not share memory with the caller's labels.
        return {"centre": centre, "bank": bank, "labels": np.array(train.labels)}

    def _two_classes(self, state: State, batch: Batch) -> tuple[Array, Array, Array]:
        """Return the distances to the nearest two classes, and the nearest class."""
        bank, labels = state["bank"], state["labels"]
        rows = batch.features - state["centre"]
        xp = _xp.array_namespace(rows)

        def places(rows: Array) -> Array:
            squared = squared_distances(rows, bank)
            near = xp.argmin(squared, axis=1)
            is_same = labels[None, :] == xp.take(labels, near, axis=0)[:, None]
            others = xp.where(is_same, math.inf, squared)
            return xp.stack([near, xp.argmin(others, axis=1)], axis=1)

        found = in_blocks(places, rows, bank)
        a, b = (
            _xp.row_norms(rows - xp.take(bank, found[:, i], axis=0)) for i in (0, 1)
        )
        # By rounding, two nearly equal distances may be in the wrong order.
        nearest = xp.take(labels, xp.where(a <= b, found[:, 0], found[:, 1]), axis=0)
        return xp.minimum(a, b), xp.maximum(a, b), nearest

    def score_batch(self, state: State, batch: Batch) -> Array:
        near, far, _ = self._two_classes(state, batch)
        return -_xp.array_namespace(near).where(far > 0, near / _xp.or_one(far), 1.0)

    def predict_batch(self, state: State, batch: Batch) -> Array:
        return self._two_classes(state, batch)[2]


@dataclass(frozen=True, kw_only=True)
class NNO(Detector):
    r"""One minus the distance to the nearest class mean, relative to a radius.

    .. math:: s(x) = \max_c \Bigl(1 - \frac{\lVert x - \mu_c \rVert}{\tau}\Bigr)

    The class is that of the nearest mean. The paper accepts s > 0; its volume constant
    only rescales s and is omitted, and features are used as they are (its metric
    learning is a linear map to apply beforehand).

    Parameters
    ----------
    tau
        Radius of the balls. None: the `quantile` of the training samples' distances to
        their own class mean, so that s >= 0 accepts this share of them. Samples that
        all lie on their mean give no radius, and fit raises.
    quantile
        In (0, 1].

    References
    ----------
    Bendale and Boult, "Towards open world recognition", CVPR 2015.

    Examples
    --------
    >>> from openset import Outputs
    >>> train = Outputs(features=[[0.0], [2.0], [9.0], [11.0]], labels=[0, 0, 1, 1])
    >>> new = Outputs(features=[[1.0], [4.0], [10.5]], labels=[0, -1, 1])
    >>> scores = NNO(tau=2.0).fit(train).score(new)  # means 1 and 10
    >>> scores.known, scores.predicted
    (array([ 1.  , -0.5 ,  0.75]), array([0, 0, 1]))
    """

    fit_needs = ("features", "labels")
    score_needs = ("features",)
    costs = ("n d", "C d")
    paper = "Bendale & Boult 2015"
    score_scale = "1 - distance / radius"
    constraints = {
        "tau": Number(low=0, open_low=True, or_none=True),
        "quantile": Number(low=0, high=1, open_low=True),
    }

    tau: float | None = None
    quantile: float = 0.95

    def fit_state(self, train: Training) -> dict[str, Any]:
        centre, rows = centred(train)
        classes, owner, counts = np.unique(
            train.labels, return_inverse=True, return_counts=True
        )
        sums = np.zeros((classes.size, rows.shape[1]))
        add_by_group(sums, rows, owner)
        means, tau = sums / counts[:, None], self.tau
        if tau is None:
            own = np.linalg.norm(rows - means[owner], axis=1)
            tau = float(np.quantile(own, self.quantile))
            if tau <= 0:
                rule = "spread around their class means"
                got = "no distance to take the radius from"
                _check.fail("NNO.fit", "features", rule, got, "Give tau")
        return {"centre": centre, "means": means, "tau": tau, "classes": classes}

    def _nearest(self, state: State, batch: Batch) -> tuple[Array, Array]:
        """Return centred features and the index of the nearest mean."""
        rows = batch.features - state["centre"]
        squared = squared_distances(rows, state["means"])
        return rows, _xp.array_namespace(rows).argmin(squared, axis=1)

    def score_batch(self, state: State, batch: Batch) -> Array:
        rows, nearest = self._nearest(state, batch)
        means = _xp.array_namespace(rows).take(state["means"], nearest, axis=0)
        return 1 - _xp.row_norms(rows - means) / state["tau"]

    def predict_batch(self, state: State, batch: Batch) -> Array:
        nearest = self._nearest(state, batch)[1]
        return _xp.array_namespace(nearest).take(state["classes"], nearest, axis=0)


def in_blocks(
    function: Callable[..., Array], rows: Array, bank: Array, *others: Array
) -> Array:
    """Apply a function to so many rows that their products with the bank are few."""
    return _xp.by_rows(function, rows, *others, step=max(32, _BLOCK // bank.shape[0]))


def squared_distances(rows: Array, bank: Array) -> Array:
    """Return squared Euclidean distances, shape (n, m), by one matrix product.

    Small distances lose precision (half of the digits near zero): use them to select
    neighbours and in smooth kernels.
    """
    xp = _xp.array_namespace(rows)
    lengths = xp.sum(rows * rows, axis=1)[:, None]
    squared = lengths + xp.sum(bank * bank, axis=1)[None, :] - 2 * (rows @ bank.T)
    # In this form NaN from infinite features stays NaN instead of becoming 0.
    return xp.where(squared < 0, xp.zeros_like(squared), squared)


def centred(train: Training) -> tuple[Any, Any]:
    """Return the mean, and features minus it: distances keep more precision."""
    features = Batch(train).features
    centre = features.mean(axis=0, dtype=float).astype(features.dtype)
    return centre, features - centre


def need_two_classes(caller: str, train: Training, why: str) -> None:
    """Raise if all samples are of one class; `why` says what the others are for."""
    labels: Any = train.labels
    if (labels == labels[0]).all():
        rule, got = "of at least two classes", f"class {labels[0]} only"
        _check.fail(f"{caller}.fit", "samples", rule, got, why)
