"""Table 1 of the OpenAUC paper: properties of metrics, shown by constructions.

Every entry is run on the scores of a real classifier. It is trained on few images, so
that it makes errors and the conditions of the propositions hold.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from openset import datasets, metrics, protocols
from openset.reproduce.consistency import twin
from openset.reproduce.item import Content, Entry, Settings, published
from openset.scores import Scores

_N_TRAIN = 30  # images: the fewer, the more errors
_ACCEPTED = 0.98  # of the known samples, at the operating point
_THRESHOLDS = (0.98, 0.9, 0.5)  # further operating points, by the same rate
_METRICS = {
    "Open-set F-score": "f_score",
    "Youden's index": "youden",
    "Normalized Accuracy": "normalized_accuracy",
    "AUC": "auroc",
    "The OSCR curve": "",
    "OpenAUC": "openauc",
}

_NUMBERS = [
    f"{of}{side}" for of in ("", "found_", "openauc_") for side in ("before", "after")
]

Floats = NDArray[np.float64]


def classifier_scores() -> Scores:
    """Return scores of a classifier of six digits on test images of all ten."""
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


def _next_class(scores: Scores, rows: NDArray[np.intp]) -> Scores:
    """Misclassify some samples: each gets the next class; scores stay."""
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
    known = scores.known.copy()
    known[correct[correct.size // 2 :]] = scores.known.max() + 1
    return replace(_next_class(scores, correct[: correct.size // 10]), known=known)


def _keeping(scores: Scores, share: float) -> float:
    """Return the threshold that accepts a share of the known samples."""
    return float(np.quantile(scores.known[~scores.is_unknown], 1 - share))


def _measured(key: str, scores: Scores, threshold: float) -> Floats:
    """Return a metric at a threshold as one number; of the OSCR curve, as many."""
    if key:
        return np.array([metrics.get(key).value(scores, threshold)])
    found = metrics.oscr_curve(scores)
    return np.interp(np.linspace(0, 1, 101), found.fpr, found.ccr)


def _falls(before: Floats, after: Floats) -> bool:
    return bool(np.any(after < before - 1e-12) and np.all(after <= before + 1e-12))


def table1(settings: Settings) -> Content:
    """Fill table 1, and show the numbers behind its entries.

    P1: half of the correct predictions become wrong, scores stay: it must fall. P2:
    each rejected unknown changes places with an accepted, misclassified known
    (proposition 1): it must fall. P3: the same scores at other thresholds: it must not
    change. P4: it must order this classifier and one that is better at low false
    positive rates only; curves that cross do not.
    """
    scores = classifier_scores()
    threshold = _keeping(scores, _ACCEPTED)
    wrong = _next_class(scores, np.flatnonzero(scores.is_correct)[::2])
    exchanged = twin(scores, "f_score", threshold)
    rival = _rival(scores)
    paper = published("openauc-table1")
    columns = list(next(iter(paper.values())))
    rows: list[list[Entry]] = []
    numbers: list[list[Entry]] = []
    for name, key in _METRICS.items():
        before, misclassified, swapped, of_rival = (
            _measured(key, one, threshold)
            for one in (scores, wrong, exchanged.scores, rival)
        )
        others = (_keeping(scores, share) for share in _THRESHOLDS)
        places = [_measured(key, scores, other) for other in others]
        gap = before - of_rival
        ours = (
            _falls(before, misclassified),
            _falls(before, swapped),
            all(np.allclose(place, places[0]) for place in places),
            not (np.any(gap > 0) and np.any(gap < 0)),
        )
        said = [bool(paper[name][column].value) for column in columns]
        pairs = zip(said, ours, strict=True)
        rows.append([name, *(entry for pair in pairs for entry in pair)])
        means = [float(one.mean()) for one in (before, misclassified, swapped)]
        at = [float(place.mean()) for place in places]
        numbers.append([name, *means, f"{min(at):.3f} to {max(at):.3f}"])
    twins = (
        ("proposition 1", exchanged),
        ("proposition 2", twin(scores, "normalized_accuracy", threshold)),
        ("proposition 3", twin(scores, "acc_times_auroc", threshold)),
        ("proposition 3", twin(scores, "acc_plus_auroc", threshold)),
    )
    shown = [
        [name, metrics.get(one.metric).label, *(getattr(one, key) for key in _NUMBERS)]
        for name, one in twins
    ]
    note = (
        f"Data: digits, 6 known and 4 unknown classes, logistic regression on "
        f"{_N_TRAIN} images; the threshold accepts {_ACCEPTED:.0%} of the known test "
        "samples."
    )
    return settings.content(rows, numbers, shown, note=note)
