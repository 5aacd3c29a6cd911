"""OSCR and ROC curves: rates of accepted known samples over accepted unknown ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from openset.metrics import auroc, openauc, oscr_curve
from openset.report._chart import Chart, Floats, Line
from openset.report._display import (
    Brief,
    Display,
    area_text,
    banded,
    last_within,
    stacked,
    with_repeats,
)
from openset.scores import Scores

PLACES = (0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
"""False positive rates shown in the short tables next to the curves."""


_POINTS = 501  # of a curve that is a mean over repeats

Repeated: TypeAlias = Scores | Sequence[Scores]
"""Scores of one run, or of several repeats."""


def oscr(
    scores: Repeated | Mapping[str, Repeated], *, log_fpr: bool = False
) -> Display:
    r"""Show the open-set classification rate curve: CCR over FPR.

    Parameters
    ----------
    scores
        One `Scores`, or several by name. Instead of one, a list of repeats (seeds): the
        curve is their mean at each FPR, with a band of one standard deviation.
    log_fpr
        Draw the FPR on a logarithmic axis, as papers do that look at few false
        positives.

    References
    ----------
    Dhamija, Günther and Boult, "Reducing network agnostophobia", NeurIPS 2018.

    Examples
    --------
    >>> one = Scores(labels=[0, 0, -1], predicted=[0, 0, 0], known=[0.9, 0.1, 0.5])
    >>> oscr({"msp": one}).columns["ccr"]
    array([0. , 0.5, 0.5, 1. ])
    """
    table = with_repeats("report.oscr", scores)
    areas = {name: area_text("OpenAUC", openauc, own) for name, own in table.items()}
    label = "correct classification rate"
    return _display("OSCR", "ccr", label, table, areas, log_fpr=log_fpr)


def roc(scores: Repeated | Mapping[str, Repeated], *, log_fpr: bool = False) -> Display:
    r"""Show the ROC curve of known against unknown: TPR over FPR, ignoring classes.

    Parameters
    ----------
    scores
        One `Scores`, or several by name; or lists of repeats, as for :func:`oscr`.
    log_fpr
        Draw the FPR on a logarithmic axis.

    Examples
    --------
    >>> one = Scores(labels=[0, 0, -1], predicted=[1, 0, 0], known=[0.9, 0.1, 0.5])
    >>> roc(one).columns["tpr"]
    array([0. , 0.5, 0.5, 1. ])
    """
    table = with_repeats("report.roc", scores)
    areas = {name: area_text("AUROC", auroc, own) for name, own in table.items()}
    # ROC is OSCR of a classifier that classifies every known sample correctly.
    all_correct = {
        name: [
            replace(one, predicted=np.where(one.is_unknown, one.predicted, one.labels))
            for one in own
        ]
        for name, own in table.items()
    }
    label = "true positive rate: known samples accepted"
    return _display("ROC", "tpr", label, all_correct, areas, log_fpr=log_fpr)


@dataclass(frozen=True, eq=False)
class _Curve:
    """Rates over FPR; of repeats, their mean and standard deviation."""

    fpr: Floats
    rate: Floats
    spread: Floats | None = None
    thresholds: Floats | None = None


def _curve(repeats: Sequence[Scores], grid: Floats) -> _Curve:
    curves = [oscr_curve(one) for one in repeats]
    if len(curves) == 1:
        (one,) = curves
        return _Curve(one.fpr, one.ccr, thresholds=one.thresholds)
    # Of several points at one FPR the highest counts: np.interp takes the last.
    rates = np.array([np.interp(grid, one.fpr, one.ccr) for one in curves])
    return _Curve(grid, rates.mean(axis=0), rates.std(axis=0, ddof=1))


def _display(
    title: str,
    rate: str,
    label: str,
    table: Mapping[str, Sequence[Scores]],
    areas: Mapping[str, str],
    *,
    log_fpr: bool,
) -> Display:
    most = max(one.n_unknown for own in table.values() for one in own)
    low = min(0.1, 10.0 ** np.floor(np.log10(1 / most))) if log_fpr else 0.0
    grid = np.geomspace(low, 1, _POINTS) if log_fpr else np.linspace(0, 1, _POINTS)
    curves = {name: _curve(own, grid) for name, own in table.items()}
    chart = Chart(
        x_label="false positive rate: unknown samples accepted",
        y_label=label,
        lines=tuple(
            _line(f"{areas[name]}  {name}".rstrip(), curve, low, colour=i)
            for i, (name, curve) in enumerate(curves.items())
        ),
        x_limits=(low, 1.0),
        y_limits=(0.0, 1.0),
        x_scale="log" if log_fpr else "linear",
    )
    rows = tuple(
        (
            f"{place:g}",
            *(last_within(curve.fpr, curve.rate, place) for curve in curves.values()),
        )
        for place in PLACES
        if place >= low
    )
    return Display(
        title=title,
        columns=stacked(_columns(rate, table, curves)),
        charts=(chart,),
        brief=Brief(
            header=("FPR at most", *(name or rate.upper() for name in curves)),
            rows=rows,
        ),
    )


def _line(name: str, curve: _Curve, low: float, *, colour: int) -> Line:
    x, y, spread = curve.fpr, curve.rate, curve.spread
    if low > 0:  # a logarithmic axis begins there, not at 0
        kept = x > low
        y = np.append(np.interp(low, x, y), y[kept])
        if spread is not None:
            spread = np.append(np.interp(low, x, spread), spread[kept])
        x = np.append(low, x[kept])
    return banded(name, x, y, spread, colour=colour)


def _columns(
    rate: str, table: Mapping[str, Sequence[Scores]], curves: Mapping[str, _Curve]
) -> dict[str, dict[str, Any]]:
    if all(curve.thresholds is not None for curve in curves.values()):
        return {
            name: {"threshold": curve.thresholds, "fpr": curve.fpr, rate: curve.rate}
            for name, curve in curves.items()
        }
    return {
        name: {
            "fpr": curve.fpr,
            rate: curve.rate,
            "spread": np.full(curve.fpr.size, np.nan)
            if curve.spread is None
            else curve.spread,
            "n": np.full(curve.fpr.size, len(table[name])),
        }
        for name, curve in curves.items()
    }
