"""Shared counts: what is accepted at each distinct score."""

import gc

import numpy as np
import pytest
from pytest import approx  # noqa: PT013

from openset import Scores, metrics
from openset.metrics.counts import class_counts, ranking_counts

EDGE = [np.inf, -np.inf, 0.0, -0.0]


def draw(seed, n=40, *, edges=True, decimals=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, 2, n)
    known = rng.normal(size=n).round(decimals)
    if edges:
        known[: len(EDGE)] = EDGE
    return Scores(labels=labels, predicted=rng.integers(0, 2, n), known=known)


@pytest.mark.parametrize("edges", [True, False])
def test_any_threshold_finds_its_counts(edges):
    scores = draw(1, edges=edges)
    counts = ranking_counts(scores)
    middles = (np.unique(scores.known[4:])[1:] + np.unique(scores.known[4:])[:-1]) / 2
    for value in [*EDGE, *scores.known.tolist(), *middles.tolist(), 99.0, -99.0]:
        assert counts.rates(value) == metrics.Rates.at(scores, value), value
    for side, is_of in (("unknown", scores.is_unknown), ("known", ~scores.is_unknown)):
        expected = np.sort(scores.known[is_of])
        assert (
            counts.ascending(side, range(expected.size)).tolist() == expected.tolist()
        )


def test_counts_are_shared_while_they_are_in_use():
    scores = draw(3)
    first = ranking_counts(scores)
    for array in (first.values, first.known, first.correct, first.unknown):
        assert not array.flags.writeable
    assert ranking_counts(scores) is first
    assert ranking_counts(draw(4)) is not first
    values = first.values.tolist()
    del first
    gc.collect()
    assert ranking_counts(scores).values.tolist() == values


def test_the_best_of_a_sweep_is_a_threshold_that_exists():
    """No threshold rejects a score of +inf: +inf itself accepts it."""
    scores = Scores(labels=[0, -1, -1], predicted=[0] * 3, known=[np.inf, 1.0, 0.0])
    table = metrics.sweep(scores)
    assert table.thresholds.tolist() == [np.inf, np.inf, 1, 0]
    best = table.best("osa")
    assert (best.value, best.threshold) == (1.0, np.inf)
    # Rejecting all would be best, but the unknown at +inf is always accepted.
    endless = Scores(labels=[0, -1, -1], predicted=[1, 0, 0], known=[1.0, np.inf, 2.0])
    assert metrics.sweep(endless).best("urr").value == 0.5
    finite = Scores(labels=[0, -1], predicted=[1, 0], known=[1.0, 2.0])
    assert metrics.sweep(finite).best("urr").threshold == np.inf


def test_of_equal_values_a_sweep_takes_the_smallest_threshold():
    scores = Scores(labels=[0, 0, -1], predicted=[0, 1, 0], known=[3.0, 2.0, 1.0])
    assert metrics.sweep(scores).best("osa").threshold == 2.0
    assert metrics.sweep(scores).best("urr").threshold == 2.0
    with pytest.raises(ValueError, match=r"^Sweep\.best: name must be one of 'ccr'"):
        metrics.sweep(scores).best("thresholds")


def test_classes_need_not_be_numbered_without_gaps():
    """The same samples, with classes 0 and 1 renumbered as 3 and 8."""
    scores = draw(7)
    names = np.array([3, 8])
    renamed = Scores(
        labels=np.where(scores.is_unknown, -1, names[scores.labels]),
        predicted=names[scores.predicted],
        known=scores.known,
    )
    first, second = metrics.evaluate(scores, 0.5), metrics.evaluate(renamed, 0.5)
    assert dict(first) == approx(dict(second))
    tables = [metrics.confusion(one, 0.5) for one in (scores, renamed)]
    assert tables[0].matrix.tolist() == tables[1].matrix.tolist()
    assert tables[1].classes.tolist() == [3, 8]


def test_many_samples_are_counted_by_class_on_all_cores():
    rng = np.random.default_rng(0)
    n = 500_000
    labels, predicted = rng.integers(-1, 3, n), rng.integers(0, 3, n)
    scores = Scores(labels=labels, predicted=predicted, known=rng.normal(size=n))
    of_class = class_counts(scores, 0.5)
    accepted = scores.known >= 0.5
    for c in range(3):
        mine = predicted == c
        assert of_class.support[c] == np.count_nonzero(labels == c)
        assert of_class.hits[c] == np.count_nonzero(mine & (labels == c) & accepted)
        wrong = mine & (labels != c) & (labels >= 0)
        assert of_class.closed_false[c] == np.count_nonzero(wrong)
        assert of_class.false_known[c] == np.count_nonzero(wrong & accepted)
        missed = np.count_nonzero(mine & (labels < 0) & accepted)
        assert of_class.false_unknown[c] == missed
