"""The confusion matrix with the unknown row and column."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _extras
from openset.metrics._class_counts import positions
from openset.metrics._registry import Metric, register
from openset.scores import Scores, need_scores


@dataclass(frozen=True, eq=False)
class Confusion:
    """Counts, true class by row and decision by column; the last of each is unknown."""

    matrix: NDArray[np.int64]
    classes: NDArray[np.int64]

    def to_frame(self) -> Any:
        """Return a pandas table with named rows and columns."""
        pd = _extras.optional("Confusion.to_frame", "pandas", name="tables")
        names = [*map(str, self.classes), "unknown"]
        return pd.DataFrame(self.matrix, index=names, columns=names)


def confusion(scores: Scores, threshold: float) -> Confusion:
    r"""Return the counts of decisions at a threshold, by true class.

    Entry (i, j) counts samples of class i that are accepted as class j; the last row
    holds unknown samples, the last column rejected ones.

    Examples
    --------
    >>> confusion(
    ...     Scores(labels=[0, 1, -1], predicted=[0, 1, 1], known=[3, 1, 2]), 2
    ... ).matrix
    array([[1, 0, 0],
           [0, 0, 1],
           [0, 1, 0]])
    """
    threshold = _check.threshold("confusion", threshold)
    need_scores("confusion", scores)
    label, predicted = positions(scores)
    size = scores.classes.size + 1
    decided = np.where(scores.known >= threshold, predicted, size - 1)
    counts = np.bincount(label * size + decided, minlength=size * size)
    return Confusion(matrix=counts.reshape(size, size), classes=scores.classes)


register(
    Metric(confusion, label="Confusion matrix", kind="curve", better="neither"),
)
