"""The confusion matrix of the class-imbalance paper (figs. 3 and 4), value by value."""

import numpy as np
import pytest
from pytest import approx  # noqa: PT013

from openset import UndefinedMetricError, metrics
from openset.reproduce.figures import worked_example


@pytest.fixture
def worked():
    return worked_example()


def test_the_confusion_matrix_is_the_papers(worked):
    assert metrics.confusion(worked, 0.5).matrix.tolist() == [
        *([10, 3, 0, 2, 1], [1, 12, 0, 0, 2], [0, 0, 9, 1, 5], [1, 1, 0, 10, 3]),
        [2, 1, 2, 0, 10],
    ]


def test_the_four_scores_are_the_papers(worked):
    assert metrics.inner_score(worked) == approx(0.755208, abs=5e-7)
    assert metrics.outer_score(worked, 0.5) == approx(0.743169, abs=5e-7)
    assert metrics.halfpoint_score(worked, 0.5) == approx(0.672917, abs=5e-7)
    zero = metrics.halfpoint_score(worked, 0.5, absent="zero")
    assert zero == approx(0.538333, abs=5e-7)
    assert metrics.overall_score(worked, 0.5) == approx(0.671667, abs=5e-7)


def test_absent_zero_is_the_mean_over_one_more_class(worked):
    for threshold in (-np.inf, 0.5, np.inf):  # none, some and all rejected
        skip = metrics.halfpoint_score(worked, threshold)
        zero = metrics.halfpoint_score(worked, threshold, absent="zero")
        assert zero == approx(skip * 4 / 5)


def test_a_known_class_without_samples_is_not_counted(worked):
    fewer = worked.take(worked.labels != 2)
    skip = metrics.halfpoint_score(fewer, 0.5)
    zero = metrics.halfpoint_score(fewer, 0.5, absent="zero")
    assert zero == approx(skip * 3 / 4)


def test_without_unknowns_overall_is_halfpoint_and_outer_is_undefined(worked):
    known = worked.take(~worked.is_unknown)
    assert metrics.overall_score(known, 0.5) == metrics.halfpoint_score(known, 0.5)
    with pytest.raises(UndefinedMetricError, match="undefined without unknown"):
        metrics.outer_score(known, 0.5)
