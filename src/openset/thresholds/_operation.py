"""Operational open-set accuracy: calibrated threshold, test samples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.metrics import Interval, OSACurve, Rates, osa_curve, osa_optimum
from openset.metrics.counts import ranking_counts
from openset.metrics.curves import optimum
from openset.scores import Scores, need_scores
from openset.thresholds._objectives import Objective, choose_by
from openset.thresholds._report import ALPHAS
from openset.thresholds._threshold import Threshold
from openset.thresholds.alpha import Alpha, weight_of
from openset.thresholds.intervals import of_osa
from openset.thresholds.table import Table

TOGETHER = "together"
"""The row of :func:`sweep_surrogate` for all surrogates at once."""


@dataclass(frozen=True)
class Point:
    """A point on the curve of open-set accuracy over unknown rejection rate."""

    urr: float
    osa: float
    threshold: float


@dataclass(frozen=True, eq=False)
class Operation:
    """What a threshold achieves on test samples it was not chosen on.

    `oosa` is the operational open-set accuracy, `interval` its confidence interval;
    `oracle` is the best that any threshold achieves on the same test samples, and `gap`
    the difference between the two. `alpha_calibration` and `alpha_test` are the weights
    of the known samples used to choose and to report. `groups` has one row per group of
    unknowns. `curve` holds all thresholds (plot ``osa`` over ``urr``); `operational`
    and `best` are the points of this threshold and of the oracle.
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
    operational: Point
    best: Point
    curve: OSACurve
    groups: Table

    def __repr__(self) -> str:
        return (
            f"Operation(oosa={self.oosa:.4f}, oracle={self.oracle:.4f}, "
            f"gap={self.gap:.4f}, alpha {self.alpha_calibration} in calibration "
            f"and {self.alpha_test:g} in the test, threshold {self.threshold})"
        )

    def figure(self) -> Table:
        """Return the points of OSA over URR: ``kind`` is curve, operational or best.

        With thresholds per class, the curve is that of the margins
        (:meth:`Threshold.cut`).
        """
        rows: list[dict[str, Any]] = [
            {"kind": "curve", "threshold": t, "urr": u, "osa": o}
            for t, u, o in zip(
                self.curve.thresholds.tolist(),
                self.curve.urr.tolist(),
                self.curve.osa.tolist(),
                strict=True,
            )
        ]
        for kind, point in (("operational", self.operational), ("best", self.best)):
            rows.append(
                {
                    "kind": kind,
                    "threshold": point.threshold,
                    "urr": point.urr,
                    "osa": point.osa,
                }
            )
        return Table(tuple(rows))

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, without the curve."""
        return {
            "oosa": self.oosa,
            "low": self.interval.low,
            "high": self.interval.high,
            "oracle": self.oracle,
            "gap": self.gap,
            "alpha_calibration": self.alpha_calibration,
            "alpha_test": self.alpha_test,
            "ccr": self.ccr,
            "urr": self.urr,
            "threshold": self.threshold.value,
            "groups": list(self.groups),
        }


def operate(
    calibration: Scores | Threshold,
    test: Scores,
    *,
    objective: Objective = "osa",
    alpha: Alpha = None,
    alpha_test: Alpha = None,
    **options: Any,
) -> Operation:
    r"""Choose a threshold on calibration scores and apply it to the test scores.

    .. math:: \mathrm{OOSA} = \mathrm{OSA}_{\text{test}}(\theta^*_{\text{calibration}})

    Test samples the threshold was chosen on are refused
    (:meth:`Threshold.check_disjoint`).

    Parameters
    ----------
    calibration
        Known validation samples and surrogate unknowns, or a threshold chosen on them.
    test
        Scores of the same detector on other samples.
    objective
        One of :func:`objectives`, or a function from scores to a threshold.
    alpha
        Weight of the known samples, to choose and to report; by default that of the
        threshold, else 0.5. ``"counts"``: the share of known samples in each of the two
        sets.
    alpha_test
        Weight to report with, where it differs from `alpha`.
    **options
        Passed to the objective.

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
        msg = _check.must(
            "other samples than test",
            caller=caller,
            name="calibration",
            got="the same object",
            remedy="A threshold chosen on the test set gives the oracle: "
            "metrics.osa_optimum",
        )
        raise ValueError(msg)
    need_scores(caller, test)
    _check.both_sides(caller, test.n_known, test.n_unknown)
    threshold = (
        calibration
        if isinstance(calibration, Threshold)
        else choose_by(
            objective, calibration, caller=caller, alpha=alpha, options=options
        )
    )
    threshold.check_disjoint(test, caller=caller)
    weight = alpha if alpha_test is None else alpha_test
    weight = threshold.alpha if weight is None else weight
    return _applied(threshold, test, float(weight_of(caller, weight, test)))


