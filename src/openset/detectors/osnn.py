"""Open-set nearest neighbour: ratio of the distances to the two nearest classes."""

import math
from dataclasses import dataclass

from openset import _xp
from openset._types import Array
from openset.detectors._batch import Batch, State
from openset.detectors._detector import Detector
from openset.detectors._distances import (
    blocks,
    centred,
    distances_between,
    need_two_classes,
    squared_distances,
    training_rows,
)
from openset.outputs import Outputs


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
    >>> train = Outputs(features=[[0.0], [1.0], [4.0]], labels=[0, 0, 1])
    >>> new = Outputs(features=[[1.0], [2.0], [100.0]], labels=[0, 0, -1])
    >>> scores = OSNN().fit(train).score(new)
    >>> scores.known.round(2)  # 0 / 3, 1 / 2, 96 / 99
    array([-0.  , -0.5 , -0.97])
    >>> scores.predicted
    array([0, 0, 1])
    """

    name = "osnn"
    fit_needs = ("features", "labels")
    score_needs = ("features",)
    fit_cost = "n d"
    score_cost = "n d"
    paper = "Mendes Júnior et al. 2017"
    score_scale = "-ratio, in [-1, 0]"

    def fit_state(self, train: Outputs) -> State:
        centre, bank, labels = training_rows(train)
        why = "The ratio compares the nearest class with the next one"
        need_two_classes("OSNN", labels, why)
        arrays = {"centre": centre, "bank": bank, "labels": labels}
        return {name: _xp.moved(a, train.features) for name, a in arrays.items()}

    def score_batch(self, state: State, batch: Batch) -> Array:
        near, far, _ = _two_classes(state, batch)
        xp = _xp.array_namespace(near)
        is_some = far > 0
        ratio = near / xp.where(is_some, far, xp.ones_like(far))
        return -xp.where(is_some, ratio, xp.ones_like(far))

    def predict_batch(self, state: State, batch: Batch) -> Array:
        return _two_classes(state, batch)[2]


def _two_classes(state: State, batch: Batch) -> tuple[Array, Array, Array]:
    """Return the distances to the nearest two classes, and the nearest class."""
    rows = centred(batch, state["centre"])
    xp = _xp.array_namespace(rows)
    bank = xp.astype(state["bank"], rows.dtype, copy=False)
    found: list[tuple[Array, Array]] = []  # (squared distances, places), (n, 2) each
    for block in blocks(rows.shape[0], bank.shape[0]):
        squared = squared_distances(rows, bank[block, :])
        places, values = _best_two(squared, state["labels"][block][None, :])
        places = places + block.start
        if found:
            # The best two of four: again the nearest, and the nearest of another class.
            values = xp.concat([found[-1][0], values], axis=1)
            places = xp.concat([found[-1][1], places], axis=1)
            chosen, values = _best_two(values, _picked(state["labels"], places))
            places = xp.stack([_along(places, chosen[:, i]) for i in (0, 1)], axis=1)
        found = [(values, places)]
    [(_, places)] = found
    exact = [distances_between(rows, _picked(bank, places[:, i])) for i in (0, 1)]
    labels = [_picked(state["labels"], places[:, i]) for i in (0, 1)]
    # By rounding, two nearly equal distances may be in the wrong order.
    in_order = exact[0] <= exact[1]
    near = xp.where(in_order, exact[0], exact[1])
    far = xp.where(in_order, exact[1], exact[0])
    return near, far, xp.where(in_order, labels[0], labels[1])


def _best_two(values: Array, labels: Array) -> tuple[Array, Array]:
    """Columns and values of the smallest entry and the smallest of another class.

    Where all columns are of one class the second value is inf, its column any.
    """
    xp = _xp.array_namespace(values)
    first = xp.argmin(values, axis=1)
    same = labels == _along(labels, first)[:, None]
    others = xp.where(same, xp.full_like(values, math.inf), values)
    second = xp.argmin(others, axis=1)
    columns = xp.stack([first, second], axis=1)
    best = xp.stack([_along(values, first), _along(others, second)], axis=1)
    return columns, best


def _along(table: Array, columns: Array) -> Array:
    """Entry of each row of `table` in the column given for it; one row is for all."""
    xp = _xp.array_namespace(table)
    starts = xp.arange(table.shape[0], device=_xp.device(table)) * table.shape[1]
    return xp.take(xp.reshape(table, (-1,)), starts + columns, axis=0)


def _picked(table: Array, places: Array) -> Array:
    """Rows of `table` at an array of places of any shape."""
    xp = _xp.array_namespace(table)
    taken = xp.take(table, xp.reshape(places, (-1,)), axis=0)
    return xp.reshape(taken, (*places.shape, *table.shape[1:]))
