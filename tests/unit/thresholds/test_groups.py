"""Rates against each group of unknowns, at every threshold, by counting samples."""

import numpy as np
import pytest

from openset import Scores
from openset.thresholds.groups import by_group


@pytest.mark.parametrize("names", ["a", "ab", "abc"])
@pytest.mark.parametrize("highest", [3.0, np.inf])
def test_every_threshold_is_counted_for_every_group(names, highest, rng):
    labels = np.repeat([0, -1], [12, 15])
    known = rng.integers(0, 4, 27).astype(float)
    known[known == 3] = highest
    scores = Scores(
        labels=labels,
        predicted=rng.integers(0, 2, 27),
        known=known,
        groups=rng.choice(list(names), 27),
    )
    table = by_group("me", scores, 0.3)
    # A threshold of inf rejects all, unless a score is inf.
    finite = [value for value in (highest, 2.0, 1.0, 0.0) if value < np.inf]
    assert table.values.tolist() == [np.inf, *finite]
    assert (table.names, table.alpha) == (tuple(names), 0.3)
    for m, value in enumerate(table.values):
        accepted = known >= value
        right = accepted & scores.is_correct
        assert table.ccr[m] == np.count_nonzero(right) / 12
        for g, name in enumerate(names):
            mine = scores.is_unknown & (scores.groups == name)
            rejected = np.count_nonzero(mine & ~accepted)
            assert table.n[g] == np.count_nonzero(mine)
            assert table.urr[g, m] == rejected / table.n[g]
    osa = 0.3 * table.ccr + 0.7 * table.urr
    np.testing.assert_array_equal(table.osa, osa)
    best = np.array([row.max() for row in osa])
    np.testing.assert_allclose(table.regret, best[:, None] - osa)
