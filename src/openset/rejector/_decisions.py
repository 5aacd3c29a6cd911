"""The decisions of a rejector, and explanations of them."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset._types import UNKNOWN
from openset.rejector._sets import classes_in
from openset.scores import Scores


@dataclass(frozen=True, eq=False)
class Decisions:
    """Decisions about samples, and the scores they are based on.

    `labels` holds the class of each accepted sample and -1 for each rejected one. For
    unlabelled outputs, all labels of the scores are -1. `sets` is a mask of the classes
    in the prediction set of each sample, shape (n, C), with no class for rejected ones;
    it is None if the rejector was calibrated without sets.
    """

    labels: NDArray[np.int64]
    scores: Scores
    sets: NDArray[np.bool_] | None = None

    @property
    def is_rejected(self) -> NDArray[np.bool_]:
        """Mask of samples rejected as unknown."""
        return self.labels == UNKNOWN

    @property
    def n_rejected(self) -> int:
        """Number of samples rejected as unknown."""
        return int(np.count_nonzero(self.is_rejected))

    @property
    def set_classes(self) -> list[list[int]]:
        """The classes of each prediction set; none for rejected samples."""
        return [] if self.sets is None else classes_in(self.sets, self.labels)

    def __len__(self) -> int:
        return self.labels.size


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
        verdict = "unknown" if self.decision == UNKNOWN else self.name
        sign = ">=" if self.decision != UNKNOWN else "<"
        return (
            f"{verdict}: knownness {self.known:.4g} {sign} threshold "
            f"{self.threshold:.4g}; at least as high as for {self.typical:.0%} of "
            f"the known calibration samples; predicted class {self.name}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)
