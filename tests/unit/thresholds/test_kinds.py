"""Kinds of unknowns: groups whose scores differ beyond noise, whatever their names."""

import numpy as np
import pytest
from scipy.stats import ks_2samp

from openset import Scores, thresholds
from openset.thresholds import kinds
from openset.thresholds.groups import by_group
from openset.thresholds.kinds import kinds_of

DRAWS = 100


def found_in(scores):
    return kinds_of(scores, by_group("test", scores, None))


def unknowns(groups, seed=0, *, n_known=300, decimals=None):
    """Knowns at 2.5, and groups of unknowns: name -> (centre, how many)."""
    rng = np.random.default_rng(seed)
    values = [rng.normal(2.5, 1, n_known)]
    values += [rng.normal(centre, 1, n) for centre, n in groups.values()]
    known = np.concatenate(values)
    names = ["known"] * n_known
    for name, (_, n) in groups.items():
        names += [name] * n
    labels = np.array([0] * n_known + [-1] * (known.size - n_known))
    return Scores(
        labels=labels,
        predicted=np.zeros(known.size, int),
        known=known if decimals is None else known.round(decimals),
        groups=names,
    )


def cut(scores, parts, seed):
    """Cut every group at random into parts with names of their own."""
    draw = np.random.default_rng(seed).integers(0, parts, len(scores))
    names = [f"{name} {i}" for name, i in zip(scores.groups, draw, strict=True)]
    return Scores(
        labels=scores.labels,
        predicted=scores.predicted,
        known=scores.known,
        groups=names,
    )


@pytest.mark.parametrize("parts", [3, 20])
@pytest.mark.parametrize(
    "groups",
    [{"a": (0.0, 600)}, {"a": (1.0, 600), "b": (-3.0, 3600)}],
    ids=["one kind", "two kinds that need different thresholds"],
)
def test_cutting_groups_at_random_makes_no_kinds_and_no_cautions(groups, parts):
    good = same = 0
    draws = 60  # the dearest test of this file
    for seed in range(draws):
        whole = unknowns(groups, seed)
        parted = cut(whole, parts, seed + 1000)
        names = found_in(parted).names
        good += {frozenset(one) for one in names} == {
            frozenset(f"{name} {i}" for i in range(parts)) for name in groups
        }
        codes = [
            set(thresholds.report(one, thresholds.osa(one)).codes)
            & {"CAL003", "CAL006"}
            for one in (whole, parted)
        ]
        same += codes[0] == codes[1] == {"CAL006" if len(groups) == 1 else "CAL003"}
    assert good >= 0.95 * draws
    assert same >= 0.95 * draws


def test_kinds_that_differ_stay_apart():
    for seed in range(DRAWS):
        scores = unknowns({"a": (0.0, 200), "b": (1.0, 200)}, seed)
        assert found_in(scores).names == (("a",), ("b",))


def test_groups_are_joined_by_way_of_a_third():
    spans = {"a": (0, 60), "b": (15, 75), "c": (30, 90)}
    low = np.concatenate([np.arange(*span) for span in spans.values()])
    known = [*range(100, 200), *low.tolist()]
    names = ["known"] * 100 + np.repeat(list(spans), 60).tolist()
    labels = [0] * 100 + [-1] * 180
    scores = Scores(labels=labels, predicted=[0] * 280, known=known, groups=names)
    assert found_in(scores.take(scores.groups != "b")).names == (("a",), ("c",))
    assert found_in(scores).names == (("a", "b", "c"),)


def test_synthetic_groups_are_kinds_only_if_there_are_no_others():
    groups = {"synthetic:mixup": (1.0, 200), "synthetic:left-out": (-3.0, 100)}
    made = found_in(unknowns(groups))
    assert made.names == (("synthetic:left-out",), ("synthetic:mixup",))
    mixed = found_in(unknowns({**groups, "dogs": (-1.0, 150)}))
    assert mixed.names == (("dogs",),)
    assert mixed.of_group.tolist() == [0, -1, -1]
    assert mixed.n.tolist() == [150]


@pytest.mark.parametrize("decimals", [None, 0])
@pytest.mark.parametrize("sizes", [(5, 7), (12, 12), (40, 9)])
def test_two_groups_differ_as_the_exact_kolmogorov_smirnov_test_says(
    sizes, decimals, monkeypatch
):
    for seed in range(5):
        groups = {"a": (0.0, sizes[0]), "b": (0.7, sizes[1])}
        scores = unknowns(groups, seed, n_known=8, decimals=decimals)
        a, b = (scores.known[scores.groups == name] for name in "ab")
        p = ks_2samp(a, b, method="exact").pvalue
        for level, n_kinds in ((p * (1 - 1e-9), 1), (p * (1 + 1e-9), 2)):
            monkeypatch.setattr(kinds, "LEVEL", level)
            assert len(found_in(scores)) == n_kinds


def connected(names, pairs):
    """Return the sets of names that pairs connect, merging one pair at a time."""
    sets = [{name} for name in names]
    for i, j in pairs:
        first, second = (next(s for s in sets if names[x] in s) for x in (i, j))
        if first is not second:
            sets.remove(second)
            first |= second
    return {frozenset(one) for one in sets}


def test_what_is_counted_per_sample_is_averaged_over_the_samples_of_a_kind():
    found = kinds.Kinds(
        (("a", "c"), ("b",)), np.array([0, 1, 0]), np.array([10, 5, 30])
    )
    shares = np.array([[0.1, 1.0], [0.5, 0.0], [0.5, 0.2]])
    np.testing.assert_allclose(
        found.pooled(shares),
        [[(10 * 0.1 + 30 * 0.5) / 40, (10 * 1 + 30 * 0.2) / 40], [0.5, 0.0]],
    )
    assert found.pooled(np.ones(3), mean=False).tolist() == [40, 5]
    assert found.n.tolist() == [40, 5]


@pytest.mark.parametrize(("centre", "nearest"), [(-1, "high"), (-3, "low")])
def test_a_group_too_small_to_differ_connects_no_kinds(centre, nearest):
    rng = np.random.default_rng(0)
    for _ in range(10):
        parts = {"low": rng.normal(-4, 1, 300), "high": rng.normal(0, 1, 300)}
        parts["between"] = rng.normal(centre, 1, 3)
        names = np.repeat(list(parts), [len(part) for part in parts.values()])
        known = np.concatenate([*parts.values(), rng.normal(3, 1, 100)])
        scores = Scores(
            labels=[-1] * len(names) + [0] * 100,
            predicted=[0] * len(known),
            known=known,
            groups=[*names, *["known"] * 100],
        )
        found = found_in(scores)
        assert len(found) == 2
        assert {"between", nearest} in map(set, found.names)
        assert found.n.sum() == 603
