"""`write`: a study as one self-contained, reproducible HTML page."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from openset import _check, _io, _optional
from openset._version import __version__
from openset.report import explorer, summary, views
from openset.report.display import CSS, HERE, number_text, readable
from openset.report.leaderboard import average, board, n_runs, overview
from openset.report.read import Study, read
from openset.scores import Scores

MOST_VIEWS = 6
"""Largest number of problems with figures."""

_ORDER = ("finding", "passed", "not applicable")


def write(
    source: str | Path | Sequence[str | Path],
    path: str | Path,
    *,
    threshold: float | None = None,
    pin: Sequence[str] = (),
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
        parent folder of its splits and seeds; a folder with ``scores/NAME.npz``; one
        file of `Scores`; a list of them, of the same samples, each named after its
        file; or a pattern, ``runs/{method}_seed{seed}.csv``: ``{seed}``, ``{run}``,
        ``{fold}`` and ``{split}`` number repeats, ``{protocol}`` names the problem, and
        all other fields name the method.
    path
        File to write.
    threshold
        The threshold in use, for one file of scores; it must be chosen on other data.
    pin
        Methods that figures and explorer show in any case; else the five leading ones.
    columns, unknown_label, higher_is_unknown
        How to read files of scores: see :meth:`openset.Scores.load`.

    Returns
    -------
    Path
        `path`.
    """
    path = Path(path)
    _check.ending("report.write", path, [".html", ".htm"])
    jinja2 = _optional.optional("jinja2", "report")  # before the data are read
    how: Any = {"columns": columns, "unknown_label": unknown_label}
    how["higher_is_unknown"] = higher_is_unknown
    study = read(source, partial(Scores.load, **how), threshold)
    methods = list(dict.fromkeys(run.method for run in study.runs))
    for name in pin:
        _check.one_of("report", "pin", name, methods)
    script = (HERE / "templates" / "page.js").read_text("utf-8")
    # Only this script may run, even if markup in a name escaped the filters.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"plain": readable, "number": number_text}
    made.filters |= {"label": study.label, "whisker": _whisker}
    made.filters |= {"average": average, "n_runs": n_runs}
    # Trusted, and not escaped: our own files, and drawings, which escape names.
    trusted = _optional.optional("markupsafe", "report").Markup
    text = made.get_template("page.html.j2").render(
        **_content(study, pin),
        version=__version__,
        style=trusted(CSS + (HERE / "templates" / "page.css").read_text("utf-8")),
        script=script,
        script_hash=digest,
        drawn=trusted,
    )
    _io.put(path, text)
    return path


def _content(study: Study, pin: Sequence[str]) -> dict[str, Any]:
    shown: list[views.View] = []
    loaded: list[views.Pairs] = []
    for protocol in dict.fromkeys(run.place.protocol for run in study.runs):
        runs = [run for run in study.runs if run.place.protocol == protocol]
        one = board(study, runs)
        chosen = views.chosen(runs, one, pin) if len(shown) < MOST_VIEWS else []
        pairs = [(run, run.scores()) for run in chosen]
        loaded.append([pair for pair in pairs if views.has_both(pair[1])])
        shown.append(views.view(protocol, one, loaded[-1], runs))
    headline = shown[0].board.columns[0]
    whole = overview(study, headline) if len(shown) > 1 else None
    found = sorted(summary.findings(study), key=lambda one: _ORDER.index(one.status))
    # The best of every problem first, then the next ones, while there is room.
    packed = explorer.pack(filter(None, chain(*zip_longest(*loaded))))
    # A single run needs no leaderboard.
    all_metrics = study.runs[0].values if len(study.runs) == 1 else {}
    return {
        "title": study.title,
        "headline": headline,
        "counts": summary.counts(study),
        "sentences": summary.sentences(study, shown[0], whole),
        "findings": found,
        "tally": {s: sum(one.status == s for one in found) for s in _ORDER},
        "cautions": summary.cautions(study.runs),
        "overview": whole,
        "views": shown,
        "metrics": [(study.label(key), one) for key, one in all_metrics.items()],
        "n_hidden_views": max(len(shown) - MOST_VIEWS, 0),
        "training": views.training(study),
        "cells": packed.cells,
        "data": {"cells": packed.cells, "arrays": packed.arrays},
        "n_runs": len(study.runs),
    }


def _whisker(method: str, view: views.View) -> str:
    """Draw mean and interval as an error bar, scaled to the first column."""
    column, bars = view.board.columns[0], view.ends
    means = {m: e.mean for (m, c), e in view.board.entries.items() if c == column}
    values = [*means.values(), *(end for ends in bars.values() for end in ends)]
    low, high = min(values), max(values)
    if high == low:
        low, high = low - 0.5, high + 0.5

    def at(value: float) -> float:
        return 4 + 88 * (value - low) / (high - low)

    bar = ""
    if method in bars:
        bar = '<path d="M{:.1f} 8H{:.1f}"/>'.format(*map(at, bars[method]))
    return (
        '<svg class="whisker" viewBox="0 0 96 16" aria-hidden="true">'
        f'<path class="rail" d="M4 8H92"/>{bar}'
        f'<circle cx="{at(means[method]):.1f}" cy="8" r="3"/></svg>'
    )
