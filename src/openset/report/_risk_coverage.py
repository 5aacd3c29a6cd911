"""The risk-coverage curve: errors among accepted samples, over the share accepted."""

from collections.abc import Mapping

from openset.metrics import aurc, risk_coverage_curve
from openset.report._chart import Chart, Line
from openset.report._display import Brief, Display, last_within, several, stacked
from openset.scores import Scores

PLACES = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)
"""Coverages shown in the short table next to the curve."""


def risk_coverage(scores: Scores | Mapping[str, Scores]) -> Display:
    r"""Show the risk-coverage curve: selective risk over coverage.

    The risk is the share of errors among the accepted samples: known samples of the
    wrong class, and unknown samples. The mean over the coverage is AURC.

    Parameters
    ----------
    scores
        One `Scores`, or several by name.

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
    table = several("report.risk_coverage", scores)
    curves = {name: risk_coverage_curve(one) for name, one in table.items()}
    chart = Chart(
        x_label="coverage: share of all samples accepted",
        y_label="risk: errors among the accepted",
        lines=tuple(
            Line(
                name=f"AURC {aurc(table[name]):.4f}  {name}".rstrip(),
                x=curve.coverage,
                y=curve.risk,
                colour=i,
            )
            for i, (name, curve) in enumerate(curves.items())
        ),
        x_limits=(0.0, 1.0),
        y_limits=(0.0, 1.0),
    )
    rows = tuple(
        (
            f"{place:g}",
            *(last_within(one.coverage, one.risk, place) for one in curves.values()),
        )
        for place in PLACES
    )
    return Display(
        title="Risk over coverage",
        columns=stacked(
            {
                name: {
                    "threshold": curve.thresholds,
                    "coverage": curve.coverage,
                    "risk": curve.risk,
                    "generalized_risk": curve.generalized_risk,
                }
                for name, curve in curves.items()
            }
        ),
        charts=(chart,),
        brief=Brief(
            header=("coverage at most", *(name or "risk" for name in curves)),
            rows=rows,
        ),
    )
