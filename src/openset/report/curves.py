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
from openset.report.display import Brief, Display, label, line, stacked
from openset.scores import Scores, need_both_sides

Repeated: TypeAlias = Scores | Sequence[Scores]
"""Scores of one run, or of several repeats."""

Points: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
"""Thresholds, and the places across and up."""

Area: TypeAlias = tuple[str, Callable[[Scores], float]]
"""The metric that is the area under a curve, by its name."""

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
    return _rates(
        "OSCR",
        ("ccr", "correct classification rate"),
        ("OpenAUC", openauc),
        _repeats("report.oscr", scores),
        log_fpr=log_fpr,
    )


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
    rate = ("tpr", "true positive rate: known samples accepted")
    return _rates("ROC", rate, ("AUROC", auroc), table, log_fpr=log_fpr)


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

    def curve(one: Scores) -> Points:
        found = risk_coverage_curve(one)
        return found.thresholds, found.coverage, found.risk

    return _curves(
        "Risk over coverage",
        ("coverage", "coverage: share of all samples accepted"),
        ("risk", "risk: errors among the accepted"),
        ("AURC", aurc),
        _repeats("report.risk_coverage", scores),
        curve,
        places=_COVERAGES,
    )


def _rates(
    title: str,
    y: tuple[str, str],
    area: Area,
    table: Mapping[str, list[Scores]],
    *,
    log_fpr: bool,
) -> Display:
    """Show a rate of known samples over the FPR."""

    def curve(one: Scores) -> Points:
        found = oscr_curve(one)
        return found.thresholds, found.fpr, found.ccr

    most = max(one.n_unknown for own in table.values() for one in own)
    low = min(0.1, 10.0 ** np.floor(np.log10(1 / most))) if log_fpr else 0.0
    x = ("fpr", "false positive rate: unknown samples accepted")
    places = [at for at in _FPRS if at >= low]
    return _curves(title, x, y, area, table, curve, places=places, low=low)


def _curves(  # noqa: PLR0917
    title: str,
    x: tuple[str, str],
    y: tuple[str, str],
    area: Area,
    table: Mapping[str, list[Scores]],
    curve: Callable[[Scores], Points],
    *,
    places: Sequence[float],
    low: float = 0.0,
) -> Display:
    """Show a curve for each name, of repeats their mean on a grid, with its spread.

    `x` and `y` are the names of the columns and of the axes; if `low` is positive, the
    horizontal axis is logarithmic and begins there.
    """
    (across, x_label), (up, y_label) = x, y
    grid = np.geomspace(low, 1, _POINTS) if low > 0 else np.linspace(0, 1, _POINTS)
    parts, names = {}, {}
    is_repeated = any(len(own) > 1 for own in table.values())
    for name, own in table.items():
        found = [curve(one) for one in own]
        part = dict(zip(("threshold", across, up), found[0], strict=True))
        if len(own) > 1:
            # Of several points at one x the highest counts: np.interp takes the last.
            each = np.array([np.interp(grid, x, y) for _, x, y in found])
            part = {across: grid, up: each.mean(axis=0)}
            part["spread"] = each.std(axis=0, ddof=1)
        elif is_repeated:
            del part["threshold"]
            part["spread"] = np.full(part[up].size, np.nan)
        if is_repeated:
            part["n"] = np.full(part[up].size, len(own))
        parts[name], names[name] = part, f"{_mean(area, own)}  {name}".rstrip()

    def draw(axes: Any) -> None:
        for i, (name, part) in enumerate(parts.items()):
            at, middle, band = part[across], part[up], {}
            if len(table[name]) > 1:
                band["low"] = np.maximum(middle - part["spread"], 0)
                band["high"] = np.minimum(middle + part["spread"], 1)
            elif low > 0:  # there is no 0 on a logarithmic axis
                at, middle = grid, np.interp(grid, at, middle)
            line(axes, at, middle, names[name], i, **band)
        label(axes, x_label, y_label)
        axes.set(xlim=(low, 1), ylim=(0, 1))
        if low > 0:
            axes.set_xscale("log")  # plain numbers: no text is mathematics
            axes.xaxis.set_major_formatter("{x:g}")

    rows = []
    for place in places:
        last = (
            np.searchsorted(of[across], place, "right") - 1 for of in parts.values()
        )
        values = zip(parts.values(), last, strict=True)
        rows.append((f"{place:g}", *(float(part[up][at]) for part, at in values)))
    first, one = (across.upper(), up.upper()) if across == "fpr" else (across, up)
    return Display(
        title=title,
        columns=stacked(parts),
        brief=Brief((f"{first} at most", *(name or one for name in parts)), rows),
        panels=(draw,),
    )


def _mean(area: Area, repeats: list[Scores]) -> str:
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
