"""Propositions 1-8 of the OpenAUC paper, on anything."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from pytest import approx  # noqa: PT013

from openset import Scores, metrics
from openset.reproduce import consistency
from tests.property.strategies import scores_and_threshold


@given(scores_and_threshold())
def test_the_exchange_changes_neither_f_nor_youden(made):
    scores, threshold = made
    twin = consistency.twin(scores, "f_score", threshold).scores
    scores = replace(scores, n_classes=twin.n_classes)
    for average in ("macro", "macro_f", "micro"):
        before = metrics.f_score(scores, threshold, average=average)
        assert metrics.f_score(twin, threshold, average=average) == approx(before)
    assert metrics.youden(twin, threshold) == approx(
        metrics.youden(scores, threshold), abs=1e-12
    )


@given(scores_and_threshold())
def test_a_complete_exchange_finds_no_unknown(made):
    scores, threshold = made
    for metric in ("f_score", "youden"):
        twin = consistency.twin(scores, metric, threshold)
        n_wrong = np.count_nonzero(
            ~scores.is_unknown & ~scores.is_correct & (scores.known >= threshold)
        )
        assert twin.found_after == max(twin.found_before - n_wrong, 0)
        assert twin.openauc_after <= twin.openauc_before + 1e-12


@given(scores_and_threshold())
def test_letting_unknowns_in_raises_normalized_accuracy(made):
    scores, threshold = made
    twin = consistency.twin(scores, "normalized_accuracy", threshold)
    rejected_known = np.count_nonzero(~scores.is_unknown & (scores.known < threshold))
    if twin.found_before > max(rejected_known, 1):  # the paper's condition
        assert twin.after >= twin.before - 1e-12
    is_right = scores.is_correct & (scores.known >= threshold)
    n_missed = np.count_nonzero(~scores.is_unknown & ~is_right)
    left = max(twin.found_before - n_missed, 1)
    assert twin.found_after == min(twin.found_before, left)


@given(scores_and_threshold())
def test_reordering_knowns_changes_neither_accuracy_nor_auroc(made):
    scores, threshold = made
    for metric in ("acc_times_auroc", "acc_plus_auroc"):
        twin = consistency.twin(scores, metric, threshold)
        assert twin.after == twin.before
        assert twin.openauc_after <= twin.openauc_before + 1e-12


def test_no_order_of_the_known_scores_is_worse_than_the_twins():
    from itertools import permutations  # noqa: PLC0415

    scores = Scores(
        labels=[0, 0, 1, 1, -1, -1],
        predicted=[0, 1, 1, 1, 0, 0],
        known=[5.0, 1.0, 4.0, 2.0, 3.0, 1.5],
    )
    worst = min(
        metrics.openauc(scores.with_known([*order, 3.0, 1.5]))
        for order in permutations([5.0, 1.0, 4.0, 2.0])
    )
    twin = consistency.twin(scores, "acc_times_auroc", 0.0)
    assert twin.openauc_after == approx(worst)


@given(scores_and_threshold())
def test_openauc_bounds_the_unknown_recall_at_every_threshold(made):
    """Proposition 6: recall >= 1 - (1 - OpenAUC) / (share of knowns rejected)."""
    scores, _ = made
    value = metrics.openauc(scores)
    for threshold in np.unique(scores.known):
        is_rejected = scores.known < threshold
        rejected = np.mean(is_rejected[~scores.is_unknown])
        if rejected > 0:
            recall = np.mean(is_rejected[scores.is_unknown])
            assert recall >= 1 - (1 - value) / rejected - 1e-12


@given(scores_and_threshold())
def test_what_openauc_lacks_is_error_and_disorder(made):
    """Proposition 8: closed-set error, plus correct pairs that are not in order."""
    scores, _ = made
    unknown = scores.known[scores.is_unknown]
    disorder = sum(int(np.sum(s <= unknown)) for s in scores.known[scores.is_correct])
    risk = 1 - metrics.accuracy(scores) + disorder / (scores.n_known * unknown.size)
    value = metrics.openauc(scores, ties="strict")
    assert 1 - value == approx(risk, abs=1e-12)
