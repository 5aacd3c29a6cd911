"""Open-set accuracy over the unknown rejection rate, at every threshold."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.metrics import OSACurve, Rates, osa_curve, osa_optimum
from openset.metrics.counts import ALPHA
from openset.report._chart import Chart, Line, Mark
from openset.report._display import Brief, Display, named, stacked
from openset.scores import Scores
from openset.thresholds import Operation, Threshold


class _Point(NamedTuple):
    urr: float
    osa: float


class _Method(NamedTuple):
    """A curve, the point of the best threshold, and that of the threshold in use."""

    curve: OSACurve
    best: _Point
    in_use: _Point | None


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
    table: dict[str, Any] = named(caller, scores, (Scores, Operation))
    done = {n: one for n, one in table.items() if isinstance(one, Operation)}
    if not done:
        for one in table.values():
            _check.both_sides(caller, one.n_known, one.n_unknown)
        alpha = ALPHA if alpha is None else float(alpha)
        given = (
            thresholds
            if isinstance(thresholds, Mapping)
            else dict.fromkeys(table, thresholds)
        )
        methods = {n: _of_scores(one, given.get(n), alpha) for n, one in table.items()}
        return _display(methods, alpha)
    if len(done) < len(table) or thresholds is not None or alpha is not None:
        msg = _check.must(
            "given alone with operations",
            caller=caller,
            name="scores",
            got="other scores, thresholds or alpha beside them",
            remedy="An operation already has its threshold and α",
        )
        raise ValueError(msg)
    alphas = sorted({one.alpha_test for one in done.values()})
    if len(alphas) > 1:
        msg = _check.must(
            "reported with the same α",
            caller=caller,
            name="operations",
            got=", ".join(f"{alpha:g}" for alpha in alphas),
        )
        raise ValueError(msg)
    methods = {name: _of_operation(one) for name, one in done.items()}
    return _display(methods, alphas[0])


def _of_operation(done: Operation) -> _Method:
    best, in_use = done.best, done.operational
    return _Method(
        done.curve, _Point(best.urr, best.osa), _Point(in_use.urr, in_use.osa)
    )


def _of_scores(
    scores: Scores, threshold: float | Threshold | None, alpha: float
) -> _Method:
    value = threshold
    if isinstance(threshold, Threshold):
        value = threshold.value
    curve = osa_curve(scores, alpha=alpha)
    best = osa_optimum(scores, alpha=alpha)
    in_use = None
    if value is not None:
        rates = Rates.at(scores, _check.threshold("report.osa_over_urr", value))
        in_use = _Point(rates.urr, rates.osa(alpha))
    of_best = Rates.at(scores, best.threshold)
    return _Method(curve, _Point(of_best.urr, best.value), in_use)


def _display(methods: Mapping[str, _Method], alpha: float) -> Display:
    lines, marks, rows = [], [], []
    for i, (name, one) in enumerate(methods.items()):
        shown = name or "all thresholds"
        lines.append(Line(name=shown, x=one.curve.urr, y=one.curve.osa, colour=i))
        marks.append(_mark("best threshold (oracle)", one.best, "diamond", i))
        if one.in_use is not None:
            marks.append(_mark("the threshold in use", one.in_use, "star", i))
        at = ("–", "–") if one.in_use is None else (one.in_use.osa, one.in_use.urr)
        rows.append((name, *at, one.best.osa, one.best.urr))
    chart = Chart(
        x_label="unknown rejection rate",
        y_label=f"open-set accuracy, α = {alpha:.2f}",
        lines=tuple(lines),
        marks=tuple(marks),
        x_limits=(0.0, 1.0),
    )
    header = (
        "name",
        f"OSA (α = {alpha:g}) in use",
        "URR in use",
        "OSA at best",
        "URR at best",
    )
    return Display(
        title="Open-set accuracy over URR",
        columns=stacked({name: _columns(one) for name, one in methods.items()}),
        charts=(chart,),
        brief=Brief(header=header, rows=tuple(rows)),
    )


def _mark(name: str, point: _Point, shape: Any, colour: int) -> Mark:
    return Mark(name=name, x=point.urr, y=point.osa, shape=shape, colour=colour)


def _columns(one: _Method) -> dict[str, NDArray[Any]]:
    points = {"operational": one.in_use, "best": one.best}
    given = {kind: point for kind, point in points.items() if point is not None}
    kinds = np.full(one.curve.urr.size, "curve")
    return {
        "kind": np.concatenate([kinds, [*given]]),
        "urr": np.append(one.curve.urr, [point.urr for point in given.values()]),
        "osa": np.append(one.curve.osa, [point.osa for point in given.values()]),
    }
