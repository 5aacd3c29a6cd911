"""Operational accuracy over the assumed α, and over surrogates."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openset import _check
from openset.report._chart import Chart, Line, Mark
from openset.report._display import Brief, Display, named, stacked

Rows = Sequence[Mapping[str, Any]]
_COLUMNS = ("threshold", "ccr", "urr", "oosa", "low", "high", "oracle")


def alpha_sweep(tables: Rows | Mapping[str, Rows]) -> Display:
    """Show operational open-set accuracy over the α used to choose the threshold.

    Parameters
    ----------
    tables
        Rows with an ``alpha`` and the numbers of an `Operation`, or several by name.

    Examples
    --------
    >>> from openset import Scores, thresholds
    >>> calibration = Scores(labels=[0, -1], predicted=[0, 0], known=[1.0, 2.0])
    >>> test = Scores(labels=[0, -1], predicted=[0, 0], known=[1.1, 1.9])
    >>> rows = [
    ...     {"alpha": alpha}
    ...     | thresholds.operate(
    ...         calibration, test, alpha=alpha, alpha_test=0.5
    ...     ).to_dict()
    ...     for alpha in (0, 1)
    ... ]
    >>> alpha_sweep(rows).columns["oosa"].tolist()
    [0.5, 0.5]
    """
    parts = _parts("report.alpha_sweep", tables, "alpha")
    lines = []
    for i, (name, part) in enumerate(parts.items()):
        lines.append(
            Line(
                name=name or "threshold from calibration",
                x=part["alpha"],
                y=part["oosa"],
                low=part["low"],
                high=part["high"],
                colour=i,
            )
        )
        # The oracle does not depend on the α of the calibration: a horizontal line.
        lines.append(
            Line(
                name=f"{name}: best threshold (oracle)"
                if name
                else "best threshold (oracle)",
                x=part["alpha"],
                y=part["oracle"],
                colour=i,
                kind="dashed",
            )
        )
    chart = Chart(
        x_label="α used to choose the threshold (weight of known samples)",
        y_label="open-set accuracy on the test set, with 95 % interval",
        lines=tuple(lines),
    )
    return _display("Open-set accuracy over α", parts, "alpha", chart)


def surrogate_sweep(tables: Rows | Mapping[str, Rows]) -> Display:
    """Show operational open-set accuracy for each surrogate used for the threshold.

    Parameters
    ----------
    tables
        Rows with a ``surrogate`` and the numbers of an `Operation`, or several by name.

    Examples
    --------
    >>> from openset import Scores, thresholds
    >>> easy = Scores(labels=[0, 0, -1], predicted=[0] * 3, known=[2.0, 3.0, 0.5])
    >>> test = Scores(labels=[0, -1], predicted=[0, 0], known=[3.1, 2.5])
    >>> done = thresholds.operate(easy, test)
    >>> rows = [{"surrogate": "easy"} | done.to_dict()]
    >>> surrogate_sweep(rows).columns["oosa"].tolist()
    [0.5]
    """
    parts = _parts("report.surrogate_sweep", tables, "surrogate")
    places = list(
        dict.fromkeys(str(s) for part in parts.values() for s in part["surrogate"])
    )
    lines, marks = [], []
    for i, (name, part) in enumerate(parts.items()):
        x = np.array([places.index(str(s)) for s in part["surrogate"]], dtype=float)
        x += (i - (len(parts) - 1) / 2) * 0.12  # next to each other, not overlapping
        for j, at in enumerate(x.tolist()):
            # A whisker is a line from the low to the high end of the interval.
            ends = np.array([part["low"][j], part["high"][j]])
            lines.append(
                Line(name=name if j == 0 else "", x=np.full(2, at), y=ends, colour=i)
            )
            for shape, kind, column in (
                ("dot", "threshold from this surrogate", "oosa"),
                ("diamond", "best threshold (oracle)", "oracle"),
            ):
                marks.append(
                    Mark(
                        name=kind,
                        x=at,
                        y=float(part[column][j]),
                        shape=shape,  # type: ignore[arg-type]
                        colour=i,
                    )
                )
    chart = Chart(
        x_label="surrogate",
        y_label="open-set accuracy on the test set, with 95 % interval",
        lines=tuple(lines),
        marks=tuple(marks),
        x_names=tuple(places),
        x_limits=(-0.5, len(places) - 0.5),
    )
    return _display("Open-set accuracy over surrogates", parts, "surrogate", chart)


def _parts(
    caller: str, tables: Rows | Mapping[str, Rows], first: str
) -> dict[str, dict[str, Any]]:
    parts = {}
    given: dict[str, Rows] = named(caller, tables, (list, tuple))
    for name, rows in given.items():
        missing = {first, *_COLUMNS}.difference(*rows)
        if missing:
            rule = f"rows with the columns {first}, {', '.join(_COLUMNS)}"
            got = f"none of {', '.join(sorted(missing))}"
            _check.fail(caller, "tables", rule, got)
        parts[name] = {
            column: np.array([row[column] for row in rows])
            for column in (first, *_COLUMNS)
        }
    return parts


def _display(
    title: str, parts: Mapping[str, Mapping[str, Any]], first: str, chart: Chart
) -> Display:
    rows = tuple(
        (name, *(part[column][i] for column in (first, *_COLUMNS)))
        for name, part in parts.items()
        for i in range(len(part[first]))
    )
    return Display(
        title=title,
        columns=stacked(parts),
        charts=(chart,),
        brief=Brief(header=("name", first, *_COLUMNS), rows=rows),
    )
