"""One threshold per predicted class."""

import numpy as np
import pytest

from openset import Scores, thresholds


def test_small_classes_are_drawn_to_the_global_threshold():
    rng = np.random.default_rng(0)
    n = np.array([2000, 20])  # samples predicted as class 0 and 1, half unknown
    predicted = np.repeat([0, 1], n)
    labels = np.where(np.arange(n.sum()) % 2, predicted, -1)
    known = rng.normal(size=n.sum()) + 2.0 * (labels >= 0) + 5.0 * predicted
    scores = Scores(labels=labels, predicted=predicted, known=known)
    one = thresholds.osa(scores).value
    alone = thresholds.per_class(scores, strength=0)
    drawn_in = thresholds.per_class(scores, strength=1e5)
    assert alone.per_class[1] > 4 > alone.per_class[0] + 2
    assert drawn_in.per_class[1] == pytest.approx(one, abs=0.5)
    assert alone.rate.value > thresholds.osa(scores).rate.value
