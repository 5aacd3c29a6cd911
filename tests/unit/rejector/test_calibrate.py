"""Calibration: one sort, and the same results as counting sample by sample."""

import sys

import numpy as np
import pytest

from openset import Outputs, Rejector, Scores, detectors, metrics, thresholds

N = 3000


def drawn(n=N, *, unknown=False, groups=(), seed=0, decimals=None):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, n)
    logits = rng.normal(size=(n, 4)) + (0 if unknown else 2) * np.eye(4)[labels]
    return Outputs(
        logits=logits if decimals is None else logits.round(decimals),
        labels=np.full(n, -1) if unknown else labels,
        groups=np.array(groups)[rng.integers(0, len(groups), n)] if groups else None,
    )


def sorted_scores(call):
    """Return how many scores were sorted during a call: the sizes of all such arrays.

    Sorts are C functions; the interpreter reports each call of one, wherever it is.
    """
    sizes = []

    def note(_frame, event, function):
        owner = getattr(function, "__self__", None)
        if event == "c_call" and isinstance(owner, np.ndarray):
            is_sort = function.__name__ in {"sort", "argsort", "partition"}
            if is_sort and owner.dtype == np.float64 and owner.size > N // 10:
                sizes.append(owner.size)

    lexsort = np.lexsort

    def counted(keys, *args, **options):  # called from C: the interpreter is not told
        sizes.append(len(keys[0]))
        return lexsort(keys, *args, **options)

    np.lexsort = counted
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
        np.lexsort = lexsort
    return sum(sizes)


def test_the_counter_sees_every_way_to_sort():
    values = np.random.default_rng(0).random(N)
    for sort in (np.sort, np.argsort, np.unique, np.copy(values).__class__.argsort):
        assert sorted_scores(lambda sort=sort: sort(values)) == N
    assert sorted_scores(lambda: np.copy(values).sort()) == N
    assert sorted_scores(lambda: np.quantile(values, 0.3)) == N
    assert sorted_scores(lambda: np.lexsort((values, values))) == N
    assert sorted_scores(values.max) == 0


# Sorting the three kinds of samples apart and merging them passes over all scores
# twice. Thresholds per class, and costs, need the samples themselves in order.
@pytest.mark.parametrize(
    ("objective", "passes"),
    [
        ("osa", 2),
        ("anchored", 2),
        ("worst_group", 2),
        ("at_fpr", 2),
        ("at_tpr", 2),
        ("conformal", 2),
        ("per_class", 3),
        ("by_cost", 3),
    ],
)
def test_calibration_sorts_its_scores_once(objective, passes):
    fitted = detectors.MaxLogit().fit(drawn(seed=1))
    known, surrogate = drawn(seed=2), drawn(unknown=True, seed=3)

    def calibrate():
        Rejector.calibrate(
            fitted, known=known, surrogate=surrogate, objective=objective
        )

    assert sorted_scores(calibrate) <= passes * 2 * N


def test_groups_are_sorted_once_more_each():
    fitted = detectors.MaxLogit().fit(drawn(seed=1))
    known = drawn(seed=2)
    surrogate = drawn(unknown=True, groups=("a", "b", "c"), seed=3)

    def calibrate():
        Rejector.calibrate(fitted, known=known, surrogate=surrogate)

    assert sorted_scores(calibrate) <= 2 * 2 * N + N


@pytest.mark.parametrize("decimals", [None, 0])
@pytest.mark.parametrize("groups", [(), ("a", "b", "c")])
@pytest.mark.parametrize("weight", [None, "counts", 0.3])
def test_the_report_is_what_counting_sample_by_sample_gives(decimals, groups, weight):
    fitted = detectors.MaxLogit().fit(drawn(200, seed=1))
    known = drawn(200, seed=2, decimals=decimals)
    surrogate = drawn(150, unknown=True, groups=groups, seed=3, decimals=decimals)
    rejector = Rejector.calibrate(
        fitted, known=known, surrogate=surrogate, alpha=weight
    )
    found, value = rejector.report, rejector.threshold.value
    k, u = fitted.known(known), fitted.known(surrogate)
    is_right = known.logits.argmax(axis=1) == known.labels

    def osa(threshold, alpha, unknown=u):
        hits = np.count_nonzero(is_right & (k >= threshold)) / k.size
        return alpha * hits + (1 - alpha) * np.count_nonzero(unknown < threshold) / len(
            unknown
        )

    cuts = [*np.unique([*k, *u]).tolist(), np.inf]
    share = k.size / (k.size + u.size)
    alpha = {None: 0.5, "counts": share}.get(weight, weight)
    assert rejector.threshold.alpha == alpha
    assert f"alpha {alpha:g}" in str(rejector.threshold)
    best = max(osa(cut, alpha) for cut in cuts)
    assert osa(value, alpha) == pytest.approx(best, abs=1e-12)
    assert found.osa == pytest.approx(best, abs=1e-12)
    assert found.accepted_known == np.mean(k >= value)
    assert found.accuracy == is_right.mean()
    for row in found.alphas:
        values = [osa(cut, row["alpha"]) for cut in cuts]
        assert row["osa"] == pytest.approx(max(values), abs=1e-12)
        assert row["threshold"] == cuts[int(np.argmax(np.round(values, 12)))]
        assert row["accepted_known"] == np.mean(k >= row["threshold"])
        assert row["urr"] == np.mean(u < row["threshold"])
    names = surrogate.groups if groups else np.full(u.size, "all")
    assert [row["group"] for row in found.groups] == sorted(set(names))
    for row in found.groups:
        mine = u[names == row["group"]]
        assert (row["n"], row["urr"]) == (mine.size, np.mean(mine < value))
        assert row["osa"] == pytest.approx(osa(value, alpha, mine), abs=1e-12)
        of_group = max(osa(cut, alpha, mine) for cut in cuts)
        assert row["best"] == pytest.approx(of_group, abs=1e-12)
    near = [cut for cut in cuts if osa(cut, alpha) >= best - 0.01]
    assert {value, found.flat.high} <= set(near)
    inside = [c for c in cuts if found.flat.low < c <= found.flat.high]
    assert set(inside) <= set(near)
    every = np.concatenate([k, u])
    expected = np.mean((every > found.flat.low) & (every <= found.flat.high))
    assert found.flat_share == expected


@pytest.mark.parametrize("n", [1, 2, 7, 1025, 1026, 3000])
def test_the_reference_holds_evenly_spaced_scores(n):
    fitted = detectors.MaxLogit().fit(drawn(200, seed=1))
    known, surrogate = drawn(n, seed=2), drawn(n, unknown=True, seed=3, decimals=1)
    found = Rejector.calibrate(fitted, known=known, surrogate=surrogate).reference
    for side, part in (("known", known), ("unknown", surrogate)):
        ordered = np.sort(fitted.known(part))
        size = min(n, 1025)
        # the ceiling of an even step, in whole numbers
        places = [-(-i * (n - 1) // max(size - 1, 1)) for i in range(size)]
        np.testing.assert_array_equal(found[side], ordered[places])


def test_counts_are_shared_only_while_they_are_in_use():
    scores = Scores(labels=[0, -1], predicted=[0, 0], known=[2.0, 1.0])
    counts = metrics.counts.ranking_counts
    first = counts(scores)
    assert counts(scores) is first
    with pytest.raises(ValueError, match="read-only"):
        first.values[0] = 0
    assert counts(scores.take([0, 1])) is not first
    assert thresholds.osa(scores).value == 2.0
