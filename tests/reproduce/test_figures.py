"""Figures of the class-imbalance paper."""

import numpy as np

from openset import metrics
from openset.reproduce import figures


def test_the_worked_example_has_the_matrices_of_figures_3_and_4():
    scores = figures.worked_example()
    assert metrics.confusion(scores, 0.5).matrix.tolist() == [
        [10, 3, 0, 2, 1],
        [1, 12, 0, 0, 2],
        [0, 0, 9, 1, 5],
        [1, 1, 0, 10, 3],
        [2, 1, 2, 0, 10],
    ]
    assert metrics.confusion(scores, -np.inf).matrix[:4, :4].tolist() == [
        [11, 3, 0, 2],
        [3, 12, 0, 0],
        [0, 0, 13, 2],
        [4, 1, 0, 10],
    ]
