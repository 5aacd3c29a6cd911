"""One self-contained HTML page of a study: opens offline, the same bytes every time."""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from openset import _check, _io
from openset._types import UndefinedMetricError
from openset._version import __version__
from openset.checks import Finding
from openset.metrics import osa_optimum
from openset.report import _explorer, _leaderboard, _material
from openset.report._curves import oscr, roc
from openset.report._display import Brief, Display
from openset.report._histogram import histogram
from openset.report._inconsistency import metric_against_unknown_tpr
from openset.report._leaderboard import Board, label
from openset.report._learning import learning_curves, sensitivity
from openset.report._material import Material, Run
from openset.report._matrix import draw_matrix, pooled
from openset.report._operation import osa_over_urr
from openset.report._regions import REGIONS, Regions, confusion_regions
from openset.report._rejection import per_class_rejection
from openset.report._svg import STYLE, draw_svg, readable
from openset.report._sweeps import alpha_sweep
from openset.scores import Scores
from openset.stats import compare, paired_t
from openset.thresholds import Threshold, sweep_alpha

MOST_VIEWS = 6
"""Protocols that get figures of their own."""

MOST_METHODS = 5
"""Methods that one figure compares."""

_HERE = Path(__file__).parent


@dataclass(frozen=True, eq=False)
class Figure:
    """A drawing with its heading, a sentence to read it by, and its table."""

    title: str
    text: str
    svg: str
    brief: Brief
    wide: bool = False


@dataclass(frozen=True, eq=False)
class Matrix:
    """The confusion matrix of the leading method, with the four scores."""

    method: str
    at: str
    svg: str
    brief: Brief
    scores: tuple[tuple[str, float, str], ...]


@dataclass(frozen=True, eq=False)
class View:
    """What the page shows of one protocol."""

    protocol: str
    board: Board
    figures: tuple[Figure, ...]
    matrix: Matrix | None
    about: str


def write(
    source: str | Path, path: str | Path, *, threshold: float | None = None
) -> Path:
    """Write the report of a study as one HTML file.

    The file holds everything it shows: it opens offline, asks nobody for anything and
    is the same, byte for byte, for the same results. It leads with a summary and the
    findings of `openset.checks`, then the leaderboard, the threshold explorer and the
    figures, each with its table.

    Parameters
    ----------
    source
        A run folder of ``openset bench``; a folder with ``scores/NAME.npz`` (and what
        else :func:`openset.checks.run_folder` reads); or one file of `Scores`.
    path
        Where to write it.
    threshold
        The threshold in use, for one file of scores. Choose it on other data.

    Returns
    -------
    Path
        `path`.
    """
    path = Path(path)
    if path.suffix not in {".html", ".htm"}:
        rule = "a name that ends in .html"
        got = repr(path.name)
        raise ValueError(_check.must(rule, caller="report.write", name="path", got=got))
    text = render(source, threshold=threshold)
    _io.write(path, lambda stream: stream.write(text.encode()))
    return path


def render(source: str | Path, *, threshold: float | None = None) -> str:
    """Return the page as text; see :func:`write`."""
    jinja2 = _io.optional("report", "jinja2", name="report")
    if threshold is not None:
        threshold = _check.threshold("report", threshold)
    material = _material.read(source, threshold=threshold)
    content = _content(material)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": _number,
        "plain": readable,
        "label": label,
        "whisker": _whisker,
    }
    script = (_HERE / "page.js").read_text("utf-8")
    style = STYLE + (_HERE / "page.css").read_text("utf-8")
    # Only this script may run: whatever slipped through as markup would not.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # Our own files, and drawings whose every name is escaped where it is drawn.
    trusted = jinja2.utils.markupsafe.Markup
    return environment.get_template("page.html.j2").render(
        **content,
        version=__version__,
        style=trusted(style),
        script=trusted(script),
        script_hash=digest,
        drawn=trusted,
    )


