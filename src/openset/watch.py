"""Alarm when what comes in is no longer what the threshold was calibrated for.

Two questions are asked of every window of new samples: are as many rejected as
before, and is knownness distributed as before? Both are answered by exact tests
against reference samples, so that an alarm has a false-alarm rate that can be stated.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from math import isinf, lgamma, log
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
import scipy  # whose parts are imported when first used
from numpy.typing import NDArray

from openset import _check
from openset._types import UNKNOWN, UndefinedMetricError
from openset.scores import Scores
from openset.thresholds import Threshold

if TYPE_CHECKING:
    from openset.rejector import Rejector

Against = Literal["knowns", "all"]

# The exact law of the Kolmogorov-Smirnov distance is a count of paths: half a second
# for this many pairs at worst. From there on the limit law is good to three digits.
_MOST_PAIRS = 10**8


@dataclass(frozen=True)
class Finding:
    """One test of one window.

    `reference` and `new` are what is compared: shares of rejected samples, or median
    knownness. `distance` is how far they are apart: the difference of the shares, or
    the largest difference between the two distribution functions.
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
        """Whether the difference is more than chance gives at the stated rate."""
        return self.p_value <= self.limit

    def __str__(self) -> str:
        verdict = "ALARM" if self.is_alarm else "ok"
        return (
            f"{self.name}: {self.new:.4g} where {self.reference:.4g} was, distance "
            f"{self.distance:+.4g}, p = {self.p_value:.2g} ({self.method}): {verdict}"
        )


