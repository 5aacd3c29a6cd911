"""Twins by hand: as good by the metric, worse in operation."""

from dataclasses import replace

import numpy as np
import pytest

from openset import Scores, UndefinedMetricError, metrics
from openset.reproduce.consistency import twin


def made(rows, **options):
    labels, predicted, known = zip(*rows, strict=True)
    return Scores(labels=labels, predicted=predicted, known=known, **options)


def rows_of(scores):
    columns = (scores.labels, scores.predicted, scores.known)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_rejected_unknowns_change_places_with_accepted_wrong_knowns():
    scores = made([(0, 0, 0.9), (0, 1, 0.8), (1, 1, 0.7), (-1, 0, 0.1), (-1, 1, 0.2)])
    for metric in ("f_score", "youden"):
        found = twin(scores, metric, 0.5)
        # Only one known is accepted with a wrong class: one unknown stays rejected.
        assert rows_of(found.scores) == [
            *[(0, 0, 0.9), (0, 1, 0.1), (1, 1, 0.7)],
            *[(-1, 1, 0.8), (-1, 1, 0.2)],
        ]
        assert (found.found_before, found.found_after) == (2, 1)
    one = scores.take(slice(0, 4))
    assert twin(one, "f_score", 0.5).found_after == 0
    at_the_score = twin(one, "f_score", 0.8)  # a score at the threshold is accepted
    assert at_the_score.found_after == 0
    assert twin(one, "f_score", 0.1).found_before == 0


def test_unknowns_are_let_in_together_with_knowns_rejected_ones_first():
    scores = made(
        [
            *[(0, 0, 0.9), (0, 1, 0.8), (1, 1, 0.1)],
            *[(-1, 0, 0.2), (-1, 1, 0.3), (-1, 0, 0.4), (-1, 1, 0.15)],
        ]
    )
    found = twin(scores, "normalized_accuracy", 0.5)
    # The first unknown stays rejected; the known at 0.1 comes before the one at 0.8.
    assert rows_of(found.scores) == [
        *[(0, 0, 0.9), (0, 0, 0.8), (1, 1, 0.5)],
        *[(-1, 0, 0.2), (-1, 1, 0.5), (-1, 0, 0.5), (-1, 1, 0.15)],
    ]
    assert (found.found_before, found.found_after) == (4, 2)
    three = twin(scores.take(slice(0, 6)), "normalized_accuracy", 0.5)
    assert three.found_after == 1
    assert three.after > three.before


def test_the_highest_known_scores_go_to_wrong_samples():
    scores = made([(0, 0, 4), (0, 1, 1), (0, 0, 3), (0, 1, 2), (-1, 0, 2.5)])
    for metric in ("acc_times_auroc", "acc_plus_auroc"):
        found = twin(scores, metric, 0.0)
        assert found.scores.known.tolist() == [2, 3, 1, 4, 2.5]
        assert found.scores.predicted.tolist() == scores.predicted.tolist()
        assert (found.openauc_before, found.openauc_after) == (0.5, 0.0)


@pytest.mark.parametrize(
    "metric", ["f_score", "youden", "normalized_accuracy", "acc_times_auroc"]
)
def test_a_twin_tells_the_metrics_of_both(metric):
    scores = made([(0, 0, 0.9), (2, 1, 0.8), (1, 1, 0.7), (-1, 0, 0.1), (-1, 1, 0.2)])
    found, row = twin(scores, metric, 0.5), metrics.get(metric)
    assert (found.metric, found.scores.n_classes) == (metric, 3)
    sides = {"before": replace(scores, n_classes=3), "after": found.scores}
    for at, side in sides.items():
        assert getattr(found, at) == row.value(side, 0.5)
        assert getattr(found, f"openauc_{at}") == metrics.openauc(side)
        n = np.count_nonzero(side.is_unknown & (side.known < 0.5))
        assert getattr(found, f"found_{at}") == n
    five = replace(scores, n_classes=5)
    assert twin(five, metric, 0.5).scores.n_classes == 5


def test_what_has_no_twin_is_named():
    scores = made([(0, 0, 0.9), (-1, 0, 0.1)])
    with pytest.raises(ValueError, match=r"^twin: metric must be one of 'f_score'"):
        twin(scores, "openauc", 0.5)
    with pytest.raises(ValueError, match=r"^twin: threshold must be a number"):
        twin(scores, "acc_times_auroc", np.nan)
    with pytest.raises(UndefinedMetricError, match=r"^twin: undefined without"):
        twin(scores.take([0]), "f_score", 0.5)
