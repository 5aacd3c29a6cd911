"""Figures of one problem, and of training, with their explanations."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from openset.metrics import get, osa_optimum
from openset.metrics.counts import ALPHA
from openset.report import curves, decisions, histograms, operating, settings
from openset.report.display import Display, number_text, readable
from openset.report.leaderboard import PairTests, ends, pair_tests
from openset.report.read import Place, Run, Study
from openset.scores import Scores
from openset.stats import Leaderboard

MOST_METHODS = 5
"""Largest number of methods in one figure."""

MOST_REPEATS = 20
"""Largest number of repeats behind the band of a curve."""

Pairs = Sequence[tuple[Run, Scores]]

_REGIONS = {
    "inner": "known samples classified correctly, without rejection",
    "outer": "known against unknown, ignoring classes",
    "halfpoint": "known classes; rejecting a known sample is an error",
    "overall": "known classes and “unknown” as one more class",
}
_MATRIX = "True class by row, decision by column; shades are shares of the row."


class Figure(NamedTuple):
    """A display with a sentence of explanation."""

    display: Display
    text: str


class View(NamedTuple):
    """Leaderboard, figures, matrix and tests of one problem."""

    protocol: str
    board: Leaderboard
    ends: Mapping[str, tuple[float, float]]
    figures: Sequence[Figure] = ()
    about: str = ""
    matrix: Figure | None = None
    regions: Sequence[tuple[Any, ...]] = ()
    tests: PairTests | None = None


def has_both(scores: Scores) -> bool:
    """Whether there are known and unknown samples, as every curve needs."""
    return scores.n_known > 0 and scores.n_unknown > 0


def chosen(runs: Sequence[Run], one: Leaderboard, pin: Sequence[str]) -> list[Run]:
    """Choose methods for the figures, and the first repeat that most of them have."""
    pinned = [name for name in one.rows if name in pin]
    others = [name for name in one.rows if name not in pin]
    shown = {*pinned, *others[: max(MOST_METHODS - len(pinned), 0)]}
    repeats: dict[Place, dict[str, Run]] = {}
    for run in runs:
        if run.method in shown and run.has_scores:
            repeats.setdefault(run.place, {}).setdefault(run.method, run)
    if not repeats:
        return []
    best = min(repeats, key=lambda repeat: (-len(repeats[repeat]), repeat))
    return [repeats[best][name] for name in one.rows if name in repeats[best]]


def view(protocol: str, one: Leaderboard, pairs: Pairs, runs: Sequence[Run]) -> View:
    """Draw the figures of one problem; `pairs` are in the order to show."""
    if not pairs:
        return View(protocol, one, ends(one, runs))
    first, scores = pairs[0]
    threshold, at = first.cut, "at the threshold in use"
    if threshold is None:
        threshold = osa_optimum(scores).threshold
        at = "at the best threshold for these samples (oracle)"
    at = f"{readable(first.method)}, {at}, {number_text(threshold)}"
    matrix = decisions.confusion_matrix(scores, threshold, classes=first.classes)
    matrix = replace(matrix, title="Four views of one confusion matrix")
    regions = [
        (name, get(f"{name}_score").value(scores, threshold), meaning)
        for name, meaning in _REGIONS.items()
    ]
    about = f"{scores.n_known:,} known and {scores.n_unknown:,} unknown test samples"
    is_one = len({run.place for run in runs}) == 1
    if not is_one:
        about += (
            "; OSCR, ROC and risk over coverage are means over repeats, the other "
            f"figures are of repeat {first.place.repeat}, seed {first.place.seed}"
        )
    if len(one.rows) > len(pairs):
        about += f"; {len(pairs)} of {len(one.rows)} methods"
    return View(
        protocol,
        one,
        ends(one, runs),
        list(_figures(pairs, runs, threshold, at)),
        about,
        Figure(matrix, f"{at}. {_MATRIX}"),
        regions,
        # Over repeats the differences vary for other reasons than these samples.
        pair_tests(pairs, one.columns[0]) if is_one else None,
    )


def _figures(
    pairs: Pairs, runs: Sequence[Run], threshold: float, at: str
) -> Iterator[Figure]:
    table = {run.method: _repeats(run, own, runs) for run, own in pairs}
    counts = sorted({len(one) for one in table.values()} - {1})
    band = f" Mean over {' or '.join(map(str, counts))} repeats; the band is one "
    band = (band + "standard deviation.") * bool(counts)
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
    alphas = {run.alpha for run, _ in pairs}  # of the study's own report
    text = "The diamond is the oracle: the best threshold for these samples."
    text += " The star is the threshold in use, chosen on other data." if chosen else ""
    yield Figure(
        operating.osa_over_urr(
            {run.method: own for run, own in pairs},
            thresholds=chosen,
            alpha=alphas.pop() if len(alphas) == 1 else ALPHA,
        ),
        text,
    )
    first, scores = pairs[0]
    name = readable(first.method)
    yield Figure(
        operating.metric_against_unknown_tpr(scores),
        f"{name}: the dot marks the best threshold by each metric. A metric whose dot "
        "is far to the left prefers a threshold that accepts most unknowns (Fig. 1 of "
        "the OpenAUC paper).",
    )
    for run, own in pairs[:2]:
        values = histograms.histogram(own, threshold=run.cut)
        yield Figure(
            replace(values, title=f"{values.title}, {readable(run.method)}"),
            "Distribution of knownness; the bars of each group sum to 1.",
        )
    yield Figure(
        decisions.per_class_rejection(scores, threshold, classes=first.classes),
        f"{at}: share of samples rejected. It should be low for known classes (above) "
        "and high for unknown samples (below).",
    )
    yield from _over_alpha(first, scores)


def _repeats(run: Run, scores: Scores, runs: Sequence[Run]) -> list[Scores]:
    """Return the scores of every repeat of a method, this run's first."""
    others = sorted(
        (one for one in runs if one.method == run.method and one.has_scores),
        key=lambda one: one.place,
    )
    found = (one.scores() for one in others if one.place != run.place)
    return [scores, *islice(filter(has_both, found), MOST_REPEATS - 1)]


def _over_alpha(run: Run, scores: Scores) -> Iterator[Figure]:
    """Draw the effect of a wrong α, if calibration scores were saved."""
    calibration = run.calibration()
    if calibration is None or not has_both(calibration):
        return
    with suppress(ValueError):  # calibrated on the test samples: the checks say so
        yield Figure(
            settings.alpha_sweep(calibration, scores),
            f"{readable(run.method)}: open-set accuracy on the test set, if the "
            "threshold is chosen with this α, the expected share of known samples in "
            "operation.",
        )


def training(study: Study) -> Figure | None:
    """Draw learning curves, if the runs have such data."""
    # All detectors of one network have its curve: it is drawn once.
    found: dict[str, dict[tuple[Any, ...], Any]] = {}
    for run in study.runs:
        if run.curve:
            of_method = found.setdefault(run.trained, {})
            of_method[run.place._replace(split=0)] = run.curve
    if not found:
        return None
    few = {name: list(of.values()) for name, of in islice(found.items(), MOST_METHODS)}
    n = len({run.place.protocol for run in study.runs if run.curve})
    which = f"the runs of all {n} problems" if n > 1 else "runs"
    text = f"Mean over {which}; the band is one standard deviation."
    return Figure(settings.learning_curves(few), text)
