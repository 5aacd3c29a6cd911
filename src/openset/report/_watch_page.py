"""Write the result of `openset watch` as one self-contained HTML page."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log10
from pathlib import Path

import numpy as np

from openset import _check, _io
from openset.report import _template
from openset.report._chart import Chart, Line, Mark
from openset.report._svg import draw_svg
from openset.watch import Verdict, WindowTest

_MOST_LETTERS = 44  # of all names below an axis; else windows are numbered
_MOST_EVIDENCE = 16.0  # smaller p-values than 1e-16 are drawn as that
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
    path = _template.check_ending("report.write_watch", path)
    if not verdicts or len(names) != len(verdicts):
        msg = _check.must(
            "one per name, at least one",
            caller="report.write_watch",
            name="verdicts",
            got=f"{len(verdicts)} for {len(names)} names",
        )
        raise ValueError(msg)
    text = _render(list(names), list(verdicts), title, dict(facts or {}))
    _io.put(path, text)
    return path


def _render(
    names: list[str], verdicts: list[Verdict], title: str, facts: dict[str, str]
) -> str:
    return _template.fill(
        "report.write_watch",
        "watch.html.j2",
        title=title,
        facts=facts,
        n_alarms=sum(v.is_alarm for v in verdicts),
        n_windows=len(verdicts),
        n_samples=sum(v.n for v in verdicts),
        n_invalid=sum(v.n_invalid for v in verdicts),
        share=f"{100 * verdicts[0].false_alarms:g} %",
        methods=list(
            dict.fromkeys(f"{t.name} ({t.method})" for v in verdicts for t in v.tests)
        ),
        windows=list(zip(names, verdicts, strict=True))[:_SHOWN],
        is_numbered=len(verdicts) > 1 and not _fit(names),
        n_hidden=max(len(verdicts) - _SHOWN, 0),
        figures=[
            (heading, text, draw_svg([chart], label=heading, style=False))
            for heading, text, chart in _charts(names, verdicts)
        ],
    )


def _charts(names: list[str], verdicts: list[Verdict]) -> list[tuple[str, str, Chart]]:
    """Return heading, text and chart of the evidence, then of each test."""
    if len(verdicts) < 2:
        return []  # a single point is a number of the table
    kinds = [k for k in _TITLES if any(t.name == k for v in verdicts for t in v.tests)]
    found = [
        (
            "Evidence of a change",
            "A window gives an alarm if one of its tests is above the dashed line.",
            _evidence(kinds, names, verdicts),
        )
    ]
    for colour, kind in enumerate(kinds):
        heading, text = _TITLES[kind]
        chart = _course(kind, text, colour, names, verdicts)
        stars = " Stars: alarms." if chart.marks else ""
        found.append((heading, f"Dashed: the reference.{stars}", chart))
    return found


def _course(
    kind: str, label: str, colour: int, names: list[str], verdicts: list[Verdict]
) -> Chart:
    points = _points(kind, verdicts)
    x = np.array([i for i, _ in points], dtype=float)
    new = np.array([test.new for _, test in points])
    before = np.array([test.reference for _, test in points])
    is_finite = np.isfinite(new) & np.isfinite(before)
    lines = (
        Line(
            name="new", x=x[is_finite], y=new[is_finite], colour=colour, kind="points"
        ),
        Line(
            name="reference",
            x=x[is_finite],
            y=before[is_finite],
            colour=5,
            kind="dashed",
        ),
    )
    marks = tuple(
        Mark(name="alarm", x=float(i), y=test.new, shape="star", colour=4)
        for i, test in points
        if test.is_alarm and np.isfinite(test.new)
    )
    return _chart(label, lines, marks, names)


def _evidence(kinds: list[str], names: list[str], verdicts: list[Verdict]) -> Chart:
    lines = []
    for colour, kind in enumerate(kinds):
        points = _points(kind, verdicts)
        lines.append(
            Line(
                name=kind,
                x=np.array([i for i, _ in points], dtype=float),
                y=np.array([_digits(test.p_value) for _, test in points]),
                colour=colour,
                kind="points",
            )
        )
    limit = _digits(verdicts[0].unknown_rate.limit)
    ends = np.array([0.0, float(len(verdicts) - 1)])
    lines.append(
        Line(name="limit", x=ends, y=np.full(2, limit), colour=4, kind="dashed")
    )
    return _chart("−log₁₀ p", tuple(lines), (), names)


def _chart(
    label: str, lines: tuple[Line, ...], marks: tuple[Mark, ...], names: list[str]
) -> Chart:
    named = Chart(
        x_label="window" if _fit(names) else "number of the window",
        y_label=label,
        lines=lines,
        marks=marks,
        x_limits=(-0.25, len(names) - 0.75),
        x_names=_axis(names),
    )
    if named.x_names:
        return named
    return replace(
        named,
        lines=tuple(replace(line, x=line.x + 1) for line in lines),
        marks=tuple(replace(mark, x=mark.x + 1) for mark in marks),
        x_limits=(0.75, len(names) + 0.25),
    )


def _axis(names: list[str]) -> tuple[str, ...]:
    """Return names of the windows, their numbers, or nothing: ticks are enough."""
    numbers = [str(1 + i) for i in range(len(names))]
    return next((tuple(n) for n in (names, numbers) if _fit(n)), ())


def _fit(names: list[str]) -> bool:
    return len(names) * (max(map(len, names)) + 2) <= _MOST_LETTERS


def _points(kind: str, verdicts: list[Verdict]) -> list[tuple[int, WindowTest]]:
    return [
        (i, test)
        for i, verdict in enumerate(verdicts)
        for test in verdict.tests
        if test.name == kind
    ]


def _digits(p_value: float) -> float:
    least = 10.0**-_MOST_EVIDENCE
    return -log10(max(p_value, least)) + 0.0