def _content(material: Material) -> dict[str, Any]:
    by_protocol: dict[str, list[Run]] = {}
    for run in material.runs:
        by_protocol.setdefault(run.protocol, []).append(run)
    boards = {
        protocol: _leaderboard.board(runs, material.headline)
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
        _view(protocol, one, loaded.get(protocol, []), by_protocol[protocol])
        for protocol, one in boards.items()
    ]
    found = _material.findings(material)
    # Best of every protocol first, then the runners-up, as long as there is room.
    turns = [
        pairs[place]
        for place in range(MOST_METHODS)
        for pairs in loaded.values()
        if place < len(pairs) and _has_both(pairs[place][1])
    ]
    packed = _explorer.pack(turns)
    return {
        "title": material.title,
        "headline": headline,
        "counts": _counts(material, boards),
        "sentences": _sentences(material, boards, headline, views)
        + _lead(material, loaded, _leader(boards, headline), headline),
        "findings": _sorted(_told(found, material)),
        "tally": _tally(found),
        "overview": _leaderboard.overview(boards, headline)
        if len(boards) > 1
        else None,
        "views": views,
        "metrics": _metrics(material.runs),
        "n_hidden_views": max(len(boards) - MOST_VIEWS, 0),
        "training": _training(material, headline),
        "cells": packed.cells,
        "data": {"cells": packed.cells, "arrays": packed.arrays},
        "n_left_out": packed.n_left_out,
        "n_runs": len(material.runs),
    }


def _metrics(runs: Sequence[Run]) -> list[tuple[str, Any]]:
    """Return all metrics of a lone run: with one row there is no race."""
    if len(runs) > 1:
        return []
    values = runs[0].values
    first = [name for name in _leaderboard.LABELS if name in values]
    rest = [name for name in values if name not in first]
    return [(label(name), values[name]) for name in (*first, *rest)]


def _has_both(scores: Scores) -> bool:
    return scores.n_known > 0 and scores.n_unknown > 0


def _reference(runs: Sequence[Run], board: Board) -> list[Run]:
    """Choose the repeat the figures show: the first that most leading methods have."""
    leading = board.methods[:MOST_METHODS]
    repeats: dict[tuple[int, int], dict[str, Run]] = {}
    for run in runs:
        if run.method in leading and run.has_scores:
            repeats.setdefault(run.repeat, {}).setdefault(run.method, run)
    if not repeats:
        return []
    best = min(repeats, key=lambda repeat: (-len(repeats[repeat]), repeat))
    return [repeats[best][method] for method in leading if method in repeats[best]]


def _view(
    protocol: str,
    board: Board,
    pairs: Sequence[tuple[Run, Scores]],
    runs: Sequence[Run],
) -> View:
    pairs = [(run, scores) for run, scores in pairs if _has_both(scores)]
    if not pairs:
        return View(protocol, board, (), None, "")
    table = {run.method: scores for run, scores in pairs}
    first, scores = pairs[0]
    about = f"{scores.n_known:,} known and {scores.n_unknown:,} unknown test samples"
    repeats = {run.repeat for run in runs}
    if len(repeats) > 1:
        about += f"; repeat {first.repeat[0]}, seed {first.repeat[1]} of {len(repeats)}"
    if len(board.methods) > len(pairs):
        about += f"; the {len(pairs)} leading of {len(board.methods)} methods"
    cut, value, at = _in_use(first, scores)
    figures = [
        _figure(
            oscr(table),
            "How many knowns are named rightly when so many unknowns get in; the area "
            "is OpenAUC.",
        ),
        _figure(
            roc(table),
            "Known against unknown, whatever the class; the area is AUROC.",
        ),
        _operating(pairs),
        _figure(
            metric_against_unknown_tpr(scores),
            f"{readable(first.method)}: a dot far to the left recommends letting "
            "unknowns in (Fig. 1 of the OpenAUC paper).",
        ),
        *(
            _figure(
                histogram(one, threshold=_number_in_use(run)),
                f"{readable(run.method)}: how knownness is spread; every group adds "
                "up to 1.",
                title=f"Knownness by group, {readable(run.method)}",
            )
            for run, one in pairs[:2]
        ),
        _figure(
            per_class_rejection(cut, value, classes=first.classes),
            f"{readable(first.method)}, {at}: short bars above, long bars below.",
        ),
    ]
    swept = _alpha(first, scores)
    if swept is not None:
        figures.append(swept)
    regions = confusion_regions(cut, value, classes=first.classes)
    return View(protocol, board, tuple(figures), _matrix(regions, first, at), about)


