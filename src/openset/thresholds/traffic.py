"""Unlabelled traffic: the share of unknown samples in it, and what that means."""

from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any

from openset import _check
from openset._types import UndefinedMetricError
from openset.metrics import Interval, Rates
from openset.metrics.intervals import wilson
from openset.thresholds.threshold import CONFIDENCE


@dataclass(frozen=True)
class Expected:
    """What to expect of a threshold if a given share of the samples is unknown.

    `rejected` is the share of all samples that are rejected; `unknown_precision` the
    share of these that are unknown; `accepted_precision` the share of the accepted ones
    that are known and of the right class. A precision is None where nothing is
    rejected, or accepted.
    """

    prevalence: float
    rejected: float
    unknown_precision: float | None
    accepted_precision: float | None


def at_prevalence(rates: Rates, prevalence: float) -> Expected:
    r"""Return what to expect if a share π of the samples is unknown.

    .. math:: P(\text{unknown} \mid \text{rejected}) = \frac{\pi\,\mathrm{URR}}
              {\pi\,\mathrm{URR} + (1 - \pi)(1 - \mathrm{TPR})}, \qquad
              P(\text{right} \mid \text{accepted}) = \frac{(1 - \pi)\,\mathrm{CCR}}
              {(1 - \pi)\,\mathrm{TPR} + \pi (1 - \mathrm{URR})}

    Parameters
    ----------
    rates
        Counts of decisions on labelled samples, e.g. ``threshold.rates(scores)`` or
        ``rejector.report.rates``.
    prevalence
        The share π of unknown samples.

    Examples
    --------
    2 % of the known samples are rejected and 90 % of the unknown ones. Of 1000 samples
    with 10 unknown ones, 29 are rejected: 9 unknown and 20 known.

    >>> rates = Rates(
    ...     n_known=500,
    ...     n_unknown=100,
    ...     n_correct=480,
    ...     n_accepted_known=490,
    ...     n_accepted_correct=475,
    ...     n_rejected_unknown=90,
    ... )
    >>> round(at_prevalence(rates, 0.01).unknown_precision, 2)
    0.31
    """
    caller = "thresholds.at_prevalence"
    share = float(_check.rate(caller, "prevalence", prevalence))
    unknown = share * rates.urr
    rejected = unknown + (1 - share) * (1 - rates.tpr)
    accepted = (1 - share) * rates.tpr + share * (1 - rates.urr)
    return Expected(
        prevalence=share,
        rejected=rejected,
        unknown_precision=unknown / rejected if rejected > 0 else None,
        accepted_precision=(1 - share) * rates.ccr / accepted if accepted > 0 else None,
    )


