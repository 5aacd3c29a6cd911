"""The risk-coverage curve: errors among accepted samples, over the share accepted."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from openset.metrics import aurc, risk_coverage_curve
from openset.report._chart import Chart, Floats
from openset.report._curves import Repeated
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

PLACES = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)
"""Coverages shown in the short table next to the curve."""

_GRID = np.linspace(0, 1, 501)  # coverages of a curve that is a mean over repeats


def risk_coverage(scores: Repeated | Mapping[str, Repeated]) -> Display:
    r"""Show the risk-coverage curve: selective risk over coverage.

    The risk is the share of errors among the accepted samples: known samples of the
    wrong class, and unknown samples. The mean over the coverage is AURC.

    Parameters
    ----------
    scores
        One `Scores`, or several by name. Instead of one, a list of repeats (seeds): the
        curve is their mean at each coverage, with a band of one standard deviation.

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
    table = with_repeats("report.risk_coverage", scores)
    curves = {name: _curve(repeats) for name, repeats in table.items()}
    chart = Chart(
        x_label="coverage: share of all samples accepted",
        y_label="risk: errors among the accepted",
        lines=tuple(
            banded(
                f"{area_text('AURC', aurc, table[name])}  {name}".rstrip(),
                columns["coverage"],
                columns["risk"],
                columns.get("spread"),
                colour=i,
            )
            for i, (name, columns) in enumerate(curves.items())
        ),
        x_limits=(0.0, 1.0),
        y_limits=(0.0, 1.0),
    )
    rows = tuple(
        (
            f"{place:g}",
            *(last_within(c["coverage"], c["risk"], place) for c in curves.values()),
        )
        for place in PLACES
    )
    # Of curves and means of curves together, what all of them have.
    shared = set.intersection(*(set(columns) for columns in curves.values()))
    return Display(
        title="Risk over coverage",
        columns=stacked(
            {
                name: {key: one for key, one in columns.items() if key in shared}
                for name, columns in curves.items()
            }
        ),
        charts=(chart,),
        brief=Brief(
            header=("coverage at most", *(name or "risk" for name in curves)),
            rows=rows,
        ),
    )


def _curve(repeats: Sequence[Scores]) -> dict[str, NDArray[np.float64]]:
    found = [risk_coverage_curve(one) for one in repeats]
    if len(found) == 1:
        (one,) = found
        return {
            "threshold": one.thresholds,
            "coverage": one.coverage,
            "risk": one.risk,
            "generalized_risk": one.generalized_risk,
        }
    risks: Floats = np.array([np.interp(_GRID, c.coverage, c.risk) for c in found])
    spread = risks.std(axis=0, ddof=1)
    return {"coverage": _GRID, "risk": risks.mean(axis=0), "spread": spread}
