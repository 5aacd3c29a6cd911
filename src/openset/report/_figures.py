"""Figures of the report page: one set per protocol, and those of training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from openset._types import UndefinedMetricError
from openset.magnitudes import FeatureMagnitudes
from openset.metrics import osa_optimum
from openset.report import _explorer
from openset.report._confusion_matrix import draw_matrix, pooled
from openset.report._curves import oscr, roc
from openset.report._display import Brief, Display
from openset.report._feature_magnitudes import feature_magnitudes
from openset.report._histogram import histogram
from openset.report._leaderboard import Board
from openset.report._learning_curves import learning_curves, sensitivity
from openset.report._metric_against_unknown_tpr import metric_against_unknown_tpr
from openset.report._osa_over_urr import osa_over_urr
from openset.report._pair_tests import PairTests, pair_tests
from openset.report._regions import REGIONS, Regions, confusion_regions
from openset.report._rejection import per_class_rejection
from openset.report._risk_coverage import risk_coverage
from openset.report._runs import ReportData, Run
from openset.report._svg import draw_svg, readable
from openset.report._sweeps import alpha_sweep
from openset.scores import Scores
from openset.thresholds import Threshold, operate

MOST_METHODS = 5
"""Largest number of methods in one figure."""

MOST_REPEATS = 20
"""Largest number of repeats behind the band of a curve."""


@dataclass(frozen=True, eq=False)
class Figure:
    """A drawing with its heading, a sentence of explanation, and its table."""

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
    """Leaderboard, figures, matrix and tests of one protocol."""

    protocol: str
    board: Board
    figures: tuple[Figure, ...]
    matrix: Matrix | None
    about: str
    tests: PairTests | None = None


def has_both(scores: Scores) -> bool:
    """Whether there are known and unknown samples, as every curve needs."""
    return scores.n_known > 0 and scores.n_unknown > 0


def view(
    protocol: str,
    board: Board,
    pairs: Sequence[tuple[Run, Scores]],
    runs: Sequence[Run],
    magnitudes: FeatureMagnitudes | None = None,
) -> View:
    """Draw the figures of one protocol; `pairs` are in the order to show."""
    pairs = [(run, scores) for run, scores in pairs if has_both(scores)]
    if not pairs:
        return View(protocol, board, (), None, "")
    table = {run.method: _repeats(run, own, runs) for run, own in pairs}
    first, scores = pairs[0]
    cut, value, at = _in_use(first, scores)
    figures = [
        _figure(
            oscr(table),
            "The share of known samples accepted with the right class, over the share "
            "of unknown samples accepted; the area is OpenAUC." + _band(table),
        ),
        _figure(
            roc(table),
            "The share of known samples accepted, whatever their class, over the "
            "share of unknown samples accepted; the area is AUROC." + _band(table),
        ),
        _figure(
            risk_coverage(table),
            "The share of errors among the accepted samples (wrong class, or unknown), "
            "over the share of all samples accepted; the mean is AURC. It depends on "
            "how many of the test samples are unknown." + _band(table),
        ),
        _operating(pairs),
        _figure(
            metric_against_unknown_tpr(scores),
            f"{readable(first.method)}: the dot marks the best threshold by each "
            "metric. A metric whose dot is far to the left prefers a threshold that "
            "accepts most unknowns (Fig. 1 of the OpenAUC paper).",
        ),
        *(
            _figure(
                histogram(one, threshold=_number_in_use(run)),
                f"{readable(run.method)}: distribution of knownness; the bars of each "
                "group sum to 1.",
                title=f"Knownness by group, {readable(run.method)}",
            )
            for run, one in pairs[:2]
        ),
        _figure(
            per_class_rejection(cut, value, classes=first.classes),
            f"{readable(first.method)}, {at}: share of samples rejected. It should be "
            "low for known classes (above) and high for unknown samples (below).",
        ),
    ]
    swept = _alpha(first, scores)
    if swept is not None:
        figures.append(swept)
    if magnitudes is not None:
        figures.append(_magnitudes(magnitudes))
    regions = confusion_regions(cut, value, classes=first.classes)
    about = _about(pairs, runs, n_methods=len(board.methods))
    matrix = _matrix(regions, first, at)
    # Over repeats the differences vary for other reasons than these samples.
    is_one = len({run.place for run in runs}) == 1
    tests = pair_tests(pairs, board.metrics[0]) if is_one else None
    return View(protocol, board, tuple(figures), matrix, about, tests)


def _about(
    pairs: Sequence[tuple[Run, Scores]], runs: Sequence[Run], *, n_methods: int
) -> str:
    """Say which samples, repeats and methods the figures show."""
    first, scores = pairs[0]
    about = f"{scores.n_known:,} known and {scores.n_unknown:,} unknown test samples"
    repeats = {run.place for run in runs}
    if len(repeats) > 1:
        repeat, seed = first.repeat
        about += (
            f"; OSCR, ROC and risk over coverage are means over repeats, the other "
            f"figures are of repeat {repeat}, seed {seed}"
        )
    if n_methods > len(pairs):
        about += f"; the {len(pairs)} leading of {n_methods} methods"
    return about


def _repeats(run: Run, scores: Scores, runs: Sequence[Run]) -> list[Scores]:
    """Return the scores of every repeat of a method, this run's first."""
    others = sorted(
        (one for one in runs if one.method == run.method and one.has_scores),
        key=lambda one: one.place,
    )
    found = (one.scores() for one in others if one.place != run.place)
    more = (one for one in found if has_both(one))
    return [scores, *islice(more, MOST_REPEATS - 1)]


