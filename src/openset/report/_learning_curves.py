"""Metrics over a parameter and over epochs: means of repeats, with their spread."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.metrics import table
from openset.report._chart import Chart, Line
from openset.report._display import Brief, Display, from_records

Repeats = float | Sequence[float]


def sensitivity(
    values: Mapping[float, Repeats] | Mapping[str, Mapping[float, Repeats]],
    *,
    parameter: str = "λ",
    metric: str = "OpenAUC",
) -> Display:
    """Show a metric over a parameter of the method, such as λ of OpenAUC training.

    Parameters
    ----------
    values
        Mapping from parameter to value, or to the values of several repeats (drawn as
        their mean, with a band of one standard deviation); or several such mappings by
        name.
    parameter, metric
        Their names in the figure.

    References
    ----------
    Wang et al., "OpenAUC: Towards AUC-oriented open-set recognition", NeurIPS 2022,
    figure 2.

    Examples
    --------
    >>> shown = sensitivity({0.1: [0.8, 0.9], 1.0: [0.9, 0.92]})
    >>> shown.columns["mean"].round(2).tolist(), shown.columns["n"].tolist()
    ([0.85, 0.91], [2, 2])
    """
    caller = "report.sensitivity"
    first = next(iter(values.values()), None)
    by_name: Any = values if isinstance(first, Mapping) else {"": values}
    records = [
        {"name": str(name), "parameter": float(at), **_spread(caller, of_name[at])}
        for name, of_name in by_name.items()
        for at in sorted(of_name)
    ]
    _check_some(caller, "values", records)
    columns = from_records(records)
    lines = tuple(
        _banded(str(name), columns, columns["name"] == str(name), "parameter", i)
        for i, name in enumerate(by_name)
    )
    settings = np.unique(columns["parameter"])
    chart = Chart(x_label=parameter, y_label=metric, lines=lines)
    # Parameters are often powers: draw their values at equal distances.
    if settings.size > 2 and np.ptp(np.diff(settings)) > 1e-9 * np.ptp(settings):
        places = tuple(
            replace(line, x=np.searchsorted(settings, line.x).astype(float))
            for line in lines
        )
        chart = Chart(
            x_label=parameter,
            y_label=metric,
            lines=places,
            x_names=tuple(f"{value:g}" for value in settings),
            x_limits=(-0.25, settings.size - 0.75),
        )
    return Display(
        title=f"{metric} over {parameter}",
        columns=columns,
        charts=(chart,),
        brief=Brief(
            header=("name", parameter, "mean", "spread", "repeats"),
            rows=tuple(
                (r["name"], f"{r['parameter']:g}", r["mean"], r["spread"], r["n"])
                for r in records
            ),
        ),
    )


def learning_curves(
    runs: Mapping[str, Sequence[Sequence[Mapping[str, float]]]],
    *,
    metrics: Sequence[str] = (),
) -> Display:
    """Show metrics over the epochs of training: means over runs, and their spread.

    Parameters
    ----------
    runs
        Mapping from method to its runs; a run is a list of records, one per epoch, with
        ``epoch`` (default: counted from 1) and any metrics.
    metrics
        Metrics to show, one panel each; by default all that every record has.

    References
    ----------
    Komorniczak and Ksieniewicz, "Taking class imbalance into account in open set
    recognition evaluation", 2024, figure 6.

    Examples
    --------
    >>> runs = [[{"outer_score": 0.5}, {"outer_score": 0.7}],
    ...         [{"outer_score": 0.6}, {"outer_score": 0.8}]]
    >>> learning_curves({"softmax": runs}).columns["mean"].round(2).tolist()
    [0.55, 0.75]
    """
    caller = "report.learning_curves"
    every = [
        record for of_method in runs.values() for run in of_method for record in run
    ]
    _check_some(caller, "runs", every)
    shared = _shared(every)
    for name in metrics:
        _check.one_of(caller, "metrics", name, shared)
    chosen = list(metrics) or shared
    _check_some(caller, "metrics", chosen)
    records = [
        {
            "name": str(method),
            "metric": metric,
            "epoch": epoch,
            **_spread(caller, values),
        }
        for metric in chosen
        for method, of_method in runs.items()
        for epoch, values in _by_epoch(of_method, metric)
    ]
    columns = from_records(records)
    labels = {row.key: row.short for row in table()}
    titles = {name: labels.get(name, name.replace("_", " ")) for name in chosen}
    charts = tuple(
        Chart(
            title=titles[metric] if len(chosen) > 1 else "",
            x_label="epoch",
            y_label="mean ± sd" if len(chosen) > 1 else titles[metric],
            lines=tuple(
                _banded(
                    str(method),
                    columns,
                    (columns["metric"] == metric) & (columns["name"] == str(method)),
                    "epoch",
                    i,
                )
                for i, method in enumerate(runs)
            ),
        )
        for metric in chosen
    )
    last = {(r["name"], r["metric"]): r for r in records}
    return Display(
        title="Learning curves",
        columns=columns,
        charts=charts,
        brief=Brief(
            header=("method", "metric", "last epoch", "mean", "spread", "runs"),
            rows=tuple(
                (r["name"], r["metric"], r["epoch"], r["mean"], r["spread"], r["n"])
                for r in last.values()
            ),
        ),
    )


def _shared(records: Sequence[Mapping[str, float]]) -> list[str]:
    """Return the metrics that every record has."""
    return [
        name
        for name, value in records[0].items()
        if name != "epoch"
        and isinstance(value, (int, float))
        and all(name in record for record in records)
    ]


def _by_epoch(
    runs: Sequence[Sequence[Mapping[str, float]]], metric: str
) -> list[tuple[int, list[float]]]:
    """Return the values of all runs, epoch by epoch."""
    found: dict[int, list[float]] = {}
    for run in runs:
        for i, record in enumerate(run):
            epoch = int(record.get("epoch", i + 1))
            found.setdefault(epoch, []).append(float(record[metric]))
    return sorted(found.items())


def _check_some(caller: str, name: str, values: Sequence[Any]) -> None:
    if not values:
        raise ValueError(_check.must("non-empty", caller=caller, name=name, got="none"))


def _spread(caller: str, values: Repeats) -> dict[str, Any]:
    found = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if found.size == 0 or not np.isfinite(found).all():
        raise ValueError(
            _check.must("finite numbers", caller=caller, name="values", got=values)
        )
    spread = float(found.std(ddof=1)) if found.size > 1 else 0.0
    return {"mean": float(found.mean()), "spread": spread, "n": found.size}


def _banded(
    name: str,
    columns: Mapping[str, NDArray[Any]],
    mine: NDArray[np.bool_],
    x: str,
    colour: int,
) -> Line:
    mean, spread = columns["mean"][mine], columns["spread"][mine]
    several = bool((columns["n"][mine] > 1).any())
    return Line(
        name=name,
        x=columns[x][mine].astype(float),
        y=mean,
        colour=colour,
        kind="points",
        low=mean - spread if several else None,
        high=mean + spread if several else None,
    )
