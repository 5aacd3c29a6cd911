"""Windows of new samples, compared with reference samples.

Windows are compared by the share of rejected samples, by the distribution of knownness
and, if given, by the features. All tests are exact, so the rate of false alarms is
known.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from math import lgamma, log
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import scipy  # its submodules are imported on first use
from numpy.typing import NDArray

from openset import _check
from openset._types import UndefinedMetricError
from openset.metrics import Rates
from openset.scores import Scores
from openset.thresholds import Threshold, prevalence
from openset.watch.features import mmd, permutations_for
from openset.watch.verdict import Part, Verdict, WindowTest

if TYPE_CHECKING:
    from openset.rejector import Rejector

# The exact Kolmogorov-Smirnov test takes up to half a second for this many pairs. For
# more, the asymptotic p-value is accurate to three digits.
_MOST_PAIRS = 10**8

_FEWEST_ACCEPTED = 20  # fewer accepted samples do not show what the inputs are like


class Kept(NamedTuple):
    """What is kept of `n` reference samples; `known` may be quantiles of them."""

    known: NDArray[np.float64]  # sorted
    n: int
    n_rejected: int
    features: NDArray[Any] | None
    accepted: NDArray[Any] | None  # features of accepted samples


class Watch:
    r"""Compare windows of new samples with reference samples.

    *Unknown rate*: of m reference samples k are rejected at the threshold, of n new
    ones j. If all are drawn alike, then given j + k the number j is hypergeometric
    (Fisher's exact test),

    .. math:: P(J \ge j) = \sum_{i \ge j}
              \binom{n}{i} \binom{m}{j + k - i} \Big/ \binom{m + n}{j + k}

    and likewise for :math:`J \le j`; p is twice the smaller. *Knownness*: the
    two-sample Kolmogorov-Smirnov distance :math:`\sup_t |F_m(t) - F_n(t)|` with its
    exact distribution. *Features*, if there are any: the maximum mean discrepancy with
    random permutations (:func:`mmd`); it also finds changes that do not change the
    knownness. Each test gets its share of `false_alarms`: a half, or a third with
    features (Bonferroni).

    So a window drawn like the reference gives an alarm with probability at most
    `false_alarms`, for any distribution, ties included. This probability is over
    reference and window together: an unusual reference raises it for all windows
    compared with it; with a larger reference this is rarer. It holds if the threshold
    was chosen on other samples than the reference, or is a rank of the reference
    (``at_tpr``, ``conformal``), where the number of new samples below it has the same
    distribution. If the threshold was optimised on the reference itself (``osa``), the
    first test is not quite exact; the second does not depend on the threshold.

    What an alarm looks like is no test: if the features have changed, those of the
    accepted samples alone are compared. Samples of unknown classes are mostly rejected
    and leave them as they are; a change of the inputs does not.

    Parameters
    ----------
    threshold
        The threshold in operation.
    reference
        Scores of the same detector on samples from normal operation: the known ones
        are compared; all of them where no label says which are known.
    features
        Features of the reference samples, shape (m, d), to compare features as well.
    false_alarms
        Probability of an alarm per window if nothing has changed.
    rates
        Counts of decisions on the calibration samples (``rejector.report.rates``), to
        estimate the share of unknown samples.

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
    >>> verdict.unknown_rate.new, verdict.looks_like
    (0.55, 'unknown classes or changed inputs')
    """

    def __init__(
        self,
        threshold: Threshold,
        reference: Scores | Kept,
        *,
        features: NDArray[Any] | None = None,
        false_alarms: float = 0.01,
        rates: Rates | None = None,
    ) -> None:
        if not isinstance(reference, Kept):
            part = Part(reference, features).checked("Watch")
            if reference.n_known:
                part = part.take(~reference.is_unknown)
            known, accepted = part.scores.known, threshold.accepts(part.scores)
            rows = None if part.features is None else part.features[accepted]
            n_rejected = int(np.count_nonzero(~accepted))
            reference = Kept(
                np.sort(known), known.size, n_rejected, part.features, rows
            )
        self.false_alarms = _check.open_unit("Watch", "false_alarms", false_alarms)
        self._threshold, self._reference, self._rates = threshold, reference, rates
        self._limit = self.false_alarms / (2 if reference.features is None else 3)
        if reference.features is not None:
            permutations_for(self._limit)

    @classmethod
    def of(cls, rejector: "Rejector", *, false_alarms: float = 0.01) -> Self:
        """Compare with the known calibration samples of a rejector.

        A rejector keeps how many of them it rejected, and up to 1025 evenly spaced
        quantiles of their knownness. Up to 1025 known samples, these are all scores and
        the results are the same as with the scores. With more, the second test treats
        the quantiles as 1025 samples. They vary less than samples would, so false
        alarms are rarer than stated, and small changes are found later than with the
        scores.

        It also keeps the features of up to 256 of these samples, if the calibration had
        features.

        Examples
        --------
        >>> from openset import Outputs, Rejector, detectors
        >>> known = Outputs(logits=np.diag(np.arange(1.0, 41)), labels=range(40))
        >>> rejector = Rejector.calibrate(
        ...     detectors.MaxLogit().fit(known), known=known, objective="at_tpr"
        ... )
        >>> new = rejector.score(Outputs(logits=known.logits / 10))
        >>> Watch.of(rejector).check(new).is_alarm
        True
        """
        rates = rejector.report.rates
        n_rejected = rates.n_known - rates.n_accepted_known
        rows = rejector.reference.get("features")
        # Nearly all of the features are of accepted samples.
        kept = Kept(rejector.reference["known"], rates.n_known, n_rejected, rows, rows)
        return cls(rejector.threshold, kept, false_alarms=false_alarms, rates=rates)

    def check(
        self,
        new: Scores | Part,
        *,
        features: NDArray[Any] | None = None,
        start: int = 0,
    ) -> Verdict:
        """Test one window; also its features, if window and reference have them."""
        given = new if isinstance(new, Part) else Part(new, features)
        scores, rows, n_invalid = given.checked("Watch.check")
        self._check_size(len(scores))
        accepted = self._threshold.accepts(scores)
        n_rejected = int(np.count_nonzero(~accepted))
        rate = self._rate(n_rejected, len(scores))
        knownness = self._distribution(scores.known)
        drift, seen, share = None, "", None
        if rate.is_alarm or knownness.is_alarm:
            seen = "unknown classes or changed inputs"
            is_less_known = knownness.is_alarm and knownness.distance < 0
            if not (is_less_known or (rate.is_alarm and rate.distance > 0)):
                seen = "other known samples"
        if rows is not None and self._reference.features is not None:
            drift = self._discrepancy(self._reference.features, rows)
            seen = seen.removesuffix(" or changed inputs")
            if drift.is_alarm:
                seen = self._change(rows[accepted])
        if self._rates is not None and not (drift and drift.is_alarm):
            # Without unknown calibration samples, say, there is no such share.
            with suppress(UndefinedMetricError):
                share = prevalence(n_rejected, len(scores), self._rates)
        return Verdict(
            start=start,
            n=len(scores),
            unknown_rate=rate,
            knownness=knownness,
            false_alarms=self.false_alarms,
            features=drift,
            n_invalid=n_invalid,
            looks_like=seen,
            prevalence=share,
        )

    def stream(self, parts: Iterable[Scores | Part], window: int) -> Iterator[Verdict]:
        """Test a stream in windows of equal size, each as soon as it is full.

        Samples after the last full window are not tested. Features are compared in
        windows all parts of which have them. Invalid samples are counted with the
        window that their part fills.
        """
        self._check_size(_check.positive_int("Watch.stream", "window", window))
        start = 0
        waiting: list[Part] = []
        for given in parts:
            part = given if isinstance(given, Part) else Part(given)
            rest = Part.joined([*waiting, part.checked("Watch.stream")])
            n_full = len(rest.scores) // window * window
            for at in range(0, n_full, window):
                full = rest.take(slice(at, at + window))
                full = full._replace(n_invalid=0 if at else rest.n_invalid)
                yield self.check(full, start=start)
                start += window
            left = slice(n_full, None) if n_full < len(rest.scores) else None
            waiting = [] if left is None else [rest.take(left) if n_full else rest]

    def _rate(self, rejected: int, n: int) -> WindowTest:
        m, k = self._reference.n, self._reference.n_rejected
        law, size = scipy.stats.hypergeom, (m + n, k + rejected, n)
        tails = law.sf(rejected - 1, *size), law.cdf(rejected, *size)
        p_value, before, new = float(min(1.0, 2 * min(tails))), k / m, rejected / n
        found = before, new, new - before, p_value, self._limit
        return WindowTest("unknown rate", *found, "Fisher, exact")

    def _distribution(self, known: NDArray[np.float64]) -> WindowTest:
        both = self._reference.known, known
        method = "exact" if both[0].size * known.size <= _MOST_PAIRS else "asymptotic"
        test = scipy.stats.ks_2samp(*both, method=method[:5])
        # One of the scores, not a mean of two, which could be inf - inf.
        before, new = (float(np.quantile(x, 0.5, method="higher")) for x in both)
        # SciPy's sign is positive if the new scores are larger.
        distance = float(test.statistic * test.statistic_sign)
        found = before, new, distance, float(test.pvalue), self._limit
        return WindowTest("knownness", *found, f"Kolmogorov-Smirnov, {method}")

    def _discrepancy(self, before: NDArray[Any], new: NDArray[Any]) -> WindowTest:
        test = mmd(before, new, limit=self._limit)
        centre = before.mean(axis=0, dtype=np.float64)
        with np.errstate(over="ignore"):  # beyond all floats: inf
            far, now_far = (
                float(np.linalg.norm(x - centre, axis=1).mean()) for x in (before, new)
            )
        found = far, now_far, test.distance, test.p_value, self._limit
        method = f"MMD, {test.n_permutations} permutations"
        return WindowTest("features", *found, method)

    def _change(self, accepted: NDArray[Any]) -> str:
        """Say what changed features look like, by those of the accepted samples."""
        before = self._reference.accepted
        # If nearly all are rejected, nearly all samples are unlike the reference.
        if before is None or len(accepted) < _FEWEST_ACCEPTED:
            return "changed inputs"
        is_changed = mmd(before, accepted, limit=self._limit).p_value <= self._limit
        return "changed inputs" if is_changed else "unknown classes"

    def _check_size(self, n: int) -> None:
        """Refuse windows so small that they could never give an alarm."""
        m = self._reference.known.size
        # The smallest p-value: no overlap, 2 of all orders of m + n samples.
        least = log(2) + lgamma(n + 1) + lgamma(m + 1) - lgamma(m + n + 1)
        if least > log(self._limit):
            rule = "large enough for an alarm to be possible"
            got = f"{n} samples against {m} of the reference"
            remedy = f"Use larger ones, or more than {self.false_alarms:g} false alarms"
            _check.fail("Watch", "window", rule, got, remedy)
