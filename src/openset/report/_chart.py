"""Charts as data: the content of a figure, independent of how it is drawn.

Drawn by `_svg` for the page and notebooks, and by `_matplotlib` for papers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

Shape = Literal["star", "diamond", "dot"]
Kind = Literal["line", "dashed", "steps", "points"]

_COLUMNS = 240  # pixels across a drawing, for thinning curves


@dataclass(frozen=True, eq=False, kw_only=True)
class Line:
    """A curve, with a band around it if it has `low` and `high`.

    ``steps`` is a histogram: `x` holds the edges, one more than `y`. ``points`` also
    shows where the curve was measured.
    """

    name: str
    x: Floats
    y: Floats
    colour: int = 0
    kind: Kind = "line"
    low: Floats | None = None
    high: Floats | None = None


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A highlighted point; points of the same name share one legend entry."""

    name: str
    x: float
    y: float
    shape: Shape
    colour: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class Chart:
    """One pair of axes."""

    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    marks: tuple[Mark, ...] = ()
    title: str = ""
    x_limits: tuple[float, float] | None = None
    y_limits: tuple[float, float] | None = None
    x_names: tuple[str, ...] = ()  # names of the positions 0, 1, 2, ...
    x_scale: Literal["linear", "log"] = "linear"


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One row of a bar chart."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    colour: int = 0
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Bars:
    """Horizontal bars: shares of named rows."""

    x_label: str
    bars: tuple[Bar, ...]
    title: str = ""
    legend: tuple[str, ...] = ()  # meaning of colour 0, 1, ...


@dataclass(frozen=True, eq=False, kw_only=True)
class HeatMap:
    """Rows of numbers as shades: blocks of rows, each with a name."""

    x_label: str
    blocks: tuple[tuple[str, Floats], ...]
    title: str = ""

    def shades(self, steps: int) -> list[tuple[str, NDArray[np.int64]]]:
        """Return the blocks with every number as one of `steps` + 1 shades.

        The darkest shade is the 99 % quantile of all numbers, so that one large number
        does not make all others pale.
        """
        everything = np.concatenate([rows.ravel() for _, rows in self.blocks])
        top = float(np.quantile(everything, 0.99)) or 1.0
        return [
            (name, np.rint(np.clip(rows / top, 0, 1) * steps).astype(np.int64))
            for name, rows in self.blocks
        ]


@dataclass(frozen=True, kw_only=True)
class RankAxis:
    """Methods at their mean ranks, best first; bars join groups that do not differ."""

    names: tuple[str, ...]
    ranks: tuple[float, ...]
    groups: tuple[tuple[float, float], ...]  # first and last rank of each
    distance: float  # the critical difference
    title: str = ""

    def rows(self) -> list[tuple[str, float, int, bool]]:
        """Return name, rank, row of its label, and whether that is on the left."""
        n, half = len(self.names), (len(self.names) + 1) // 2
        return [
            (name, rank, i if i < half else n - 1 - i, i < half)
            for i, (name, rank) in enumerate(zip(self.names, self.ranks, strict=True))
        ]


Drawing: TypeAlias = Chart | Bars | HeatMap | RankAxis
"""What a display can draw."""


def limits(chart: Chart) -> tuple[float, float, float, float]:
    """Return the limits of both axes: as given, or from the data."""
    xs = [line.x for line in chart.lines] + [np.array([m.x for m in chart.marks])]
    ys = [
        values
        for line in chart.lines
        for values in (line.y, line.low, line.high)
        if values is not None
    ] + [np.array([m.y for m in chart.marks])]
    return (*(chart.x_limits or _reach(xs)), *(chart.y_limits or _reach(ys)))


def logarithmic(chart: Chart) -> Chart:
    """Return a chart with a logarithmic x axis as one of the exponents of ten."""
    low, high = chart.x_limits or (1e-3, 1.0)
    lines = tuple(
        replace(line, x=np.log10(np.maximum(line.x, low))) for line in chart.lines
    )
    marks = tuple(
        replace(mark, x=float(np.log10(max(mark.x, low)))) for mark in chart.marks
    )
    ends = (float(np.log10(low)), float(np.log10(high)))
    return replace(chart, lines=lines, marks=marks, x_limits=ends)


def _reach(arrays: Sequence[Floats]) -> tuple[float, float]:
    everything = np.concatenate([np.asarray(a, dtype=float).ravel() for a in arrays])
    finite = everything[np.isfinite(everything)]
    if finite.size == 0:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    room = (high - low) * 0.04 or max(abs(low) * 0.1, 0.05)
    return low - room, high + room


def thin(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Leave out points that are invisible on a drawing 240 pixels wide.

    In every column of pixels the first, last, lowest and highest point are kept, so the
    drawn curve looks the same.

    Examples
    --------
    >>> x = np.linspace(0, 1, 10**5)
    >>> kept, _ = thin(x, np.sin(9 * x))
    >>> kept[0], kept[-1], kept.size < 1000
    (np.float64(0.0), np.float64(1.0), True)
    """
    if x.size <= 2 * _COLUMNS:
        return x, y
    low, high = float(x.min()), float(x.max())
    place = np.floor((x - low) / ((high - low) or 1) * _COLUMNS).astype(np.int64)
    # Runs of consecutive points in one column (a curve may come back to it later).
    starts = np.flatnonzero(np.append(True, place[1:] != place[:-1]))
    stops = np.append(starts[1:], x.size) - 1
    run = np.repeat(np.arange(starts.size), stops - starts + 1)
    by_height = np.lexsort((y, run))  # runs stay together, lowest first within each
    keep = np.unique(
        np.concatenate([starts, stops, by_height[starts], by_height[stops]])
    )
    return x[keep], y[keep]


def ticks(low: float, high: float) -> list[float]:
    """Return about five round numbers within the interval.

    Examples
    --------
    >>> ticks(0, 1), ticks(-3.2, 11)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 5.0, 10.0])
    """
    span = high - low
    if not np.isfinite(span) or span <= 0:
        return [low]
    rough = span / 5
    power = 10.0 ** np.floor(np.log10(rough))
    step = next(f for f in (1, 2, 5, 10) if f * power >= rough * 0.999) * power
    first = np.ceil(low / step - 1e-9)
    count = int(np.floor(high / step + 1e-9) - first) + 1
    # rounded, so that 3 * 0.1 is written as 0.3
    digits = max(0, int(-np.floor(np.log10(step))))
    return [round(float((first + i) * step), digits) + 0.0 for i in range(count)]


def tick_text(value: float) -> str:
    """Format the label of a tick."""
    return f"{value:.6g}".replace("-", "\N{MINUS SIGN}")
