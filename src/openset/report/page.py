"""`write`: a study as one self-contained, reproducible HTML page."""

import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from openset import _check, _io, _optional
from openset._types import UndefinedMetricError
from openset._version import __version__
from openset.metrics import osa_optimum
from openset.report import curves, explorer, groups, settings, summary
from openset.report.display import CSS, HERE, Display, readable
from openset.report.leaderboard import Board, PairTests, board, overview, pair_tests
from openset.report.read import Run, Study, read
from openset.scores import Scores
from openset.thresholds import operate

MOST_METHODS = 5
"""Largest number of methods in one figure."""

MOST_REPEATS = 20
"""Largest number of repeats behind the band of a curve."""

MOST_VIEWS = 6
"""Largest number of problems with figures."""

Pairs = Sequence[tuple[Run, Scores]]

_FOUR = ("inner_score", "outer_score", "halfpoint_score", "overall_score")
_BY_RULE = {"outer_score", "halfpoint_score", "halfpoint_k_plus_1", "overall_score"}
_ORDER = ("finding", "passed", "not applicable")


@dataclass(frozen=True, eq=False)
class Figure:
    """A display with a sentence of explanation."""

    display: Display
    text: str

    @property
    def svg(self) -> str:
        """The drawing, without the colours: the page has them."""
        return self.display.svg(style=False)


@dataclass(frozen=True, eq=False)
class View:
    """Leaderboard, figures, matrix and tests of one problem."""

    protocol: str
    board: Board
    figures: Sequence[Figure] = ()
    about: str = ""
    matrix: Figure | None = None
    regions: Sequence[tuple[str, float, str]] = ()
    tests: PairTests | None = None


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
    path = html_path("report.write", path)
    environment()  # before the data are read
    if threshold is not None:
        threshold = _check.threshold("report", threshold)
    study = read(
        source,
        threshold=threshold,
        columns=columns,
        unknown_label=unknown_label,
        higher_is_unknown=higher_is_unknown,
    )
    methods = list(dict.fromkeys(run.method for run in study.runs))
    for name in pin:
        _check.one_of("report", "pin", name, methods)
    script = (HERE / "templates" / "page.js").read_text("utf-8")
    # Only this script may run, even if markup in a name escaped the filters.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    text = fill(
        "page.html.j2",
        filters={"number": number_text, "label": study.label, "whisker": _whisker},
        **_content(study, pin),
        script=script,
        script_hash=digest,
    )
    _io.put(path, text)
    return path


def html_path(caller: str, path: str | Path) -> Path:
    """Return the path of a page; raise unless its name is that of one."""
    path = Path(path)
    if path.suffix not in {".html", ".htm"}:
        _check.fail(caller, "path", "a name that ends in .html", repr(path.name))
    return path


def environment() -> Any:
    """Return what fills the templates of this package."""
    jinja2 = _optional.optional("jinja2", "report")
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def fill(
    template: str, *, filters: Mapping[str, Callable[..., Any]], **content: Any
) -> str:
    """Return a page as text. What a template calls `drawn` on is not escaped."""
    made = environment()
    made.filters |= {"plain": readable, **filters}
    # Trusted: our own files, and drawings whose names are escaped when drawn.
    trusted = _optional.optional("markupsafe", "report").Markup
    style = CSS + (HERE / "templates" / "page.css").read_text("utf-8")
    return made.get_template(template).render(
        **content, version=__version__, style=trusted(style), drawn=trusted
    )


