"""Several detectors as one."""

import numpy as np
import pytest
from scipy.stats import rankdata

from openset import Outputs, detectors
from openset.detectors import Combined, combine

WEIGHT = np.random.default_rng(0).normal(size=(4, 8))


def drawn(n, *, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, n)
    features = rng.normal(size=(n, 8)) + 1.5 * WEIGHT[labels]
    return Outputs(features=features, logits=features @ WEIGHT.T, labels=labels)


def rank(values, reference):
    """Rank numbers, as the logits of one class, among others."""
    one = combine([detectors.MaxLogit().fit()], reference=[reference])
    return one.known(Outputs(logits=np.asarray(values)[:, None]))


def test_tied_knots_share_the_middle_of_their_ranks():
    ranks = rank([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 1.0, 1.0, 3.0])
    assert ranks.tolist() == [0, 0, 0.25, 0.5, 0.75, 1, 1]


@pytest.mark.parametrize("blur", [0, 1e-6])
def test_a_rounding_error_moves_no_rank_by_the_share_of_the_tied_ones(blur):
    rng = np.random.default_rng(0)
    tied = rng.uniform(-blur, blur, 300)
    reference = np.concatenate([tied, rng.uniform(0.1, 1, 300)])
    around = rank([-1e-6, -1e-12, 0.0, 1e-12, 1e-6], reference)
    assert np.ptp(around) < 1e-3
    assert around[2] == pytest.approx(0.25, abs=0.01)


def test_the_size_of_a_batch_moves_no_decision():
    train = drawn(600, seed=1)
    features = np.array(train.features, dtype=np.float32)
    features[:300] = features[0]  # as blank frames
    train = Outputs(
        features=features, logits=features @ WEIGHT.T.astype("f4"), labels=train.labels
    )
    knn = detectors.KNN(k=5).fit(train.take(slice(0, 600, 2)))
    both = combine([knn], reference=[knn.known(train.take(slice(1, 600, 2)))])
    whole = both.known(train, batch_size=600)
    for size in (1, 3, 7, 64):
        np.testing.assert_allclose(both.known(train, batch_size=size), whole, atol=2e-3)


def test_ranks_of_the_reference_are_its_ranks():
    values = np.random.default_rng(0).normal(size=100)
    ranks = rank(values, values)
    np.testing.assert_allclose(ranks, (rankdata(values) - 1) / 99, atol=0.011)
    assert rank([-9.0, 9.0], values).tolist() == [0, 1]
    assert rank([-1.0, 0.0, 0.25, 1.0], [0.0, 1.0]).tolist() == [0, 0, 0.25, 1]
    assert rank([-1.0, 0.0, 1.0], [0.0]).tolist() == [0, 0, 0]


def test_ranks_never_fall_where_scores_rise_even_with_ties():
    reference = np.random.default_rng(1).integers(0, 5, 400).astype(float)
    reference[:20] = -np.inf
    ranks = rank(np.linspace(-9, 9, 400), reference)
    assert (np.diff(ranks) >= 0).all()
    assert np.ptp(ranks) > 0.7  # the ends have the middle of the tied ranks


def test_what_a_part_cannot_score_is_not_the_most_known_of_all():
    train, held_out = drawn(300, seed=1), drawn(200, seed=9)
    parts = [detectors.make(name).fit(train) for name in ("msp", "rmds")]
    both = combine(parts, reference=[one.known(held_out) for one in parts])
    far = Outputs(logits=train.logits[:1], features=np.full((1, 8), 1e200))
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="free of NaN"):
        both.known(far)


ONE = detectors.MSP().fit(drawn(9))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Combined(parts=[]), "parts must be a non-empty list"),
        (lambda: Combined(parts="msp"), "parts must be a non-empty list"),
        (lambda: Combined(parts={"knn": {"k": 5}}), "parts must be a non-empty list"),
        (lambda: Combined(parts=["magic"]), "name must be one of"),
        (lambda: Combined(parts=["msp"]).fit(drawn(9)), r"held-out .*Use combine\("),
        (lambda: combine([], reference=[]), "there must be some"),
        (lambda: combine(ONE, reference=[[1.0]]), "several fitted .* Put them in a"),
        (lambda: combine([detectors.MSP()], reference=[[1.0]]), "fitted .* got MSP"),
        (lambda: combine([ONE], reference=[[np.inf]]), "partly finite"),
        (lambda: combine([ONE], reference=[[1, np.nan]]), "free of NaN"),
        (lambda: combine([ONE], reference=[[1]], weights=[np.nan]), "one for each"),
        (lambda: combine([ONE] * 2, reference=[[1]]), "got 1 and 2 for 2 detectors"),
        (lambda: combine([ONE] * 2, reference=[[1, 2], [1]]), "the same shape"),
    ],
)
def test_bad_parts_are_named(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
