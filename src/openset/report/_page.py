"""Write a study as one self-contained, reproducible HTML page."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from openset import _check, _extras, _io
from openset.checks import Finding
from openset.report import _explorer, _leaderboard, _report_data, _summary, _template
from openset.report._figures import (
    MOST_METHODS,
    has_both,
    number_text,
    training,
    view,
)
from openset.report._findings import cautions, findings
from openset.report._leaderboard import Board
from openset.report._runs import ReportData, Run

MOST_VIEWS = 6
"""Largest number of protocols with figures."""


def write(
    source: str | Path | Sequence[str | Path],
    path: str | Path,
    *,
    threshold: float | None = None,
    columns: Mapping[str, str] | None = None,
    unknown_label: str | int | None = None,
    higher_is_unknown: bool = False,
) -> Path:
    """Write the report of a study as one HTML file.

    The file is self-contained: it opens offline and loads nothing from the network. The
    same results give the same bytes. It begins with a summary, the findings of
    `openset.checks` and the cautions of the thresholds, followed by the leaderboard,
    the threshold explorer and the figures, each with its table.

    Parameters
    ----------
    source
        A run folder of ``openset bench``; a folder written by ``openset train``, or the
        parent folder of its splits and seeds; a folder with ``scores/NAME.npz`` (and
        what else :func:`openset.checks.run_folder` reads); one file of `Scores`; a list
        of them, of the same samples, each named after its file; or a pattern,
        ``runs/{method}_seed{seed}.csv``: ``{seed}``, ``{run}``, ``{fold}`` and
        ``{split}`` number repeats, ``{protocol}`` names the problem, and all other
        fields name the method.
    path
        File to write.
    threshold
        The threshold in use, for one file of scores; it must be chosen on other data.
    columns, unknown_label, higher_is_unknown
        How to read files of scores: see :meth:`openset.Scores.load`.

    Returns
    -------
    Path
        `path`.
    """
    path = _template.check_ending("report.write", path)
    text = render(
        source,
        threshold=threshold,
        columns=columns,
        unknown_label=unknown_label,
        higher_is_unknown=higher_is_unknown,
    )
    _io.put(path, text)
    return path


def render(
    source: str | Path | Sequence[str | Path],
    *,
    threshold: float | None = None,
    columns: Mapping[str, str] | None = None,
    unknown_label: str | int | None = None,
    higher_is_unknown: bool = False,
) -> str:
    """Return the page as text; see :func:`write`."""
    _extras.optional("report", "jinja2", name="report")  # before the data are read
    if threshold is not None:
        threshold = _check.threshold("report", threshold)
    data = _report_data.read(
        source,
        threshold=threshold,
        columns=columns,
        unknown_label=unknown_label,
        higher_is_unknown=higher_is_unknown,
    )
    script = (_template.HERE / "page.js").read_text("utf-8")
    # Only this script may run, even if markup in a name escaped the filters.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return _template.fill(
        "report",
        "page.html.j2",
        filters={
            "number": number_text,
            "label": data.headings.text,
            "whisker": _whisker,
        },
        **_content(data),
        script=script,
        script_hash=digest,
    )


def _content(data: ReportData) -> dict[str, Any]:
    by_protocol: dict[str, list[Run]] = {}
    for run in data.runs:
        by_protocol.setdefault(run.protocol, []).append(run)
    boards = {
        protocol: _leaderboard.board(runs, data.headline, data.headings)
        for protocol, runs in by_protocol.items()
    }
    headline = next(iter(boards.values())).metrics[0]
    chosen = {
        protocol: _reference(by_protocol[protocol], boards[protocol])
        for protocol in list(boards)[:MOST_VIEWS]
    }
    loaded = {
        protocol: [(run, run.scores()) for run in runs]
        for protocol, runs in chosen.items()
    }
    views = [
        view(
            protocol,
            one,
            loaded.get(protocol, []),
            by_protocol[protocol],
            data.magnitudes(chosen[protocol][0]) if chosen.get(protocol) else None,
        )
        for protocol, one in boards.items()
    ]
    found = findings(data)
    # The best of every protocol first, then the next ones, while there is room.
    turns = [
        pairs[place]
        for place in range(MOST_METHODS)
        for pairs in loaded.values()
        if place < len(pairs) and has_both(pairs[place][1])
    ]
    packed = _explorer.pack(turns)
    return {
        "title": data.title,
        "headline": headline,
        "counts": _summary.counts(data, boards),
        "sentences": _summary.sentences(data, loaded, boards, headline, views),
        "findings": _sorted(found),
        "tally": _tally(found),
        "cautions": cautions(data),
        "overview": _leaderboard.overview(
            boards, headline, data.headings.sign(headline)
        )
        if len(boards) > 1
        else None,
        "views": views,
        "metrics": _metrics(data),
        "n_hidden_views": max(len(boards) - MOST_VIEWS, 0),
        "training": training(data, headline),
        "cells": packed.cells,
        "data": {"cells": packed.cells, "arrays": packed.arrays},
        "n_left_out": packed.n_left_out,
        "n_runs": len(data.runs),
    }


def _metrics(data: ReportData) -> list[tuple[str, Any]]:
    """Return all metrics if there is a single run, which needs no leaderboard."""
    if len(data.runs) > 1:
        return []
    values, headings = data.runs[0].values, data.headings
    keys = dict.fromkeys([key for key in headings if key in values] + list(values))
    return [(headings.text(key), values[key]) for key in keys]


def _reference(runs: Sequence[Run], board: Board) -> list[Run]:
    """Choose the repeat for the figures: the first that most leading methods have."""
    leading = board.methods[:MOST_METHODS]
    repeats: dict[tuple[str, int, int, int], dict[str, Run]] = {}
    for run in runs:
        if run.method in leading and run.has_scores:
            repeats.setdefault(run.place, {}).setdefault(run.method, run)
    if not repeats:
        return []
    best = min(repeats, key=lambda repeat: (-len(repeats[repeat]), repeat))
    return [repeats[best][method] for method in leading if method in repeats[best]]


_ORDER = {"finding": 0, "passed": 1, "not applicable": 2}


def _sorted(found: Sequence[Finding]) -> list[Finding]:
    return sorted(found, key=lambda finding: _ORDER[finding.status])


def _tally(found: Sequence[Finding]) -> dict[str, int]:
    return {
        status: sum(finding.status == status for finding in found) for status in _ORDER
    }


def _whisker(score: _leaderboard.Score, board: Board, metric: str) -> str:
    """Draw mean and interval as an error bar, scaled to the column."""
    column = board.column(metric)
    ends = [s.mean for s in column]
    ends += [e for s in column for e in (s.low, s.high) if e is not None]
    low, high = min(ends), max(ends)
    if high == low:
        low, high = low - 0.5, high + 0.5

    def at(value: float) -> float:
        return 4 + 88 * (value - low) / (high - low)

    parts = [
        '<svg class="whisker" viewBox="0 0 96 16" aria-hidden="true">'
        '<path class="rail" d="M4 8H92"/>'
    ]
    if score.low is not None and score.high is not None:
        parts.append(f'<path d="M{at(score.low):.1f} 8H{at(score.high):.1f}"/>')
    parts.append(f'<circle cx="{at(score.mean):.1f}" cy="8" r="3"/></svg>')
    return "".join(parts)
