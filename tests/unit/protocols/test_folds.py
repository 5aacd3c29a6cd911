"""Folds: stratified, of exact sizes, unknowns only tested."""

import numpy as np
import pytest
from scipy import stats

from openset.protocols import Protocol, folds, outlier
from openset.protocols.sampling import Stream, deal, take_share

LABELS = np.repeat(["cat", "cow", "dog", "fox", "owl"], [7, 5, 6, 4, 9])
PETS = Protocol(known=["dog", "cat"], unknown=["fox", "owl"], surrogate=["cow"])


def test_each_known_sample_is_tested_once_and_trained_on_otherwise():
    parts = folds(LABELS, PETS, 3)
    known = np.flatnonzero(np.isin(LABELS, PETS.known))
    tested = np.concatenate([f.test for f in parts])
    assert sorted(tested[np.isin(LABELS[tested], PETS.known)]) == known.tolist()
    for f in parts:
        known_test = f.test[np.isin(LABELS[f.test], PETS.known)]
        assert sorted([*f.train, *known_test]) == known.tolist()


def test_unknowns_are_dealt_over_the_tests():
    parts = folds(LABELS, PETS, 3)
    tested = np.concatenate([f.test for f in parts])
    unknown = np.flatnonzero(np.isin(LABELS, PETS.unknown))
    assert sorted(tested[np.isin(LABELS[tested], PETS.unknown)]) == unknown.tolist()


def test_shared_unknowns_are_in_every_test():
    unknown = set(np.flatnonzero(np.isin(LABELS, PETS.unknown)))
    for f in folds(LABELS, PETS, 3, unknowns="shared"):
        assert unknown <= set(f.test)


def test_surrogates_never_reach_a_test():
    for f in folds(LABELS, PETS, 3):
        assert set(LABELS[f.surrogate]) == {"cow"}
        assert "cow" not in LABELS[f.test]
        assert f.negative.size == 0


def test_fold_sizes_differ_by_at_most_one_overall_and_per_class():
    parts = folds(LABELS, PETS, 4)
    sizes = [f.test.size for f in parts]
    assert max(sizes) - min(sizes) <= 1
    for name in (*PETS.known, *PETS.unknown):
        counts = [int((LABELS[f.test] == name).sum()) for f in parts]
        assert max(counts) - min(counts) <= 1


def test_folds_follow_the_protocols_seed_unless_told_otherwise():
    again = folds(LABELS, PETS, 2)
    for one, two in zip(folds(LABELS, PETS, 2), again, strict=True):
        assert one.test.tolist() == two.test.tolist()
    other = folds(LABELS, PETS, 2, rng=1)
    assert [f.test.tolist() for f in other] != [f.test.tolist() for f in again]


def test_rows_of_a_fold_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        folds(LABELS, PETS, 2)[0].test[0] = 1


@pytest.mark.parametrize(
    ("labels", "n", "error", "message"),
    [
        (LABELS, 1, ValueError, "n_folds must be >= 2, got 1"),
        (LABELS, 7, ValueError, "got 6 of class 'dog'. Use fewer folds"),
        ([0, 1, 2], 2, ValueError, "got 0 of class 'dog'"),
        ([0.5, 1.5], 2, TypeError, "labels must be class names or numbers"),
        ([], 2, TypeError, "labels must be"),
        (["dog", "cat"] * 3, 2, ValueError, "must hold samples of unknown classes"),
    ],
)
def test_impossible_folds_are_refused_with_the_rule(labels, n, error, message):
    with pytest.raises(error, match=message):
        folds(labels, PETS, n)


def test_unknowns_of_another_data_set_need_that_data_set():
    with pytest.raises(ValueError, match=r"Use datasets\.folds"):
        folds([0, 0, 1, 1], outlier(2, 2), 2)


def test_every_sample_lands_in_every_bin_equally_often():
    stream = Stream("test", 3)
    strata = np.array([0, 0, 0, 1, 1, 1, 1])
    seen = np.zeros((7, 3))
    for _ in range(3000):
        seen[np.arange(7), deal(strata, 3, stream)] += 1
    for row in seen:
        assert stats.chisquare(row).pvalue > 1e-4


def test_a_share_is_drawn_uniformly_within_each_class():
    stream = Stream("test", 4)
    strata = np.array([0, 1, 0, 1, 0, 0, 1])
    seen = np.zeros(7)
    for _ in range(3000):
        mask = take_share(strata, 0.5, stream)
        assert mask[strata == 0].sum() == 2
        assert mask[strata == 1].sum() == 2  # 1.5 rounds up
        seen += mask
    assert stats.chisquare(seen[strata == 0]).pvalue > 1e-4
    assert stats.chisquare(seen[strata == 1]).pvalue > 1e-4