def _content(study: Study, pin: Sequence[str]) -> dict[str, Any]:
    by_protocol: dict[str, list[Run]] = {}
    for run in study.runs:
        by_protocol.setdefault(run.protocol, []).append(run)
    views: list[View] = []
    loaded: list[Pairs] = []
    for protocol, runs in by_protocol.items():
        one = board(study, runs)
        chosen = _chosen(runs, one, pin) if len(views) < MOST_VIEWS else []
        pairs = [(run, run.scores()) for run in chosen]
        pairs = [pair for pair in pairs if _has_both(pair[1])]
        loaded.append(pairs)
        views.append(_view(study, protocol, one, pairs, runs))
    headline = views[0].board.columns[0]
    whole = overview(study, headline) if len(views) > 1 else None
    found = sorted(summary.findings(study), key=lambda one: _ORDER.index(one.status))
    # The best of every problem first, then the next ones, while there is room.
    turns = [
        pairs[i] for i in range(MOST_METHODS) for pairs in loaded if i < len(pairs)
    ]
    packed = explorer.pack(turns)
    return {
        "title": study.title,
        "headline": headline,
        "counts": summary.counts(study),
        "sentences": summary.sentences(study, views[0].board, whole, views[0].tests),
        "findings": found,
        "tally": {s: sum(one.status == s for one in found) for s in _ORDER},
        "cautions": summary.cautions(study.runs),
        "overview": whole,
        "views": views,
        "metrics": _all_metrics(study),
        "n_hidden_views": max(len(views) - MOST_VIEWS, 0),
        "training": _training(study, headline),
        "cells": packed.cells,
        "data": {"cells": packed.cells, "arrays": packed.arrays},
        "n_runs": len(study.runs),
    }


def _all_metrics(study: Study) -> list[tuple[str, Any]]:
    """Return all metrics if there is a single run, which needs no leaderboard."""
    if len(study.runs) > 1:
        return []
    return [(study.label(key), one) for key, one in study.runs[0].values.items()]


def _has_both(scores: Scores) -> bool:
    """Whether there are known and unknown samples, as every curve needs."""
    return scores.n_known > 0 and scores.n_unknown > 0


def _chosen(runs: Sequence[Run], one: Board, pin: Sequence[str]) -> list[Run]:
    """Choose methods for the figures, and the first repeat that most of them have."""
    pinned = [name for name in one.methods if name in pin]
    others = [name for name in one.methods if name not in pin]
    shown = {*pinned, *others[: max(MOST_METHODS - len(pinned), 0)]}
    repeats: dict[tuple[str, int, int, int], dict[str, Run]] = {}
    for run in runs:
        if run.method in shown and run.has_scores:
            repeats.setdefault(run.place, {}).setdefault(run.method, run)
    if not repeats:
        return []
    best = min(repeats, key=lambda repeat: (-len(repeats[repeat]), repeat))
    return [repeats[best][name] for name in one.methods if name in repeats[best]]


def _view(
    study: Study, protocol: str, one: Board, pairs: Pairs, runs: Sequence[Run]
) -> View:
    """Draw the figures of one problem; `pairs` are in the order to show."""
    if not pairs:
        return View(protocol, one)
    first, scores = pairs[0]
    threshold, at = first.cut, "at the threshold in use"
    if threshold is None:
        threshold = osa_optimum(scores).threshold
        at = "at the best threshold for these samples (oracle)"
    at = f"{readable(first.method)}, {at}, {number_text(threshold)}"
    decided = (scores, threshold)
    matrix = groups.confusion_matrix(*decided, classes=first.classes)
    matrix = replace(matrix, title="Four views of one confusion matrix")
    regions: Any = groups.confusion_regions(*decided).brief.rows
    about = f"{scores.n_known:,} known and {scores.n_unknown:,} unknown test samples"
    is_one = len({run.place for run in runs}) == 1
    if not is_one:
        about += (
            "; OSCR, ROC and risk over coverage are means over repeats, the other "
            f"figures are of repeat {first.repeat}, seed {first.seed}"
        )
    if len(one.methods) > len(pairs):
        about += f"; {len(pairs)} of {len(one.methods)} methods"
    return View(
        protocol,
        one,
        figures=list(_figures(study, pairs, runs, threshold, at)),
        about=about,
        matrix=Figure(matrix, f"{at}. True class by row, decision by column; shades "
                      "are shares of the row."),
        regions=regions,
        # Over repeats the differences vary for other reasons than these samples.
        tests=pair_tests(pairs, one.columns[0]) if is_one else None,
    )  # fmt: skip


