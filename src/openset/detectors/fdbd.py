"""Distance to the decision boundaries of the last layer."""

from dataclasses import dataclass

import numpy as np

from openset import _check, _xp
from openset._types import Array
from openset.detectors import shaping
from openset.detectors._batch import Batch, State, in_dtype, lengths, working_dtype
from openset.detectors._detector import Detector
from openset.detectors._moments import mean_feature
from openset.detectors.constraints import OneOf
from openset.outputs import Outputs

_ORIGINS = ("mean", "zero")
# Squared distance between weight vectors, as a share of their squared length, below
# which they are one vector up to rounding.
_SAME_VECTOR = 2e-14


@dataclass(frozen=True, kw_only=True)
class FDBD(Detector):
    r"""Mean distance to decision boundaries, relative to the distance from the mean.

    .. math:: s(x) = \frac{1}{\lVert f - \mu \rVert_2} \cdot \frac{1}{C - 1}
              \sum_{c \ne \hat c}
              \frac{z_{\hat c} - z_c}{\lVert w_{\hat c} - w_c \rVert_2}

    where :math:`\hat c` is the predicted class and :math:`\mu` the mean training
    feature. A sample exactly at :math:`\mu` gets the lowest score, 0. At least two
    classes are needed, and no two with the same weights, which have no boundary.

    Parameters
    ----------
    origin
        ``"mean"``, as above (the paper), or ``"zero"``: divide by the length of f.

    References
    ----------
    Liu and Qin, "Fast decision boundary based out-of-distribution detector", ICML 2024.

    Examples
    --------
    The boundary between (1, 0) and (0, 1) is the diagonal: (3, 1) is sqrt(2) away from
    it and, with the mean at (0, 1), 3 from the mean.

    >>> head = {"weight": [[1.0, 0.0], [0.0, 1.0]], "bias": [0.0, 0.0]}
    >>> train = Outputs(features=[[-1.0, 1.0], [1.0, 1.0]], **head)
    >>> test = Outputs(logits=[[3.0, 1.0]], features=[[3.0, 1.0]], labels=[0])
    >>> FDBD().fit(train).score(test).known.round(4)  # sqrt(2) / 3
    array([0.4714])
    """

    name = "fdbd"
    fit_needs = ("features", "head")
    score_needs = ("logits", "features")
    fit_cost = "n d + C^2 d"
    score_cost = "C + d"
    paper = "Liu & Qin 2024"
    score_scale = "distance ratio"
    casts_state = True
    constraints = {"origin": OneOf(_ORIGINS)}

    origin: str = "mean"

    def fit_state(self, train: Outputs) -> State:
        xp = _xp.array_namespace(train.weight)
        weight = shaping.weight("FDBD", train, xp.float64)
        n_classes = weight.shape[0]
        if n_classes == 1:
            msg = _check.must(
                "two or more", caller="FDBD.fit", name="number of classes", got="1"
            )
            raise ValueError(msg)
        products = weight @ weight.T
        squared = xp.linalg.diagonal(products)
        toward = squared[:, None] - products
        # Of the distances between classes: exactly 0 from a class to itself.
        squares = toward + toward.T
        is_apart = squares > (_SAME_VECTOR * squared)[:, None]
        if int(xp.count_nonzero(is_apart)) < n_classes * (n_classes - 1):
            _need_different(squares, squared)
        # The class itself contributes 0; the mean is over the others.
        far = xp.where(is_apart, squares, xp.inf)
        inverse = 1 / (xp.sqrt(far) * (n_classes - 1))
        mean = mean_feature(train, working_dtype(train))
        if self.origin == "zero":
            mean = xp.zeros_like(mean)
        return in_dtype({"inverse": inverse, "mean": mean}, working_dtype(train))

    def score_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.logits)

        def boundary(logits: Array, top: Array, index: Array) -> Array:
            per_class = xp.take(state["inverse"], index, axis=0)
            return xp.sum((top[:, None] - logits) * per_class, axis=1)

        def away(features: Array) -> Array:
            return lengths(features - state["mean"])

        to_boundary = _xp.by_rows(
            boundary, batch.logits, batch.top_logit, batch.top_class
        )
        to_mean = _xp.by_rows(away, batch.features)
        is_mean = to_mean == 0
        ratio = to_boundary / xp.where(is_mean, xp.ones_like(to_mean), to_mean)
        return xp.where(is_mean, xp.zeros_like(ratio), ratio)


def _need_different(squares: Array, squared: Array) -> None:
    """Name the first two classes with the same weights, if there are two."""
    is_same = _xp.to_numpy(squares) <= _SAME_VECTOR * _xp.to_numpy(squared)[:, None]
    pairs = np.argwhere(np.triu(is_same, k=1))
    if not len(pairs):
        return  # infinite weights
    first, second = pairs[0].tolist()
    msg = _check.must(
        "different for every two classes",
        caller="FDBD.fit",
        name="rows of weight",
        got=f"the same for classes {first} and {second}",
        remedy="Classes with the same weights have no boundary between them",
    )
    raise ValueError(msg)
