"""Foreign oracles: scikit-learn, pytorch-ood and torchmetrics on the same data."""

import numpy as np
import pytest
import torch
from pytest import approx  # noqa: PT013
from sklearn import metrics as sk

from openset import Scores, metrics
from tests.vision import declare_operators

declare_operators()  # torchmetrics and pytorch-ood import torchvision
from torchmetrics.functional.classification import (  # noqa: E402
    binary_auroc,
)


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


def test_auroc_is_scikit_learns(scores):
    expected = sk.roc_auc_score(~scores.is_unknown, scores.known)
    assert metrics.auroc(scores) == approx(expected)


def test_aupr_is_scikit_learns_average_precision(scores):
    expected = sk.average_precision_score(~scores.is_unknown, scores.known)
    assert metrics.aupr(scores) == approx(expected)
    expected = sk.average_precision_score(scores.is_unknown, -scores.known)
    assert metrics.aupr(scores, positive="unknown") == approx(expected)


@pytest.mark.parametrize("positive", ["known", "unknown"])
def test_trapezoid_aupr_is_the_area_of_scikit_learns_curve(scores, positive):
    is_positive = scores.is_unknown if positive == "unknown" else ~scores.is_unknown
    sign = -1 if positive == "unknown" else 1
    precision, recall, _ = sk.precision_recall_curve(is_positive, sign * scores.known)
    value = metrics.aupr(scores, positive=positive, rule="trapezoid")
    assert value == approx(sk.auc(recall, precision))


@pytest.mark.parametrize("tpr", [0.5, 0.8, 0.95, 1.0])
def test_fpr_at_tpr_is_read_off_scikit_learns_full_curve(scores, tpr):
    fpr, reached, _ = sk.roc_curve(
        ~scores.is_unknown, scores.known, drop_intermediate=False
    )
    assert metrics.fpr_at_tpr(scores, tpr) == approx(fpr[reached >= tpr - 1e-12][0])


def test_openauc_is_the_authors_masked_auroc(scores):
    masked = np.where(
        scores.is_correct | scores.is_unknown, scores.known, scores.known.min() - 1
    )
    expected = sk.roc_auc_score(~scores.is_unknown, masked)
    assert metrics.openauc(scores) == approx(expected)


def test_openauc_is_pytorch_oods_oscr_score(scores):
    oscr_score = pytest.importorskip(
        "pytorch_ood.metrics", reason="pytorch-ood is not installed"
    ).oscr_score
    value = oscr_score(
        torch.from_numpy(-scores.known),
        torch.from_numpy(scores.predicted.copy()),
        torch.from_numpy(scores.labels.copy()),
    )
    assert metrics.openauc(scores) == approx(float(value), abs=1e-6)


def test_balanced_scores_are_scikit_learns(scores):
    known, decided = ~scores.is_unknown, scores.decided(0.5)
    expected = sk.balanced_accuracy_score(scores.labels[known], scores.predicted[known])
    assert metrics.inner_score(scores) == approx(expected)
    expected = sk.balanced_accuracy_score(scores.labels, decided)
    assert metrics.overall_score(scores, 0.5) == approx(expected)


def test_f1_based_scores_are_scikit_learns(scores):
    known, decided = ~scores.is_unknown, scores.decided(0.5)
    named = scores.labels[known], scores.predicted[known]
    expected = sk.f1_score(*named, average="macro")
    assert metrics.inner_score(scores, base="f1") == approx(expected)
    expected = sk.f1_score(known, decided >= 0)
    assert metrics.outer_score(scores, 0.5, base="f1") == approx(expected)
    expected = sk.f1_score(
        scores.labels[known], decided[known], labels=range(5), average="macro"
    )
    assert metrics.halfpoint_score(scores, 0.5, base="f1") == approx(expected)
    expected = sk.f1_score(scores.labels, decided, average="macro")
    assert metrics.overall_score(scores, 0.5, base="f1") == approx(expected)
    expected = sk.f1_score(
        scores.labels, decided, labels=range(5), average="macro", zero_division=0
    )
    assert metrics.f_score(scores, 0.5, average="macro_f") == approx(expected)


def test_confusion_is_scikit_learns(scores):
    ours = metrics.confusion(scores, 0.5).matrix
    order = [0, 1, 2, 3, 4, -1]
    theirs = sk.confusion_matrix(scores.labels, scores.decided(0.5), labels=order)
    assert ours.tolist() == theirs.tolist()


def test_scores_of_any_range_are_ranked_where_torchmetrics_squashes_them():
    rng = np.random.default_rng(0)
    known = np.concatenate([rng.normal(30, 5, 2000), rng.normal(25, 5, 2000)])
    labels = np.repeat([0, -1], 2000)
    scores = Scores(labels=labels, predicted=np.zeros(4000, int), known=known)
    expected = sk.roc_auc_score(labels >= 0, known)
    assert metrics.auroc(scores) == approx(expected)
    squashed = binary_auroc(
        torch.from_numpy(known).float(), torch.from_numpy((labels >= 0).astype(int))
    )
    assert float(squashed) < expected - 0.1  # their sigmoid ties the large ones


def test_scores_of_1e12_keep_their_order():
    scores = random_scores(0)
    large = scores.with_known(scores.known * 1e12)
    for name in ("auroc", "openauc", "aupr", "fpr_at_tpr", "ccr_at_fpr"):
        function = metrics.get(name).function
        assert function(large) == function(scores), name
