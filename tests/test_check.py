"""What was meant by a number, and how an array stays what it was."""

from fractions import Fraction

import numpy as np
import pytest

from openset import Scores, _check, thresholds


@pytest.mark.parametrize("kind", [float, np.float16, np.float32, np.float64])
def test_a_rate_in_single_precision_is_the_rate_that_was_meant(kind):
    scores = Scores(labels=[-1] * 20, predicted=[0] * 20, known=range(20))
    for percent in range(0, 101, 5):
        wanted = thresholds.at_fpr(scores, percent / 100).value
        assert thresholds.at_fpr(scores, kind(percent / 100)).value == wanted
    assert _check.fraction(kind(1) / kind(3)) == Fraction(1, 3)
