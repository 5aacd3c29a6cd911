"""Metrics at a threshold, against the share of unknowns it rejects."""

from collections.abc import Mapping, Sequence
from dataclasses import fields

import numpy as np

from openset import _check
from openset.metrics import Sweep, get, sweep
from openset.metrics.counts import ALPHA, Alpha
from openset.report._chart import Chart, Line, Mark
from openset.report._display import Brief, Display, several, stacked
from openset.scores import Scores

_COLUMNS = [
    field.name for field in fields(Sweep) if field.name not in ("thresholds", "urr")
]


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
    for metric in metrics:
        _check.one_of(caller, "metrics", metric, _COLUMNS)
    names = {metric: get(metric).label for metric in metrics}
    if alpha != ALPHA and "osa" in names:
        weight = "share of known samples" if alpha == "counts" else alpha
        names["osa"] = f"Open-set accuracy (OSA, α = {weight})"
    table = several(caller, scores)
    charts, parts, rows = [], {}, []
    for name, one in table.items():
        swept = sweep(one, alpha=alpha)
        parts[name] = {
            "threshold": swept.thresholds,
            "urr": swept.urr,
            **{metric: getattr(swept, metric) for metric in metrics},
        }
        lines, marks = [], []
        for i, metric in enumerate(metrics):
            column = getattr(swept, metric)
            best = swept.best(metric)
            at = float(
                swept.urr[np.flatnonzero(swept.thresholds == best.threshold)[-1]]
            )
            # From accept-all to reject-all, left to right.
            lines.append(
                Line(name=names[metric], x=swept.urr[::-1], y=column[::-1], colour=i)
            )
            marks.append(
                Mark(
                    name="best by this metric",
                    x=at,
                    y=best.value,
                    shape="dot",
                    colour=i,
                )
            )
            rows.append((name, names[metric], best.threshold, best.value, at))
        charts.append(
            Chart(
                title=name if len(table) > 1 else "",
                x_label="unknown rejection rate (TPR of the unknown class)",
                y_label="metric",
                lines=tuple(lines),
                marks=tuple(marks),
                x_limits=(0.0, 1.0),
            )
        )
    header = ("scores", "metric", "best threshold", "value there", "URR there")
    return Display(
        title="Metrics against unknown TPR",
        columns=stacked(parts),
        charts=tuple(charts),
        brief=Brief(header=header, rows=tuple(rows)),
    )