def _figure(display: Display, text: str, *, title: str = "") -> Figure:
    return Figure(
        title=title or display.title,
        text=text,
        svg=draw_svg(display.charts, label=display.title, style=False),
        brief=display.brief,
        wide=len(display.charts) > 1,
    )


def _number_in_use(run: Run) -> float | None:
    threshold = run.threshold
    if isinstance(threshold, Threshold):
        return None if threshold.per_class else threshold.value
    return threshold


def _in_use(run: Run, scores: Scores) -> tuple[Scores, float, str]:
    """Return scores, the number to cut them at, and words for it."""
    threshold = run.threshold
    if isinstance(threshold, Threshold):
        cut, value = threshold.cut(scores)
        if threshold.per_class:
            return cut, value, "at its thresholds per class"
        return cut, value, f"at the threshold in use, {_number(value)}"
    if threshold is not None:
        return scores, threshold, f"at the threshold in use, {_number(threshold)}"
    best = osa_optimum(scores).threshold
    words = f"at the threshold that is best in hindsight, {_number(best)}"
    return scores, best, words


def _operating(pairs: Sequence[tuple[Run, Scores]]) -> Figure:
    thresholds = {
        run.method: run.threshold for run, _ in pairs if run.threshold is not None
    }
    shares = {scores.n_known / len(scores) for _, scores in pairs}
    alphas = {run.alpha for run, _ in pairs}
    alpha = None if len(shares) == 1 else 0.5
    if len(alphas) == 1:  # what the study itself reported with
        alpha = alphas.pop() or alpha
    curves = osa_over_urr(dict_of(pairs), thresholds=thresholds, alpha=alpha)
    text = "The diamond is the oracle: the best threshold for these very samples."
    if thresholds:
        text += " The star is the threshold in use, chosen on other data."
    return _figure(curves.display(), text)


def dict_of(pairs: Sequence[tuple[Run, Scores]]) -> dict[str, Scores]:
    """Return scores by the name of their method."""
    return {run.method: scores for run, scores in pairs}


def _alpha(run: Run, scores: Scores) -> Figure | None:
    """Draw what a wrong guess of α costs, where calibration scores were kept."""
    calibration = run.calibration()
    if calibration is None or not _has_both(calibration):
        return None
    try:
        table = sweep_alpha(
            calibration, scores, alphas=_explorer.ALPHAS[5:100:5].tolist()
        )
    except (ValueError, UndefinedMetricError):
        return None  # calibrated on the test samples: OSR-checks say so above
    text = (
        f"{readable(run.method)}: what the threshold reaches when α, the share of "
        "knowns expected in operation, is guessed so."
    )
    return _figure(alpha_sweep(table), text)


def _matrix(regions: Regions, run: Run, at: str) -> Matrix:
    names = regions.names("overall")
    matrix, shown = pooled(regions.overall, names)
    meaning = {
        "inner": "named rightly among the known classes, nobody rejected",
        "outer": "known told from unknown, whatever the class",
        "halfpoint": "known classes; a rejected known is an error",
        "overall": "known classes and “unknown” as one more class",
    }
    return Matrix(
        method=readable(run.method),
        at=at,
        svg=draw_matrix(
            matrix,
            shown,
            label="Confusion matrix: true class by row, decision by column",
            style=False,
        ),
        brief=Brief(
            header=("true class", *shown),
            rows=tuple(
                (name, *row) for name, row in zip(shown, matrix.tolist(), strict=True)
            ),
        ),
        scores=tuple((r, regions.score(r), meaning[r]) for r in REGIONS),
    )


def _training(material: Material, headline: str) -> list[Figure]:
    """Draw sensitivity and learning curves, where the runs have such data."""
    parameters = {name for run in material.runs for name in run.numbers}
    found = [_sensitivity(material, p, headline) for p in sorted(parameters)]
    figures = [figure for figure in found if figure is not None]
    # All detectors on one network have its curve: it counts once.
    curves: dict[str, dict[tuple[Any, ...], Any]] = {}
    for run in material.runs:
        if run.curve:
            of_method = curves.setdefault(run.trained, {})
            of_method[run.protocol, run.repeat] = run.curve
    if curves:
        few = {
            name: list(of_method.values())
            for name, of_method in list(curves.items())[:MOST_METHODS]
        }
        text = (
            "Mean over runs; the band is one standard deviation (Fig. 6 of the "
            "class-imbalance paper)."
        )
        figures.append(_figure(learning_curves(few), text))
    return figures


