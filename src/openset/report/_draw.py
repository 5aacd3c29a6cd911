"""Drawing, with matplotlib (extra `report`): thin, all numbers come from the data."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from openset import _check, _io
from openset.report._operation import OperatingCurves
from openset.report._regions import REGIONS, Regions
from openset.report.imbalance import METRICS, RandomScores, SampleCounts

_COLOURS = {"f1": "C0", "accuracy": "C1", "balanced_accuracy": "C2"}


def draw(data: Any, path: str | Path | None = None) -> Any:
    """Draw what this package computes; return the matplotlib figure.

    Parameters
    ----------
    data
        `SampleCounts` (figure 1 of the class-imbalance paper), `RandomScores`
        (figure 2), `Regions` (figures 3 and 4), or `OperatingCurves` (figure 1 of the
        PostMax paper).
    path
        Also write the figure there: ``.pdf``, ``.svg``, ``.png``.
    """
    drawers: dict[type, Callable[[Any, Any], Any]] = {
        SampleCounts: _dots,
        RandomScores: _histograms,
        Regions: _matrices,
        OperatingCurves: _operation,
    }
    if type(data) not in drawers:
        rule = "one of " + ", ".join(kind.__name__ for kind in drawers)
        got = type(data).__name__
        raise TypeError(_check.must(rule, caller="draw", name="data", got=got))
    # Figure, not pyplot: no global state, no window, no backend to choose.
    module = _io.optional("draw", "matplotlib.figure", name="report")
    figure = drawers[type(data)](module, data)
    if path is not None:
        target = Path(path)
        ending = target.suffix.removeprefix(".")
        _io.write(target, lambda stream: figure.savefig(stream, format=ending))
    return figure


def _dots(module: Any, data: SampleCounts) -> Any:
    figure = module.Figure(figsize=(6, 5), layout="constrained")
    axes = figure.subplots()
    largest = max(data.known.max(), data.unknown.max())
    for shift, values, colour, label in (
        (-0.15, data.known, "black", "known"),
        (0.15, data.unknown, "white", "unknown"),
    ):
        axes.scatter(
            data.n_known + shift,
            data.n_unknown,
            s=120 * values / largest,  # area, as the eye compares dots
            c=colour,
            edgecolors="black",
            label=label,
        )
    axes.set(xlabel="known classes", ylabel="unknown classes")
    axes.legend(title="test samples")
    return figure


def _histograms(module: Any, data: RandomScores) -> Any:
    rows = list(dict.fromkeys(zip(data.is_informed, data.n_known, strict=True)))
    columns = list(dict.fromkeys(data.n_unknown.tolist()))
    figure = module.Figure(
        figsize=(2 * len(columns), 1.2 * len(rows)), layout="constrained"
    )
    grid = figure.subplots(len(rows), len(columns), sharex=True, squeeze=False)
    counts = {metric: data.histogram(metric) for metric in METRICS}
    for i in range(len(data.n_known)):
        row = rows.index((data.is_informed[i], data.n_known[i]))
        axes = grid[row, columns.index(int(data.n_unknown[i]))]
        for metric, (table, edges) in counts.items():
            axes.stairs(
                table[i],
                edges,
                fill=True,
                alpha=0.5,
                color=_COLOURS[metric],
                label=metric,
            )
        axes.set_yticks([])
    for axes, n in zip(grid[0], columns, strict=True):
        axes.set_title(f"{n} unknown")
    for axes, (is_informed, n) in zip(grid[:, 0], rows, strict=True):
        axes.set_ylabel(f"{n} known" + ("\ninformed" if is_informed else ""))
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center")
    return figure


def _matrices(module: Any, data: Regions) -> Any:
    figure = module.Figure(figsize=(12, 3.5), layout="constrained")
    for axes, region in zip(figure.subplots(1, len(REGIONS)), REGIONS, strict=True):
        matrix, names = getattr(data, region), data.names(region)
        axes.imshow(matrix, cmap="Greys", vmin=0)
        for (row, column), count in np.ndenumerate(matrix):
            is_dark = count > matrix.max() / 2
            colour = "white" if is_dark else "black"
            axes.text(column, row, str(count), ha="center", va="center", color=colour)
        axes.set_xticks(range(len(names)), names)
        axes.set_yticks(range(len(names)), names)
        axes.set(title=f"{region} {data.score(region):.3f}", xlabel="decision")
    figure.axes[0].set_ylabel("true class")
    return figure


def _operation(module: Any, data: OperatingCurves) -> Any:
    figure = module.Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.subplots()
    for i, (name, curve) in enumerate(data.methods.items()):
        colour = f"C{i}"
        axes.plot(curve.urr, curve.osa, color=colour, label=name, linewidth=1.2)
        for point, marker, size in (
            (curve.best, "D", 45),
            (curve.operational, "*", 150),
        ):
            axes.scatter(
                *point, marker=marker, s=size, c=colour, edgecolors="black", zorder=3
            )
    axes.scatter([], [], marker="*", s=150, c="white", edgecolors="black",
                 label="threshold from calibration")  # fmt: skip
    axes.scatter([], [], marker="D", s=45, c="white", edgecolors="black",
                 label="best in hindsight")  # fmt: skip
    axes.set(
        xlabel="unknown rejection rate",
        ylabel=f"open-set accuracy, α = {data.alpha:.2f}",
    )
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="lower center", ncols=2)
    return figure
