"""The interval of the share of unknowns covers it, calibration error included."""

import numpy as np
import pytest

from openset.metrics import Rates
from openset.thresholds import prevalence

REPEATS = 1000


@pytest.mark.parametrize("share", [0.0, 0.01, 0.2, 0.9])
@pytest.mark.parametrize(
    ("sizes", "rates"),
    [((2000, 1000, 300), (0.05, 0.8)), ((300, 100, 40), (0.02, 0.95))],
)
def test_95_percent_intervals_cover(share, sizes, rates):
    (n, n_known, n_unknown), (f, u) = sizes, rates
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(REPEATS):
        accepted = n_known - rng.binomial(n_known, f)
        counted = Rates(
            n_known=n_known,
            n_unknown=n_unknown,
            n_correct=accepted,
            n_accepted_known=accepted,
            n_accepted_correct=accepted,
            n_rejected_unknown=rng.binomial(n_unknown, u),
        )
        rejected = rng.binomial(n, (1 - share) * f + share * u)
        hits += share in prevalence(rejected, n, counted).interval
    # At the bound an interval clipped to [0, 1] covers more often than stated.
    assert 0.93 <= hits / REPEATS <= (0.995 if share else 1.0)
