"""OSCR and ROC curves: rates of accepted known samples over accepted unknown ones."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from openset.metrics import auroc, openauc, oscr_curve
from openset.report._chart import Chart, Line
from openset.report._display import Brief, Display, last_within, several, stacked
from openset.scores import Scores

PLACES = (0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
"""False positive rates shown in the short tables next to the curves."""

_UNIT = (0.0, 1.0)


def oscr(scores: Scores | Mapping[str, Scores]) -> Display:
    r"""Show the open-set classification rate curve: CCR over FPR.

    Parameters
    ----------
    scores
        One `Scores`, or several by name.

    References
    ----------
    Dhamija, Günther and Boult, "Reducing network agnostophobia", NeurIPS 2018.

    Examples
    --------
    >>> one = Scores(labels=[0, 0, -1], predicted=[0, 0, 0], known=[0.9, 0.1, 0.5])
    >>> oscr({"msp": one}).columns["ccr"]
    array([0. , 0.5, 0.5, 1. ])
    """
    table = several("report.oscr", scores)
    areas = {name: f"OpenAUC {openauc(one):.4f}" for name, one in table.items()}
    return _display("OSCR", "ccr", "correct classification rate", table, areas)


def roc(scores: Scores | Mapping[str, Scores]) -> Display:
    r"""Show the ROC curve of known against unknown: TPR over FPR, ignoring classes.

    Parameters
    ----------
    scores
        One `Scores`, or several by name.

    Examples
    --------
    >>> one = Scores(labels=[0, 0, -1], predicted=[1, 0, 0], known=[0.9, 0.1, 0.5])
    >>> roc(one).columns["tpr"]
    array([0. , 0.5, 0.5, 1. ])
    """
    table = several("report.roc", scores)
    areas = {name: f"AUROC {auroc(one):.4f}" for name, one in table.items()}
    # ROC is OSCR of a classifier that classifies every known sample correctly.
    all_correct = {
        name: replace(
            one, predicted=np.where(one.is_unknown, one.predicted, one.labels)
        )
        for name, one in table.items()
    }
    label = "true positive rate: knowns accepted"
    return _display("ROC", "tpr", label, all_correct, areas)


def _display(
    title: str,
    rate: str,
    label: str,
    table: Mapping[str, Scores],
    areas: Mapping[str, str],
) -> Display:
    curves = {name: oscr_curve(one) for name, one in table.items()}
    lines = tuple(
        Line(
            name=f"{areas[name]}  {name}".rstrip(),
            x=curve.fpr,
            y=curve.ccr,
            colour=i,
        )
        for i, (name, curve) in enumerate(curves.items())
    )
    chart = Chart(
        x_label="false positive rate: unknowns accepted",
        y_label=label,
        lines=lines,
        x_limits=_UNIT,
        y_limits=_UNIT,
    )
    rows = tuple(
        (
            f"{place:g}",
            *(last_within(curve.fpr, curve.ccr, place) for curve in curves.values()),
        )
        for place in PLACES
    )
    return Display(
        title=title,
        columns=stacked(
            {
                name: {
                    "threshold": curve.thresholds,
                    "fpr": curve.fpr,
                    rate: curve.ccr,
                }
                for name, curve in curves.items()
            }
        ),
        charts=(chart,),
        brief=Brief(
            header=("FPR at most", *(name or rate.upper() for name in curves)),
            rows=rows,
        ),
    )
