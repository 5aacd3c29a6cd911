"""`Threshold`: a number, and how it was chosen."""

import json
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset._types import ArtefactError
from openset.metrics import Interval, Rates
from openset.metrics.evaluation import without_infinity
from openset.metrics.intervals import wilson
from openset.scores import Scores
from openset.thresholds.fingerprint import Fingerprint

CONFIDENCE = 0.95
"""Confidence level of the intervals in thresholds and operations."""


class Count(NamedTuple):
    """Numbers of calibration samples a threshold was chosen on."""

    known: int
    unknown: int


class Span(NamedTuple):
    """A range of thresholds, ``(low, high]``. Not a confidence interval."""

    low: float
    high: float


@dataclass(frozen=True)
class Rate:
    """A rate that a threshold achieves on its calibration samples.

    `interval` is its confidence interval, computed as if the threshold had been fixed
    beforehand. A threshold that was optimised on these samples does a little worse on
    new ones.
    """

    name: str
    value: float
    interval: Interval | None

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Self:
        """Read what `dataclasses.asdict` made."""
        span = document["interval"]
        found = None if span is None else Interval(**span)
        return cls(str(document["name"]), float(document["value"]), found)


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """A sample is accepted iff its knownness is at least `value`.

    Parameters
    ----------
    value
        The threshold; +inf rejects all samples, -inf accepts all.
    method
        The function of :mod:`openset.thresholds` that chose it.
    target
        The rate it was chosen for, such as the TPR of ``at_tpr``; None if the method
        has no such argument.
    n
        Numbers of known and unknown samples it was chosen on.
    interval
        The range of equivalent thresholds: every one in ``(low, high]`` meets the
        objective equally well on the calibration samples. It is *not* a confidence
        interval; ``rate.interval`` is one.
    rate
        The rate achieved on the calibration samples, with its confidence interval.
    alpha
        Weight of the known samples, where the method has one.
    fingerprint
        Hashes of the calibration samples, for :meth:`check_disjoint`.

    Examples
    --------
    Your own objective can make one from plain tuples.

    >>> mine = Threshold(
    ...     value=0.5,
    ...     method="mine",
    ...     target=None,
    ...     n=(90, 10),
    ...     interval=(0.4, 0.5),
    ...     rate=("tpr", 0.9, None),
    ... )
    >>> mine.n.known, mine.interval.high, mine.rate.value
    (90, 0.5, 0.9)

    >>> from openset import thresholds
    >>> scores = Scores(labels=[0, 0, -1, -1], predicted=[0] * 4, known=[4, 3, 2, 1])
    >>> chosen = thresholds.osa(scores)
    >>> chosen.value, chosen.interval.low, chosen.rate.value
    (3.0, 2.0, 1.0)
    >>> Threshold.from_json(chosen.to_json()) == chosen
    True
    """

    value: float
    method: str
    target: float | None = None
    n: Count
    interval: Span
    rate: Rate
    alpha: float | None = None
    fingerprint: Fingerprint | None = None

    def __post_init__(self) -> None:
        _check.threshold("Threshold", self.value)
        object.__setattr__(self, "n", Count(*self.n))
        object.__setattr__(self, "interval", Span(*self.interval))
        if isinstance(self.rate, tuple):
            object.__setattr__(self, "rate", Rate(*self.rate))

    def __str__(self) -> str:
        facts = [] if self.alpha is None else [f"alpha {self.alpha:g}"]
        if self.target is not None and self.target != self.alpha:
            facts.insert(0, f"target {self.target:g}")
        told = f" ({', '.join(facts)})" if facts else ""
        return (
            f"{self.value:.6g} by {self.method}{told} from {self.n.known} known and "
            f"{self.n.unknown} unknown samples"
        )

    def accepts(self, scores: Scores) -> NDArray[np.bool_]:
        """Return a mask of the samples that are accepted as known."""
        return scores.known >= self.value

    def rates(self, scores: Scores) -> Rates:
        """Count the decisions on labelled scores: CCR, URR and the like."""
        return Rates.at(scores, self.value)

    def check_disjoint(self, scores: Scores, *, caller: str = "Threshold") -> None:
        """Raise if these are scores of samples the threshold was chosen on.

        Samples are recognised by (label, predicted class, knownness). Equal rows occur
        by accident when scores saturate or are rounded, so only an overlap far beyond
        the share of duplicates within either set is refused (more than 30 % of the
        smaller set, and at least 16 rows). Where scores are so coarse that most rows
        have a duplicate, only the very same set is recognised, in any order; where they
        come from another detector, nothing is.
        """
        if self.fingerprint is not None and self.fingerprint.is_of(scores):
            rule = "other samples than those the threshold was chosen on"
            got = f"about {self.fingerprint.shared(scores):.0%} of them in common"
            remedy = "A threshold chosen on the test set gives the oracle: split first"
            _check.fail(caller, "test scores", rule, got, remedy)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; ±inf become text."""
        plain = asdict(self)
        return without_infinity(
            plain | {"n": self.n._asdict(), "interval": self.interval._asdict()}
        )

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Self:
        """Read what :meth:`to_dict` returned."""
        try:
            mark, n, span = (document[k] for k in ("fingerprint", "n", "interval"))
            return cls(
                value=float(document["value"]),
                method=str(document["method"]),
                target=_number(document["target"]),
                n=Count(int(n["known"]), int(n["unknown"])),
                interval=Span(float(span["low"]), float(span["high"])),
                rate=Rate.from_dict(document["rate"]),
                alpha=_number(document["alpha"]),
                fingerprint=None if mark is None else Fingerprint.from_dict(mark),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            msg = f"Threshold.from_dict: not a threshold ({error!r})"
            raise ArtefactError(msg) from error

    def to_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what :meth:`to_json` wrote."""
        try:
            document = json.loads(text)
        except ValueError as error:
            msg = f"Threshold.from_json: not JSON ({error})"
            raise ArtefactError(msg) from error
        return cls.from_dict(document)


def of_osa(rates: Rates, alpha: float, level: float = CONFIDENCE) -> Interval:
    """Interval of the open-set accuracy with this weight of the known samples.

    The distances from each rate to the ends of its Wilson interval are added as
    variances are (Zou and Donner, "Construction of confidence limits about effect
    measures", Statistics in Medicine 2008).
    """
    value = down = up = 0.0
    for weight, hits, n in (
        (alpha, rates.n_accepted_correct, rates.n_known),
        (1 - alpha, rates.n_rejected_unknown, rates.n_unknown),
    ):
        one, share = wilson(hits, n, level), hits / n
        value += weight * share
        down += (weight * (share - one.low)) ** 2
        up += (weight * (one.high - share)) ** 2
    low, high = max(value - sqrt(down), 0.0), min(value + sqrt(up), 1.0)
    return Interval(low, high, level, "Wilson, summed")


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