def _figures(
    study: Study, pairs: Pairs, runs: Sequence[Run], threshold: float, at: str
) -> Iterator[Figure]:
    table = {run.method: _repeats(run, own, runs) for run, own in pairs}
    counts = sorted({len(one) for one in table.values()} - {1})
    band = ""
    if counts:
        shown = " or ".join(map(str, counts))
        band = f" Mean over {shown} repeats; the band is one standard deviation."
    yield Figure(
        curves.oscr(table),
        "The share of known samples accepted with the right class, over the share of "
        f"unknown samples accepted; the area is OpenAUC.{band}",
    )
    yield Figure(
        curves.roc(table),
        "The share of known samples accepted, whatever their class, over the share of "
        f"unknown samples accepted; the area is AUROC.{band}",
    )
    yield Figure(
        curves.risk_coverage(table),
        "The share of errors among the accepted samples (wrong class, or unknown), "
        "over the share of all samples accepted; the mean is AURC. It depends on how "
        f"many of the test samples are unknown.{band}",
    )
    chosen = {r.method: r.threshold for r, _ in pairs if r.threshold is not None}
    alphas = {run.alpha for run, _ in pairs}
    text = "The diamond is the oracle: the best threshold for these samples."
    text += " The star is the threshold in use, chosen on other data." if chosen else ""
    yield Figure(
        curves.osa_over_urr(
            {run.method: own for run, own in pairs},
            thresholds=chosen,
            # the α of the study's own report
            alpha=alphas.pop() if len(alphas) == 1 else None,
        ),
        text,
    )
    first, scores = pairs[0]
    name = readable(first.method)
    yield Figure(
        curves.metric_against_unknown_tpr(scores),
        f"{name}: the dot marks the best threshold by each metric. A metric whose dot "
        "is far to the left prefers a threshold that accepts most unknowns (Fig. 1 of "
        "the OpenAUC paper).",
    )
    for run, own in pairs[:2]:
        values = groups.histogram(own, threshold=run.cut)
        yield Figure(
            replace(values, title=f"{values.title}, {readable(run.method)}"),
            "Distribution of knownness; the bars of each group sum to 1.",
        )
    yield Figure(
        groups.per_class_rejection(scores, threshold, classes=first.classes),
        f"{at}: share of samples rejected. It should be low for known classes (above) "
        "and high for unknown samples (below).",
    )
    yield from _over_alpha(first, scores)
    magnitudes = study.magnitudes(first)
    if magnitudes is not None:
        yield Figure(
            groups.feature_magnitudes(magnitudes),
            f"{magnitudes.sentence()} Test features of one network (Fig. 2 of the "
            "PostMax paper).",
        )


def _repeats(run: Run, scores: Scores, runs: Sequence[Run]) -> list[Scores]:
    """Return the scores of every repeat of a method, this run's first."""
    others = sorted(
        (one for one in runs if one.method == run.method and one.has_scores),
        key=lambda one: one.place,
    )
    found = (one.scores() for one in others if one.place != run.place)
    return [scores, *islice(filter(_has_both, found), MOST_REPEATS - 1)]


def _over_alpha(run: Run, scores: Scores) -> Iterator[Figure]:
    """Draw the effect of a wrong α, if calibration scores were saved."""
    calibration = run.calibration()
    if calibration is None or not _has_both(calibration):
        return
    try:
        table = [
            {"alpha": alpha}
            | operate(calibration, scores, alpha=alpha, alpha_test=0.5).to_dict()
            for alpha in explorer.ALPHAS[5:100:5].tolist()
        ]
    except (ValueError, UndefinedMetricError):
        return  # calibrated on the test samples, which the checks report
    yield Figure(
        settings.alpha_sweep(table),
        f"{readable(run.method)}: open-set accuracy on the test set, if the threshold "
        "is chosen with this α, the expected share of known samples in operation.",
    )


