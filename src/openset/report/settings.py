"""Displays of means over settings, epochs, calibrations and problems."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.metrics import table
from openset.report.display import (
    INK,
    LIGHT,
    SOFT,
    Brief,
    Display,
    Panel,
    as_columns,
    label,
    line,
    readable,
)
from openset.scores import Scores
from openset.stats import Leaderboard, Ranks
from openset.thresholds import operate

Repeats = float | Sequence[float]

_ALPHAS = [i / 20 for i in range(1, 20)]


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
    first = next(iter(values.values()))
    by_name: Any = values if isinstance(first, Mapping) else {"": values}
    rows = [
        (str(name), float(at), *_spread("report.sensitivity", of_name[at]))
        for name, of_name in by_name.items()
        for at in sorted(of_name)
    ]
    columns = as_columns(("name", "parameter", "mean", "spread", "n"), rows)
    places = np.unique(columns["parameter"])

    def draw(axes: Any) -> None:
        for i, name in enumerate(by_name):
            mine = columns["name"] == str(name)
            # Parameters are often powers: they stand at equal distances.
            at = np.searchsorted(places, columns["parameter"][mine])
            _points(axes, at, columns, mine, name, i)
        axes.set_xticks(range(places.size), [f"{value:g}" for value in places])
        label(axes, parameter, metric)

    header = ("name", parameter, "mean", "spread", "repeats")
    return Display(
        title=f"{metric} over {parameter}",
        columns=columns,
        brief=Brief(header, [(row[0], f"{row[1]:g}", *row[2:]) for row in rows]),
        panels=(draw,),
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
        Metrics to show, one panel each, for the methods that have them; by default all.

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
    every = [one for of_method in runs.values() for run in of_method for one in run]
    if not every:
        _check.fail(caller, "runs", "non-empty", "none")
    names = dict.fromkeys(name for one in every for name in _numbers(one))
    chosen = [_check.one_of(caller, "metrics", name, [*names]) for name in metrics]
    chosen = chosen or [*names]
    found: dict[tuple[str, str, int], list[float]] = {}
    for metric in chosen:
        for method, of_method in runs.items():
            pairs = [
                (int(one.get("epoch", i + 1)), float(one[metric]))
                for run in of_method
                for i, one in enumerate(run)
                if metric in _numbers(one)
            ]
            for epoch, value in sorted(pairs, key=itemgetter(0)):
                found.setdefault((str(method), metric, epoch), []).append(value)
    rows = [(*at, *_spread(caller, values)) for at, values in found.items()]
    columns = as_columns(("name", "metric", "epoch", "mean", "spread", "n"), rows)
    labels = {row.key: row.short for row in table()}

    def panel(metric: str) -> Panel:
        title = labels.get(metric, metric.replace("_", " "))

        def draw(axes: Any) -> None:
            for i, method in enumerate(runs):
                mine = (columns["metric"] == metric) & (columns["name"] == str(method))
                if mine.any():
                    _points(axes, columns["epoch"][mine], columns, mine, method, i)
            axes.xaxis.get_major_locator().set_params(integer=True)
            is_one = len(chosen) == 1
            label(axes, "epoch", *([title] if is_one else ["mean ± sd", title]))

        return draw

    last = {row[:2]: row for row in rows}
    header = ("method", "metric", "last epoch", "mean", "spread", "runs")
    return Display(
        title="Learning curves",
        columns=columns,
        brief=Brief(header, [*last.values()]),
        panels=[panel(metric) for metric in chosen],
    )


def _numbers(record: Mapping[str, Any]) -> list[str]:
    """Return the names of the metrics of an epoch."""
    values = record.items()
    return [n for n, v in values if isinstance(v, int | float) and n != "epoch"]


def _points(  # noqa: PLR0917
    axes: Any,
    x: Any,
    columns: Mapping[str, NDArray[Any]],
    mine: NDArray[np.bool_],
    name: object,
    colour: int,
) -> None:
    """Draw means where they were measured, with a band if there are repeats."""
    mean, spread = columns["mean"][mine], columns["spread"][mine]
    band = {}
    if (columns["n"][mine] > 1).any():
        band = {"low": mean - spread, "high": mean + spread}
    line(axes, x, mean, name, colour, marker="o", **band)


def _spread(caller: str, values: Repeats) -> tuple[float, float, int]:
    found = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if found.size == 0 or not np.isfinite(found).all():
        _check.fail(caller, "values", "finite numbers", values)
    spread = float(found.std(ddof=1)) if found.size > 1 else 0.0
    return float(found.mean()), spread, found.size


def alpha_sweep(
    calibration: Scores,
    test: Scores,
    *,
    alphas: Sequence[float] = _ALPHAS,
) -> Display:
    """Show operational open-set accuracy over the α used to choose the threshold.

    Parameters
    ----------
    calibration, test
        Scores of the same detector; the thresholds are chosen on the first, and their
        open-set accuracy on the second is reported with α = 0.5.
    alphas
        Weights of the known samples in the choice of the threshold.

    Examples
    --------
    >>> calibration = Scores(labels=[0, -1], predicted=[0, 0], known=[1.0, 2.0])
    >>> test = Scores(labels=[0, -1], predicted=[0, 0], known=[1.1, 1.9])
    >>> alpha_sweep(calibration, test, alphas=[0, 1]).columns["oosa"].tolist()
    [0.5, 0.5]
    """
    header = ("alpha", "threshold", "ccr", "urr", "oosa", "low", "high", "oracle")
    rows = []
    for alpha in alphas:
        done = operate(calibration, test, alpha=alpha, alpha_test=0.5).to_dict()
        rows.append((alpha, *(done[name] for name in header[1:])))
    columns = as_columns(header, rows)

    def draw(axes: Any) -> None:
        at, band = columns["alpha"], {end: columns[end] for end in ("low", "high")}
        line(axes, at, columns["oosa"], "threshold from calibration", 0, **band)
        # The oracle does not depend on the α of the calibration.
        oracle = "best threshold (oracle)"
        line(axes, at, columns["oracle"], oracle, 0, linestyle="--")
        y = "open-set accuracy on the test set, 95 % interval"
        label(axes, "α used to choose the threshold", y)

    return Display(
        title="Open-set accuracy over α",
        columns=columns,
        brief=Brief(header, rows),
        panels=(draw,),
    )


def critical_difference(ranks: Ranks | Leaderboard) -> Display:
    """Show mean ranks on one axis; bars join methods without significant differences.

    Parameters
    ----------
    ranks
        The result of :func:`openset.stats.ranks`, or a leaderboard that has ranks.

    References
    ----------
    Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 2006,
    figure 1.

    Examples
    --------
    >>> from openset.stats import ranks
    >>> found = ranks({"a": [0.9, 0.8, 0.7], "b": [0.8, 0.7, 0.6], "c": [0, 0, 0]})
    >>> critical_difference(found).columns["mean_rank"].tolist()
    [1.0, 2.0, 3.0]
    """
    found = ranks.ranks if isinstance(ranks, Leaderboard) else ranks
    if found is None:
        rule = "a leaderboard with ranks: three methods over two problems or runs"
        _check.fail("report.critical_difference", "ranks", rule, "one without")
    mean = found.mean
    n, half = len(mean), (len(mean) + 1) // 2
    top = 0.5 + 0.5 * len(found.alike)  # below the bars

    def draw(axes: Any) -> None:
        axes.plot([1, n], [0, 0], color=SOFT, linewidth=1)
        step = -(-n // 12)
        for tick in range(1, n + 1, step):
            axes.plot([tick, tick], [0, -0.3], color=SOFT, linewidth=1)
            axes.text(tick, -0.45, str(tick), ha="center", fontsize="small", color=SOFT)
        axes.plot([1, 1 + found.critical_difference], [-2, -2], color=INK)
        said = f"critical difference {found.critical_difference:.2f}"
        axes.text(1, -2.25, said, fontsize="small")
        for i, group in enumerate(found.alike):
            ends = [mean[group[0]], mean[group[-1]]]
            axes.plot(ends, [0.5 + 0.5 * i] * 2, color=LIGHT[0], linewidth=3.5)
        out = 0.06 * (n - 1)
        for i, (name, rank) in enumerate(mean.items()):
            is_left = i < half
            row = top + 0.6 + (i if is_left else n - 1 - i)
            end, side = (1 - out, "right") if is_left else (n + out, "left")
            axes.plot([rank, rank, end], [0, row, row], color=INK, linewidth=0.7)
            place = end + (-out if is_left else out) / 3
            axes.text(
                place, row, readable(name, 24), ha=side, va="center", fontsize="small"
            )
        axes.set_ylim(top + half + 0.4, -3.2)
        axes.set_axis_off()

    def alike(name: str) -> str:
        others = {one for group in found.alike if name in group for one in group}
        return ", ".join(one for one in mean if one in others - {name}) or "–"

    return Display(
        title="Critical difference",
        columns=as_columns(("name", "mean_rank"), list(mean.items())),
        brief=Brief(
            ("method", "mean rank", "no significant difference to"),
            [(name, rank, alike(name)) for name, rank in mean.items()],
        ),
        panels=(draw,),
        size=(3.4, 0.7 + 0.16 * (half + top)),
    )
