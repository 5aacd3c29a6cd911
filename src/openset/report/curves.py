"""Displays of curves over all thresholds: OSCR, ROC, risk over coverage."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.metrics import aurc, auroc, openauc
from openset.metrics.curves import oscr_curve
from openset.metrics.selective import risk_coverage_curve
from openset.report.display import (
    Brief,
    Display,
    label,
    line,
    stacked,
)
from openset.scores import Scores, need_both_sides

Repeated: TypeAlias = Scores | Sequence[Scores]
"""Scores of one run, or of several repeats."""

# Places of the short tables beside the curves.
_FPRS = (0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
_COVERAGES = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)

_POINTS = 501  # of a curve that is a mean over repeats


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
    table = _repeats("report.oscr", scores)
    shown = "correct classification rate"
    return _rates("OSCR", "ccr", shown, "OpenAUC", openauc, table, log_fpr)


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
    # ROC is OSCR of a classifier that classifies every known sample correctly.
    table = {
        name: [
            replace(one, predicted=np.where(one.is_unknown, one.predicted, one.labels))
            for one in own
        ]
        for name, own in _repeats("report.roc", scores).items()
    }
    shown = "true positive rate: known samples accepted"
    return _rates("ROC", "tpr", shown, "AUROC", auroc, table, log_fpr)


def risk_coverage(scores: Repeated | Mapping[str, Repeated]) -> Display:
    r"""Show the risk-coverage curve: selective risk over coverage.

    The risk is the share of errors among the accepted samples: known samples of the
    wrong class, and unknown samples. The mean over the coverage is AURC.

    Parameters
    ----------
    scores
        One `Scores`, or several by name; or lists of repeats, as for :func:`oscr`.

    References
    ----------
    Kim et al., "A unified benchmark for the unknown detection capability of deep neural
    networks", 2021.

    Examples
    --------
    >>> one = Scores(labels=[0, 0, -1, 0], predicted=[0] * 4, known=[4, 3, 2, 1])
    >>> risk_coverage({"msp": one}).columns["risk"].round(2)
    array([0.  , 0.  , 0.  , 0.33, 0.25])
    """

    def curve(one: Scores) -> dict[str, Any]:
        found = risk_coverage_curve(one)
        return {
            "threshold": found.thresholds,
            "coverage": found.coverage,
            "risk": found.risk,
            "generalized_risk": found.generalized_risk,
        }

    return _curves(
        "Risk over coverage",
        ("coverage", "risk"),
        ("coverage: share of all samples accepted", "risk: errors among the accepted"),
        _repeats("report.risk_coverage", scores),
        curve,
        ("AURC", aurc),
        places=_COVERAGES,
        grid=np.linspace(0, 1, _POINTS),
    )


def _rates(  # noqa: PLR0917  # one caller above the other
    title: str,
    rate: str,
    shown: str,
    area: str,
    metric: Callable[[Scores], float],
    table: Mapping[str, list[Scores]],
    log_fpr: bool,  # noqa: FBT001
) -> Display:
    def curve(one: Scores) -> dict[str, Any]:
        found = oscr_curve(one)
        return {"threshold": found.thresholds, "fpr": found.fpr, rate: found.ccr}

    most = max(one.n_unknown for own in table.values() for one in own)
    low = min(0.1, 10.0 ** np.floor(np.log10(1 / most))) if log_fpr else 0.0
    grid = np.geomspace(low, 1, _POINTS) if log_fpr else np.linspace(0, 1, _POINTS)
    return _curves(
        title,
        ("fpr", rate),
        ("false positive rate: unknown samples accepted", shown),
        table,
        curve,
        (area, metric),
        places=[at for at in _FPRS if at >= low],
        grid=grid,
    )


def _curves(  # noqa: PLR0917
    title: str,
    axes_of: tuple[str, str],
    labels: tuple[str, str],
    table: Mapping[str, list[Scores]],
    curve: Callable[[Scores], dict[str, Any]],
    area: tuple[str, Callable[[Scores], float]],
    *,
    places: Sequence[float],
    grid: NDArray[np.float64],
) -> Display:
    """Show a curve for each name, of repeats their mean on a grid, with its spread."""
    x, y = axes_of
    parts, names = {}, {}
    is_repeated = any(len(own) > 1 for own in table.values())
    for name, own in table.items():
        found = [curve(one) for one in own]
        part = found[0]
        if is_repeated:
            part = {x: part[x], y: part[y], "spread": np.full(part[x].size, np.nan)}
        if len(own) > 1:
            # Of several points at one x the highest counts: np.interp takes the last.
            each = np.array([np.interp(grid, one[x], one[y]) for one in found])
            part = {x: grid, y: each.mean(axis=0), "spread": each.std(axis=0, ddof=1)}
        if is_repeated:
            part["n"] = np.full(part[x].size, len(own))
        parts[name], names[name] = part, f"{_mean(area, own)}  {name}".rstrip()

    def draw(axes: Any) -> None:
        low = grid[0]
        for i, (name, whole) in enumerate(parts.items()):
            part = whole
            if low > 0:  # the axis begins there, not at 0
                kept = whole[x] > low
                part = {
                    key: np.append(np.interp(low, whole[x], values), values[kept])
                    for key, values in whole.items()
                }
            middle, band = part[y], {}
            if len(table[name]) > 1:
                band["low"] = np.maximum(middle - part["spread"], 0)
                band["high"] = np.minimum(middle + part["spread"], 1)
            line(axes, part[x], middle, names[name], i, **band)
        label(axes, *labels)
        axes.set(xlim=(low, 1), ylim=(0, 1))
        if low > 0:
            axes.set_xscale("log")  # plain numbers: no text is mathematics
            axes.xaxis.set_major_formatter("{x:g}")

    rows = []
    for place in places:
        last = [
            np.searchsorted(of[x], place, side="right") - 1 for of in parts.values()
        ]
        values = zip(parts.values(), last, strict=True)
        rows.append((f"{place:g}", *(float(part[y][at]) for part, at in values)))
    first, one = (x.upper(), y.upper()) if x == "fpr" else (x, y)
    return Display(
        title=title,
        columns=stacked(parts),
        brief=Brief((f"{first} at most", *(name or one for name in parts)), rows),
        panels=(draw,),
    )


def _mean(area: tuple[str, Callable[[Scores], float]], repeats: list[Scores]) -> str:
    """Return the mean of a metric over repeats, and its spread, for a legend."""
    values = [area[1](one) for one in repeats]
    spread = f" ± {np.std(values, ddof=1):.4f}" if len(values) > 1 else ""
    return f"{area[0]} {np.mean(values):.4f}{spread}"


def named(caller: str, data: Any, kinds: tuple[type, ...]) -> dict[str, Any]:
    """Return a mapping from name to value, for one value or several."""
    table = data if isinstance(data, Mapping) else {"": data}
    rule = " or ".join(kind.__name__ for kind in kinds) + ", one or several by name"
    wrong = [type(one).__name__ for one in table.values() if not isinstance(one, kinds)]
    if wrong or not table:
        got = ", ".join(wrong) or "none"
        _check.fail(caller, "scores", rule, got, error=TypeError)
    return {str(name): one for name, one in table.items()}


def _repeats(caller: str, scores: Any) -> dict[str, list[Scores]]:
    """Return the repeats of each name; all must have known and unknown samples."""
    table = named(caller, scores, (Scores, list, tuple))
    found = {
        n: [one] if isinstance(one, Scores) else [*one] for n, one in table.items()
    }
    for own in found.values():
        for one in own or [None]:
            need_both_sides(caller, one)
    return found
