"""The decisions of a rejector, and explanations of them."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset._types import UNKNOWN, InvalidSamplesError
from openset.rejector._sets import classes_in
from openset.scores import Scores


@dataclass(frozen=True, eq=False)
class Decisions:
    """Decisions about samples, and the scores they are based on.

    A sample is accepted, rejected as unknown, or invalid: with NaN, or of a class that
    is not determined (``invalid="reject"`` of :meth:`openset.Rejector.decide`).

    Attributes
    ----------
    labels
        Class of each accepted sample; -1 for rejected and for invalid ones.
    valid_scores
        Scores of the samples that are not invalid, in their order; None if there is no
        such sample. For unlabelled outputs, all labels of the scores are -1.
    sets
        Mask of the classes in the prediction set of each sample, shape (n, C), with no
        class for rejected and invalid ones; None if the rejector was calibrated without
        sets.
    invalid
        Mask of the invalid samples; None if there is none.
    """

    labels: NDArray[np.int64]
    valid_scores: Scores | None
    sets: NDArray[np.bool_] | None = None
    invalid: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return self.labels.size

    def __repr__(self) -> str:
        counts = f"rejected={self.n_rejected}, invalid={self.n_invalid}"
        n_accepted = len(self) - self.n_rejected - self.n_invalid
        return f"Decisions(n={len(self)}, accepted={n_accepted}, {counts})"

    @property
    def scores(self) -> Scores:
        """Scores of all samples; raises if one is invalid, which has no score."""
        if self.valid_scores is None or self.invalid is not None:
            rows = np.flatnonzero(self.is_invalid)
            msg = _check.must(
                "of valid samples only",
                caller="Decisions",
                name="scores",
                got=f"{rows.size} invalid samples, first in row {rows[0]}",
                remedy="Use known and predicted, which have NaN and -1 for these; or "
                "valid_scores, which are those of the others",
            )
            raise InvalidSamplesError(msg, rows.tolist())
        return self.valid_scores

    @property
    def known(self) -> NDArray[np.float64]:
        """Knownness of each sample; NaN for invalid ones."""
        found = None if self.valid_scores is None else self.valid_scores.known
        return self._spread(found, np.nan, np.float64)

    @property
    def predicted(self) -> NDArray[np.int64]:
        """Predicted class of each sample, before rejection; -1 for invalid ones."""
        found = None if self.valid_scores is None else self.valid_scores.predicted
        return self._spread(found, UNKNOWN, np.int64)

    def _spread(
        self, values: NDArray[Any] | None, missing: float, dtype: Any
    ) -> NDArray[Any]:
        if values is not None and self.invalid is None:
            return values
        found = np.full(len(self), missing, dtype)
        if values is not None:
            found[~self.is_invalid] = values
        return found

    @property
    def is_invalid(self) -> NDArray[np.bool_]:
        """Mask of invalid samples."""
        return np.zeros(len(self), bool) if self.invalid is None else self.invalid

    @property
    def n_invalid(self) -> int:
        """Number of invalid samples."""
        return 0 if self.invalid is None else int(np.count_nonzero(self.invalid))

    @property
    def is_rejected(self) -> NDArray[np.bool_]:
        """Mask of samples rejected as unknown; invalid ones are not among them."""
        is_rejected = self.labels == UNKNOWN
        return is_rejected if self.invalid is None else is_rejected & ~self.invalid

    @property
    def n_rejected(self) -> int:
        """Number of samples rejected as unknown."""
        return int(np.count_nonzero(self.is_rejected))

    @property
    def set_classes(self) -> list[list[int]]:
        """The classes of each prediction set; none for rejected samples."""
        return [] if self.sets is None else classes_in(self.sets, self.labels)

    def among(self, is_valid: NDArray[np.bool_]) -> "Decisions":
        """Return them with invalid samples in between.

        `is_valid` is a mask with as many true entries as there are decisions.
        """
        if is_valid.all():
            return self
        n = is_valid.size
        labels, invalid = np.full(n, UNKNOWN), np.ones(n, dtype=bool)
        labels[is_valid], invalid[is_valid] = self.labels, self.is_invalid
        sets = None
        if self.sets is not None:
            sets = np.zeros((n, self.sets.shape[1]), dtype=bool)
            sets[is_valid] = self.sets
        return Decisions(labels, self.valid_scores, sets, invalid)

    @classmethod
    def none(cls, n_classes: int | None) -> "Decisions":
        """Return decisions about no sample, for :meth:`among`.

        `n_classes` is the width of the sets; None without sets.
        """
        sets = None if n_classes is None else np.empty((0, n_classes), dtype=bool)
        return cls(np.empty(0, np.int64), None, sets)


@dataclass(frozen=True)
class Explanation:
    """Why one sample was accepted or rejected.

    `margin` is knownness minus threshold: accepted iff it is at least 0. `typical` is
    the share of known calibration samples whose knownness is not above that of this
    sample. `top` holds (class index, name, logit), best first; empty without logits.
    """

    decision: int
    predicted: int
    name: str
    known: float
    threshold: float
    margin: float
    typical: float
    top: tuple[tuple[int, str, float], ...]

    def __str__(self) -> str:
        is_unknown = self.decision == UNKNOWN
        verdict, sign = ("unknown", "<") if is_unknown else (self.name, ">=")
        return (
            f"{verdict}: knownness {self.known:.4g} {sign} threshold "
            f"{self.threshold:.4g}; at least as high as for {self.typical:.0%} of "
            f"the known calibration samples; predicted class {self.name}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)
