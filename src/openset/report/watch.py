"""`write_watch`: the result of `openset watch` as one self-contained HTML page."""

from collections.abc import Mapping, Sequence
from math import log10
from pathlib import Path
from typing import Any

import numpy as np

from openset import _check, _io
from openset.report.display import (
    LIGHT,
    Brief,
    Display,
    Panel,
    as_columns,
    label,
    line,
    mark,
    readable,
)
from openset.report.page import fill
from openset.watch import Verdict, WindowTest

_MOST_LETTERS = 44  # of all names below an axis; else windows are numbered
_LEAST = 1e-16  # smaller p-values are drawn as this
_SHOWN = 500  # windows in the table

_TITLES = {
    "unknown rate": ("Unknown rate", "share of rejected samples"),
    "knownness": ("Knownness", "median of a window"),
    "features": ("Features", "mean distance from the centre of the reference"),
}


def write_watch(
    path: str | Path,
    names: Sequence[str],
    verdicts: Sequence[Verdict],
    *,
    title: str,
    facts: Mapping[str, str] | None = None,
) -> Path:
    """Write the verdicts about windows of new samples as one HTML file.

    The file opens offline and loads nothing. The same verdicts give the same bytes.

    Parameters
    ----------
    path
        File to write, ending in .html.
    names
        One per window.
    verdicts
        What :class:`openset.watch.Watch` returned, at least one.
    title
        Title of the page, such as the name of the rejector.
    facts
        Further lines for the head of the page.
    """
    path = Path(path)
    _check.ending("report.write_watch", path, [".html", ".htm"])
    tests = [test for verdict in verdicts for test in verdict.tests]
    text = fill(
        "watch.html.j2",
        filters={},
        title=title,
        facts=dict(facts or {}),
        n_alarms=sum(v.is_alarm for v in verdicts),
        n_windows=len(verdicts),
        n_samples=sum(v.n for v in verdicts),
        n_invalid=sum(v.n_invalid for v in verdicts),
        share=f"{100 * verdicts[0].false_alarms:g} %",
        methods=list(dict.fromkeys(f"{t.name} ({t.method})" for t in tests)),
        windows=list(zip(names, verdicts, strict=True))[:_SHOWN],
        is_numbered=len(verdicts) > 1 and not _fit(names),
        n_hidden=max(len(verdicts) - _SHOWN, 0),
        figures=_figures(names, verdicts),
    )
    _io.put(path, text)
    return path


def _figures(
    names: Sequence[str], verdicts: Sequence[Verdict]
) -> list[tuple[Display, str]]:
    """Return the evidence over the windows, then the course of each test, with text."""
    if len(verdicts) < 2:
        return []  # a single point is a number of the table
    found: dict[str, list[tuple[int, WindowTest]]] = {}
    for i, verdict in enumerate(verdicts):
        for test in verdict.tests:
            found.setdefault(test.name, []).append((i, test))
    courses = {kind: found[kind] for kind in _TITLES if kind in found}
    limit = _digits(verdicts[0].unknown_rate.limit)

    def evidence(axes: Any) -> None:
        for colour, (kind, points) in enumerate(courses.items()):
            x, tests = zip(*points, strict=True)
            y = [_digits(test.p_value) for test in tests]
            line(axes, x, y, kind, colour, marker="o")
        ends = [0, len(names) - 1]
        line(axes, ends, [limit] * 2, "limit", 4, linestyle="--")
        _windows(axes, "−log₁₀ p", names)

    def course(kind: str, colour: int) -> Panel:
        def draw(axes: Any) -> None:
            drawn = [
                (i, test.new, test.reference, test.is_alarm)
                for i, test in courses[kind]
                if np.isfinite([test.new, test.reference]).all()
            ]
            x, new, before, is_alarm = np.array(drawn).reshape(-1, 4).T
            line(axes, x, new, "new", colour, marker="o")
            line(axes, x, before, "reference", 5, linestyle="--")
            if is_alarm.any():
                at = is_alarm > 0
                mark(axes, (x[at], new[at]), "*", LIGHT[4], "alarm")
            _windows(axes, _TITLES[kind][1], names)

        return draw

    pictures: list[tuple[str, list[str], Panel]] = [
        ("Evidence of a change", [*courses], evidence)
    ]
    pictures += [
        (_TITLES[kind][0], [kind], course(kind, i)) for i, kind in enumerate(courses)
    ]
    header = ("window", "test", "reference", "new", "p")
    shown = []
    for title, kinds, draw in pictures:
        rows = [
            (str(names[i]), kind, test.reference, test.new, test.p_value)
            for kind in kinds
            for i, test in courses[kind]
        ]
        text = "A window gives an alarm if one of its tests is above the dashed line."
        if draw is not evidence:
            has = any(test.is_alarm for _, test in courses[kinds[0]])
            text = "Dashed: the reference." + " Stars: alarms." * has
        display = Display(
            title=title,
            columns=as_columns(header, rows),
            brief=Brief(header, rows),
            panels=(draw,),
        )
        shown.append((display, text))
    return shown


def _windows(axes: Any, text: str, names: Sequence[str]) -> None:
    """Name the windows below the axis, or number them."""
    numbers = [str(1 + i) for i in range(len(names))]
    if _fit(names):
        axes.set_xticks(range(len(names)), [readable(name) for name in names])
    elif _fit(numbers):
        axes.set_xticks(range(len(names)), numbers)
    else:
        axes.xaxis.set_major_formatter(lambda x, _: f"{x + 1:g}")
    axes.set_xlim(-0.25, len(names) - 0.75)
    label(axes, "window" if _fit(names) else "number of the window", text)


def _fit(names: Sequence[str]) -> bool:
    return len(names) * (max(map(len, names)) + 2) <= _MOST_LETTERS


def _digits(p_value: float) -> float:
    return -log10(max(p_value, _LEAST)) + 0.0
