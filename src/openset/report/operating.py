"""Displays of metrics at every threshold, and of the best threshold by each."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from openset import _check
from openset.metrics import Rates, Sweep, get
from openset.metrics.counts import ALPHA, Alpha
from openset.metrics.curves import osa_curve, osa_optimum, sweep
from openset.report import display as d
from openset.report.curves import named
from openset.report.display import INK, LIGHT, Brief, Display, label, line, mark
from openset.scores import Scores
from openset.thresholds import Threshold


def osa_over_urr(
    scores: Scores | Mapping[str, Scores],
    *,
    thresholds: float | Threshold | Mapping[str, float | Threshold] | None = None,
    alpha: float = ALPHA,
) -> Display:
    """Show open-set accuracy over unknown rejection rate (Fig. 1 of the PostMax paper).

    There is one curve per method over all thresholds. A star marks the threshold in
    use, a diamond the best threshold for these samples. In the columns, `kind` is
    ``"curve"``, ``"operational"`` (the star) or ``"best"`` (the diamond).

    Parameters
    ----------
    scores
        Test scores, one or several by name.
    thresholds
        The thresholds in use, chosen on other data: one, or by the names of `scores`.
    alpha
        Weight of the known samples.

    Examples
    --------
    >>> one = Scores(labels=[0, 0, -1], predicted=[0, 0, 0], known=[3.0, 1.5, 1.0])
    >>> shown = osa_over_urr(one, thresholds=2.0)
    >>> shown.columns["kind"][-2:].tolist(), shown.columns["osa"][-2:].tolist()
    (['operational', 'best'], [0.75, 1.0])
    """
    caller, alpha = "report.osa_over_urr", float(alpha)
    parts: dict[str, dict[str, Any]] = {}
    points: dict[str, list[tuple[float, float]]] = {}  # in use, if given; the best
    for name, one in named(caller, scores, (Scores,)).items():
        _check.both_sides(caller, one.n_known, one.n_unknown)
        curve = osa_curve(one, alpha=alpha)
        best = osa_optimum(one, alpha=alpha)
        found = [(Rates.at(one, best.threshold).urr, best.value)]
        is_by_name = isinstance(thresholds, Mapping)
        given: Any = thresholds.get(name) if is_by_name else thresholds  # type: ignore[union-attr]
        if given is not None:
            value = given.value if isinstance(given, Threshold) else given
            rates = Rates.at(one, _check.threshold(caller, value))
            found.insert(0, (rates.urr, rates.osa(alpha)))
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
        label(axes, "unknown rejection rate", f"open-set accuracy, α = {alpha:.2f}")
        axes.set_xlim(0, 1)

    osa = f"OSA (α = {alpha:g}) in use"
    header = ("name", osa, "URR in use", "OSA at best", "URR at best")
    rows = []
    for name, found in points.items():
        used = found[0][::-1] if len(found) == 2 else ("–", "–")
        rows.append((name, *used, *found[-1][::-1]))
    return Display(
        title="Open-set accuracy over URR",
        columns=d.stacked(parts),
        brief=Brief(header, rows),
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
    for name, one in named(caller, scores, (Scores,)).items():
        _check.both_sides(caller, one.n_known, one.n_unknown)
        swept = sweep(one, alpha=alpha)
        parts[name] = {"threshold": swept.thresholds, "urr": swept.urr}
        for metric, text in names.items():
            parts[name][metric] = getattr(swept, metric)
            best = swept.best(metric)
            last = np.flatnonzero(swept.thresholds == best.threshold)[-1]
            at = float(swept.urr[last])
            rows.append((name, text, best.threshold, best.value, at))

    def panel(name: str) -> d.Panel:
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
        columns=d.stacked(parts),
        brief=Brief(header, rows),
        panels=[panel(name) for name in parts],
    )
