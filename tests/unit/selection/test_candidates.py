"""Combinations of detectors: what they are made of and what they learn from."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression

from openset import Outputs
from openset.detectors.combined import rank
from openset.outputs import replaced
from openset.selection._candidates import RANK, STACKING, Data
from tests.unit.selection.makers import drawn, fitted_column


def data_of(known, surrogate):
    names = [f"c{i}" for i in range(known.features.shape[1])]
    return Data.of(
        "test",
        {name: fitted_column(i) for i, name in enumerate(names)},
        known,
        surrogate,
        batch_size=None,
        alpha=0.5,
        by="both",
    )


def every(data):
    return np.arange(data.n_known), np.arange(data.n_unknown)


def without_first(data):
    """Return the same data without the first detector."""
    columns = {
        name: getattr(data, name)[:, 1:]
        for name in ("known", "unknown", "predicted", "predicted_unknown")
    }
    return replace(data, names=data.names[1:], **columns)


@pytest.mark.parametrize("seed", range(3))
def test_stacking_is_a_logistic_regression_on_ranks(seed):
    """The plain way: ranks of every sample, both sides of equal weight, one fit."""
    known, surrogate = drawn({"a": (1, 2, 2), "b": (2, 1, 2)}, seed)
    data = data_of(known, surrogate)
    made = data.combination(STACKING, *every(data))
    assert made.used.tolist() == [0, 1, 2]
    samples = np.concatenate([data.known, data.unknown])
    ranks = np.stack([rank(samples[:, d], made.knots[d]) for d in range(3)], axis=1)
    is_known = np.arange(len(samples)) < data.n_known
    weight = np.where(is_known, 1 / data.n_known, 1 / data.n_unknown)
    model = LogisticRegression(max_iter=1000)
    model.fit(ranks, is_known, sample_weight=weight * len(samples) / 2)
    np.testing.assert_allclose(made.weights, model.coef_[0] / model.coef_.sum())


@pytest.mark.parametrize("second", [2, 0.2])  # a weak detector is kept, too
def test_a_detector_that_would_be_used_upside_down_is_left_out(second):
    # The last column is larger for unknowns: a negative weight would fit best.
    known, surrogate = drawn({"a": (2, second, -1), "b": (2, second, -1)})
    data = data_of(known, surrogate)
    made = data.combination(STACKING, *every(data))
    assert made.used.tolist() == [0, 1]
    assert (made.weights > 0).all()
    # The rest is fitted again, as if the detector had never been there.
    fewer = replace(
        data, names=data.names[:2], known=data.known[:, :2], unknown=data.unknown[:, :2]
    )
    alone = fewer.combination(STACKING, *every(data))
    np.testing.assert_allclose(made.weights, alone.weights)


def test_wrongly_classified_knowns_are_not_learnt_from():
    known, surrogate = drawn({"a": (2, 1, 2), "b": (1, 2, 2)})
    data = data_of(known, surrogate)
    half = np.arange(data.n_known // 2)
    predicted = data.predicted.copy()
    predicted[half] = (data.labels[half, None] + 1) % 3
    data = replace(data, predicted=predicted)
    made = data.combination(STACKING, *every(data))
    # Exchanged among the wrongly classified, the scores of one detector keep their
    # distribution (so ranks are the same), but no longer go with the others'.
    scores = data.known.copy()
    scores[half, 1] = np.sort(scores[half, 1])
    scores[half, 2] = np.sort(scores[half, 2])[::-1]
    other = replace(data, known=scores).combination(STACKING, *every(data))
    np.testing.assert_array_equal(other.knots, made.knots)
    np.testing.assert_array_equal(other.weights, made.weights)
    # The same exchange among those classified correctly does change the weights.
    scores = data.known.copy()
    rest = np.arange(data.n_known // 2, data.n_known)
    scores[rest, 1] = np.sort(scores[rest, 1])
    changed = replace(data, known=scores).combination(STACKING, *every(data))
    assert np.abs(changed.weights - made.weights).max() > 1e-3


def test_the_first_detector_that_is_kept_gives_the_class():
    # The first column is upside down. It classifies the first half of the knowns
    # correctly, the second column the other half.
    known, surrogate = drawn({"a": (-2, 1, 2), "b": (-2, 2, 1)})
    data = data_of(known, surrogate)
    predicted = data.predicted.copy()
    first, second = np.split(np.arange(data.n_known), 2)
    predicted[second, 0] = (data.labels[second] + 1) % 3
    predicted[first, 1] = (data.labels[first] + 1) % 3
    data = replace(data, predicted=predicted)
    made = data.combination(STACKING, *every(data))
    assert made.used.tolist() == [1, 2]
    alone = without_first(data).combination(STACKING, *every(data))
    np.testing.assert_allclose(made.weights, alone.weights)


def test_without_any_known_classified_correctly_the_weights_are_equal():
    known, surrogate = drawn({"a": (2, 1), "b": (1, 2)})
    data = data_of(known, surrogate)
    predicted = (data.labels[:, None] + np.ones((1, 2), int)) % 3
    made = replace(data, predicted=predicted).combination(STACKING, *every(data))
    assert made.weights.tolist() == [0.5, 0.5]


def test_every_kind_of_unknowns_has_the_same_weight():
    known, surrogate = drawn({"a": (2, 0.5), "b": (0.5, 2)})
    data = data_of(known, surrogate)
    rows, unknown = every(data)
    knots = data.combination(STACKING, rows, unknown).knots
    a, b = (np.flatnonzero(data.place == i) for i in range(2))
    more_of_a, more_of_b = (
        data._taught(np.arange(2), knots, 0, rows, np.concatenate(parts))
        for parts in ([a, a, a, b], [a, b, b, b])
    )
    np.testing.assert_allclose(more_of_a, more_of_b, atol=1e-4)


def test_the_rank_average_is_of_the_best_three():
    shifts = {"a": (0, 3, 2, 0, 2.5), "b": (0, 2, 3, 0, 2.5)}
    known, surrogate = drawn(shifts)
    data = data_of(known, surrogate)
    made = data.combination(RANK, *every(data))
    assert [data.names[d] for d in made.used] == ["c1", "c2", "c4"]
    np.testing.assert_allclose(made.weights, 1 / 3)
    # It scores the mean of three ranks, both sides weighing the same.
    new = np.concatenate([data.known, data.unknown])

    def rank_of(d):
        sides = (data.known[:, d], data.unknown[:, d])
        return np.mean([stats.percentileofscore(s, new[:, d]) for s in sides], axis=0)

    expected = np.mean([rank_of(d) for d in made.used], axis=0) / 100
    np.testing.assert_allclose(made.scores(new), expected, atol=0.01)


def test_if_all_would_be_used_upside_down_the_weights_are_equal():
    known, surrogate = drawn({"a": (-2, -2), "b": (-2, -2)})
    data = data_of(known, surrogate)
    made = data.combination(STACKING, *every(data))
    assert made.weights.tolist() == [0.5, 0.5]


def test_known_and_unknown_samples_are_not_mixed():
    known, surrogate = drawn({"a": (2, 1)}, n=20)
    both = Outputs.concat([known, surrogate])
    for wrong in (both, surrogate, replaced(known, labels=None)):
        with pytest.raises(ValueError, match="known must be labelled samples of known"):
            data_of(wrong, surrogate)
    for wrong in (both, known):
        with pytest.raises(ValueError, match="surrogate must be unknown samples only"):
            data_of(known, wrong)
    bare = data_of(known, replaced(surrogate, labels=None))
    np.testing.assert_array_equal(bare.unknown, data_of(known, surrogate).unknown)


def test_detectors_with_some_finite_scores_on_both_sides_have_ranks():
    data = data_of(*drawn({"a": (2, 1, 2)}, n=20))
    known, unknown = data.known.copy(), data.unknown.copy()
    known[:19, 0], unknown[:19, 0] = np.inf, -np.inf  # one of each is finite
    known[:, 1] = np.inf
    unknown[:, 2] = -np.inf
    data = replace(data, known=known, unknown=unknown)
    assert data._rankable(*every(data)).tolist() == [0]
    assert data.has_ranks
    none = replace(data, known=known + np.inf)
    assert none._rankable(*every(none)).tolist() == []
    assert not none.has_ranks


def test_scores_of_some_samples_have_their_labels_classes_and_groups():
    data = data_of(*drawn({"a": (2, 1), "b": (1, 2)}, n=20))
    known, unknown = np.array([3, 1, 7]), np.array([39, 0])
    scores = data.scores(data.columns("c1", known, unknown), known, unknown)
    assert scores.labels.tolist() == [*data.labels[known], -1, -1]
    assert scores.groups.tolist() == ["", "", "", "b", "a"]
    assert scores.known.tolist() == [*data.known[known, 1], *data.unknown[unknown, 1]]
    predicted = [*data.predicted[known, 1], *data.predicted_unknown[unknown, 1]]
    assert scores.predicted.tolist() == predicted
