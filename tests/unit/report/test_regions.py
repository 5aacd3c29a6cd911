"""The confusion-matrix figures of the class-imbalance paper."""

import numpy as np
import pytest
from hypothesis import given

from openset import metrics
from openset.report import confusion_regions
from tests.property.strategies import scores_and_threshold
from tests.unit.metrics.test_worked_example import worked  # noqa: F401  # a fixture


@pytest.fixture
def regions(worked):  # noqa: F811
    return confusion_regions(worked, 0.5)


def test_the_four_matrices_are_the_papers(regions):
    assert regions.inner.tolist() == [
        [11, 3, 0, 2],
        [3, 12, 0, 0],
        [0, 0, 13, 2],
        [4, 1, 0, 10],
    ]
    assert regions.outer.tolist() == [[50, 11], [5, 10]]
    assert regions.halfpoint[:-1].tolist() == regions.overall[:-1].tolist()
    assert regions.halfpoint[-1].tolist() == [0] * 5
    assert regions.overall[-1].tolist() == [2, 1, 2, 0, 10]


@given(scores_and_threshold())
def test_regions_give_the_four_scores(pair):
    scores, threshold = pair
    made = confusion_regions(scores, threshold)
    assert made.score("inner") == pytest.approx(metrics.inner_score(scores))
    for region, metric in (
        ("outer", metrics.outer_score),
        ("halfpoint", metrics.halfpoint_score),
        ("overall", metrics.overall_score),
    ):
        assert made.score(region) == pytest.approx(metric(scores, threshold))


@given(scores_and_threshold())
def test_regions_keep_every_sample(pair):
    scores, threshold = pair
    made = confusion_regions(scores, threshold)
    assert made.overall.sum() == made.outer.sum() == len(scores)
    assert made.inner.sum() == made.halfpoint.sum() == scores.n_known


def test_frames_are_named(regions):
    assert list(regions.to_frame("outer").index) == ["known", "unknown"]
    assert list(regions.to_frame("inner").columns) == ["0", "1", "2", "3"]
    assert regions.to_frame().loc["unknown", "unknown"] == 10
    np.testing.assert_array_equal(regions.to_frame("halfpoint"), regions.halfpoint)


def test_an_unknown_region_is_refused(regions):
    with pytest.raises(ValueError, match="region must be one of 'inner'"):
        regions.score("outside")
