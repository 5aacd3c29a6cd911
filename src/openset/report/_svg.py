"""Draw charts as small, reproducible SVG without scripts."""

import html
import math
import unicodedata
from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from openset.report._chart import (
    Bar,
    Bars,
    Chart,
    Drawing,
    Floats,
    HeatMap,
    Line,
    Mark,
    RankAxis,
    limits,
    logarithmic,
    thin,
    tick_text,
    ticks,
)

# Distinguishable by colour-blind readers, on white and on black; as CSS variables, so
# that one drawing serves both. Matplotlib uses the light ones.
LIGHT = ("#2468b4", "#c8620a", "#2a8a62", "#8a4bb0", "#b0314f", "#6b7280", "#8a7a12")
DARK = ("#6ba6ee", "#f0a04b", "#5cc79a", "#c192e8", "#f2809b", "#a5adba", "#d6c250")

_WIDTH, _HEIGHT = 400.0, 250.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 40.0, 12.0, 26.0, 38.0
_CHARACTER = 6.7  # about the width of a letter at 12 px
_WIDE = 7.6  # the same in a wide font, for text that must not be cut off
_NAME = 20  # longest name of a bar, in letters
_LONGEST = 52

_STYLE = (
    ".os-fig{font:12px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;"
    "font-variant-numeric:tabular-nums;background:var(--os-page)}"
    ".os-fig text{fill:var(--os-soft)}.os-fig .os-ink{fill:var(--os-ink)}"
    ".os-fig .os-title{font-weight:600;fill:var(--os-ink)}"
    ".os-fig .os-grid{stroke:var(--os-line);stroke-width:1}"
    ".os-fig .os-axis{stroke:var(--os-soft);stroke-width:1}"
    ".os-fig .os-line{fill:none;stroke-width:1.75;stroke-linejoin:round}"
    ".os-fig .os-dash{stroke-dasharray:5 4}"
    ".os-fig .os-band{stroke:none;fill-opacity:.15}"
    ".os-fig .os-area{fill-opacity:.14;stroke-width:1.5}"
    ".os-fig .os-mark{stroke:var(--os-page);stroke-width:1.25}"
    ".os-fig .os-key{fill:var(--os-ink);stroke:none}"
    ".os-fig .os-span{stroke:var(--os-ink);stroke-width:1.25}"
)


def _variables(
    colours: Sequence[str], ink: str, soft: str, line: str, page: str
) -> str:
    names = "".join(f"--os-{i}:{colour};" for i, colour in enumerate(colours))
    return (
        f".os-fig{{{names}--os-ink:{ink};--os-soft:{soft};--os-line:{line};"
        f"--os-page:{page}}}"
    )


STYLE = (
    _variables(LIGHT, "#16202c", "#566273", "#e3e8ee", "#fff")
    + "@media screen and (prefers-color-scheme:dark){"
    + _variables(DARK, "#e8edf3", "#9fadbd", "#2a3541", "#182029")
    + "}"
    + _STYLE
)
"""Colours and strokes; a page with many drawings has this once."""


def readable(text: object, longest: int = 10_000) -> str:
    """Return a name without control characters and surrogates, limited in length.

    Examples
    --------
    >>> readable("a" * 9, 4), readable("tab" + chr(9) + "here")
    ('aaa…', 'tab�here')
    """
    clean = "".join(
        "\N{REPLACEMENT CHARACTER}"
        if unicodedata.category(c) in {"Cc", "Cs"}
        or c in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
        else c
        for c in str(text)
    )
    return clean if len(clean) <= longest else clean[: longest - 1] + "…"


def escaped(text: object) -> str:
    """Return a name escaped for markup."""
    return html.escape(readable(text))


def draw_svg(charts: Iterable[Drawing], *, label: str = "", style: bool = True) -> str:
    """Draw charts below each other; with `style`, as a stand-alone drawing."""
    drawn = [_drawn(chart, label) for chart in charts]
    if style and drawn:
        drawn[0] = drawn[0].replace(">", f"><style>{STYLE}</style>", 1)
    return "".join(drawn)


def _drawn(chart: Drawing, label: str) -> str:
    if isinstance(chart, Bars):
        return _bars(chart, label)
    if isinstance(chart, RankAxis):
        return _rank_axis(chart, label)
    return _heat(chart, label) if isinstance(chart, HeatMap) else _axes(chart, label)


def _open(height: float, label: str, title: str) -> str:
    label = f"{label}: {title}" if title else label
    return (
        f'<svg class="os-fig" xmlns="http://www.w3.org/2000/svg" role="img" '
        f'viewBox="0 0 {_WIDTH:.0f} {height:.0f}" aria-label="{escaped(label)}">'
    )