@dataclass(frozen=True)
class Prevalence:
    """An estimate of the share of unknown samples, with what follows from it.

    `interval` covers the randomness of the new samples and of the calibration samples.
    `expected` is what to expect at the estimate, `at_low` and `at_high` at the ends of
    the interval. `is_plausible` is False if significantly fewer samples are rejected
    than if none were unknown, or significantly more than if all were: then the samples
    are not like those of the calibration, and the estimate is meaningless.
    """

    value: float
    interval: Interval
    n: int
    n_rejected: int
    expected: Expected
    at_low: Expected
    at_high: Expected
    is_plausible: bool

    def __str__(self) -> str:
        if not self.is_plausible:
            return (
                f"{self.n_rejected / self.n:.1%} of the samples are rejected, which "
                "no share of unknowns like those of the calibration explains"
            )
        ends = self.interval
        text = (
            f"about {self.value:.1%} of the samples are unknown ({ends.low:.1%} to "
            f"{ends.high:.1%}), if they are like those of the calibration"
        )
        best, low, high = (
            one.unknown_precision for one in (self.expected, self.at_low, self.at_high)
        )
        if best is None or low is None or high is None:
            return text
        of_rejected = f"{best:.0%} are unknown ({low:.0%} to {high:.0%})"
        return f"{text}; of the rejected ones, {of_rejected}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def prevalence(
    n_rejected: int, n: int, rates: Rates, *, level: float = CONFIDENCE
) -> Prevalence:
    r"""Estimate the share of unknown samples among unlabelled ones.

    .. math:: \hat\pi = \frac{q - f}{u - f}, \quad \text{clipped to } [0, 1]

    where q is the share of the new samples that are rejected, f that of the known and u
    that of the unknown calibration samples (adjusted counts).

    The interval holds all π for which q and :math:`(1 - \pi) f + \pi u` do not differ
    beyond the randomness of all three shares, each with Wilson's interval (the method
    of Zou and Donner). It stays inside [0, 1] and is wide where f and u are close.

    **Assumptions.** Known and unknown samples in operation are drawn like those of the
    calibration; only their shares differ (label shift). The first can be tested with
    :mod:`openset.watch`, the second cannot: unknowns that are harder to reject than the
    surrogates are missed, and the estimate is too low. A threshold that was optimised
    on the same calibration samples rejects a little less well than f and u say.

    Parameters
    ----------
    n_rejected, n
        How many of the new samples are rejected, and how many there are.
    rates
        Counts of decisions on the calibration samples, e.g. ``rejector.report.rates``.
    level
        Confidence level of the interval.

    References
    ----------
    Rogan and Gladen, "Estimating prevalence from the results of a screening test",
    American Journal of Epidemiology 1978; Forman, "Quantifying counts and costs via
    classification", Data Mining and Knowledge Discovery 2008; Zou and Donner,
    "Construction of confidence limits about effect measures", Statistics in Medicine
    2008.

    Examples
    --------
    >>> rates = Rates(
    ...     n_known=500,
    ...     n_unknown=100,
    ...     n_correct=480,
    ...     n_accepted_known=490,
    ...     n_accepted_correct=475,
    ...     n_rejected_unknown=90,
    ... )
    >>> found = prevalence(64, 1000, rates)
    >>> round(found.value, 3), round(found.interval.low, 3)
    (0.05, 0.026)
    """
    caller = "thresholds.prevalence"
    n = _check.positive_int(caller, "n", n)
    n_rejected = _check.integer(caller, "n_rejected", n_rejected, low=0)
    if n_rejected > n:
        _check.fail(caller, "n_rejected", f"at most n = {n}", n_rejected)
    _check.open_unit(caller, "level", level)
    f, u = 1 - rates.tpr, rates.urr
    if u <= f:
        msg = (
            f"{caller}: undefined if unknown samples are rejected no more often than "
            f"known ones, got {u:.4g} and {f:.4g}. Use another threshold or detector"
        )
        raise UndefinedMetricError(msg)
    value = min(max((n_rejected / n - f) / (u - f), 0.0), 1.0)
    low, high, is_plausible = _ends(n_rejected, n, rates, level)
    # An estimate at a bound stays inside its interval, which may lie beyond.
    low, high = min(low, value), max(high, value)
    return Prevalence(
        value=value,
        interval=Interval(low, high, level, "adjusted counts, Zou and Donner"),
        n=n,
        n_rejected=n_rejected,
        expected=at_prevalence(rates, value),
        at_low=at_prevalence(rates, low),
        at_high=at_prevalence(rates, high),
        is_plausible=is_plausible,
    )


def _ends(
    n_rejected: int, n: int, rates: Rates, level: float
) -> tuple[float, float, bool]:
    r"""Return the ends of the interval, and whether it meets [0, 1].

    With d = u - f, and distances from each share to an end of its interval: to the
    lower end of π, those of q downwards and of f and u upwards; to the upper end the
    others. The end is where :math:`(q - f - d\pi)^2 = \Delta_q^2 + (1 - \pi)^2
    \Delta_f^2 + \pi^2 \Delta_u^2`: a quadratic in π.
    """
    counts = (
        (n_rejected, n),
        (rates.n_known - rates.n_accepted_known, rates.n_known),
        (rates.n_rejected_unknown, rates.n_unknown),
    )
    q, f, u = shares = [count / size for count, size in counts]
    spans = [wilson(count, size, level) for count, size in counts]
    below = [(x - span.low) ** 2 for x, span in zip(shares, spans, strict=True)]
    above = [(x - span.high) ** 2 for x, span in zip(shares, spans, strict=True)]
    low = _root(q - f, u - f, (below[0], above[1], above[2]), sign=-1)
    high = _root(q - f, u - f, (above[0], below[1], below[2]), sign=1)
    return max(low, 0.0), min(high, 1.0), low <= 1 and high >= 0


def _root(
    r: float, d: float, squares: tuple[float, float, float], *, sign: int
) -> float:
    of_q, of_f, of_u = squares
    a, half_b, c = d * d - of_f - of_u, of_f - r * d, r * r - of_q - of_f
    if a <= 0:  # f and u are not told apart: any share may be
        return 0.0 if sign < 0 else 1.0
    # At the estimate the left side is 0, the right side is not negative: it has roots.
    return (-half_b + sign * sqrt(max(half_b * half_b - a * c, 0.0))) / a
