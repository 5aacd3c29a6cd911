"""Draw displays with matplotlib (extra `report`)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _extras, _io
from openset.report._chart import Bars, Chart, Drawing, HeatMap, RankAxis, limits, ticks
from openset.report._display import Display
from openset.report._gallery import Gallery, Pictures
from openset.report._regions import REGIONS, Regions
from openset.report._svg import LIGHT, readable
from openset.report.imbalance import METRICS, RandomScores, SampleCounts

_NAMED = 24  # most classes for which names and counts are readable
_LETTERS = 24  # that fit side by side under a matrix
_COLOURS = {"f1": "C0", "accuracy": "C1", "balanced_accuracy": "C2"}


def draw(
    data: Any,
    path: str | Path | None = None,
    *,
    width: float | None = None,
    height: float | None = None,
    dpi: float | None = None,
) -> Any:
    """Draw a result of this package; return the matplotlib figure.

    Parameters
    ----------
    data
        The result of :func:`sample_counts` (figure 1 of the class-imbalance paper),
        :func:`random_scores` (figure 2), :func:`confusion_regions` (figures 3 and 4) or
        :func:`gallery` (figure 5), or any `Display`.
    path
        Also write the figure there: ``.pdf``, ``.svg``, ``.png``.
    width, height
        Size in inches; by default from what is drawn. A column of a paper is often 3.3
        inches wide.
    dpi
        Dots per inch of a ``.png``.
    """
    for name, value in (("width", width), ("height", height), ("dpi", dpi)):
        if value is not None:
            _check.number("draw", name, value, low=0, open_low=True)
    drawers: dict[type, Callable[[Any, Any], Any]] = {
        SampleCounts: _dots,
        RandomScores: _histograms,
        Regions: _matrices,
        Gallery: _gallery,
        Display: _charts,
    }
    if type(data) not in drawers:
        rule = "one of " + ", ".join(kind.__name__ for kind in drawers)
        got = type(data).__name__
        raise TypeError(_check.must(rule, caller="draw", name="data", got=got))
    # Figure instead of pyplot: no global state, no window, no backend.
    module = _extras.optional("draw", "matplotlib.figure", name="report")
    figure = drawers[type(data)](module, data)
    own_width, own_height = figure.get_size_inches()
    figure.set_size_inches(width or own_width, height or own_height)
    if path is not None:
        target = Path(path)
        ending = target.suffix.removeprefix(".")
        # No date and no random names: the same numbers give the same file.
        dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
        settings = _extras.optional("draw", "matplotlib", name="report")
        with settings.rc_context({"svg.hashsalt": "openset"}):
            _io.write(
                target,
                lambda stream: figure.savefig(
                    stream,
                    format=ending,
                    metadata=dates.get(ending),
                    dpi=dpi or "figure",
                ),
            )
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
            s=120 * values / largest,  # area, by which dots are compared
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
        if len(names) > _NAMED:  # texts would overlap
            axes.set(xticks=[], yticks=[])
        else:
            _write_counts(axes, matrix, [readable(name, 16) for name in names])
        axes.set(title=f"{region} {data.score(region):.3f}", xlabel="decision")
    figure.axes[0].set_ylabel("true class")
    return figure


_TITLES = {"train": "Training", "test": "Testing"}
_RED, _BLUE = np.array([200, 30, 30]), np.array([30, 60, 200])


def _gallery(module: Any, data: Gallery) -> Any:
    figure = module.Figure(figsize=(5 * len(data.parts), 5), layout="constrained")
    panels = figure.subplots(1, len(data.parts), squeeze=False)[0]
    for axes, (name, shown) in zip(panels, data.parts.items(), strict=True):
        axes.imshow(_mosaic(shown))
        axes.set(title=_TITLES.get(name, name), xticks=[], yticks=[])
    return figure


def _mosaic(shown: Pictures) -> NDArray[np.uint8]:
    """Put images side by side; ink of grey ones, frames of others, show the side."""
    n, height, width = shown.images.shape[:3]
    columns = int(np.ceil(np.sqrt(n)))
    rows = -(-n // columns)
    page = np.full((rows * (height + 4), columns * (width + 4), 3), 255, np.uint8)
    for i in range(n):
        colour = _RED if shown.is_known[i] else _BLUE
        tile = np.empty((height + 4, width + 4, 3), np.uint8)
        image = shown.images[i].reshape(height, width, -1)
        if image.shape[2] == 1:
            tile[:] = 255
            ink = image / 255.0  # white paper, ink in the colour of its side
            tile[2:-2, 2:-2] = (255 * (1 - ink) + colour * ink).astype(np.uint8)
        else:
            tile[:] = colour
            tile[2:-2, 2:-2] = image
        y, x = divmod(i, columns)
        page[
            y * (height + 4) : (y + 1) * (height + 4),
            x * (width + 4) : (x + 1) * (width + 4),
        ] = tile
    return page


def _write_counts(axes: Any, matrix: NDArray[Any], names: list[str]) -> None:
    """Write the counts into the cells, and the names along the sides."""
    for (row, column), count in np.ndenumerate(matrix):
        is_dark = count > matrix.max() / 2
        colour = "white" if is_dark else "black"
        axes.text(column, row, str(count), ha="center", va="center", color=colour)
    places, style = range(len(names)), dict[str, Any]()
    if max(map(len, names)) * len(names) > _LETTERS:
        style = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(places, names, parse_math=False, **style)
    axes.set_yticks(places, names, parse_math=False)


_SHAPES = {"star": ("*", 150), "diamond": ("D", 45), "dot": ("o", 35)}


def _charts(module: Any, data: Display) -> Any:
    columns = min(len(data.charts), 2)
    rows = -(-len(data.charts) // columns)
    heights = [_height(chart) for chart in data.charts]
    figure = module.Figure(
        figsize=(5.2 * columns, max(heights) * rows), layout="constrained"
    )
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, chart in zip(grid, data.charts, strict=False):
        if isinstance(chart, Bars):
            _bars(axes, chart)
        elif isinstance(chart, HeatMap):
            _heat(axes, chart)
        elif isinstance(chart, RankAxis):
            _rank_axis(axes, chart)
        else:
            _axes(axes, chart)
        # A dollar sign in a name must not start mathematics.
        axes.set_title(readable(chart.title, 60), parse_math=False, loc="left")
    for axes in grid[len(data.charts) :]:
        axes.set_axis_off()
    return figure


def _height(chart: Drawing) -> float:
    if isinstance(chart, Bars):
        return 1.4 + 0.24 * len(chart.bars)
    if isinstance(chart, RankAxis):
        return 1.2 + 0.13 * len(chart.names) + 0.1 * len(chart.groups)
    return 3.6


def _axes(axes: Any, chart: Chart) -> None:
    for line in chart.lines:
        colour = LIGHT[line.colour % len(LIGHT)]
        name = _legend_name(line.name)
        if line.kind == "steps":
            axes.stairs(line.y, line.x, color=colour, fill=True, alpha=0.2)
            axes.stairs(line.y, line.x, color=colour, label=name)
            continue
        if line.low is not None and line.high is not None:
            axes.fill_between(
                line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0
            )
        axes.plot(
            line.x,
            line.y,
            color=colour,
            label=name,
            linewidth=1.3,
            linestyle="--" if line.kind == "dashed" else "-",
            marker="o" if line.kind == "points" else None,
            markersize=3.5,
        )
    named = set()
    for mark in chart.marks:
        marker, size = _SHAPES[mark.shape]
        colour = LIGHT[mark.colour % len(LIGHT)]
        axes.scatter(
            mark.x, mark.y, marker=marker, s=size, c=colour, edgecolors="black",
            zorder=3,
        )  # fmt: skip
        if mark.name not in named:
            named.add(mark.name)
            axes.scatter([], [], marker=marker, s=size, c="white",
                         edgecolors="black", label=mark.name)  # fmt: skip
    x0, x1, y0, y1 = limits(chart)
    axes.set(xscale=chart.x_scale, xlim=(x0, x1), ylim=(y0, y1))
    axes.set_xlabel(chart.x_label, parse_math=False)
    axes.set_ylabel(chart.y_label, parse_math=False)
    if chart.x_names:
        names = [readable(name, 20) for name in chart.x_names]
        axes.set_xticks(range(len(names)), names, parse_math=False)
    axes.grid(alpha=0.25)
    if axes.get_legend_handles_labels()[1]:
        legend = axes.legend(fontsize="small")
        for text in legend.get_texts():
            text.set_parse_math(False)


def _legend_name(name: str) -> str:
    if not name:
        return "_nolegend_"
    shown = readable(name, 60)
    return f" {shown}" if shown.startswith("_") else shown  # else it is left out


def _heat(axes: Any, chart: HeatMap) -> None:
    blocks = chart.shades(255)
    width = blocks[0][1].shape[1]
    gap = np.full((1, width), np.nan)
    rows = [piece for _, block in blocks for piece in (block, gap)][:-1]
    axes.imshow(
        np.concatenate(rows),
        aspect="auto",
        cmap="magma",
        interpolation="nearest",
        vmin=0,
        vmax=255,
    )
    starts = np.cumsum([0, *(len(block) + 1 for _, block in blocks[:-1])])
    places = [start + len(b) / 2 for start, (_, b) in zip(starts, blocks, strict=True)]
    names = [readable(name, 30) for name, _ in blocks]
    axes.set_yticks(places, names, parse_math=False)
    axes.set_xticks([])
    axes.set_xlabel(chart.x_label, parse_math=False)


def _rank_axis(axes: Any, chart: RankAxis) -> None:
    n, below = len(chart.names), 1.0 + 0.5 * len(chart.groups)
    axes.plot([1, n], [0, 0], color="black", linewidth=1)
    for rank in ticks(1, n) if n > _NAMED else range(1, n + 1):
        axes.plot([rank, rank], [0, 0.25], color="black", linewidth=1)
        axes.text(rank, 0.35, f"{rank:g}", ha="center", va="bottom", fontsize="small")
    axes.plot([1, 1 + chart.distance], [2, 2], color="black", linewidth=1.5)
    words = f"critical difference {chart.distance:.2f}"
    axes.text(1, 2.15, words, ha="left", va="bottom", fontsize="small")
    for i, (low, high) in enumerate(chart.groups):
        y = -0.5 - 0.5 * i
        axes.plot([low, high], [y, y], color=LIGHT[0], linewidth=3.5)
    out = 0.06 * (n - 1)
    deepest = 0
    for name, rank, row, is_left in chart.rows():
        y, end = -below - row, 1 - out if is_left else n + out
        deepest = max(deepest, row)
        axes.plot([rank, rank, end], [0, y, y], color="black", linewidth=0.7)
        side = {"ha": "right" if is_left else "left", "va": "center"}
        place = end - out / 3 if is_left else end + out / 3
        text = readable(name, 30)
        axes.text(place, y, text, parse_math=False, fontsize="small", **side)
    axes.set_ylim(-below - deepest - 0.6, 3.2)
    axes.set_axis_off()


def _bars(axes: Any, chart: Bars) -> None:
    places = range(len(chart.bars))
    for place, bar in zip(places, chart.bars, strict=True):
        axes.barh(place, bar.value, color=LIGHT[bar.colour % len(LIGHT)], height=0.65)
        if bar.low is not None and bar.high is not None:
            axes.plot([bar.low, bar.high], [place, place], color="black", linewidth=1)
    names = [readable(bar.name, 30) for bar in chart.bars]
    axes.set_yticks(places, names, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel(chart.x_label, parse_math=False)
    axes.grid(axis="x", alpha=0.25)
