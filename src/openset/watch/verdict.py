"""`Verdict`: the tests of one window, what they look like and what to do next."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.metrics.evaluation import without_infinity
from openset.scores import Scores, need_scores
from openset.thresholds import Prevalence

NEXT = {
    "unknown classes": "Look at the rejected samples: label those of new classes and "
    "retrain with them, or recalibrate with them as surrogate unknowns",
    "changed inputs": "The share of unknown samples cannot be told. Look at these "
    "samples: if they are of known classes, recalibrate on labelled samples like them, "
    "or retrain",
    "unknown classes or changed inputs": "Look at the rejected samples. Features of "
    "reference and new samples would tell the two apart",
    "other known samples": "Fewer are rejected than in the reference: recalibrate if "
    "the rate matters",
}
"""What to do next, by what an alarm looks like."""


class Part(NamedTuple):
    """Samples of a stream: their scores and, to compare them, their features.

    `n_invalid` samples of the stream were invalid: they have no scores, are counted,
    and not compared.
    """

    scores: Scores
    features: NDArray[Any] | None = None
    n_invalid: int = 0

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Join parts, without groups and classes, in which they may differ.

        There are features if all have them.
        """
        arrays = [np.array(one.features) for one in parts if one.features is not None]
        bare: dict[str, Any] = {"groups": None, "n_classes": None, "class_names": None}
        return cls(
            Scores.concat([replace(part.scores, **bare) for part in parts]),
            np.concatenate(arrays) if len(arrays) == len(parts) else None,
            sum(part.n_invalid for part in parts),
        )

    def take(self, rows: Any) -> Self:
        """Return some of the samples."""
        features = None if self.features is None else self.features[rows]
        return type(self)(self.scores.take(rows), features)

    def checked(self, caller: str) -> Self:
        """Refuse what are no scores, and features of other samples."""
        need_scores(caller, self.scores)
        if self.features is None:
            return self
        _check.unmasked(caller, "features", self.features)
        rows = _check.owned(np.asarray(self.features), self.features)
        sizes = {"scores": len(self.scores), "features": len(rows)}
        _check.same_length(caller, sizes)
        return self._replace(features=rows)


@dataclass(frozen=True)
class WindowTest:
    """One test of one window, and its result.

    `reference` and `new` are the shares of rejected samples, the medians of knownness,
    or the mean distances of features from the mean of the reference. `distance` is the
    difference of the shares, the largest difference between the two distribution
    functions, or the maximum mean discrepancy. There is an alarm if `p_value` is at
    most `limit`.
    """

    name: str
    reference: float
    new: float
    distance: float
    p_value: float
    limit: float
    method: str

    @property
    def is_alarm(self) -> bool:
        """Whether the p-value is at or below the limit."""
        return self.p_value <= self.limit


@dataclass(frozen=True)
class Verdict:
    """The tests of one window of `n` samples, the first of which has index `start`.

    `n_invalid` more were invalid; they are not among the `n`, and not compared. Of an
    alarm `looks_like` says what it looks like, one of the keys of `NEXT`. `prevalence`
    estimates the share of unknown samples, where the rates of the rejector are known;
    it is None where the features have changed, because it assumes that only this share
    has.
    """

    start: int
    n: int
    unknown_rate: WindowTest
    knownness: WindowTest
    false_alarms: float
    features: WindowTest | None = None
    n_invalid: int = 0
    looks_like: str = ""
    prevalence: Prevalence | None = None

    @property
    def tests(self) -> tuple[WindowTest, ...]:
        """All tests that were made."""
        made = (self.unknown_rate, self.knownness, self.features)
        return tuple(test for test in made if test is not None)

    @property
    def is_alarm(self) -> bool:
        """Whether any test gives an alarm."""
        return any(test.is_alarm for test in self.tests)

    @property
    def advice(self) -> str:
        """What an alarm looks like, and what to do next; "" without an alarm."""
        seen = self.looks_like
        return f"this looks like {seen}. {NEXT[seen]}" if seen else ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; ±inf become text."""
        plain = {"alarm": self.is_alarm, **asdict(self), "advice": self.advice}
        return without_infinity(plain)
