"""Scores of every size and sign, in one chunk and in many, counted at each level."""

import numpy as np
import pytest

from openset import Scores
from openset.metrics.counts import ranking_counts

EDGES = [0.0, -0.0, 5e-324, -5e-324, 1.0, 2.0, -2.0, np.nextafter(2, 0), np.inf]
EDGES += [-np.inf, np.nextafter(-2, 0), 1e308, -1e308, np.nextafter(1, 2)]


def samples(name: str, n: int) -> Scores:
    rng = np.random.default_rng(n)
    known = {
        "logits": rng.normal(size=n) * 3,
        "shares": rng.random(n),
        "edges": rng.choice(EDGES, n),
        "ties across chunks": rng.integers(-2, 3, n).astype(float),
        "ascending": np.arange(n) / 7.0,
    }[name]
    labels = rng.integers(-1, 3, n)
    labels[:2] = 0, -1
    return Scores(labels=labels, predicted=rng.integers(0, 3, n), known=known)


@pytest.mark.parametrize("n", [5, 3000, 600_000])
@pytest.mark.parametrize(
    "name", ["logits", "shares", "edges", "ties across chunks", "ascending"]
)
def test_counts_are_those_of_numpy(name: str, n: int) -> None:
    scores = samples(name, n)
    found = ranking_counts(scores)
    values, place = np.unique(-scores.known, return_inverse=True)
    assert np.array_equal(found.values, [np.inf, *-values])
    for counts, mask in (
        (found.known, ~scores.is_unknown),
        (found.correct, scores.is_correct),
        (found.unknown, scores.is_unknown),
    ):
        at = np.bincount(place, weights=mask)
        assert np.array_equal(counts, [0, *np.cumsum(at)])