def _band(table: Mapping[str, Sequence[Scores]]) -> str:
    """Say what the band around a curve is, if there is one."""
    counts = sorted({len(one) for one in table.values()} - {1})
    if not counts:
        return ""
    shown = " or ".join(map(str, counts))
    return f" Mean over {shown} repeats; the band is one standard deviation."


def _figure(display: Display, text: str, *, title: str = "") -> Figure:
    return Figure(
        title=title or display.title,
        text=text,
        svg=draw_svg(display.charts, label=display.title, style=False),
        brief=display.brief,
        wide=len(display.charts) > 1,
    )


def _magnitudes(found: FeatureMagnitudes) -> Figure:
    text = f"{found.sentence()} Test features of one network"
    if found.examples:
        text += (
            f"; below, squared features of samples classified as "
            f"{readable(found.example_class)}, one row each, in increasing order of "
            "the known ones"
        )
    return _figure(feature_magnitudes(found), f"{text} (Fig. 2 of the PostMax paper).")


def _number_in_use(run: Run) -> float | None:
    threshold = run.threshold
    if isinstance(threshold, Threshold):
        return threshold.value
    return threshold


def _in_use(run: Run, scores: Scores) -> tuple[Scores, float, str]:
    """Return scores, the threshold to apply to them, and a description of it."""
    threshold = run.threshold
    if isinstance(threshold, Threshold):
        threshold = threshold.value
    if threshold is not None:
        return scores, threshold, f"at the threshold in use, {number_text(threshold)}"
    best = osa_optimum(scores).threshold
    words = f"at the best threshold for these samples (oracle), {number_text(best)}"
    return scores, best, words


def _operating(pairs: Sequence[tuple[Run, Scores]]) -> Figure:
    thresholds = {
        run.method: run.threshold for run, _ in pairs if run.threshold is not None
    }
    alphas = {run.alpha for run, _ in pairs}
    # the α of the study's own report
    alpha = alphas.pop() if len(alphas) == 1 else None
    table = {run.method: scores for run, scores in pairs}
    shown = osa_over_urr(table, thresholds=thresholds, alpha=alpha)
    text = "The diamond is the oracle: the best threshold for these samples."
    if thresholds:
        text += " The star is the threshold in use, chosen on other data."
    return _figure(shown, text)


