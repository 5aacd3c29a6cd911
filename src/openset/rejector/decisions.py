"""The decisions of a rejector."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset._types import UNKNOWN
from openset.scores import Scores


@dataclass(frozen=True, eq=False, kw_only=True)
class Decisions:
    """Decisions about samples, and what they are based on.

    A sample is accepted, rejected as unknown, or invalid: with NaN, or of a class that
    is not determined (``invalid="reject"`` of :meth:`openset.Rejector.decide`).

    Attributes
    ----------
    labels
        Class of each accepted sample; -1 for rejected and for invalid ones.
    predicted
        Class before rejection; -1 for invalid samples.
    known
        Knownness; NaN for invalid samples.
    is_invalid
        Mask of the invalid samples.
    sets
        Mask of the classes in the prediction set of each sample, shape (n, C), with no
        class for rejected and invalid ones; None if the rejector was calibrated without
        sets.
    """

    labels: NDArray[np.int64]
    predicted: NDArray[np.int64]
    known: NDArray[np.float64]
    is_invalid: NDArray[np.bool_]
    sets: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return self.labels.size

    def __repr__(self) -> str:
        counts = f"rejected={self.n_rejected}, invalid={self.n_invalid}"
        n_accepted = len(self) - self.n_rejected - self.n_invalid
        return f"Decisions(n={len(self)}, accepted={n_accepted}, {counts})"

    @property
    def n_invalid(self) -> int:
        """Number of invalid samples."""
        return int(np.count_nonzero(self.is_invalid))

    @property
    def is_rejected(self) -> NDArray[np.bool_]:
        """Mask of samples rejected as unknown; invalid ones are not among them."""
        return (self.labels == UNKNOWN) & ~self.is_invalid

    @property
    def n_rejected(self) -> int:
        """Number of samples rejected as unknown."""
        return int(np.count_nonzero(self.is_rejected))

    @property
    def set_classes(self) -> list[list[int]] | None:
        """The classes of each prediction set; None without sets."""
        if self.sets is None:
            return None
        return [np.flatnonzero(row).tolist() for row in self.sets]

    def scores(self, labels: ArrayLike | None = None) -> Scores:
        """Return the scores of the valid samples; without labels, they are unknown."""
        valid = ~self.is_invalid
        true = np.full(len(self), UNKNOWN) if labels is None else np.asarray(labels)
        return Scores(
            labels=true[valid], predicted=self.predicted[valid], known=self.known[valid]
        )
