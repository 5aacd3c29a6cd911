"""Displays of curves over all thresholds: OSCR, ROC, risk, open-set accuracy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.metrics import (
    Rates,
    Sweep,
    aurc,
    auroc,
    get,
    openauc,
    osa_curve,
    osa_optimum,
    oscr_curve,
    risk_coverage_curve,
    sweep,
)
from openset.metrics.counts import ALPHA, Alpha
from openset.report.display import (
    INK,
    LIGHT,
    Brief,
    Display,
    Panel,
    label,
    line,
    mark,
    stacked,
)
from openset.scores import Scores
from openset.thresholds import Operation, Threshold

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
    for name, own in table.items():
        found = [curve(one) for one in own]
        parts[name] = found[0]
        if len(own) > 1:
            # Of several points at one x the highest counts: np.interp takes the last.
            each = np.array([np.interp(grid, one[x], one[y]) for one in found])
            spread = each.std(axis=0, ddof=1)
            parts[name] = {x: grid, y: each.mean(axis=0), "spread": spread}
        names[name] = f"{_mean(area, own)}  {name}".rstrip()
    if any(len(own) > 1 for own in table.values()):
        for name, part in parts.items():
            n = part[x].size
            nothing = np.full(n, np.nan)
            parts[name] = {
                x: part[x],
                y: part[y],
                "spread": part.get("spread", nothing),
                "n": np.full(n, len(table[name])),
            }

    def draw(axes: Any) -> None:
        is_log = grid[0] > 0
        for i, (name, part) in enumerate(parts.items()):
            values = [part[x], part[y], part.get("spread", np.full(part[x].size, 0.0))]
            if is_log:  # the axis begins there, not at 0
                kept = part[x] > grid[0]
                ends = [grid[0], *(np.interp(grid[0], part[x], v) for v in values[1:])]
                values = [
                    np.append(end, v[kept]) for end, v in zip(ends, values, strict=True)
                ]
            at, middle, spread = values
            band = {}
            if len(table[name]) > 1:
                band["low"] = np.maximum(middle - spread, 0)
                band["high"] = np.minimum(middle + spread, 1)
            line(axes, at, middle, names[name], i, **band)
        label(axes, *labels)
        axes.set(xlim=(grid[0], 1), ylim=(0, 1), xscale="log" if is_log else "linear")
        if is_log:  # plain numbers: no text is mathematics
            axes.xaxis.set_major_formatter("{x:g}")

    rows = tuple(
        (
            f"{place:g}",
            *(
                float(part[y][np.searchsorted(part[x], place, side="right") - 1])
                for part in parts.values()
            ),
        )
        for place in places
    )
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


def osa_over_urr(
    scores: Scores | Operation | Mapping[str, Scores] | Mapping[str, Operation],
    *,
    thresholds: float | Threshold | Mapping[str, float | Threshold] | None = None,
    alpha: float | None = None,
) -> Display:
    """Show open-set accuracy over unknown rejection rate (Fig. 1 of the PostMax paper).

    There is one curve per method over all thresholds. A star marks the threshold in
    use, a diamond the best threshold for these samples. In the columns, `kind` is
    ``"curve"``, ``"operational"`` (the star) or ``"best"`` (the diamond).

    Parameters
    ----------
    scores
        Test scores, one or several by name; or the results of
        :func:`openset.thresholds.operate`, which contain threshold and α.
    thresholds
        The thresholds in use, chosen on other data: one, or by the names of `scores`.
    alpha
        Weight of the known samples, by default 0.5.

    Examples
    --------
    >>> one = Scores(labels=[0, 0, -1], predicted=[0, 0, 0], known=[3.0, 1.5, 1.0])
    >>> shown = osa_over_urr(one, thresholds=2.0)
    >>> shown.columns["kind"][-2:].tolist(), shown.columns["osa"][-2:].tolist()
    (['operational', 'best'], [0.75, 1.0])
    """
    caller = "report.osa_over_urr"
    table: dict[str, Any] = _named(caller, scores, (Scores, Operation))
    done = {n: one for n, one in table.items() if isinstance(one, Operation)}
    if done and (len(done) < len(table) or thresholds is not None or alpha is not None):
        got = "other scores, thresholds or alpha beside them"
        remedy = "An operation already has its threshold and α"
        _check.fail(caller, "scores", "given alone with operations", got, remedy)
    alphas = sorted({one.alpha_test for one in done.values()})
    if len(alphas) > 1:
        got = ", ".join(f"{one:g}" for one in alphas)
        _check.fail(caller, "operations", "reported with the same α", got)
    weight = alphas[0] if done else ALPHA if alpha is None else float(alpha)
    parts: dict[str, dict[str, Any]] = {}
    points: dict[str, list[tuple[float, float]]] = {}  # in use, if given; the best
    for name, one in table.items():
        if done:
            curve = one.curve
            found = [(p.urr, p.osa) for p in (one.operational, one.best)]
        else:
            _check.both_sides(caller, one.n_known, one.n_unknown)
            curve = osa_curve(one, alpha=weight)
            best = osa_optimum(one, alpha=weight)
            found = [(Rates.at(one, best.threshold).urr, best.value)]
            is_by_name = isinstance(thresholds, Mapping)
            given: Any = thresholds.get(name) if is_by_name else thresholds  # type: ignore[union-attr]
            if given is not None:
                value = given.value if isinstance(given, Threshold) else given
                rates = Rates.at(one, _check.threshold(caller, value))
                found.insert(0, (rates.urr, rates.osa(weight)))
        points[name] = found
        kinds = ["operational", "best"][-len(found) :]
        parts[name] = {
            "kind": np.concatenate([np.full(curve.urr.size, "curve"), kinds]),
            "urr": np.append(curve.urr, [urr for urr, _ in found]),
            "osa": np.append(curve.osa, [osa for _, osa in found]),
        }
    is_used = any(len(found) == 2 for found in points.values())

    def draw(axes: Any) -> None:
        for i, (name, part) in enumerate(parts.items()):
            n = len(points[name])
            urr, osa = part["urr"][:-n], part["osa"][:-n]
            line(axes, urr, osa, name or "all thresholds", i)
        for i, found in enumerate(points.values()):
            for (urr, osa), shape in zip(found[::-1], "D*", strict=False):
                mark(axes, (urr, osa), shape, LIGHT[i % len(LIGHT)])
        mark(axes, ([], []), "D", INK, "best threshold (oracle)")
        if is_used:
            mark(axes, ([], []), "*", INK, "the threshold in use")
        label(axes, "unknown rejection rate", f"open-set accuracy, α = {weight:.2f}")
        axes.set_xlim(0, 1)

    osa = f"OSA (α = {weight:g}) in use"
    header = ("name", osa, "URR in use", "OSA at best", "URR at best")
    rows = []
    for name, found in points.items():
        used = found[0][::-1] if len(found) == 2 else ("–", "–")
        rows.append((name, *used, *found[-1][::-1]))
    return Display(
        title="Open-set accuracy over URR",
        columns=stacked(parts),
        brief=Brief(header, tuple(rows)),
        panels=(draw,),
    )


def metric_against_unknown_tpr(
    scores: Scores | Mapping[str, Scores],
    *,
    metrics: Sequence[str] = ("f_score", "youden", "normalized_accuracy", "osa"),
    alpha: Alpha = ALPHA,
) -> Display:
    """Show each metric over the unknown rejection rate; dots mark the best values.

    A metric whose dot lies far to the left prefers a threshold that accepts most
    unknowns.

    Parameters
    ----------
    scores
        One `Scores`, or several by name: one panel each.
    metrics
        Columns of :func:`openset.metrics.sweep`: keys of metrics at a threshold.
    alpha
        Weight of the known samples in open-set accuracy; ``"counts"``: their share.

    References
    ----------
    Wang et al., "OpenAUC: Towards AUC-oriented open-set recognition", NeurIPS 2022,
    figure 1.

    Examples
    --------
    >>> one = Scores(labels=[0, 1, -1], predicted=[0, 1, 1], known=[3, 1, 2])
    >>> shown = metric_against_unknown_tpr(one, metrics=["youden"])
    >>> shown.columns["urr"].tolist(), shown.brief.rows[0][2:]
    ([1.0, 1.0, 0.0, 0.0], (1.0, 0.75, 0.0))
    """
    caller = "report.metric_against_unknown_tpr"
    options = [one.name for one in fields(Sweep)][2:]
    names = {_check.one_of(caller, "metrics", one, options): one for one in metrics}
    names = {one: get(one).label for one in names}
    if alpha != ALPHA and "osa" in names:
        weight = "share of known samples" if alpha == "counts" else alpha
        names["osa"] = f"Open-set accuracy (OSA, α = {weight})"
    parts: dict[str, dict[str, Any]] = {}
    rows: list[tuple[Any, ...]] = []
    for name, one in _named(caller, scores, (Scores,)).items():
        _check.both_sides(caller, one.n_known, one.n_unknown)
        swept = sweep(one, alpha=alpha)
        parts[name] = {"threshold": swept.thresholds, "urr": swept.urr}
        for metric, text in names.items():
            parts[name][metric] = getattr(swept, metric)
            best = swept.best(metric)
            last = np.flatnonzero(swept.thresholds == best.threshold)[-1]
            at = float(swept.urr[last])
            rows.append((name, text, best.threshold, best.value, at))

    def panel(name: str) -> Panel:
        best = {text: (at, value) for of, text, _, value, at in rows if of == name}

        def draw(axes: Any) -> None:
            for i, (metric, text) in enumerate(names.items()):
                line(axes, parts[name]["urr"], parts[name][metric], text, i)
            for i, text in enumerate(names.values()):
                mark(axes, best[text], "o", LIGHT[i % len(LIGHT)])
            mark(axes, ([], []), "o", INK, "best by this metric")
            x = "unknown rejection rate (TPR of the unknown class)"
            is_one = len(parts) == 1
            label(axes, x, *(["metric"] if is_one else ["", name]))
            axes.set_xlim(0, 1)

        return draw

    header = ("scores", "metric", "best threshold", "value there", "URR there")
    return Display(
        title="Metrics against unknown TPR",
        columns=stacked(parts),
        brief=Brief(header, tuple(rows)),
        panels=[panel(name) for name in parts],
    )


def _named(caller: str, data: Any, kinds: tuple[type, ...]) -> dict[str, Any]:
    """Return a mapping from name to value, for one value or several."""
    table = data if isinstance(data, Mapping) else {"": data}
    if not table:
        _check.fail(caller, "scores", "one or several by name", "none")
    rule = " or ".join(kind.__name__ for kind in kinds) + ", or several by name"
    for one in table.values():
        if not isinstance(one, kinds):
            _check.fail(caller, "scores", rule, type(one).__name__, error=TypeError)
    return {str(name): one for name, one in table.items()}


def _repeats(caller: str, scores: Any) -> dict[str, list[Scores]]:
    """Return the repeats of each name; all must have known and unknown samples."""
    table = scores if isinstance(scores, Mapping) else {"": scores}
    found = {
        str(name): list(one) if isinstance(one, list | tuple) else [one]
        for name, one in table.items()
    }
    for own in found.values() or [[]]:
        for one in _named(caller, dict(enumerate(own)), (Scores,)).values():
            _check.both_sides(caller, one.n_known, one.n_unknown)
    return found
