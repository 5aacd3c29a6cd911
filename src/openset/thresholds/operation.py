"""Operational open-set accuracy: calibrated threshold, test samples."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from openset import _check
from openset.metrics import Interval, Rates, osa_optimum
from openset.metrics.counts import ALPHA, Alpha, weight_of
from openset.scores import Scores, need_both_sides
from openset.thresholds.kinds import ByGroup, by_group
from openset.thresholds.objectives import osa
from openset.thresholds.threshold import CONFIDENCE, Threshold, of_osa


@dataclass(frozen=True, eq=False)
class Operation:
    """What a threshold achieves on test samples it was not chosen on.

    `oosa` is the operational open-set accuracy, `interval` its confidence interval;
    `oracle` is the best that any threshold achieves on the same test samples, and `gap`
    the difference between the two. `alpha_calibration` and `alpha_test` are the weights
    of the known samples used to choose and to report. `groups` has one row per group of
    unknowns.
    """

    threshold: Threshold
    oosa: float
    interval: Interval
    oracle: float
    gap: float
    alpha_calibration: float | None
    alpha_test: float
    ccr: float
    urr: float
    groups: tuple[dict[str, Any], ...]

    def __repr__(self) -> str:
        return (
            f"Operation(oosa={self.oosa:.4f}, oracle={self.oracle:.4f}, "
            f"gap={self.gap:.4f}, alpha {self.alpha_calibration} in calibration "
            f"and {self.alpha_test:g} in the test, threshold {self.threshold})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers."""
        ends = {"low": self.interval.low, "high": self.interval.high}
        names = ["oracle", "gap", "alpha_calibration", "alpha_test", "ccr", "urr"]
        rest = {name: getattr(self, name) for name in names}
        last = {"threshold": self.threshold.value, "groups": list(self.groups)}
        return {"oosa": self.oosa, **ends, **rest, **last}


def operate(
    calibration: Scores | Threshold,
    test: Scores,
    *,
    alpha: Alpha | None = None,
    alpha_test: Alpha | None = None,
    level: float = CONFIDENCE,
) -> Operation:
    r"""Apply a threshold that was chosen on calibration scores to the test scores.

    .. math:: \mathrm{OOSA} = \mathrm{OSA}_{\text{test}}(\theta^*_{\text{calibration}})

    Test samples the threshold was chosen on are refused
    (:meth:`Threshold.check_disjoint`).

    Parameters
    ----------
    calibration
        A threshold, or known validation samples and surrogate unknowns: :func:`osa`
        chooses on them.
    test
        Scores of the same detector on other samples.
    alpha
        Weight of the known samples, to choose and to report; by default that of the
        threshold, else 0.5. ``"counts"``: the share of known samples in each of the two
        sets.
    alpha_test
        Weight to report with, where it differs from `alpha`.
    level
        Confidence level of the intervals.

    References
    ----------
    Cruz et al., "Operational open-set recognition and PostMax refinement", ECCV 2024.

    Examples
    --------
    >>> calibration = Scores(labels=[0, -1], predicted=[0, 0], known=[2.0, 1.0])
    >>> test = Scores(labels=[0, 0, -1], predicted=[0, 0, 0], known=[3.0, 1.5, 1.0])
    >>> done = operate(calibration, test)
    >>> done.oosa, done.oracle, done.gap
    (0.75, 1.0, 0.25)
    """
    caller = "thresholds.operate"
    if calibration is test:
        rule, got = "other samples than test", "the same object"
        remedy = "A threshold chosen on the test set gives the oracle: osa_optimum"
        _check.fail(caller, "calibration", rule, got, remedy)
    need_both_sides(caller, test)
    threshold = calibration
    if not isinstance(threshold, Threshold):
        threshold = osa(threshold, ALPHA if alpha is None else alpha)
    threshold.check_disjoint(test, caller=caller)
    given = (alpha_test, alpha, threshold.alpha, ALPHA)
    weight = next(one for one in given if one is not None)
    share = float(weight_of(caller, weight, test.n_known, test.n_unknown))
    rates = threshold.rates(test)
    oosa, best = rates.osa(share), osa_optimum(test, alpha=share).value
    return Operation(
        threshold=threshold,
        oosa=oosa,
        interval=of_osa(rates, share, level),
        oracle=best,
        # rounding in the last digit must not make the oracle lose
        gap=max(best - oosa, 0.0),
        alpha_calibration=threshold.alpha,
        alpha_test=share,
        ccr=rates.ccr,
        urr=rates.urr,
        groups=tuple(_of_groups(by_group(test, share), threshold, rates, level)),
    )


def _of_groups(
    table: ByGroup, threshold: Threshold, rates: Rates, level: float
) -> Iterator[dict[str, Any]]:
    for row, of_group, oracle in table.rows(rates, threshold.value):
        oosa, interval = of_group.osa(table.alpha), of_osa(of_group, table.alpha, level)
        ends = {"low": interval.low, "high": interval.high}
        of_oracle = {"oracle": oracle, "gap": max(oracle - oosa, 0.0)}
        yield row | {"oosa": oosa} | ends | of_oracle
