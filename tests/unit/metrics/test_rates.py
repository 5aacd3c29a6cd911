"""Counts and rates of decisions, against one sample at a time."""

import pytest
from hypothesis import given

from openset import Scores, UndefinedMetricError, metrics, thresholds
from openset.metrics import Rates
from openset.metrics.counts import ranking_counts
from tests.property.strategies import scores_and_threshold


def by_hand(scores, threshold):
    rows = list(
        zip(
            scores.labels.tolist(),
            scores.predicted.tolist(),
            scores.known.tolist(),
            strict=True,
        )
    )
    return Rates(
        n_known=sum(label >= 0 for label, _, _ in rows),
        n_unknown=sum(label < 0 for label, _, _ in rows),
        n_correct=sum(label == given for label, given, _ in rows),
        n_accepted_known=sum(label >= 0 and k >= threshold for label, _, k in rows),
        n_accepted_correct=sum(label == p and k >= threshold for label, p, k in rows),
        n_rejected_unknown=sum(label < 0 and k < threshold for label, _, k in rows),
    )


@given(scores_and_threshold())
def test_samples_and_sorted_counts_give_the_same_rates(made):
    scores, threshold = made
    expected = by_hand(scores, threshold)
    assert Rates.at(scores, threshold) == expected
    assert ranking_counts(scores).rates(threshold) == expected
    assert expected.ccr == metrics.ccr(scores, threshold)
    assert expected.urr == metrics.urr(scores, threshold)
    assert expected.accuracy == metrics.accuracy(scores)
    assert expected.n_rejected == sum(scores.decided(threshold) == -1)
    assert expected.osa(0.25) == pytest.approx(
        metrics.osa(scores, threshold, alpha=0.25)
    )


def test_thresholds_per_class_are_counted_as_they_decide():
    scores = Scores(
        labels=[0, 0, -1, 1, 1, -1],
        predicted=[0, 0, 0, 1, 1, 1],
        known=[3, 2, 1, 4, 3, 2],
    )
    rates = thresholds.per_class(scores, strength=0).rates(scores)
    assert (rates.ccr, rates.tpr, rates.urr) == (1, 1, 1)
    one_group = rates.against(n_unknown=4, n_rejected_unknown=1)
    assert (one_group.ccr, one_group.urr) == (1, 0.25)


def test_a_rate_of_a_missing_side_is_undefined():
    known = Scores(labels=[0], predicted=[0], known=[1.0])
    unknown = Scores(labels=[-1], predicted=[0], known=[1.0])
    assert Rates.at(known, 1).tpr == 1
    assert Rates.at(unknown, 1).urr == 0
    with pytest.raises(UndefinedMetricError, match="urr: undefined without unknown"):
        Rates.at(known, 1).urr  # noqa: B018
    for name in ("ccr", "tpr", "accuracy"):
        with pytest.raises(UndefinedMetricError, match=f"{name}: undefined without kn"):
            getattr(Rates.at(unknown, 1), name)
