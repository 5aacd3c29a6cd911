"""The default choice: a consensus, unless a detector surely gains on new kinds."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from openset import Outputs, Rejector, detectors, selection
from openset.outputs import replaced
from openset.selection import _robust
from openset.selection._candidates import Data, worth
from openset.selection._robust import (
    CONSENSUS,
    MEMBERS,
    SIMPLE,
    Candidates,
    candidates_of,
    decide,
    kinds_by,
)
from openset.selection._surrogate import mean_rank
from openset.thresholds.kinds import Kinds
from tests.unit.selection.makers import drawn, fitted_column


def network(seed=0, n=240, *, kinds=("a", "b", "c")):
    """Return outputs of a small network: train, validation knowns, some unknowns."""
    rng = np.random.default_rng(seed)
    weight = rng.normal(size=(6, 16))

    def part(labels, shift, groups=None):
        centre = np.where(labels[:, None] >= 0, 3 * np.eye(6, 16)[labels], shift)
        features = np.abs(centre + rng.normal(size=(labels.size, 16)))
        return Outputs(
            logits=features @ weight.T,
            features=features,
            labels=labels,
            groups=groups,
            weight=weight,
            bias=np.zeros(6),
        )

    train = part(np.arange(n) % 6, 0.0)
    weight[:] = np.linalg.lstsq(
        train.features, 8 * np.eye(6)[train.labels], rcond=None
    )[0].T
    train, known = (part(np.arange(n) % 6, 0.0) for _ in range(2))
    surrogate = Outputs.concat(
        [
            part(np.full(80, -1), 0.7 * i * np.ones(16), np.full(80, name))
            for i, name in enumerate(kinds)
        ]
    )
    return train, known, surrogate


def fit(train, *names):
    return [detectors.make(name).fit(train) for name in names]


def test_the_consensus_is_of_the_members_on_offer():
    train, known, surrogate = network()
    offer = fit(train, "maxlogit", "msp", "rmds", "osnn")
    choice = selection.choose(offer, known=known, surrogate=surrogate)
    assert choice.name == CONSENSUS
    assert list(choice.weights) == ["msp", "rmds", "osnn"]
    assert (choice.objective, choice.alpha) == ("anchored", 0.5)
    # The combination of ranks is the mean share of knowns below, up to its knots.
    columns = [
        np.column_stack([one.known(x) for one in offer[1:]]) for x in (known, surrogate)
    ]
    expected = mean_rank(*columns)
    assert_allclose(choice.fitted.known(surrogate), expected, atol=0.01)


def test_the_mean_rank_is_the_share_of_knowns_below():
    rng = np.random.default_rng(0)
    known, scores = (rng.integers(0, 9, size=(30, 2)).astype(float) for _ in range(2))
    for i, row in enumerate(mean_rank(known, scores)):
        shares = [
            np.mean((known[:, d] < scores[i, d]) + (known[:, d] == scores[i, d]) / 2)
            for d in (0, 1)
        ]
        assert row == pytest.approx(np.mean(shares))


def test_a_member_that_is_upside_down_is_left_out():
    train, known, surrogate = network()

    class Upside(detectors.MSP):
        name = "upside"

        def _score(self, state, batch):
            return -super()._score(state, batch)

    offer = {"msp": fit(train, "msp")[0], "rmds": fit(train, "rmds")[0]}
    whole = selection.choose(offer, known=known, surrogate=surrogate)
    assert list(whole.weights) == ["msp", "rmds"]
    # Known samples score lower than unknown ones: nothing to agree with.
    turned = replaced(known, logits=-np.asarray(known.logits)), surrogate
    found = selection.choose(offer, known=turned[0], surrogate=surrogate)
    assert list(found.weights) == ["rmds"]
    assert found.name == "rmds"


def test_cutting_a_kind_into_groups_changes_nothing():
    train, known, surrogate = network(kinds=("a", "b"))
    offer = fit(train, "msp", "rmds", "osnn", "vim", "knn")
    whole = selection.choose(offer, known=known, surrogate=surrogate)
    rng = np.random.default_rng(0)
    names = [
        f"{g}{i}"
        for g, i in zip(surrogate.groups, rng.integers(0, 4, 160), strict=True)
    ]
    cut = selection.choose(
        offer, known=known, surrogate=replaced(surrogate, groups=np.array(names))
    )
    assert cut.name == whole.name
    for row, other in zip(whole.ranking, cut.ranking, strict=True):
        assert row["detector"] == other["detector"]
        assert row["new_kind"] == pytest.approx(other["new_kind"], abs=1e-12)
        assert row["low"] == pytest.approx(other["low"], abs=1e-12)


def test_with_one_kind_the_default_stays_whatever_fits_it(column):
    known, surrogate = drawn({"a": (0, 9)})
    fitted = {"first": column(0), "perfect": column(1)}
    choice = selection.choose(fitted, known=known, surrogate=surrogate)
    assert (choice.name, choice.left_out) == ("first", "nothing")
    assert "one kind of unknowns do not show which" in choice.reason
    assert str(choice).endswith(choice.reason)


def test_a_detector_that_sees_every_kind_is_taken(column):
    known, surrogate = drawn({"a": (0, 9), "b": (0, 7), "c": (0, 5)})
    fitted = {"first": column(0), "perfect": column(1)}
    choice = selection.choose(fitted, known=known, surrogate=surrogate)
    assert (choice.name, choice.left_out) == ("perfect", "kinds")
    assert choice.reason.startswith("It gains more than two points over the default")
    best = choice.ranking[0]
    assert best["detector"] == "perfect"
    assert best["worst"] > 0.9
    assert best["low"] < best["new_kind"] < best["high"]
    assert {row["group"] for row in choice.cells} == {"a", "b", "c"}


def test_a_detector_that_misses_one_kind_is_not_taken(column):
    known, surrogate = drawn({"a": (2, 9), "b": (2, 9), "c": (2, 0)})
    fitted = {"steady": column(0), "blind to c": column(1)}
    choice = selection.choose(fitted, known=known, surrogate=surrogate)
    assert choice.name == "steady"
    assert choice.reason.startswith("It is the default: no other detector gained")


def test_the_choice_says_what_to_expect_of_a_new_kind():
    train, known, surrogate = network()
    offer = fit(train, "msp", "rmds")
    choice = selection.choose(offer, known=known, surrogate=surrogate)
    assert "consensus of msp, rmds: expected open-set accuracy" in str(choice)
    rejector = Rejector.calibrate(choice, known=known, surrogate=surrogate)
    assert rejector.threshold.method == "anchored"
    assert rejector.report.new_kind.value == pytest.approx(
        choice.ranking[0]["new_kind"], abs=0.02
    )


def test_the_weight_of_the_known_side_is_a_half_unless_given():
    train, known, surrogate = network()
    offer = fit(train, "msp", "rmds")
    for given, used in ((None, 0.5), (0.3, 0.3), ("counts", 0.5)):
        choice = selection.choose(offer, known=known, surrogate=surrogate, alpha=given)
        assert choice.alpha == pytest.approx(used)
    with pytest.raises(ValueError, match="alpha must be a number in"):
        selection.choose(offer, known=known, surrogate=surrogate, alpha=2)


def test_the_members_are_detectors():
    assert {*MEMBERS, *SIMPLE} <= set(detectors.names())


def rejecting(rates, *, is_simple):
    """Return two detectors and their consensus: shares of unknowns rejected, by kind.

    Each accepts the same known samples, and has one threshold to choose from.
    """
    n, k = len(rates), len(rates[0])
    return Candidates(
        names=("first", "second", CONSENSUS),
        members=(0, 1),
        is_simple=np.array([*is_simple, False]),
        kinds=Kinds(tuple((str(i),) for i in range(k)), np.arange(k), np.full(k, 50)),
        share=np.full((n, 1), 0.9),
        ccr=np.full((n, 1), 0.8),
        urr=np.array(rates)[:, :, None],
        accuracy=np.full(n, 0.9),
        n_known=100,
        alpha=0.5,
    )


@pytest.mark.parametrize(
    ("first", "second", "is_simple", "chosen"),
    [
        # MSP and MaxLogit need to gain on average only.
        ([0.9, 0.75], [0.5, 0.5], (True, False), "first"),
        ([0.9, 0.75], [0.5, 0.5], (False, False), CONSENSUS),
        ([0.9, 0.7], [0.5, 0.5], (True, False), CONSENSUS),
        # Others two points of open-set accuracy on every kind: four of the unknowns.
        ([0.85, 0.85], [0.5, 0.5], (False, False), "first"),
        ([0.99, 0.83], [0.5, 0.5], (False, False), CONSENSUS),
        # Of those that do, the largest mean gain.
        ([0.85, 0.85], [0.95, 0.76], (False, True), "second"),
        ([0.87, 0.87], [0.95, 0.76], (False, True), "first"),
        # One kind says nothing about others.
        ([0.99], [0.99], (True, False), CONSENSUS),
    ],
)
def test_a_single_detector_is_taken_if_it_gains(first, second, is_simple, chosen):
    consensus = [0.8] * len(first)
    made = rejecting([first, second, consensus], is_simple=is_simple)
    assert decide(made).name == chosen


def test_thresholds_of_msp_and_maxlogit_are_not_anchored():
    known = np.column_stack([np.arange(100)] * 3)
    made = candidates_of(data_of(known, known[:5] - 50.5), ["rmds", "maxlogit", "osnn"])
    assert made.objectives == ("anchored", "osa", "anchored", "anchored")
    # All is told apart at 0. The anchor is at 80 % of the known samples, a third of
    # the way from the 99 % that the others start at.
    anchored = norm.cdf((norm.ppf(0.99) + 0.5 * norm.ppf(0.8)) / 1.5)
    assert made.share[range(4), made.levels([0])] == pytest.approx(
        [round(anchored, 2), 1.0, round(anchored, 2), round(anchored, 2)]
    )
    alone = candidates_of(data_of(known[:, :2], known[:5, :2]), ["msp", "knn"])
    assert alone.objectives == ("osa", "osa", "osa")


@pytest.mark.parametrize(
    ("by", "value"), [("mean", 0.6), ("worst", 0.2), ("both", 0.4)]
)
def test_accuracies_on_several_kinds_are_worth_one_number(by, value):
    assert worth([0.2, 0.7, 0.9], by) == pytest.approx(value)


def test_without_a_member_the_first_detector_stands_in_for_the_consensus():
    known, surrogate = drawn({"a": (2, 1), "b": (1, 2)})
    named = {"x": fitted_column(0), "y": fitted_column(1)}
    data = Data.of("test", named, known, surrogate, None, alpha=0.5, by="both")
    assert candidates_of(data, ["knn", "gen"]).members == (0,)
    assert candidates_of(data, ["knn", "osnn"]).members == (1,)


def test_other_members_and_other_simple_detectors_can_be_compared():
    known = np.column_stack([np.arange(9)] * 3)
    data = data_of(known, known[:5] - 9.5)
    names = ["knn", "maxlogit", "gen"]
    made = candidates_of(data, names, members=("gen", "knn"), simple=("knn",))
    assert made.members == (2, 0)
    assert made.is_simple.tolist() == [True, False, False, False]


def data_of(known, unknown, *, labels=None):
    """Return scores of detectors, one column each; all samples are of class 0."""
    known, unknown = (
        np.asarray(x, float).reshape(len(x), -1) for x in (known, unknown)
    )
    classes = [np.zeros(x.shape, np.int64) for x in (known, unknown)]
    return Data(
        names=tuple("abcd"[: known.shape[1]]),
        known=known,
        unknown=unknown,
        labels=np.zeros(len(known), np.int64) if labels is None else np.array(labels),
        predicted=classes[0],
        predicted_unknown=classes[1],
        groups=("kind",),
        place=np.zeros(len(unknown), np.intp),
        alpha=0.5,
        by="both",
        known_side=0.5,
    )


def test_the_levels_are_the_known_scores_and_one_above_all():
    made = candidates_of(
        data_of([3, 1, 5, 2, 4], [0.5, 2.5, 4.5, 9], labels=[0, 0, 1, 0, 0]), ["msp"]
    )
    thresholds = [1, 2, 3, 4, 5, np.inf]
    assert made.share[0].tolist() == [1.0, 0.8, 0.6, 0.4, pytest.approx(0.2), 0.0]
    right = [3, 1, 2, 4]  # the sample with score 5 is of another class
    assert made.ccr[0].tolist() == [
        sum(score >= t for score in right) / 5 for t in thresholds
    ]
    assert made.urr[0, 0].tolist() == [
        sum(score < t for score in (0.5, 2.5, 4.5, 9)) / 4 for t in thresholds
    ]
    assert made.accuracy[0] == 0.8


def test_of_many_known_scores_200_are_levels_the_smallest_and_the_largest_among_them():
    made = candidates_of(data_of(np.arange(1000), [3.5, 5.5]), ["msp"])
    assert made.share.shape[1] == 201
    assert made.share[0, [0, -2, -1]] == pytest.approx([1, 1 / 1000, 0])


@pytest.mark.parametrize(
    ("known", "auroc", "is_member"),
    [
        ([1, 1, 1, 2], 0.625, True),
        ([1, 1, 1, 1], 0.5, True),
        ([1, 1, 1, 0], 0.375, False),
    ],
)
def test_a_member_counts_ties_half_and_must_not_be_upside_down(known, auroc, is_member):
    unknown = [1, 1]
    assert auroc == np.mean([[(k > u) + (k == u) / 2 for k in known] for u in unknown])
    columns = np.column_stack([[9, 8, 7, 6], known]), np.column_stack([[0, 1], unknown])
    made = candidates_of(data_of(*columns), ["msp", "rmds"])
    assert made.members == ((0, 1) if is_member else (0,))


def test_groups_are_compared_at_all_scores_or_at_1024_of_them(monkeypatch):
    seen = []
    monkeypatch.setattr(
        _robust, "kinds_among", lambda names, place, scores, curves: seen.extend(curves)
    )
    for n in (10, 5000):
        place = np.arange(n) % 2
        kinds_by(["a", "b"], place, np.arange(n, dtype=float)[:, None])
    assert seen[0].tolist() == [
        [sum(x < t for x in range(g, 10, 2)) / 5 for t in range(10)] for g in (0, 1)
    ]
    assert seen[1].shape == (2, 1024)
    assert seen[1][:, 0].tolist() == [0, 0]
    assert seen[1][:, -1].tolist() == [1, 2499 / 2500]


def test_rows_are_ordered_by_value_and_name_the_kind_where_each_does_worst():
    train, known, surrogate = network()
    choice = selection.choose(
        fit(train, *MEMBERS, "maxlogit", "knn"), known=known, surrogate=surrogate
    )
    first, *others = choice.ranking
    assert first["detector"] == choice.name
    values = [row["value"] for row in others]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) > 1
    for row in choice.ranking:
        of_kind = {
            cell["group"]: cell["oosa"]
            for cell in choice.cells
            if cell["detector"] == row["detector"]
        }
        assert row["worst"] == min(of_kind.values()) < max(of_kind.values())
        assert of_kind[row["worst_group"]] == row["worst"]


def test_maxlogit_is_taken_with_its_reason_where_it_does_better_than_msp():
    rng = np.random.default_rng(0)

    def part(largest, others, labels, group=None):
        logits = rng.normal(others, 1.0, size=(labels.size, 4))
        logits[np.arange(labels.size), rng.integers(0, 4, labels.size)] = largest
        logits += rng.normal(size=(labels.size, 1))
        top = logits.argmax(axis=1)
        labels = np.where(labels < 0, labels, top)
        return Outputs(logits=logits, labels=labels, groups=group)

    known = part(12.0, 8.0, np.zeros(200, int))
    kinds = [
        part(top, 0.0, np.full(100, -1), np.full(100, f"kind {top}"))
        for top in (5.0, 8.0)
    ]
    offer = [detectors.make(name).fit() for name in ("msp", "maxlogit")]
    choice = selection.choose(offer, known=known, surrogate=Outputs.concat(kinds))
    assert choice.name == "maxlogit"
    assert choice.reason.startswith("It is better than the default on average")
    alone = selection.choose(offer[1:], known=known, surrogate=Outputs.concat(kinds))
    assert not alone.reason  # nothing was chosen
