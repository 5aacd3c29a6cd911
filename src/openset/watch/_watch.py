"""Windows of new samples, compared with reference samples.

Windows are compared by the share of rejected samples, by the distribution of knownness
and, if given, by the features. All tests are exact, so the rate of false alarms is
known.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from math import isinf, lgamma, log
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, get_args

import numpy as np
import scipy  # its submodules are imported on first use
from numpy.typing import NDArray

from openset import _check
from openset._types import UndefinedMetricError
from openset.scores import Scores
from openset.thresholds import Threshold
from openset.watch._mmd import mmd, permutations_for

if TYPE_CHECKING:
    from openset.rejector import Rejector

Against = Literal["knowns", "all"]

# The exact Kolmogorov-Smirnov test takes up to half a second for this many pairs. For
# more, the asymptotic p-value is accurate to three digits.
_MOST_PAIRS = 10**8


class Part(NamedTuple):
    """Samples of a stream: their scores and, to compare them, their features.

    `n_invalid` samples of the stream were invalid: they have no scores, are counted,
    and not compared.
    """

    scores: Scores
    features: NDArray[Any] | None = None
    n_invalid: int = 0


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

    def __str__(self) -> str:
        verdict = "ALARM" if self.is_alarm else "ok"
        return (
            f"{self.name}: {self.new:.4g}, in the reference {self.reference:.4g}, "
            f"distance {self.distance:+.4g}, p = {self.p_value:.2g} ({self.method}): "
            f"{verdict}"
        )


@dataclass(frozen=True)
class Verdict:
    """The tests of one window of `n` samples, the first of which has index `start`.

    `n_invalid` more were invalid; they are not among the `n`, and not compared.
    """

    start: int
    n: int
    unknown_rate: WindowTest
    knownness: WindowTest
    false_alarms: float
    features: WindowTest | None = None
    n_invalid: int = 0

    @property
    def tests(self) -> tuple[WindowTest, ...]:
        """All tests that were made."""
        made = (self.unknown_rate, self.knownness, self.features)
        return tuple(test for test in made if test is not None)

    @property
    def is_alarm(self) -> bool:
        """Whether any test gives an alarm."""
        return any(test.is_alarm for test in self.tests)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; ±inf become text."""
        document = {"alarm": self.is_alarm, **asdict(self)}
        for test in ("unknown_rate", "knownness", "features"):
            if document[test] is not None:
                document[test] = {n: _plain(v) for n, v in document[test].items()}
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

    Parameters
    ----------
    threshold
        The threshold in operation.
    reference
        Scores of the same detector on samples from normal operation.
    features
        Features of the reference samples, shape (m, d), to compare features as well.
    against
        ``"knowns"``: compare with the known samples of the reference only. ``"all"``:
        with all samples, if the reference contains unknowns as operation does.
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
        features: NDArray[Any] | None = None,
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
            remedy="Give the threshold of the rejector: rejector.threshold",
        )
        _need_scores("Watch", "reference", reference)
        features = _features("Watch", features, len(reference))
        if against == "knowns":
            if reference.n_known == 0:
                msg = (
                    "Watch: undefined without known samples in the reference, got "
                    f"{len(reference)} unknown. Use against='all' if they are samples "
                    "from operation"
                )
                raise UndefinedMetricError(msg)
            if features is not None:
                features = features[~reference.is_unknown]
            reference = reference.take(~reference.is_unknown)
        self._compare(
            threshold,
            np.sort(reference.known),
            rejected=threshold.rates(reference).n_rejected,
            n=len(reference),
            features=features,
            false_alarms=false_alarms,
        )

    @classmethod
    def of(
        cls, rejector: "Rejector", *, features: bool = True, false_alarms: float = 0.01
    ) -> Self:
        """Compare with the known calibration samples of a rejector.

        A rejector keeps how many of them it rejected, and up to 1025 evenly spaced
        quantiles of their knownness. Up to 1025 known samples, these are all scores and
        the results are the same as with the scores. With more, the second test treats
        the quantiles as 1025 samples. They vary less than samples would, so false
        alarms are rarer than stated, and small changes are found later than with the
        scores.

        It also keeps the features of up to 256 of these samples, if the calibration had
        features; `features` says whether to compare them.

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
        if not hasattr(rejector, "reference"):  # its module may not be imported
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
            features=rejector.reference_features if features else None,
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
        features: NDArray[Any] | None,
        false_alarms: float,
    ) -> None:
        self.false_alarms = _check.open_unit("Watch", "false_alarms", false_alarms)
        self._threshold = threshold
        self._known = known  # sorted
        self._rejected = rejected
        self._n = n
        self._features = features
        self._limit = self.false_alarms / (2 if features is None else 3)
        if features is not None:
            permutations_for("Watch", self._limit)

    def check(
        self,
        new: Scores,
        *,
        features: NDArray[Any] | None = None,
        start: int = 0,
        n_invalid: int = 0,
    ) -> Verdict:
        """Test one window; also its features, if window and reference have them.

        `n_invalid` samples that came with them have no scores: they are only counted.
        """
        _need_scores("Watch.check", "new", new)
        self._check_size(len(new))
        features = _features("Watch.check", features, len(new))
        return Verdict(
            start=start,
            n=len(new),
            unknown_rate=self._rate(self._threshold.rates(new).n_rejected, len(new)),
            knownness=self._distribution(new.known),
            false_alarms=self.false_alarms,
            features=self._discrepancy(features),
            n_invalid=n_invalid,
        )

    def stream(self, parts: Iterable[Scores | Part], window: int) -> Iterator[Verdict]:
        """Test a stream in windows of equal size, each as soon as it is full.

        Samples after the last full window are not tested. Features are compared in
        windows all parts of which have them. Invalid samples are counted with the
        window that their part fills.
        """
        self._check_size(_check.positive_int("Watch.stream", "window", window))
        start = 0
        rest: Part | None = None
        for given in parts:
            part = given if isinstance(given, Part) else Part(given)
            _need_scores("Watch.stream", "a part", part.scores)
            features = _features("Watch.stream", part.features, len(part.scores))
            part = Part(_bare(part.scores), features, part.n_invalid)
            rest = part if rest is None else _joined(rest, part)
            while rest is not None and len(rest.scores) >= window:
                full = _rows(rest, 0, window)
                yield self.check(
                    full.scores,
                    features=full.features,
                    start=start,
                    n_invalid=full.n_invalid,
                )
                start += window
                is_more = len(rest.scores) > window
                rest = _rows(rest, window, None) if is_more else None

    def _rate(self, rejected: int, n: int) -> WindowTest:
        m, total = self._n, self._rejected + rejected
        law, size = scipy.stats.hypergeom, (m + n, total, n)
        tails = law.sf(rejected - 1, *size), law.cdf(rejected, *size)
        p_value = min(1.0, 2 * min(tails))
        reference, new = self._rejected / m, rejected / n
        return WindowTest(
            name="unknown rate",
            reference=reference,
            new=new,
            distance=new - reference,
            p_value=float(p_value),
            limit=self._limit,
            method="Fisher, exact",
        )

    def _distribution(self, known: NDArray[np.float64]) -> WindowTest:
        exact = self._known.size * known.size <= _MOST_PAIRS
        test = scipy.stats.ks_2samp(
            self._known, known, method="exact" if exact else "asymp"
        )
        return WindowTest(
            name="knownness",
            reference=_median(self._known),
            new=_median(known),
            # scipy's sign is that of F_reference - F_new: positive if the new scores
            # are larger
            distance=float(test.statistic * test.statistic_sign),
            p_value=float(test.pvalue),
            limit=self._limit,
            method=f"Kolmogorov-Smirnov, {'exact' if exact else 'asymptotic'}",
        )

    def _discrepancy(self, features: NDArray[Any] | None) -> WindowTest | None:
        if features is None or self._features is None:
            return None
        test = mmd(self._features, features, limit=self._limit)
        centre = self._features.mean(axis=0, dtype=np.float64)
        return WindowTest(
            name="features",
            reference=_spread(self._features, centre),
            new=_spread(features, centre),
            distance=test.distance,
            p_value=test.p_value,
            limit=self._limit,
            method=f"MMD, {test.n_permutations} permutations",
        )

    def _check_size(self, n: int) -> None:
        """Refuse windows so small that they could never give an alarm."""
        m = self._known.size
        # The smallest p-value: no overlap, 2 of all orders of m + n samples.
        least = log(2) + lgamma(n + 1) + lgamma(m + 1) - lgamma(m + n + 1)
        if least > log(self._limit):
            msg = _check.must(
                "large enough for an alarm to be possible",
                caller="Watch",
                name="window",
                got=f"{n} samples against {m} of the reference",
                remedy="Use larger windows, or allow more false alarms than "
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
        remedy="Score your outputs first: rejector.score(outputs)",
    )


def _plain(value: Any) -> Any:
    is_infinite = isinstance(value, float) and isinf(value)
    return str(value) if is_infinite else value


def _median(known: NDArray[np.float64]) -> float:
    # One of the scores, not a mean of two, which could be inf - inf.
    return float(np.quantile(known, 0.5, method="higher"))


def _features(caller: str, values: Any, n: int) -> NDArray[Any] | None:
    if values is None:
        return None
    _check.unmasked(caller, "features", values)
    given = np.asarray(values)
    if given.ndim != 2 or len(given) != n:
        rule = f"one row per sample, {n}"
        got = f"shape {given.shape}"
        raise ValueError(_check.must(rule, caller=caller, name="features", got=got))
    return _check.owned(given, values)  # a stream may fill one array again and again


def _spread(features: NDArray[Any], centre: NDArray[np.float64]) -> float:
    with np.errstate(over="ignore"):  # beyond all floats: inf
        return float(np.linalg.norm(features - centre, axis=1).mean())


def _rows(part: Part, first: int, last: int | None) -> Part:
    rows = slice(first, last)
    return Part(
        part.scores.take(rows),  # type: ignore[arg-type]  # it takes slices
        None if part.features is None else part.features[rows],
        0 if first else part.n_invalid,
    )


def _joined(one: Part, other: Part) -> Part:
    features = None
    if one.features is not None and other.features is not None:
        features = np.concatenate([one.features, other.features])
    n_invalid = one.n_invalid + other.n_invalid
    return Part(Scores.concat([one.scores, other.scores]), features, n_invalid)


def _bare(scores: Scores) -> Scores:
    """Drop groups and class counts: parts of a stream may differ in them."""
    return Scores(labels=scores.labels, predicted=scores.predicted, known=scores.known)