def _applied(threshold: Threshold, test: Scores, alpha: float) -> Operation:
    cut, value = threshold.cut(test)
    accepted = threshold.accepts(test)
    rates = Rates.of(test, accepted)
    oosa = rates.osa(alpha)
    counts = ranking_counts(cut)
    best = optimum(counts, alpha=alpha)
    return Operation(
        threshold=threshold,
        oosa=oosa,
        interval=of_osa(rates, alpha),
        oracle=best.value,
        # rounding in the last digit must not make the oracle lose
        gap=max(best.value - oosa, 0.0),
        alpha_calibration=threshold.alpha,
        alpha_test=alpha,
        ccr=rates.ccr,
        urr=rates.urr,
        operational=Point(rates.urr, oosa, value),
        best=Point(counts.rates(best.threshold).urr, best.value, best.threshold),
        curve=osa_curve(cut, alpha=alpha),
        groups=_groups(cut, accepted, alpha, rates),
    )


def _groups(
    cut: Scores, accepted: NDArray[np.bool_], alpha: float, rates: Rates
) -> Table:
    groups = cut.unknown_groups
    rows_of_unknowns = np.flatnonzero(cut.is_unknown)
    known = np.flatnonzero(~cut.is_unknown)
    rows = []
    for i, name in enumerate(groups.names):
        mine = rows_of_unknowns[groups.index == i]
        of_group = rates.against(
            n_unknown=mine.size,
            n_rejected_unknown=int(np.count_nonzero(~accepted[mine])),
        )
        oosa, interval = of_group.osa(alpha), of_osa(of_group, alpha)
        best = osa_optimum(cut.take(np.concatenate([known, mine])), alpha=alpha)
        rows.append(
            {
                "group": name,
                "n": of_group.n_unknown,
                "urr": of_group.urr,
                "oosa": oosa,
                "low": interval.low,
                "high": interval.high,
                "oracle": best.value,
                "gap": max(best.value - oosa, 0.0),
            }
        )
    return Table(tuple(rows))


def sweep_alpha(
    calibration: Scores,
    test: Scores,
    *,
    alphas: Sequence[float] = ALPHAS,
    alpha_test: Alpha = None,
    objective: Objective = "osa",
    **options: Any,
) -> Table:
    """Report how the result changes if the share of known samples is misjudged.

    The threshold is chosen with each weight in turn; its result is always reported with
    the same `alpha_test`, by default 0.5.

    Examples
    --------
    >>> calibration = Scores(labels=[0, -1], predicted=[0, 0], known=[1.0, 2.0])
    >>> test = Scores(labels=[0, -1], predicted=[0, 0], known=[1.1, 1.9])
    >>> table = sweep_alpha(calibration, test, alphas=(0.1, 0.9))
    >>> table.column("threshold").tolist(), table.column("urr").tolist()
    ([inf, 1.0], [1.0, 0.0])
    """
    weight = float(weight_of("thresholds.sweep_alpha", alpha_test, test))
    rows = []
    for alpha in alphas:
        done = operate(
            calibration,
            test,
            objective=objective,
            alpha=float(alpha),
            alpha_test=weight,
            **options,
        )
        rows.append({"alpha": float(alpha), **_summary(done)})
    return Table(tuple(rows))


def sweep_surrogate(
    known: Scores,
    surrogates: Scores | Mapping[str, Scores],
    test: Scores,
    *,
    alpha: Alpha = None,
    objective: Objective = "osa",
    **options: Any,
) -> Table:
    """Report how the result depends on the surrogate unknowns.

    One row per surrogate alone, and one for all of them together; each is calibrated
    with `known` and applied to the same test set. A surrogate that is too easy gives a
    low threshold and a large gap.

    Parameters
    ----------
    known
        Known validation samples.
    surrogates
        Unknowns with groups (each group is a surrogate), or named sets of unknowns.
    test
        Scores to report on.
    alpha, objective, **options
        As in :func:`operate`.
    """
    if isinstance(surrogates, Scores):
        groups = surrogates.unknown_groups
        unknowns = surrogates.take(surrogates.is_unknown)
        surrogates = {
            name: unknowns.take(groups.index == i)
            for i, name in enumerate(groups.names)
        }
    sets = {name: _grouped(part, name) for name, part in surrogates.items()}
    if len(sets) > 1 and TOGETHER in sets:
        msg = _check.must(
            f"other than {TOGETHER!r}, which names the row of all surrogates",
            caller="thresholds.sweep_surrogate",
            name="names of surrogates",
            got=", ".join(map(str, sets)),
        )
        raise ValueError(msg)
    if len(sets) > 1:
        sets[TOGETHER] = Scores.concat(list(sets.values()))
    rows = []
    for name, unknown in sets.items():
        calibration = Scores.concat([_grouped(known, ""), unknown])
        done = operate(calibration, test, objective=objective, alpha=alpha, **options)
        rows.append({"surrogate": name, "n": unknown.n_unknown, **_summary(done)})
    return Table(tuple(rows))


def _grouped(scores: Scores, name: str) -> Scores:
    return Scores(
        labels=scores.labels,
        predicted=scores.predicted,
        known=scores.known,
        groups=np.full(len(scores), name),
        n_classes=scores.n_classes,
    )


def _summary(done: Operation) -> dict[str, Any]:
    return {
        "alpha_calibration": done.alpha_calibration,
        "threshold": done.threshold.value,
        "ccr": done.ccr,
        "urr": done.urr,
        "oosa": done.oosa,
        "low": done.interval.low,
        "high": done.interval.high,
        "oracle": done.oracle,
        "gap": done.gap,
    }
