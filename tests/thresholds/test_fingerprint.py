"""Fingerprints: the same samples are found, other samples are not."""

import math
import struct
from collections import Counter

import numpy as np
import pytest

from openset import Scores, evaluate, thresholds
from openset.thresholds import Fingerprint
from tests.thresholds.makers import scattered


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


@pytest.mark.parametrize("decimals", [0, 1])
def test_the_very_same_samples_are_refused_however_coarse_their_scores(decimals):
    scores = scattered(0, 3000, decimals=decimals)
    chosen = thresholds.Threshold.from_json(thresholds.osa(scores).to_json())
    shuffled = scores.take(np.random.default_rng(0).permutation(len(scores)))
    for same in (scores, shuffled):
        with pytest.raises(ValueError, match="must be other samples than those"):
            evaluate(same, chosen)
    evaluate(scores.take(slice(1, None)), thresholds.osa(scattered(1, 3000)))


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
    assert [side.kept().size for side in mark.sides] == [256, 256]
    assert mark.is_of(scores)
    assert mark.is_of(scores.take(slice(0, 20_000)))  # a part of it as a test
    assert not mark.is_of(scattered(1, 200_000))
    assert len(repr(mark)) < 400  # it does not flood the screen


def test_the_largest_numbers_have_a_fingerprint():
    most = np.finfo(float).max
    scores = Scores(labels=[0, -1], predicted=[0, 0], known=[most, -most])
    assert thresholds.osa(scores).value == most
    assert [side.kept().size for side in Fingerprint.of(scores).sides] == [1, 1]


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
    with pytest.raises(ValueError, match=r"^me: test scores must .* in common"):
        chosen.check_disjoint(sides_of(part, scattered(1, 2000)), caller="me")


# --- the sketch, by plain integers --------------------------------------------

BITS = 2**64 - 1


def mixed(value):
    """Finalise one number as SplitMix64 does."""
    z = (value + 0x9E3779B97F4A7C15) & BITS
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & BITS
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & BITS
    return z ^ (z >> 31)


def row_hash(label, predicted, known):
    """Hash a row: its score with 20 bits, then label and prediction."""
    if math.isfinite(known):
        mantissa, exponent = math.frexp(known)
        known = math.ldexp(round(math.ldexp(mantissa, 20)), exponent - 20) + 0.0
    (bits,) = struct.unpack("<Q", struct.pack("<d", known))
    return mixed(mixed(mixed(bits) ^ (label & BITS)) ^ predicted)


def sketched(rows, limit=BITS):
    """Distinct hashes up to a limit, and the share of them that have a twin."""
    often = Counter(row for row in rows if row <= limit)
    light = [n for n in often.values() if n <= max(len(rows) // 100, 4)]
    twins = sum(n for n in light if n > 1) / sum(light) if light else 1.0
    return sorted(often), twins


def hashes_of(scores):
    """Return the hashes of the knowns, and of the unknowns."""
    rows = list(
        zip(
            *(c.tolist() for c in (scores.labels, scores.predicted, scores.known)),
            strict=True,
        )
    )
    return [
        [row_hash(*row) for row in rows if (row[0] < 0) == is_unknown]
        for is_unknown in (False, True)
    ]


def test_the_mixing_is_splitmix64():
    """The first numbers that the reference code draws from seeds 0 and 1234567."""
    assert mixed(0) == 0xE220A8397B1DCDAF
    assert mixed(1234567) == 6457827717110365317


ODD = [0.0, -0.0, np.inf, -np.inf, 1e-310, 5e-324, 1 + 2**-19, 1 + 2**-20, 1 + 2**-21]


@pytest.mark.parametrize("decimals", [None, 2, 1, 0])
def test_a_sketch_is_what_plain_integers_give(decimals):
    scores = scattered(3, 700, decimals=decimals)
    known = scores.known.copy()
    known[: len(ODD)] = ODD
    scores = scores.with_known(known)
    for side, rows in zip(Fingerprint.of(scores).sides, hashes_of(scores), strict=True):
        distinct, twins = sketched(rows)
        kept = distinct[:256]
        limit = kept[-1] if len(distinct) > 256 else BITS
        assert (int(side.limit, 16), side.kept().tolist()) == (limit, kept)
        assert side.hashes == "".join(f"{one:016x}" for one in kept)
        assert side.twins == pytest.approx(twins)


def test_twins_are_looked_for_in_a_fair_sample_of_a_large_set():
    scores = scattered(3, 110_000, decimals=3)
    known = scores.take(~scores.is_unknown)
    rows = hashes_of(known)[0]
    assert len(rows) > 65_536
    side = Fingerprint.of(known).sides[0]
    distinct, twins = sketched(rows, BITS * 65_536 // len(rows))
    assert side.kept().tolist() == distinct[:256]
    assert side.twins == pytest.approx(twins)
    assert 0 < twins < 1


def scores_of(known, label=0):
    known = np.asarray(known, dtype=float)
    n = known.size
    return Scores(labels=np.full(n, label), predicted=np.zeros(n, int), known=known)


@pytest.mark.parametrize("label", [0, -1])
@pytest.mark.parametrize(
    ("n", "common", "shared", "is_of"),
    [
        *[(40, 16, 0.4, True), (40, 15, 0.0, False)],  # fewer than 16 prove nothing
        *[(100, 30, 0.3, False), (100, 31, 0.31, True), (100, 100, 1.0, True)],
    ],
)
def test_the_share_in_common_is_of_the_smaller_set(label, n, common, shared, is_of):
    mark = Fingerprint.of(scores_of(np.arange(200.0), label))
    other = np.r_[np.arange(common), 1000.0 + np.arange(n - common)]
    test = scores_of(other, label)
    assert mark.shared(test) == pytest.approx(shared)
    assert mark.is_of(test) == is_of
    backwards = Fingerprint.of(test)
    assert backwards.shared(scores_of(np.arange(200.0), label)) == pytest.approx(shared)


def test_chance_is_the_larger_share_of_twins_in_either_set():
    plain, doubled = np.arange(100.0), np.r_[np.arange(80.0), np.arange(20.0)]
    one, two = scores_of(plain), scores_of(doubled)
    # 80 distinct rows, all in common; 40 of the 100 rows of the second have a twin.
    assert Fingerprint.of(one).shared(two) == pytest.approx(1 - 0.4)
    assert Fingerprint.of(two).shared(one) == pytest.approx(1 - 0.4)
    many = scores_of(np.repeat(np.arange(20.0), 2))
    more = scores_of(np.r_[np.repeat(np.arange(20.0), 2), 0.0])
    assert Fingerprint.of(many).shared(more) == 0.0


def test_the_last_row_of_a_sketch_counts():
    known = sorted(np.arange(300.0), key=lambda value: row_hash(0, 0, value))
    mark = Fingerprint.of(scores_of(known))
    last_ones = scores_of(known[240:256])  # 16 in common are just enough
    assert mark.shared(last_ones) == 1.0
    assert mark.shared(scores_of(known[241:257])) == 0.0
