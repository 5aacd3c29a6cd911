"""Laws of protocols that hold for all arguments."""

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from openset import datasets, protocols
from openset.protocols import Draws, Protocol

seeds = st.integers(0, 2**63)
names = st.lists(st.text(min_size=1, max_size=8), min_size=3, max_size=12, unique=True)


@st.composite
def cut_points(draw, n_parts, universe):
    """Sizes >= 1 of disjoint parts that fit into the universe."""
    n = len(universe)
    sizes = []
    for left in range(n_parts, 0, -1):
        sizes.append(draw(st.integers(1, n - sum(sizes) - (left - 1))))
    return sizes


@given(st.data(), names, seeds)
def test_holdout_parts_are_disjoint_exact_and_in_order(data, classes, seed):
    n_known, n_unknown = data.draw(cut_points(2, classes))
    p = protocols.holdout(classes, n_known, n_unknown, rng=seed)
    assert (len(p.known), len(p.unknown)) == (n_known, n_unknown)
    assert not set(p.known) & set(p.unknown)
    assert set(p.known) | set(p.unknown) | set(p.unused) == set(classes)
    assert sorted(p.known, key=classes.index) == list(p.known)


@given(st.data(), names, seeds)
def test_operational_parts_are_disjoint_and_exact(data, classes, seed):
    sizes = data.draw(cut_points(3, classes))
    p = protocols.operational(classes, *sizes, rng=seed)
    parts = [p.known, p.surrogate, p.unknown]
    assert [len(part) for part in parts] == sizes
    assert len(set().union(*parts)) == sum(sizes)


@given(st.data(), names, names, seeds)
def test_outlier_parts_come_from_their_own_sets(data, inside, outside, seed):
    n_known = data.draw(st.integers(1, len(inside)))
    n_unknown = data.draw(st.integers(1, len(outside)))
    p = protocols.outlier(inside, outside, n_known, n_unknown, rng=seed)
    assert (len(p.known), len(p.unknown)) == (n_known, n_unknown)
    assert set(p.known) <= set(inside)
    assert set(p.unknown) <= set(outside)


@given(st.data(), names, seeds, st.integers(1, 4))
def test_the_same_arguments_give_the_same_hashes(data, classes, seed, repeats):
    sizes = data.draw(cut_points(2, classes))
    one = protocols.holdout(classes, *sizes, repeats=repeats, rng=seed)
    two = protocols.holdout(
        tuple(classes), *sizes, repeats=repeats, rng=np.random.default_rng(seed)
    )
    assert [p.hash for p in one] == [p.hash for p in two]


@given(st.data(), names, seeds)
def test_json_gives_back_the_same_protocols(data, classes, seed):
    sizes = data.draw(cut_points(3, classes))
    draws = protocols.operational(classes, *sizes, repeats=2, rng=seed)
    assert Draws.from_dict(json.loads(draws.to_json())) == draws
    for p in draws:
        again = Protocol.from_dict(json.loads(p.to_json()))
        assert again == p
        assert again.hash == p.hash


@given(st.integers(1, 200), st.integers(0, 200))
def test_openness_grows_with_unknown_classes_and_stays_below_one(n_known, n_unknown):
    value = protocols.openness(n_known, n_known + n_unknown)
    assert 0 <= value < 1
    assert value < protocols.openness(n_known, n_known + n_unknown + 1)


@given(st.data(), seeds, st.integers(2, 4), st.sampled_from(["dealt", "shared"]))
def test_folds_never_train_on_what_they_test(data, seed, n_folds, unknowns):
    sizes = data.draw(st.lists(st.integers(n_folds, 9), min_size=4, max_size=6))
    labels = np.repeat(np.arange(len(sizes)), sizes)
    data_set = datasets.from_arrays(labels[:, None] * 1.0, labels, name="set")
    p = Protocol(known=["0", "2"], unknown=["3"], seed=seed)
    tested = []
    for f in datasets.folds(data_set, p, n_folds, unknowns=unknowns):
        train, test = ([int(one[4:]) for one in s.ids] for s in (f.train, f.test))
        assert not set(train) & set(test)
        assert set(labels[train]) == {0, 2}
        assert set(labels[test]) <= {0, 2, 3}
        tested.extend(row for row in test if labels[row] != 3)
    assert sorted(tested) == np.flatnonzero(np.isin(labels, [0, 2])).tolist()


@given(st.data(), seeds, st.integers(1, 4), st.sampled_from(["dealt", "shared"]))
def test_an_operational_cut_shares_no_sample_between_its_parts(
    data, seed, n_tests, unknowns
):
    n_classes = data.draw(st.integers(3, 7))
    sizes = data.draw(cut_points(3, range(n_classes)))
    labels = np.arange(20 * n_classes) % n_classes
    whole = datasets.from_arrays(labels[:, None] * 1.0, labels, name="set")
    p = protocols.operational(
        whole, *sizes, rng=seed, n_tests=n_tests, unknowns=unknowns
    )
    made = datasets.cut(whole.with_parts(test=0.5, rng=seed), p)
    parts = [made.train, made.validation, made.surrogate]
    parts += [test for test in made.tests if unknowns == "dealt"]
    if unknowns == "shared":  # knowns are dealt all the same
        ids = [set(t.ids[t.labels >= 0].tolist()) for t in made.tests]
        assert len(set().union(*ids)) == sum(map(len, ids))
        strange = {frozenset(t.ids[t.labels < 0].tolist()) for t in made.tests}
        assert len(strange) == 1
        parts.append(made.tests[0])
    ids = [set(part.ids.tolist()) for part in parts]
    assert len(set().union(*ids)) == sum(len(part) for part in parts)
    assert set(made.train.groups) == set(made.validation.groups) == set(p.known)
    assert set(made.surrogate.groups) == set(p.surrogate)
    for test in made.tests:
        assert set(test.groups) <= set(p.known) | set(p.unknown)
        assert not set(test.groups) & set(p.surrogate)


@given(st.data(), names, seeds)
def test_a_grid_keeps_its_sizes_and_leaving_out_covers_every_class(data, classes, seed):
    sizes = [data.draw(cut_points(2, classes)) for _ in range(2)]
    draws = protocols.grid(classes, sizes=sizes, repeats=2, rng=seed)
    found = [[p.n_known, p.n_unknown] for p in draws]
    assert found == [sizes[0], sizes[0], sizes[1], sizes[1]]
    left = protocols.leave_classes_out(classes, 1, rng=seed)
    assert sorted(c for p in left for c in p.unknown) == sorted(classes)
