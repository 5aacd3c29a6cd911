"""`Rates`: how many samples a threshold accepts and rejects, and their shares."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from openset import _check
from openset._types import UndefinedMetricError
from openset.scores import Scores, need_scores


@dataclass(frozen=True, kw_only=True)
class Rates:
    """How many samples of each kind are accepted or rejected, and their shares.

    `n_correct`: known samples whose predicted class is right, accepted or not. A rate
    of a side without samples raises `UndefinedMetricError`.
    """

    n_known: int
    n_unknown: int
    n_correct: int
    n_accepted_known: int
    n_accepted_correct: int
    n_rejected_unknown: int

    @classmethod
    def at(cls, scores: Scores, threshold: float) -> Self:
        """Count the decisions of a threshold: accepted iff ``known >= threshold``."""
        need_scores("Rates.at", scores)
        accepted = scores.known >= _check.threshold("Rates.at", threshold)
        n_accepted_unknown = int(np.count_nonzero(accepted & scores.is_unknown))
        return cls(
            n_known=scores.n_known,
            n_unknown=scores.n_unknown,
            n_correct=int(np.count_nonzero(scores.is_correct)),
            n_accepted_known=int(np.count_nonzero(accepted)) - n_accepted_unknown,
            n_accepted_correct=int(np.count_nonzero(accepted & scores.is_correct)),
            n_rejected_unknown=scores.n_unknown - n_accepted_unknown,
        )

    @property
    def n_rejected(self) -> int:
        """Samples that are rejected, known or not."""
        return self.n_known - self.n_accepted_known + self.n_rejected_unknown

    @property
    def accuracy(self) -> float:
        """Share of known samples whose predicted class is right, without rejection."""
        return self._share("accuracy", self.n_correct, "known")

    @property
    def ccr(self) -> float:
        """Correct classification rate: known samples accepted with the right class."""
        return self._share("ccr", self.n_accepted_correct, "known")

    @property
    def tpr(self) -> float:
        """Share of known samples that are accepted."""
        return self._share("tpr", self.n_accepted_known, "known")

    @property
    def urr(self) -> float:
        """Unknown rejection rate: share of unknown samples that are rejected."""
        return self._share("urr", self.n_rejected_unknown, "unknown")

    def osa(self, alpha: float) -> float:
        """Open-set accuracy, ``alpha * ccr + (1 - alpha) * urr``."""
        return alpha * self.ccr + (1 - alpha) * self.urr

    def _share(self, rate: str, count: int, side: str) -> float:
        n = self.n_known if side == "known" else self.n_unknown
        if n == 0:
            msg = f"{rate}: undefined without {side} samples, got 0 {side}"
            raise UndefinedMetricError(msg)
        return count / n
