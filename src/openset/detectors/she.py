"""Simplified Hopfield energy: inner product with the pattern of the predicted class."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from openset import _check, _xp
from openset._types import Array
from openset.detectors._batch import Batch, State, batches_with, in_dtype, working_dtype
from openset.detectors._detector import Detector
from openset.detectors._moments import sums_by
from openset.outputs import Outputs


@dataclass(frozen=True, kw_only=True)
class SHE(Detector):
    r"""Inner product of the feature and the stored pattern of the predicted class.

    .. math:: s(x) = f^\top S_{\hat c}, \qquad
              S_c = \operatorname*{mean}_{i :\, \hat c_i = y_i = c} f_i

    The pattern of a class is the mean feature of its correctly classified training
    samples. A class without any has no pattern: samples predicted as that class get the
    lowest score, -inf. If no sample is classified correctly, fitting raises.

    References
    ----------
    Zhang et al., "Out-of-distribution detection based on in-distribution data patterns
    memorization with modern Hopfield energy", ICLR 2023.

    Examples
    --------
    The pattern of class 0 is (2, 1); class 1 has none.

    >>> train = Outputs(logits=[[1.0, 0.0], [1.0, 0.0]],
    ...                 features=[[1.0, 1.0], [3.0, 1.0]], labels=[0, 0])
    >>> test = Outputs(logits=[[1.0, 0.0], [0.0, 1.0]],
    ...                features=[[1.0, 5.0], [9.0, 9.0]], labels=[0, -1])
    >>> SHE().fit(train).score(test).known
    array([  7., -inf])
    """

    name = "she"
    fit_needs = ("logits", "features", "labels")
    score_needs = ("logits", "features")
    fit_cost = "n d"
    score_cost = "C + d"
    paper = "Zhang et al. 2023"
    score_scale = "product"
    casts_state = True

    def fit_state(self, train: Outputs) -> State:
        sums: Any = 0.0
        counts: Any = 0.0
        for batch, own in batches_with(train, train.labels):
            n_classes = batch.logits.shape[1]
            is_right = _xp.to_numpy(batch.top_class) == own
            # Misclassified samples are summed up in a group of their own.
            groups = np.where(is_right, own, n_classes)
            sums = sums_by(batch.features, groups, n_classes + 1) + sums
            counts = np.bincount(groups, minlength=n_classes + 1) + counts
        counts = counts[:-1].astype(np.float64)
        if not counts.any():
            msg = _check.must(
                "predicted correctly for at least one sample",
                caller="SHE.fit",
                name="labels",
                got=f"none of {len(train)}",
                remedy="Do the labels number the classes as the logits do?",
            )
            raise ValueError(msg)
        weights = _xp.moved(np.maximum(counts, 1.0), sums)
        state = {
            "patterns": sums[:-1, :] / weights[:, None],
            "floor": _xp.moved(np.where(counts > 0, 0.0, -np.inf), sums),
        }
        return in_dtype(state, working_dtype(train))

    def score_batch(self, state: State, batch: Batch) -> Array:
        xp = _xp.array_namespace(batch.features)

        def product(features: Array, index: Array) -> Array:
            own = xp.take(state["patterns"], index, axis=0)
            return xp.sum(features * own, axis=1)

        products = _xp.by_rows(product, batch.features, batch.top_class)
        return products + xp.take(state["floor"], batch.top_class, axis=0)
