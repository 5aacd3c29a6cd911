"""`Threshold`: a number, and how it was chosen."""

import json
import math
from dataclasses import dataclass
from math import isnan
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset._types import UNKNOWN, ArtefactError
from openset.metrics import Interval, Rates
from openset.scores import Scores
from openset.thresholds._fingerprint import Fingerprint

At = Literal["score", "middle"]


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
    per_class
        One threshold per predicted class, if the method chooses them; `value` is then
        used for classes that do not occur in the calibration data.
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
    target: float | None
    n: Count
    interval: Span
    rate: Rate
    alpha: float | None = None
    per_class: tuple[float, ...] = ()
    fingerprint: Fingerprint | None = None

    def __post_init__(self) -> None:
        _check.threshold("Threshold", self.value)
        object.__setattr__(self, "n", Count(*self.n))
        object.__setattr__(self, "interval", Span(*self.interval))
        if isinstance(self.rate, tuple):
            object.__setattr__(self, "rate", Rate(*self.rate))
        # There may be millions, nearly all of them floats: look at the others only.
        for value in self.per_class:
            if type(value) is not float or isnan(value):
                _check.threshold("Threshold", value)

    def __str__(self) -> str:
        facts = [] if self.alpha is None else [f"alpha {self.alpha:g}"]
        if self.target is not None and self.target != self.alpha:
            facts.insert(0, f"target {self.target:g}")
        told = f" ({', '.join(facts)})" if facts else ""
        return (
            f"{self.value:.6g} by {self.method}{told} from {self.n.known} known and "
            f"{self.n.unknown} unknown samples"
        )

    @property
    def n_known(self) -> int:
        """Number of known samples it was chosen on."""
        return self.n.known

    @property
    def n_unknown(self) -> int:
        """Number of unknown samples it was chosen on."""
        return self.n.unknown

    def of(self, predicted: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the threshold of each sample, given its predicted class."""
        if not self.per_class:
            return np.full(np.shape(predicted), self.value)
        # Classes without an entry read the one at the end: the global threshold.
        table = np.array([*self.per_class, self.value])
        return table[np.minimum(predicted, len(self.per_class))]

    def accepts(self, scores: Scores) -> NDArray[np.bool_]:
        """Return a mask of the samples that are accepted as known."""
        if not self.per_class:
            return scores.known >= self.value
        return scores.known >= self.of(scores.predicted)

    def decide(self, scores: Scores) -> NDArray[np.int64]:
        """Return the predicted class where accepted, else -1."""
        return np.where(self.accepts(scores), scores.predicted, UNKNOWN)

    def rates(self, scores: Scores) -> Rates:
        """Count the decisions on labelled scores: CCR, URR and the like."""
        return Rates.of(scores, self.accepts(scores))

    def cut(self, scores: Scores) -> tuple[Scores, float]:
        """Return scores and a single threshold that lead to the same decisions.

        Without thresholds per class these are the scores themselves and `value`. With
        them, each knownness is replaced by its margin over the threshold of its
        predicted class and the threshold is 0, so that metrics that take one threshold
        can be computed.
        """
        if not self.per_class:
            return scores, self.value
        accepted = self.accepts(scores)
        # inf - inf: at the threshold; beyond all floats: ±inf
        with np.errstate(invalid="ignore", over="ignore"):
            margin = np.nan_to_num(
                scores.known - self.of(scores.predicted),
                nan=0.0,
                posinf=np.inf,
                neginf=-np.inf,
            )
        # A margin may round to 0; the decision must not move with it.
        below = np.minimum(margin, -np.finfo(float).tiny)
        margin = _check.frozen(np.where(accepted, margin, below))
        return scores.with_known(margin), 0.0

    def check_disjoint(self, scores: Scores, *, caller: str = "Threshold") -> None:
        """Raise if these are scores of samples the threshold was chosen on.

        Samples are recognised by (label, predicted class, knownness). Equal rows occur
        by accident when scores saturate or are rounded, so only an overlap far beyond
        the share of duplicates within either set is refused (more than 30 % of the
        smaller set, and at least 16 rows). Where scores are so coarse that most rows
        have a duplicate, only the very same set is recognised, in any order; where they
        come from another detector, nothing is.
        """
        if self.fingerprint is None or not self.fingerprint.is_of(scores):
            return
        share = self.fingerprint.shared(scores)
        msg = _check.must(
            "other samples than those the threshold was chosen on",
            caller=caller,
            name="test scores",
            got=f"about {share:.0%} of them in common",
            remedy="Split the data first: a threshold chosen on the test set gives the "
            "oracle, metrics.osa_optimum",
        )
        raise ValueError(msg)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; ±inf become text."""
        interval = self.rate.interval
        mark = self.fingerprint
        return {
            "value": _plain(self.value),
            "method": self.method,
            "target": _plain(self.target),
            "n": {"known": self.n.known, "unknown": self.n.unknown},
            "interval": {
                "low": _plain(self.interval.low),
                "high": _plain(self.interval.high),
            },
            "rate": {
                "name": self.rate.name,
                "value": _plain(self.rate.value),
                "interval": None if interval is None else dict(vars(interval)),
            },
            "alpha": _plain(self.alpha),
            "per_class": [_plain(value) for value in self.per_class],
            "fingerprint": None if mark is None else mark.to_dict(),
        }

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Self:
        """Read what :meth:`to_dict` returned."""
        try:
            rate, span = document["rate"], document["interval"]
            of_rate, mark = rate["interval"], document["fingerprint"]
            return cls(
                value=float(document["value"]),
                method=str(document["method"]),
                target=_number(document["target"]),
                n=Count(int(document["n"]["known"]), int(document["n"]["unknown"])),
                interval=Span(float(span["low"]), float(span["high"])),
                rate=Rate(
                    name=str(rate["name"]),
                    value=float(rate["value"]),
                    interval=None if of_rate is None else Interval(**of_rate),
                ),
                alpha=_number(document["alpha"]),
                per_class=tuple(float(value) for value in document["per_class"]),
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


def need_threshold(caller: str, threshold: object) -> None:
    """Raise TypeError unless this is a `Threshold`."""
    _check.instance(
        caller,
        "threshold",
        threshold,
        Threshold,
        rule="a Threshold",
        remedy="Choose it on calibration scores: thresholds.osa(calibration)",
    )


def inside(span: Span, score: float, at: At) -> float:
    """Place a threshold: at a `score` of the data, or in the middle of the interval.

    An interval that reaches to infinity has no middle; the score stays.
    """
    if at == "score" or not (math.isfinite(span.low) and math.isfinite(span.high)):
        return score
    middle = span.low / 2 + span.high / 2  # the sum itself could overflow
    # Between neighbouring numbers there is nothing: the low end itself is not inside.
    return middle if span.low < middle <= span.high else span.high


def _plain(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    return str(value)


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