def _sensitivity(material: Material, parameter: str, headline: str) -> Figure | None:
    """Draw the headline metric over a parameter, for the family that varies it most."""
    families: dict[str, dict[str, dict[float, list[float]]]] = {}
    for run in material.runs:
        if parameter in run.numbers and headline in run.values:
            values = families.setdefault(run.family, {})
            of_protocol = values.setdefault(run.protocol or "all", {})
            found = of_protocol.setdefault(run.numbers[parameter], [])
            found.append(run.values[headline].value)
    settings = {
        family: len({at for of_protocol in values.values() for at in of_protocol})
        for family, values in families.items()
    }
    family = max(settings, key=lambda name: settings[name], default="")
    if settings.get(family, 0) < 2:
        return None
    few = dict(list(families[family].items())[:MOST_METHODS])
    shown = sensitivity(few, parameter=readable(parameter, 40), metric=label(headline))
    text = (
        f"{readable(family)}: mean over repeats; the band is one standard deviation "
        "(as in Fig. 2 of the OpenAUC paper)."
    )
    return _figure(shown, text)


def _counts(material: Material, boards: Mapping[str, Board]) -> list[str]:
    methods = {run.method for run in material.runs}
    repeats = {run.repeat for run in material.runs}
    said = [_plural(len(methods), "method"), _plural(len(boards), "problem")]
    if material.folder is None:
        run = material.runs[0]
        return [f"{run.n:,} samples"]
    if len(repeats) > 1:
        said.append(_plural(len(repeats), "repeat"))
    said.append(_plural(len(material.runs), "finished cell"))
    if material.n_failed:
        said.append(f"{material.n_failed:,} failed")
    return said


