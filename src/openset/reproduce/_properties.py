"""Table 1 of the OpenAUC paper: properties of metrics, shown by constructions.

Every entry is run on the scores of a real classifier. It is trained on few images, so
that it makes errors and the conditions of the propositions hold.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from openset import datasets, metrics, protocols
from openset.reproduce import consistency
from openset.reproduce._item import Content, Settings
from openset.reproduce._published import published
from openset.reproduce._table import Entry, Table
from openset.scores import Scores

_N_TRAIN = 30  # images: the fewer, the more errors
_ACCEPTED = 0.98  # of the known samples, at the operating point
_THRESHOLDS = (0.98, 0.9, 0.5)  # further operating points, by the same rate
_GRID = np.linspace(0, 1, 101)  # false positive rates at which curves are compared

Floats = NDArray[np.float64]
Measure = Callable[[Scores, float], Floats]
"""A metric at a threshold, as one number or, for a curve, as many."""


def _number(key: str) -> Measure:
    row = metrics.get(key)
    return lambda scores, threshold: np.array([row.value(scores, threshold)])


def _curve(scores: Scores, threshold: float) -> Floats:  # noqa: ARG001  # a Measure
    found = metrics.oscr_curve(scores)
    return np.interp(_GRID, found.fpr, found.ccr)


_METRICS: Mapping[str, Measure] = {
    "Open-set F-score": _number("f_score"),
    "Youden's index": _number("youden"),
    "Normalized Accuracy": _number("normalized_accuracy"),
    "AUC": _number("auroc"),
    "The OSCR curve": _curve,
    "OpenAUC": _number("openauc"),
}


@dataclass(frozen=True, eq=False)
class Constructions:
    """Scores of a classifier, and those that the propositions construct from them."""

    scores: Scores
    threshold: float
    misclassified: Scores
    exchanged: consistency.Twin
    let_in: consistency.Twin
    rival: Scores


def constructions() -> Constructions:
    """Train a classifier on digits and build the constructions from its scores."""
    scores = _scores()
    threshold = _keeping(scores, _ACCEPTED)
    return Constructions(
        scores=scores,
        threshold=threshold,
        misclassified=_misclassified(scores),
        exchanged=consistency.twin(scores, "f_score", threshold),
        let_in=consistency.twin(scores, "normalized_accuracy", threshold),
        rival=_rival(scores),
    )


def _scores() -> Scores:
    digits = datasets.load("digits")
    cut = datasets.cut(digits, protocols.holdout(digits, 6, 4, rng=0))
    rng = np.random.default_rng(0)
    rows = rng.choice(len(cut.train), _N_TRAIN, replace=False)
    # In float64: float32 rounds differently on other processors, and ranks change.
    train, test = (part.inputs.astype(float) for part in (cut.train, cut.test))
    model = LogisticRegression(C=0.01, max_iter=1000, tol=1e-10)
    model.fit(train[rows], cut.train.labels[rows])
    logits = model.decision_function(test)
    return Scores(
        labels=cut.test.labels,
        predicted=model.classes_[logits.argmax(axis=1)],
        known=logits.max(axis=1),
        n_classes=6,
    )


def _keeping(scores: Scores, share: float) -> float:
    return float(np.quantile(scores.known[~scores.is_unknown], 1 - share))


def _misclassified(scores: Scores) -> Scores:
    """Give every other correctly classified sample the next class; scores stay."""
    rows = np.flatnonzero(scores.is_correct)[::2]
    predicted = scores.predicted.copy()
    predicted[rows] = (predicted[rows] + 1) % 6
    return replace(scores, predicted=predicted)


def _rival(scores: Scores) -> Scores:
    """Return a classifier that is better at low false positive rates, worse at high.

    The better half of the correct samples is ranked above all unknowns; the worst tenth
    is misclassified.
    """
    correct = np.flatnonzero(scores.is_correct)
    correct = correct[np.argsort(scores.known[correct], kind="stable")]
    best, worst = correct[correct.size // 2 :], correct[: correct.size // 10]
    known, predicted = scores.known.copy(), scores.predicted.copy()
    known[best] = scores.known.max() + 1
    predicted[worst] = (predicted[worst] + 1) % 6
    return replace(scores, known=known, predicted=predicted)


@dataclass(frozen=True)
class Properties:
    """What the constructions showed about one metric."""

    before: float
    misclassified: float
    exchanged: float
    lowest: float
    highest: float
    sees_classes: bool
    sees_unknowns: bool
    needs_no_threshold: bool
    orders_models: bool


def properties(measure: Measure, made: Constructions) -> Properties:
    """Run the four constructions for one metric.

    P1: half of the correct predictions become wrong, scores stay: it must fall.
    P2: each rejected unknown changes places with an accepted, misclassified known
    (proposition 1): it must fall. P3: the same scores at other thresholds: it must not
    change. P4: it must order this classifier and one that is better at
    low false positive rates only; curves that cross do not.
    """

    def at(scores: Scores, threshold: float = made.threshold) -> Floats:
        return measure(scores, threshold)

    before = at(made.scores)
    wrong, swapped = at(made.misclassified), at(made.exchanged.scores)
    places = [at(made.scores, _keeping(made.scores, share)) for share in _THRESHOLDS]
    gap = before - at(made.rival)
    means = [float(one.mean()) for one in places]
    return Properties(
        before=float(before.mean()),
        misclassified=float(wrong.mean()),
        exchanged=float(swapped.mean()),
        lowest=min(means),
        highest=max(means),
        sees_classes=_falls(before, wrong),
        sees_unknowns=_falls(before, swapped),
        needs_no_threshold=all(np.allclose(one, places[0]) for one in places),
        orders_models=not (np.any(gap > 0) and np.any(gap < 0)),
    )


def _falls(before: Floats, after: Floats) -> bool:
    return bool(np.any(after < before - 1e-12) and np.all(after <= before + 1e-12))


def table1(settings: Settings) -> Content:  # noqa: ARG001  # needs no folder
    """Fill table 1, and show the numbers behind its entries."""
    made = constructions()
    paper = published("openauc-table1")
    found = {name: properties(measure, made) for name, measure in _METRICS.items()}
    rows: list[tuple[Entry, ...]] = []
    numbers: list[tuple[Entry, ...]] = []
    for name, one in found.items():
        ours = (
            one.sees_classes,
            one.sees_unknowns,
            one.needs_no_threshold,
            one.orders_models,
        )
        said = [bool(entry.value) for entry in paper.values[name].values()]
        pairs = zip(said, ours, strict=True)
        rows.append((name, *(entry for pair in pairs for entry in pair)))
        spread = f"{one.lowest:.3f} to {one.highest:.3f}"
        numbers.append((name, one.before, one.misclassified, one.exchanged, spread))
    heads = [f"{column}{side}" for column in paper.columns for side in (", paper", "")]
    let_in, exchanged = made.let_in, made.exchanged
    aggregates = [
        consistency.twin(made.scores, metric, made.threshold)
        for metric in ("acc_times_auroc", "acc_plus_auroc")
    ]
    return Content(
        tables=(
            Table(title="Properties", columns=("metric", *heads), rows=tuple(rows)),
            Table(
                title="The numbers behind them",
                columns=(
                    "metric",
                    "value",
                    "P1: half of the correct classes wrong",
                    "P2: unknowns exchanged",
                    "P3: at three thresholds",
                ),
                rows=tuple(numbers),
                note="The OSCR curve is shown by its mean over 101 false positive "
                "rates.",
            ),
            Table(
                title="The propositions, run",
                columns=(
                    "construction",
                    "metric",
                    "before",
                    "after",
                    "unknowns rejected before",
                    "after it",
                    "OpenAUC before",
                    "OpenAUC after",
                ),
                rows=tuple(
                    (
                        name,
                        metrics.get(one.metric).label,
                        one.before,
                        one.after,
                        one.found_before,
                        one.found_after,
                        one.openauc_before,
                        one.openauc_after,
                    )
                    for name, one in (
                        ("proposition 1", exchanged),
                        ("proposition 2", let_in),
                        *(("proposition 3", one) for one in aggregates),
                    )
                ),
            ),
        ),
        notes=(
            f"Data: digits, 6 known and 4 unknown classes, logistic regression on "
            f"{_N_TRAIN} images; the threshold accepts {_ACCEPTED:.0%} of the known "
            f"test samples.",
        ),
    )


def table3(settings: Settings) -> Content:  # noqa: ARG001  # needs no folder
    """Fill the truth table of Proposition 8; check the risk on all pairs of samples."""
    rows = tuple(
        (
            correct,
            ranked,
            1 - correct * ranked,
            (1 - correct) + correct * (1 - ranked),
        )
        for correct in (1, 0)
        for ranked in (1, 0)
    )
    scores = constructions().scores
    known = ~scores.is_unknown
    is_correct = scores.is_correct[known][:, None]
    is_ranked = scores.known[known][:, None] > scores.known[scores.is_unknown][None, :]
    risk = float(np.mean(~is_correct | (is_correct & ~is_ranked)))
    return Content(
        tables=(
            Table(
                title="Truth table",
                columns=("I_k", "I_u", "1 - I_k I_u", "not I_k + I_k not I_u"),
                rows=rows,
                note="The four rows are those of the paper.",
            ),
            Table(
                title="The risk over all pairs of a known and an unknown sample",
                columns=("pairs", "risk of eq. 14", "1 - OpenAUC (ties count 0)"),
                rows=(
                    (
                        int(is_ranked.size),
                        risk,
                        1 - metrics.openauc(scores, ties="strict"),
                    ),
                ),
                digits=6,
            ),
        ),
    )