def _alpha(run: Run, scores: Scores) -> Figure | None:
    """Draw the effect of a wrong α, if calibration scores were saved."""
    calibration = run.calibration()
    if calibration is None or not has_both(calibration):
        return None
    try:
        table = [
            {"alpha": alpha}
            | operate(calibration, scores, alpha=alpha, alpha_test=0.5).to_dict()
            for alpha in _explorer.ALPHAS[5:100:5].tolist()
        ]
    except (ValueError, UndefinedMetricError):
        return None  # calibrated on the test samples, which the checks report
    text = (
        f"{readable(run.method)}: open-set accuracy on the test set, if the threshold "
        "is chosen with this α, the expected share of known samples in operation."
    )
    return _figure(alpha_sweep(table), text)


def _matrix(regions: Regions, run: Run, at: str) -> Matrix:
    names = regions.names("overall")
    matrix, shown = pooled(regions.overall, names)
    meaning = {
        "inner": "known samples classified correctly, without rejection",
        "outer": "known against unknown, ignoring classes",
        "halfpoint": "known classes; rejecting a known sample is an error",
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


def training(data: ReportData, headline: str) -> list[Figure]:
    """Draw sensitivity and learning curves, if the runs have such data."""
    parameters = {name for run in data.runs for name in run.numbers}
    found = [_sensitivity(data, p, headline) for p in sorted(parameters)]
    figures = [figure for figure in found if figure is not None]
    # All detectors of one network have its curve: it is drawn once.
    curves: dict[str, dict[tuple[Any, ...], Any]] = {}
    for run in data.runs:
        if run.curve:
            of_method = curves.setdefault(run.trained, {})
            of_method[run.protocol, run.repeat] = run.curve
    if curves:
        few = {
            name: list(of_method.values())
            for name, of_method in list(curves.items())[:MOST_METHODS]
        }
        figures += _learning(few, len({run.protocol for run in data.runs if run.curve}))
    return figures


_FOUR = ("inner_score", "outer_score", "halfpoint_score", "overall_score")
_BY_RULE = {"outer_score", "halfpoint_score", "halfpoint_k_plus_1", "overall_score"}


def _learning(curves: dict[str, list[Any]], n_problems: int) -> list[Figure]:
    """Draw ranking metrics over epochs, and the four scores of the methods with them.

    Only methods that were published with a rule to reject samples have all four.
    """
    which = f"the runs of all {n_problems} problems" if n_problems > 1 else "runs"
    text = f"Mean over {which}; the band is one standard deviation."
    records = {
        name: [record for run in runs for record in run]
        for name, runs in curves.items()
    }
    every = [record for of_method in records.values() for record in of_method]
    shared = [
        key
        for key in every[0]
        if key not in {"epoch", *_BY_RULE} and all(key in one for one in every)
    ]
    with_four = {
        name: curves[name]
        for name, of_method in records.items()
        if all(key in record for record in of_method for key in _FOUR)
    }
    left_out = [name for name in curves if name not in with_four]
    figures = [_figure(learning_curves(curves, metrics=shared), text)]
    if with_four:
        more = (
            f" Without a published rule, and left out: {', '.join(left_out)}."
            if left_out
            else ""
        )
        figures.append(
            _figure(
                learning_curves(with_four, metrics=_FOUR),
                f"{text} Samples are rejected by the rule each method was published "
                f"with, as in Fig. 6 of the class-imbalance paper.{more}",
                title="Inner, Outer, Halfpoint and Overall over training",
            )
        )
    return figures


def _sensitivity(data: ReportData, parameter: str, headline: str) -> Figure | None:
    """Draw the headline metric over a parameter, for the method that varies it most."""
    families: dict[str, dict[str, dict[float, list[float]]]] = {}
    for run in data.runs:
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
    name = data.headings.text(headline)
    shown = sensitivity(few, parameter=readable(parameter, 40), metric=name)
    text = (
        f"{readable(family)}: mean over repeats; the band is one standard deviation "
        "(as in Fig. 2 of the OpenAUC paper)."
    )
    return _figure(shown, text)


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
