"""The choice of a detector: the rule in plain loops, and what it promises."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from openset import Outputs, Rejector, detectors, selection
from openset.detectors import Detector, Fitted
from openset.outputs import replaced
from openset.selection.choose import CONSENSUS, MEMBERS
from openset.testing import example_outputs as split
from tests.selection import plain_rule


class Column(Detector, register=False):
    """Knownness is one column of the features: what it is worth is up to the data."""

    score_needs = ("features",)
    place: int = 0

    def score_batch(self, state, batch):  # noqa: D102
        return batch.features[:, self.place]


def column(place, name="column"):
    """Return the fitted detector of one column, called like another one."""
    kind = type(name, (Column,), {"name": name}, register=False)
    return Fitted(detector=kind(place=place), state={})


def drawn(shifts, seed=0, n=300, decimals=8):
    """Knowns at 0 in every column; group g is shifted by ``-shifts[g]``."""
    rng = np.random.default_rng(seed)
    width = len(next(iter(shifts.values())))

    def part(shift, labels, name):
        logits = np.eye(3)[np.maximum(labels, 0)] * 5
        logits[::9] = np.roll(logits[::9], 1, axis=1)  # some are misclassified
        features = rng.normal(size=(n, width)) - np.asarray(shift, float)
        return Outputs(
            features=features.round(decimals),
            logits=logits,
            labels=labels,
            groups=np.full(n, name),
        )

    known = part([0] * width, rng.integers(0, 3, n), "known")
    unknown = [part(s, np.full(n, -1), g) for g, s in shifts.items()]
    return known, Outputs.concat(unknown)


def rows_of(choice):
    return {row["detector"]: row for row in choice.ranking}


@pytest.mark.parametrize("seed", range(8))
def test_the_rule_is_what_it_says_in_plain_loops(seed, monkeypatch):
    # These detectors are not what they are called: they cannot be made by name.
    module = sys.modules["openset.selection.choose"]
    monkeypatch.setattr(module, "combine", lambda parts, reference: parts[0])
    rng = np.random.default_rng(seed)
    names = list(rng.permutation([*MEMBERS, "maxlogit", "knn"])[: rng.integers(1, 7)])
    kinds = "abcd"[: rng.integers(1, 5)]
    shifts = {kind: rng.normal(1, 1, 6) for kind in kinds}
    known, surrogate = drawn(shifts, seed, n=60, decimals=int(rng.integers(0, 3)))
    fitted = {name: column(i, name) for i, name in enumerate(names)}
    choice = selection.choose(fitted, known=known, surrogate=surrogate)
    columns = dict(zip(names, known.features.T, strict=False))
    right = known.logits.argmax(axis=1) == known.labels
    of_kinds = {k: surrogate.features[surrogate.groups == k].T for k in kinds}
    unknown = {
        kind: dict(zip(names, rows, strict=False)) for kind, rows in of_kinds.items()
    }
    best, members, left_out, ccr, urr = plain_rule.decide(columns, right, unknown)
    expected = best if best != CONSENSUS or len(members) > 1 else members[0]
    assert choice.name == expected
    assert list(choice.weights) == (members if best == CONSENSUS else [best])
    rows = rows_of(choice)
    for name, osa in left_out.items():
        assert rows[name]["mean"] == pytest.approx(osa.mean())
        assert rows[name]["worst"] == pytest.approx(osa.min())
        assert rows[name]["worst_group"] == kinds[osa.argmin()]
        cells = [one["oosa"] for one in choice.cells if one["detector"] == name]
        assert cells == pytest.approx(osa.tolist())
    low, value, high = plain_rule.interval(ccr, 60, [60] * len(kinds), urr)
    first = choice.ranking[0]
    assert first["new_kind"] == pytest.approx(value)
    assert (first["low"], first["high"]) == pytest.approx((low, high))


@pytest.mark.parametrize(
    ("shifts", "chosen", "reason"),
    [
        ({"a": (0, 9)}, "first", "It is the default: results on one kind"),
        ({"a": (0, 9), "b": (0, 7)}, "second", "It gains more than two points"),
        ({"a": (2, 9), "b": (2, 9), "c": (2, 0)}, "first", "It is the default: no oth"),
    ],
)
def test_a_detector_must_be_better_on_every_kind(shifts, chosen, reason):
    known, surrogate = drawn(shifts)
    fitted = {"first": column(0), "second": column(1)}
    choice = selection.choose(fitted, known=known, surrogate=surrogate)
    assert choice.name == chosen
    assert choice.reason.startswith(reason)
    assert str(choice).endswith(choice.reason)
    assert choice.n_kinds == len(shifts)
    best = choice.ranking[0]
    assert best["low"] < best["new_kind"] < best["high"]
    # The order of samples changes nothing; synthetic ones are no kind beside others.
    order = np.random.default_rng(3).permutation(len(surrogate))
    made_up = replaced(surrogate, groups=np.full(len(surrogate), "synthetic:mixup"))
    for other in (surrogate.take(order), Outputs.concat([surrogate, made_up])):
        again = selection.choose(fitted, known=known, surrogate=other)
        assert list(again.ranking) == list(choice.ranking)


def test_of_one_detector_there_is_no_choice():
    known, surrogate = drawn({"a": (3, 0), "b": (3, 0)})
    choice = selection.choose(column(0), known=known, surrogate=surrogate)
    assert (choice.name, choice.reason) == ("column", "")


def test_maxlogit_need_only_be_better_on_average():
    known, surrogate = drawn({"a": (1, 2), "b": (1, 2), "c": (1.2, 1.1)})
    fitted = {"first": column(0, "rmds"), "second": column(1, "maxlogit")}
    choice = selection.choose(fitted, known=known, surrogate=surrogate)
    assert choice.name == "second"
    assert choice.reason.startswith("It is better than the default on average")


def test_the_consensus_is_calibrated_saved_and_loaded(tmp_path):
    train, known, unknown = (
        split(240),
        split(240, seed=1),
        split(240, seed=2, unknown=1),
    )
    surrogate = replaced(unknown, groups=np.repeat(list("abc"), 80))
    offer = [detectors.make(n).fit(train) for n in ("knn", "msp", "rmds", "osnn")]
    parts = {"known": known, "surrogate": surrogate.take(surrogate.groups == "a")}
    choice = selection.choose(offer, **parts, alpha=0.3)
    assert choice.name == CONSENSUS
    assert choice.weights == dict.fromkeys(["msp", "rmds", "osnn"], 1 / 3)
    # The combination of ranks is the mean share of knowns below, up to its knots.
    shares = [
        plain_rule.share_below(one.known(known), one.known(surrogate))
        for one in offer[1:]
    ]
    found = choice.fitted.known(surrogate)
    assert_allclose(found, np.mean(shares, axis=0), atol=0.01)
    rejector = Rejector.calibrate(choice, **parts, accept_risk=True, train=train)
    assert (rejector.threshold.method, rejector.threshold.alpha) == ("osa", 0.3)
    again = Rejector.load(rejector.save(tmp_path / "rejector"))
    np.testing.assert_array_equal(again.predict(surrogate), rejector.predict(surrogate))


def test_what_cannot_be_chosen_from_is_refused():
    known, surrogate = drawn({"a": (3, 0)})
    both = {"one": column(0), "two": column(1)}
    knn = detectors.KNN(k=2).fit(known)
    for bad, message in (
        ({"fitted": {}}, "fitted must be some detectors, .* got none"),
        ({"fitted": [column(0), column(1)]}, "fitted must be detectors of different"),
        ({"fitted": {CONSENSUS: column(0)}}, "none of them called 'consensus'"),
        ({"fitted": [detectors.PostMax()]}, "several fitted detectors, got PostMax"),
        ({"fitted": {"knn": knn}}, "got 300 of 300 known samples that are among its"),
        ({"known": surrogate}, "known must be labelled samples of known classes"),
        ({"known": [1, 2]}, "choose: known must be Outputs"),
        ({"surrogate": known}, "surrogate must be unknown samples only"),
        ({"surrogate": [surrogate]}, r"surrogate must be Outputs.*Join several with"),
        ({"alpha": 2}, "alpha must be"),
    ):
        given = {"fitted": both, "known": known, "surrogate": surrogate} | bad
        with pytest.raises((TypeError, ValueError), match=message):
            selection.choose(**given)


@pytest.mark.parametrize(
    ("missing", "expected", "reason"),
    [
        ("", "msp maxlogit rmds vim osnn", ", which use different information"),
        ("bias", "msp maxlogit rmds osnn", ": vim needs the weights of the last layer"),
        (
            "labels bias",
            "msp maxlogit",
            "osnn need labels; vim needs the weights of the last layer",
        ),
        ("logits bias", "rmds osnn", ": msp, maxlogit and vim need logits"),
        ("features", "msp maxlogit", ": rmds, vim and osnn need features"),
    ],
)
def test_what_the_outputs_have_decides_what_is_suitable(missing, expected, reason):
    train = replaced(split(12), **dict.fromkeys(missing.split()))
    names, said = selection.suitable(train)
    assert names == tuple(expected.split())
    assert said.endswith(reason)
    assert all(detectors.make(name).missing_from(train) == () for name in names)
