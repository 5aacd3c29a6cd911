"""Fingerprints: the same samples are found, other samples are not."""

import numpy as np
import pytest

from openset import Scores, thresholds
from openset.thresholds import Fingerprint
from tests.unit.thresholds.makers import scattered


def test_a_few_bits_of_noise_do_not_hide_a_sample():
    scores = scattered(0)
    noisy = scores.with_known(scores.known.astype(np.float32) * (1 + 1e-7))
    assert Fingerprint.of(scores).is_of(noisy)


def test_other_samples_pass_however_coarse_their_scores():
    for decimals in (None, 3, 2, 1, 0):
        found = thresholds.osa(scattered(0, 3000, decimals=decimals))
        for n in (50, 400, 3000, 40_000):
            other = scattered(1, n, decimals=decimals)
            assert found.fingerprint.shared(other) < 0.2
            found.check_disjoint(other)


def test_saturated_scores_are_no_proof_but_the_others_are():
    def saturated(seed):
        scores = scattered(seed, 2000)
        return scores.with_known(np.minimum(scores.known, 0.5))

    mark = Fingerprint.of(saturated(0))
    assert not mark.is_of(saturated(1))
    assert mark.is_of(saturated(0))


def test_large_sets_are_sketched_and_still_found():
    scores = scattered(0, 200_000)
    mark = Fingerprint.of(scores)
    assert [len(side.hashes) for side in mark.sides] == [256, 256]
    assert mark.is_of(scores)
    assert mark.is_of(scores.take(slice(0, 20_000)))  # a part of it as a test
    assert not mark.is_of(scattered(1, 200_000))
    assert Fingerprint.from_dict(mark.to_dict()) == mark


def test_the_largest_numbers_have_a_fingerprint():
    most = np.finfo(float).max
    scores = Scores(labels=[0, -1], predicted=[0, 0], known=[most, -most])
    assert thresholds.osa(scores).value == most
    assert [len(side.hashes) for side in Fingerprint.of(scores).sides] == [1, 1]


def test_the_fingerprint_does_not_flood_the_screen():
    rng = np.random.default_rng(0)
    scores = Scores(
        labels=np.repeat([0, -1], 300),
        predicted=np.zeros(600, int),
        known=rng.normal(size=600),
    )
    assert len(repr(thresholds.osa(scores))) < 800


def sides_of(known, unknown):
    """Join the known samples of one set with the unknown samples of another."""
    return Scores.concat(
        [known.take(~known.is_unknown), unknown.take(unknown.is_unknown)]
    )


def test_either_side_of_the_calibration_data_is_found_beside_a_new_other_side():
    seen = scattered(0)
    mark = Fingerprint.of(seen)
    for n in (400, 20_000):  # a large new side hides nothing
        fresh = scattered(1, n)
        assert not mark.is_of(fresh)
        assert not mark.is_of(sides_of(fresh, scattered(2, n)))
        assert mark.is_of(sides_of(fresh, seen))
        assert mark.is_of(sides_of(seen, fresh))
        with pytest.raises(ValueError, match="about 100% of them in common"):
            thresholds.osa(seen).check_disjoint(sides_of(fresh, seen))


def test_calibration_data_of_one_side_are_found_among_a_larger_other_side():
    scores = scattered(0)
    known = scores.take(~scores.is_unknown)
    chosen = thresholds.conformal(known, 0.1)
    chosen.check_disjoint(scattered(1))
    part = known.take(slice(0, 40))
    with pytest.raises(ValueError, match="in common"):
        chosen.check_disjoint(sides_of(part, scattered(1, 2000)))


def test_a_fingerprint_of_both_sides_together_is_still_read():
    """The first fingerprints held the rows of all samples in one sketch."""
    scores = scattered(0)
    sides = Fingerprint.of(scores).to_dict().pop("sides")
    old = {
        "n": len(scores),
        "twins": 0.0,
        "limit": sides[0]["limit"],
        "hashes": sides[0]["hashes"] + sides[1]["hashes"],
    }
    mark = Fingerprint.from_dict(old)
    assert mark.is_of(scores)
    assert not mark.is_of(scattered(1))