def _plural(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _sentences(
    material: Material,
    boards: Mapping[str, Board],
    headline: str,
    views: Sequence[View],
) -> list[tuple[str, str, str]]:
    """Say what came out: texts, with a name to stress in each."""
    said: list[tuple[str, str, str]] = []
    name = label(headline)
    if len(boards) > 1:
        whole = _leaderboard.overview(boards, headline)
        best = _leader(boards, headline)
        rank = whole.mean_rank[best]
        place = "" if rank is None else f", mean rank {rank:.2f}"
        said.append(
            (
                f"Over {len(boards)} problems, by {name}, ",
                best,
                f" leads: {whole.mean[best]:.4f} on average{place}.",
            )
        )
    else:
        one = next(iter(boards.values()))
        best = one.methods[0]
        top = one.scores[best][headline]
        if len(one.methods) == 1:
            said.append(("", best, f" reaches {name} {_with_spread(top)}."))
        else:
            said.append((f"By {name}, ", best, f" leads with {_with_spread(top)}."))
            second = one.methods[1]
            behind = one.scores[second].get(headline)
            if behind is not None:
                said.append(("Next is ", second, f" with {_with_spread(behind)}."))
    done = [
        run.operation
        for run in material.runs
        if run.method == best
        and run.operation is not None
        and {"oosa", "oracle"} <= set(run.operation)
    ]
    if done:
        reached, oracle = (
            fmean(float(one[name]) for one in done) for name in ("oosa", "oracle")
        )
        over = "" if len(done) == 1 else f" (means of {len(done)} runs)"
        said.append(
            (
                "In operation the threshold of ",
                best,
                f" reaches an open-set accuracy of {reached:.4f}; the best in "
                f"hindsight has {oracle:.4f}{over}.",
            )
        )
    if not any(view.figures for view in views):
        said.append(("No test scores were kept, so there are no figures.", "", ""))
    return said


def _leader(boards: Mapping[str, Board], headline: str) -> str:
    """Return the method that leads: on the one problem, or over all of them."""
    if len(boards) == 1:
        return next(iter(boards.values())).methods[0]
    return _leaderboard.overview(boards, headline).methods[0]


def _lead_over_runs(
    material: Material, leader: str, headline: str, n_runs: int
) -> list[tuple[str, str, str]]:
    """Test the leader against all others over the runs they share."""
    values: dict[str, dict[tuple[Any, ...], float]] = {}
    for run in material.runs:
        if headline in run.values:
            of_method = values.setdefault(run.method, {})
            of_method[run.protocol, run.repeat] = run.values[headline].value
    order = sorted(values.get(leader, {}))
    table = {
        method: [of_method[at] for at in order]
        for method, of_method in values.items()
        if set(order) <= set(of_method)
    }
    if len(order) < 3 or len(table) < 2:
        return []
    tests = paired_t(table, "holm", against=leader)
    equal = [test.b for test in tests if not test.p_corrected < 0.05]
    how = f"(paired t-tests over {len(order)} of {n_runs} runs, Holm's correction)"
    if not equal:
        return [
            (f"The lead over every other method is more than chance {how}.", "", "")
        ]
    names = ", ".join(readable(name, 40) for name in equal[:4])
    more = f" and {len(equal) - 4} more" if len(equal) > 4 else ""
    return [("By chance alone it could as well be ", f"{names}{more}", f" {how}.")]


def _lead(
    material: Material,
    loaded: Mapping[str, Sequence[tuple[Run, Scores]]],
    leader: str,
    headline: str,
) -> list[tuple[str, str, str]]:
    """Say whether the lead is more than chance."""
    repeats = {(run.protocol, run.repeat) for run in material.runs}
    if len(repeats) > 1:
        return _lead_over_runs(material, leader, headline, len(repeats))
    pairs = next(iter(loaded.values()), [])[:2]
    if len(pairs) < 2 or headline not in {"openauc", "auroc"}:
        return []
    (_, first), (_, second) = pairs
    is_paired = len(first) == len(second) and (first.labels == second.labels).all()
    if not (is_paired and _has_both(first)):
        return []
    found = compare(first, second, headline)
    span = found.interval
    verdict = "" if found.p_value < 0.05 else ": no more than chance would give"
    ends = f"{span.low:+.4f} to {span.high:+.4f}".replace("-", "\N{MINUS SIGN}")
    text = (
        f"On the same samples the lead is {found.difference:.4f} (95 % interval "
        f"{ends}, p = {found.p_value:.2g}){verdict}."
    )
    return [(text, "", "")]


def _with_spread(score: _leaderboard.Score) -> str:
    if score.spread is not None:
        return f"{score.mean:.4f} ± {score.spread:.4f} ({score.n} runs)"
    if score.low is not None and score.high is not None:
        return f"{score.mean:.4f} (95 % interval {score.low:.4f} – {score.high:.4f})"
    return f"{score.mean:.4f}"


def _told(found: Sequence[Finding], material: Material) -> list[Finding]:
    """Say in messages what cells are, where checks only knew their files' names."""
    if not any(run.family for run in material.runs):
        return list(found)
    names = {
        run.scores_path.stem: ", ".join(
            filter(None, [run.method, run.protocol, f"seed {run.repeat[1]}"])
        )
        for run in material.runs
        if run.scores_path is not None
    }

    def told(text: str) -> str:
        return _ID.sub(lambda match: names.get(match[0], match[0]), text)

    return [
        replace(one, message=told(one.message), remedy=told(one.remedy))
        for one in found
    ]


_ID = re.compile(r"\b[0-9a-f]{16}\b")
_ORDER = {"finding": 0, "passed": 1, "not applicable": 2}


def _sorted(found: Sequence[Finding]) -> list[Finding]:
    return sorted(found, key=lambda finding: _ORDER[finding.status])


def _tally(found: Sequence[Finding]) -> dict[str, int]:
    return {
        status: sum(finding.status == status for finding in found) for status in _ORDER
    }


def _number(value: Any) -> str:
    """Write a number for a table: four decimals, or what a count needs."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        return readable(value)
    if isinstance(value, int | np.integer):
        return f"{int(value):,}"
    number = float(value)
    if not np.isfinite(number):
        return "∞" if number > 0 else "−∞"
    large = abs(number) >= 1000 or 0 < abs(number) < 1e-4
    text = f"{number:.4g}" if large else f"{number:.4f}"
    return text.replace("-", "\N{MINUS SIGN}")


def _whisker(score: _leaderboard.Score, board: Board, metric: str) -> str:
    """Draw mean and interval on the scale of the whole column, 96 × 16."""
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