def _text(
    x: float, y: float, text: object, *, anchor: str = "start", kind: str = ""
) -> str:
    place = "" if anchor == "start" else f' text-anchor="{anchor}"'
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{_n(x)}" y="{_n(y)}"{place}{style}>{escaped(text)}</text>'


def _n(value: float) -> str:
    """Format a coordinate, to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def _colour(i: int) -> str:
    return f"var(--os-{i % len(LIGHT)})"


def _axes(chart: Chart, label: str) -> str:
    is_log = chart.x_scale == "log"
    if is_log:
        chart = logarithmic(chart)
    x0, x1, y0, y1 = limits(chart)
    right, bottom = _WIDTH - _RIGHT, _TOP + _HEIGHT - _BOTTOM - _TOP
    across = partial(_along, low=x0, high=x1, start=_LEFT, stop=right)
    upward = partial(_along, low=y0, high=y1, start=bottom, stop=_TOP)
    key, height = _legend(chart, _HEIGHT + 6)
    parts = [_open(height, label, chart.title)]
    heading = f"{chart.title} · {chart.y_label}" if chart.title else chart.y_label
    parts.append(_text(0, 12, heading, kind="os-title" if chart.title else ""))
    for value in ticks(y0, y1):
        y = _n(float(upward(value)))
        parts.append(f'<path class="os-grid" d="M{_n(_LEFT)} {y}H{_n(right)}"/>')
        at = float(upward(value)) + 4
        parts.append(_text(_LEFT - 6, at, tick_text(value), anchor="end"))
    named = [(float(i), name) for i, name in enumerate(chart.x_names)] or [
        (value, tick_text(10.0**value if is_log else value))
        for value in (range(math.ceil(x0), int(x1) + 1) if is_log else ticks(x0, x1))
    ]
    room = max(3, int((right - _LEFT) / max(len(named), 1) / _CHARACTER))
    for value, text in named:
        x = float(across(value))
        parts.append(_text(x, bottom + 16, readable(text, room), anchor="middle"))
    parts.append(f'<path class="os-axis" d="M{_n(_LEFT)} {_n(bottom)}H{_n(right)}"/>')
    parts.append(_text(right, bottom + 32, chart.x_label, anchor="end"))
    parts += [_line(line, across, upward) for line in chart.lines]
    parts += [_mark(m, across(m.x), upward(m.y)) for m in chart.marks]
    return "".join([*parts, key, "</svg>"])


def _along(
    value: float | Floats, *, low: float, high: float, start: float, stop: float
) -> Floats:
    share = (np.asarray(value, dtype=float) - low) / ((high - low) or 1)
    # Values far outside are clipped, to keep coordinates short.
    return start + np.clip(share, -0.02, 1.02) * (stop - start)


def _path(x: Floats, y: Floats) -> str:
    points = [f"{_n(a)} {_n(b)}" for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    # Consecutive points at the same tenth of a pixel are drawn once.
    kept = [p for i, p in enumerate(points) if i == 0 or p != points[i - 1]]
    return "M" + "L".join(kept)


def _line(line: Line, across: partial[Floats], upward: partial[Floats]) -> str:
    colour = _colour(line.colour)
    title = f"<title>{escaped(line.name)}</title>"
    if line.kind == "steps":
        x = np.repeat(across(line.x), 2)
        y = np.concatenate([[0.0], np.repeat(line.y, 2), [0.0]])
        d = _path(x, upward(y))
        style = f'style="fill:{colour};stroke:{colour}"'
        return f'<path class="os-area" {style} d="{d}">{title}</path>'
    parts = []
    if line.low is not None and line.high is not None:
        x = np.concatenate([line.x, line.x[::-1]])
        y = np.concatenate([line.high, line.low[::-1]])
        d = _path(across(x), upward(y)) + "Z"
        parts.append(f'<path class="os-band" style="fill:{colour}" d="{d}"/>')
    x, y = thin(np.asarray(line.x, dtype=float), np.asarray(line.y, dtype=float))
    kind = "os-line os-dash" if line.kind == "dashed" else "os-line"
    d = _path(across(x), upward(y))
    parts.append(f'<path class="{kind}" style="stroke:{colour}" d="{d}">{title}</path>')
    if line.kind == "points":
        dots = zip(across(line.x).tolist(), upward(line.y).tolist(), strict=True)
        parts += [
            f'<circle cx="{_n(a)}" cy="{_n(b)}" r="2.6" style="fill:{colour}"/>'
            for a, b in dots
        ]
    return "".join(parts)


def _shape(shape: str, x: float, y: float, size: float) -> str:
    if shape == "dot":
        corners = [(math.sin(a), math.cos(a)) for a in np.arange(12) * math.pi / 6]
    elif shape == "diamond":
        corners = [(0, -1.1), (1.1, 0), (0, 1.1), (-1.1, 0)]
    else:
        corners = [
            (r * math.sin(i * math.pi / 5), -r * math.cos(i * math.pi / 5))
            for i, r in enumerate([1.5, 0.62] * 5)
        ]
    return "M" + "L".join(f"{_n(x + size * a)} {_n(y + size * b)}" for a, b in corners)


def _mark(mark: Mark, x: Floats, y: Floats) -> str:
    d = _shape(mark.shape, float(x), float(y), 5.5 if mark.shape != "dot" else 4) + "Z"
    title = f"<title>{escaped(mark.name)}</title>"
    style = f'style="fill:{_colour(mark.colour)}"'
    return f'<path class="os-mark" {style} d="{d}">{title}</path>'


def _legend(chart: Chart, top: float) -> tuple[str, float]:
    """Arrange the legend in rows below the axes; return it and its height."""
    entries: list[tuple[str, str]] = []
    lines = [line for line in chart.lines if line.name]
    if len(lines) > 1 or chart.marks or any(line.kind == "steps" for line in lines):
        entries += [(_swatch(line), readable(line.name, _LONGEST)) for line in lines]
    for mark in {(m.name, m.shape): m for m in chart.marks}.values():
        d = _shape(mark.shape, 8, -4, 4.5) + "Z"
        entries.append((f'<path class="os-key" d="{d}"/>', readable(mark.name, 46)))
    return _rows(entries, top)


def _swatch(line: Line) -> str:
    colour = _colour(line.colour)
    if line.kind == "steps":
        style = f"fill:{colour};stroke:{colour}"
        return f'<path class="os-area" style="{style}" d="M0-8H16V0H0Z"/>'
    kind = "os-line os-dash" if line.kind == "dashed" else "os-line"
    return f'<path class="{kind}" style="stroke:{colour}" d="M0-4H16"/>'


def _rows(entries: Sequence[tuple[str, str]], top: float) -> tuple[str, float]:
    parts, x, y = [], 0.0, top + 10
    for picture, name in entries:
        width = 22 + len(name) * _CHARACTER + 12
        if x > 0 and x + width > _WIDTH + 8:
            x, y = 0.0, y + 17
        parts.append(f'<g transform="translate({_n(x)} {_n(y)})">{picture}')
        parts.append(_text(21, 0, name, kind="os-ink") + "</g>")
        x += width
    return "".join(parts), (y + 6 if entries else top - 4)


def _bars(chart: Bars, label: str) -> str:
    longest = max((len(readable(b.name, _NAME)) for b in chart.bars), default=4)
    left = max(longest * _WIDE + 10, 40.0)
    right, pitch, top = _WIDTH - 92, 19.0, 24.0 if chart.title else 8.0
    across = partial(_along, low=0.0, high=1.0, start=left, stop=right)
    bottom = top + pitch * len(chart.bars)
    keys = [
        (f'<path style="fill:{_colour(i)}" d="M0-9H14V1H0Z"/>', name)
        for i, name in enumerate(chart.legend)
    ]
    key, height = _rows(keys, bottom + 42)
    parts = [_open(height, label, chart.title)]
    if chart.title:
        parts.append(_text(0, 12, chart.title, kind="os-title"))
    for value in (0, 0.25, 0.5, 0.75, 1):
        x = _n(float(across(value)))
        parts.append(f'<path class="os-grid" d="M{x} {_n(top)}V{_n(bottom)}"/>')
        if value not in {0.25, 0.75}:
            parts.append(
                _text(
                    float(across(value)), bottom + 15, f"{value:.0%}", anchor="middle"
                )
            )
    parts.append(_text(0, bottom + 31, chart.x_label))
    parts += [
        _bar(bar, across, left, top + pitch * (i + 0.5))
        for i, bar in enumerate(chart.bars)
    ]
    return "".join([*parts, key, "</svg>"])


_SHADES = 9
_MOST_RANKS = 12  # that have a tick each


def _heat(chart: HeatMap, label: str) -> str:
    """Draw blocks of rows; cells of one shade are one path, which keeps it small."""
    row_height, top = 4.0, 24.0 if chart.title else 8.0
    blocks = chart.shades(_SHADES)
    longest = max(len(readable(name, _NAME)) for name, _ in blocks)
    left = max(longest * _WIDE + 10, 40.0)
    width = (_WIDTH - _RIGHT - left) / max(rows.shape[1] for _, rows in blocks)
    parts, y = [], top
    for name, rows in blocks:
        height = max(row_height * len(rows), 14.0)
        middle = y + height / 2 + 4
        parts.append(
            _text(left - 8, middle, readable(name, _NAME), anchor="end", kind="os-ink")
        )
        for shade in range(1, _SHADES + 1):
            cells = "".join(
                f"M{_n(left + start * width)} {_n(y + i * row_height)}"
                f"h{_n((stop - start) * width)}v{_n(row_height)}"
                f"h{_n((start - stop) * width)}z"
                for i, row in enumerate(rows)
                for start, stop in _stretches(row == shade)
            )
            if cells:
                opacity = f"fill-opacity:{shade / _SHADES:.2f}"
                parts.append(f'<path style="fill:{_colour(0)};{opacity}" d="{cells}"/>')
        y += height + 6
    parts.append(_text(_WIDTH - _RIGHT, y + 10, chart.x_label, anchor="end"))
    head = [_open(y + 18, label, chart.title)]
    if chart.title:
        head.append(_text(0, 12, chart.title, kind="os-title"))
    return "".join([*head, *parts, "</svg>"])


def _rank_axis(chart: RankAxis, label: str) -> str:
    """Draw ranks on an axis, names at both sides, and bars of groups below the axis."""
    longest = max(len(readable(name, _NAME)) for name in chart.names)
    side = max(longest * _WIDE + 12, 40.0)
    n, top, pitch = len(chart.names), 56.0, 20.0
    across = partial(_along, low=1.0, high=float(n), start=side, stop=_WIDTH - side)
    first = top + 14 + 9 * len(chart.groups)  # below the bars
    rows = chart.rows()
    height = first + pitch * (max(row for _, _, row, _ in rows) + 1)
    parts = [_open(height, label, chart.title)]
    unit = float(across(2.0) - across(1.0))
    start, length = float(across(1.0)), min(chart.distance * unit, _WIDTH - side)
    parts.append(f'<path class="os-span" d="M{_n(start)} 18h{_n(length)}"/>')
    words = f"critical difference {chart.distance:.2f}"
    parts.append(_text(start, 12, words, kind="os-ink"))
    ends = f"M{_n(start)} {_n(top)}H{_n(float(across(float(n))))}"
    parts.append(f'<path class="os-axis" d="{ends}"/>')
    for rank in range(1, n + 1) if n <= _MOST_RANKS else ticks(1, n):
        x = float(across(float(rank)))
        parts.append(f'<path class="os-axis" d="M{_n(x)} {_n(top)}v-5"/>')
        parts.append(_text(x, top - 9, tick_text(float(rank)), anchor="middle"))
    for i, (low, high) in enumerate(chart.groups):
        a, b = float(across(low)) - 3, float(across(high)) + 3
        d = f"M{_n(a)} {_n(top + 8 + 9 * i)}H{_n(b)}"
        parts.append(f'<path d="{d}" style="stroke:{_colour(0)};stroke-width:4"/>')
    for name, rank, row, is_left in rows:
        x, y = float(across(rank)), first + pitch * row
        end = side - 6 if is_left else _WIDTH - side + 6
        d = f"M{_n(x)} {_n(top)}V{_n(y)}H{_n(end)}"
        parts.append(f'<path class="os-axis" style="fill:none" d="{d}"/>')
        place, anchor = (end - 4, "end") if is_left else (end + 4, "start")
        shown = readable(name, _NAME)
        parts.append(_text(place, y + 4, shown, anchor=anchor, kind="os-ink"))
    return "".join([*parts, "</svg>"])


def _stretches(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return (start, stop) of the stretches of True.

    Examples
    --------
    >>> _stretches(np.array([True, True, False, True]))
    [(0, 2), (3, 4)]
    """
    steps = np.diff(np.concatenate([[0], mask.astype(np.int8), [0]]))
    starts, stops = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)
    return list(zip(starts.tolist(), stops.tolist(), strict=True))


def _bar(bar: Bar, across: partial[Floats], left: float, y: float) -> str:
    x0, x1 = float(across(0.0)), float(across(bar.value))
    parts = [
        _text(left - 8, y + 4, readable(bar.name, _NAME), anchor="end", kind="os-ink"),
        f'<path style="fill:{_colour(bar.colour)}" '
        f'd="M{_n(x0)} {_n(y - 6)}H{_n(x1)}V{_n(y + 6)}H{_n(x0)}Z"/>',
    ]
    if bar.low is not None and bar.high is not None:
        a, b = float(across(bar.low)), float(across(bar.high))
        parts.append(f'<path class="os-span" d="M{_n(a)} {_n(y)}H{_n(b)}"/>')
    shown = f"{bar.value:.1%}" + (f" {bar.note}" if bar.note else "")
    parts.append(_text(_WIDTH, y + 4, shown, anchor="end"))
    return "".join(parts)