def _training(study: Study, headline: str) -> list[Figure]:
    """Draw sensitivity and learning curves, if the runs have such data."""
    parameters = sorted({name for run in study.runs for name in run.numbers})
    figures = [f for name in parameters for f in _sensitivity(study, name, headline)]
    # All detectors of one network have its curve: it is drawn once.
    found: dict[str, dict[tuple[Any, ...], Any]] = {}
    for run in study.runs:
        if run.curve:
            of_method = found.setdefault(run.trained, {})
            of_method[run.protocol, run.repeat, run.seed] = run.curve
    few = {name: list(of.values()) for name, of in islice(found.items(), MOST_METHODS)}
    if not few:
        return figures
    n = len({run.protocol for run in study.runs if run.curve})
    which = f"the runs of all {n} problems" if n > 1 else "runs"
    text = f"Mean over {which}; the band is one standard deviation."
    every = [record for own in few.values() for run in own for record in run]
    shared = [
        key
        for key in every[0]
        if key not in {"epoch", *_BY_RULE} and all(key in one for one in every)
    ]
    figures.append(Figure(settings.learning_curves(few, metrics=shared), text))
    # Only methods that were published with a rule to reject samples have all four.
    with_four = {
        name: own
        for name, own in few.items()
        if all(key in record for run in own for record in run for key in _FOUR)
    }
    if with_four:
        title = "Inner, Outer, Halfpoint and Overall over training"
        shown = replace(settings.learning_curves(with_four, metrics=_FOUR), title=title)
        text += (
            " Samples are rejected by the rule each method was published with, as in "
            "Fig. 6 of the class-imbalance paper."
        )
        left_out = ", ".join(readable(name) for name in few if name not in with_four)
        text += f" Without a published rule, and left out: {left_out}." * bool(left_out)
        figures.append(Figure(shown, text))
    return figures


def _sensitivity(study: Study, parameter: str, headline: str) -> Iterator[Figure]:
    """Draw the headline metric over a parameter, for the method that varies it most."""
    families: dict[str, dict[str, dict[float, list[float]]]] = {}
    for run in study.runs:
        if parameter in run.numbers and headline in run.values:
            values = families.setdefault(run.family, {})
            of_protocol = values.setdefault(run.protocol or "all", {})
            found = of_protocol.setdefault(run.numbers[parameter], [])
            found.append(run.values[headline].value)
    n = {
        name: len({at for one in of.values() for at in one})
        for name, of in families.items()
    }
    family = max(n, key=n.__getitem__, default="")
    if n.get(family, 0) < 2:
        return
    few = dict(islice(families[family].items(), MOST_METHODS))
    name, label = readable(parameter, 40), study.label(headline)
    yield Figure(
        settings.sensitivity(few, parameter=name, metric=label),
        f"{readable(family)}: mean over repeats; the band is one standard deviation "
        "(as in Fig. 2 of the OpenAUC paper).",
    )


def number_text(value: Any) -> str:
    """Format a number for a table: four decimals, none for counts."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        return readable(value)
    if isinstance(value, int | np.integer):
        return f"{int(value):,}"
    number = float(value)
    if np.isnan(number):
        return "–"
    if not np.isfinite(number):
        return "∞" if number > 0 else "−∞"
    large = abs(number) >= 1000 or 0 < abs(number) < 1e-4
    text = f"{number:.4g}" if large else f"{number:.4f}"
    return text.replace("-", "\N{MINUS SIGN}")


def _whisker(method: str, one: Board) -> str:
    """Draw mean and interval as an error bar, scaled to the first column."""
    column = one.columns[0]
    means = {m: e.mean for (m, c), e in one.entries.items() if c == column}
    bars = {m: ends for (m, c), ends in one.ends.items() if c == column}
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