@dataclass(frozen=True)
class Verdict:
    """What is found in one window of `n` samples, the first being sample `start`."""

    start: int
    n: int
    unknown_rate: Finding
    knownness: Finding
    false_alarms: float

    @property
    def findings(self) -> tuple[Finding, Finding]:
        """Both tests."""
        return (self.unknown_rate, self.knownness)

    @property
    def is_alarm(self) -> bool:
        """Whether either test gives alarm."""
        return any(finding.is_alarm for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; ±inf become text."""
        document = {"alarm": self.is_alarm, **asdict(self)}
        for finding in ("unknown_rate", "knownness"):
            document[finding] = {n: _plain(v) for n, v in document[finding].items()}
        return document


class Watch:
    r"""Compare windows of new samples with reference samples.

    *Unknown rate*: of m reference samples k are rejected at the threshold, of n new
    ones j. If all are drawn alike, then given j + k the number j is hypergeometric
    (Fisher's exact test),

    .. math:: P(J \ge j) = \sum_{i \ge j}
              \binom{n}{i} \binom{m}{j + k - i} \Big/ \binom{m + n}{j + k}

    and likewise for :math:`J \le j`; p is twice the smaller. *Knownness*: the
    two-sample Kolmogorov-Smirnov distance :math:`\sup_t |F_m(t) - F_n(t)|` with its
    exact law. Each gets half of `false_alarms` (Bonferroni).

    So a window drawn like the reference gives alarm with at most the probability
    `false_alarms`, whatever the distribution, ties included. That is the chance over
    reference and window together: one unlucky reference can raise it for all windows
    that are compared with it, and a larger reference makes that rarer. The statement
    holds for a threshold chosen on other samples than the reference, and for one at a
    rank of the reference (``at_tpr``, ``conformal``): there the number of new samples
    below it follows the same law. A threshold optimised on the reference itself
    (``osa``) bends the first test a little; the second does not look at it.

    Parameters
    ----------
    threshold
        Of the rejector.
    reference
        Scores of the time when all was well, from the same detector.
    against
        ``"knowns"``: compare with the reference's knowns alone, as if traffic held no
        unknowns. ``"all"``: with all of it, for a reference that looks like traffic.
    false_alarms
        Probability of an alarm per window if nothing has changed.

    References
    ----------
    Fisher, "The logic of inductive inference", J. Royal Statistical Society 1935;
    Hodges, "The significance probability of the Smirnov two-sample test", Arkiv för
    Matematik 1958.

    Examples
    --------
    >>> from openset import thresholds
    >>> known = np.arange(40.0)
    >>> reference = Scores(labels=[0] * 40, predicted=[0] * 40, known=known)
    >>> watch = Watch(thresholds.at_tpr(reference, 0.95), reference)
    >>> watch.check(reference.with_known(known + 0.5)).is_alarm
    False
    >>> verdict = watch.check(reference.with_known(known - 20))
    >>> verdict.unknown_rate.new, verdict.is_alarm
    (0.55, True)
    """

    def __init__(
        self,
        threshold: Threshold,
        reference: Scores,
        *,
        against: Against = "knowns",
        false_alarms: float = 0.01,
    ) -> None:
        _check.one_of("Watch", "against", against, get_args(Against))
        _check.instance(
            "Watch",
            "threshold",
            threshold,
            Threshold,
            rule="a Threshold",
            remedy="Give that of the rejector: rejector.threshold",
        )
        _need_scores("Watch", "reference", reference)
        if against == "knowns":
            if reference.n_known == 0:
                msg = (
                    "Watch: undefined without known samples in the reference, got "
                    f"{len(reference)} unknown. Use against='all' if they are traffic"
                )
                raise UndefinedMetricError(msg)
            reference = reference.take(~reference.is_unknown)
        self._compare(
            threshold,
            np.sort(reference.known),
            rejected=_count(threshold, reference),
            n=len(reference),
            false_alarms=false_alarms,
        )

    @classmethod
    def of(cls, rejector: "Rejector", *, false_alarms: float = 0.01) -> Self:
        """Compare with the calibration knowns, as far as a rejector remembers them.

        It keeps how many were rejected, and up to 1025 evenly spaced quantiles of their
        knownness. Of at most 1025 knowns these are all of them, and the verdicts are
        those of the scores themselves. Of more, the second test takes the quantiles for
        1025 samples: they lie nearer to the truth than samples would, so false alarms
        are rarer than stated, and small changes are found later than with the scores.

        Examples
        --------
        >>> from openset import Outputs, Rejector, detectors
        >>> known = Outputs(logits=np.diag(np.arange(1.0, 41)), labels=range(40))
        >>> rejector = Rejector.calibrate(
        ...     detectors.MaxLogit().fit(known), known=known, objective="at_tpr"
        ... )
        >>> new = rejector.decide(Outputs(logits=known.logits / 10))[1]
        >>> Watch.of(rejector).check(new).is_alarm
        True
        """
        if not hasattr(rejector, "reference"):  # a neighbour, not imported here
            rule, got = "a Rejector", type(rejector).__name__
            raise TypeError(
                _check.must(rule, caller="Watch.of", name="rejector", got=got)
            )
        n = rejector.threshold.n.known
        made = cls.__new__(cls)
        made._compare(
            rejector.threshold,
            rejector.reference["known"],
            rejected=round((1 - rejector.report.accepted_known) * n),
            n=n,
            false_alarms=false_alarms,
        )
        return made

    def _compare(
        self,
        threshold: Threshold,
        known: NDArray[np.float64],
        *,
        rejected: int,
        n: int,
        false_alarms: float,
    ) -> None:
        self.false_alarms = _check.number(
            "Watch",
            "false_alarms",
            false_alarms,
            low=0,
            high=1,
            open_low=True,
            open_high=True,
        )
        self._threshold = threshold
        self._known = known  # sorted
        self._rejected = rejected
        self._n = n

    def check(self, new: Scores, *, start: int = 0) -> Verdict:
        """Judge one window."""
        _need_scores("Watch.check", "new", new)
        self._check_size(len(new))
        return Verdict(
            start=start,
            n=len(new),
            unknown_rate=self._rate(_count(self._threshold, new), len(new)),
            knownness=self._distribution(new.known),
            false_alarms=self.false_alarms,
        )

    def stream(self, parts: Iterable[Scores], window: int) -> Iterator[Verdict]:
        """Judge a stream in windows of equal size, each as soon as it is full.

        Samples after the last full window are not judged.
        """
        self._check_size(_check.positive_int("Watch.stream", "window", window))
        start = 0
        rest: Scores | None = None
        for part in parts:
            _need_scores("Watch.stream", "a part", part)
            rest = _bare(part) if rest is None else Scores.concat([rest, _bare(part)])
            while rest is not None and len(rest) >= window:
                yield self.check(_rows(rest, 0, window), start=start)
                start += window
                rest = _rows(rest, window, None) if len(rest) > window else None

    def _rate(self, rejected: int, n: int) -> Finding:
        m, total = self._n, self._rejected + rejected
        law, size = scipy.stats.hypergeom, (m + n, total, n)
        tails = law.sf(rejected - 1, *size), law.cdf(rejected, *size)
        p_value = min(1.0, 2 * min(tails))
        reference, new = self._rejected / m, rejected / n
        return Finding(
            name="unknown rate",
            reference=reference,
            new=new,
            distance=new - reference,
            p_value=float(p_value),
            limit=self.false_alarms / 2,
            method="Fisher, exact",
        )

    def _distribution(self, known: NDArray[np.float64]) -> Finding:
        exact = self._known.size * known.size <= _MOST_PAIRS
        test = scipy.stats.ks_2samp(
            self._known, known, method="exact" if exact else "asymp"
        )
        return Finding(
            name="knownness",
            reference=_median(self._known),
            new=_median(known),
            # scipy's sign is that of F_reference - F_new: + if the new ones are larger
            distance=float(test.statistic * test.statistic_sign),
            p_value=float(test.pvalue),
            limit=self.false_alarms / 2,
            method=f"Kolmogorov-Smirnov, {'exact' if exact else 'limit law'}",
        )

    def _check_size(self, n: int) -> None:
        """Refuse windows so small that nothing in them could give alarm."""
        m = self._known.size
        # Two of all orders of the m + n samples are the most extreme: no overlap.
        least = log(2) + lgamma(n + 1) + lgamma(m + 1) - lgamma(m + n + 1)
        if least > log(self.false_alarms / 2):
            msg = _check.must(
                "large enough to give alarm at all",
                caller="Watch",
                name="window",
                got=f"{n} samples against {m} of the reference",
                remedy=f"Take longer windows, or more false alarms than "
                f"{self.false_alarms:g}",
            )
            raise ValueError(msg)


def _need_scores(caller: str, name: str, value: object) -> None:
    _check.instance(
        caller,
        name,
        value,
        Scores,
        rule="Scores",
        remedy="Score your outputs first: rejector.decide(outputs)[1]",
    )


def _count(threshold: Threshold, scores: Scores) -> int:
    return int(np.count_nonzero(threshold.decide(scores) == UNKNOWN))


def _plain(value: Any) -> Any:
    is_infinite = isinstance(value, float) and isinf(value)
    return str(value) if is_infinite else value


def _median(known: NDArray[np.float64]) -> float:
    # One of the data, not a mean of two: inf - inf is no number.
    return float(np.quantile(known, 0.5, method="higher"))


def _rows(scores: Scores, first: int, last: int | None) -> Scores:
    return scores.take(slice(first, last))  # type: ignore[arg-type]  # it takes slices


def _bare(scores: Scores) -> Scores:
    """Leave groups and class counts behind, which parts of a stream need not share."""
    return Scores(labels=scores.labels, predicted=scores.predicted, known=scores.known)
