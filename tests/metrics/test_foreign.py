"""Foreign oracles: scikit-learn and pytorch-ood on the same data."""

import numpy as np
import pytest
import torch
from pytest import approx  # noqa: PT013
from sklearn import metrics as sk

from openset import Scores, metrics
from tests.vision import declare_operators


def random_scores(seed, *, decimals=None, n=400, n_classes=5):
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, n_classes, n)
    predicted = np.where(rng.random(n) < 0.7, labels, rng.integers(0, n_classes, n))
    predicted = np.where(predicted < 0, rng.integers(0, n_classes, n), predicted)
    known = rng.normal(size=n) + (labels >= 0)
    if decimals is not None:
        known = known.round(decimals)
    return Scores(labels=labels, predicted=predicted, known=known)


CASES = [(seed, decimals) for seed in range(5) for decimals in (None, 1, 0)]


@pytest.fixture(params=CASES, ids=lambda case: f"seed{case[0]}-round{case[1]}")
def scores(request):
    seed, decimals = request.param
    return random_scores(seed, decimals=decimals)


def trapezoids(is_positive, values):
    precision, recall, _ = sk.precision_recall_curve(is_positive, values)
    return sk.auc(recall, precision)


def test_numbers_are_scikit_learns(scores):
    s, known = scores.known, ~scores.is_unknown
    decided, mine = scores.decided(0.5), scores.labels[known]
    fpr, reached, _ = sk.roc_curve(known, s, drop_intermediate=False)
    masked = np.where(scores.is_correct | ~known, s, s.min() - 1)  # as the authors do
    recall = sk.recall_score(mine, decided[known], labels=range(5), average="macro")
    f1 = {"labels": range(5), "average": "macro", "zero_division": 0}
    for name, expected in {
        "auroc": sk.roc_auc_score(known, s),
        "openauc": sk.roc_auc_score(known, masked),
        "aupr": sk.average_precision_score(known, s),
        "aupr:positive=unknown": sk.average_precision_score(~known, -s),
        "aupr:rule=trapezoid": trapezoids(known, s),
        "aupr:positive=unknown,rule=trapezoid": trapezoids(~known, -s),
        **{f"fpr_at_tpr:tpr={t}": fpr[reached >= t - 1e-12][0] for t in (0.5, 0.8, 1)},
        "inner_score": sk.balanced_accuracy_score(mine, scores.predicted[known]),
        "outer_score": sk.balanced_accuracy_score(known, decided >= 0),
        "halfpoint_score": recall,
        "overall_score": sk.balanced_accuracy_score(scores.labels, decided),
        "f_score_macro_f": sk.f1_score(scores.labels, decided, **f1),
    }.items():
        assert metrics.get(name).value(scores, 0.5) == approx(expected), name
    order = [0, 1, 2, 3, 4, -1]
    matrix = sk.confusion_matrix(scores.labels, decided, labels=order)
    assert metrics.confusion(scores, 0.5).matrix.tolist() == matrix.tolist()


def test_openauc_is_pytorch_oods_oscr_score(scores):
    declare_operators()  # pytorch-ood imports torchvision
    oscr_score = pytest.importorskip(
        "pytorch_ood.metrics", reason="pytorch-ood is not installed"
    ).oscr_score
    value = oscr_score(
        torch.from_numpy(-scores.known),
        torch.from_numpy(scores.predicted.copy()),
        torch.from_numpy(scores.labels.copy()),
    )
    assert metrics.openauc(scores) == approx(float(value), abs=1e-6)
