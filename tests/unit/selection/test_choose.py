"""Choosing among detectors on data where the best one is known."""

import numpy as np
import pytest
from scipy.stats import norm

from openset import Outputs, Rejector, detectors, selection
from openset.outputs import replaced
from openset.selection._candidates import ONE, RANK, STACKING
from openset.selection._choose import _winner
from openset.selection._leave_kind_out import Trial, _interval_of_cost
from tests.unit.selection.makers import drawn

BOTH = ("osa", "worst_group")


def test_the_detector_that_sees_every_kind_is_chosen(column):
    # column 0 is blind to birds, column 1 sees all a little, column 2 nothing
    shifts = {"birds": (0, 2, 0), "textures": (4, 2, 0), "digits": (4, 2, 0)}
    known, surrogate = drawn(shifts)
    fitted = {name: column(i) for i, name in enumerate(["sharp", "steady", "blind"])}
    choice = selection.choose(
        fitted, objectives=BOTH, known=known, surrogate=surrogate, combined=False
    )
    assert choice.name == "steady"
    assert (choice.left_out, choice.is_combined) == ("groups", False)
    assert choice.fitted is fitted["steady"]
    worst = {row["detector"]: row["worst"] for row in choice.ranking[::-1]}
    assert worst["steady"] > worst["sharp"] + 0.1 > worst["blind"]
    cells = [r for r in choice.cells if r["detector"] == "sharp"]
    assert min(cells, key=lambda r: r["oosa"])["group"] == "birds"
    assert all(r["low"] <= r["oosa"] <= r["high"] for r in choice.cells)
    assert "steady" in str(choice)


def test_prices_decide_between_detectors(column):
    """One loses few knowns and lets unknowns pass; the other the other way round."""
    rng = np.random.default_rng(0)
    n = 400
    easy = np.r_[np.full(300, 5.0), np.full(100, -5.0)]  # a quarter is hopeless

    def part(columns, labels, name):
        return Outputs(
            features=np.column_stack(columns) + rng.normal(0, 0.1, (n, 2)),
            logits=np.eye(2)[np.maximum(labels, 0)] * 5,
            labels=labels,
            groups=np.full(n, name),
        )

    known = part([easy, np.full(n, 5.0)], rng.integers(0, 2, n), "")
    unknown = [
        part([np.full(n, -5.0), -easy], np.full(n, -1), name) for name in ("a", "b")
    ]
    surrogate = Outputs.concat(unknown)
    fitted = {"strict": column(0), "lenient": column(1)}

    def best(*, combined=False, **prices):
        return selection.choose(
            fitted,
            known=known,
            surrogate=surrogate,
            objectives="by_cost",
            options=prices,
            combined=combined,
        )

    dear, cheap = best(missed_unknown=10), best(missed_unknown=0.1)
    assert (dear.name, cheap.name) == ("strict", "lenient")
    # Each is perfect but for half of a quarter: alpha is a half.
    assert [row["mean"] for row in dear.ranking] == pytest.approx([0.125, 0.5], abs=0.1)
    assert cheap.ranking[0]["mean"] == pytest.approx(0.0125, abs=0.005)
    for choice in (dear, cheap):
        assert choice.measure == "cost"
        assert "a cost of" in str(choice)
        for row in choice.ranking:
            assert row["mean_low"] <= row["mean"] <= row["mean_high"]
            assert row["worst"] >= row["mean"]
        rejector = Rejector.calibrate(choice, known=known, surrogate=surrogate)
        assert rejector.threshold.method == "by_cost"
    both = best(combined=True, missed_unknown=10)
    assert both.ranking[0]["mean"] <= dear.ranking[0]["mean"] + 1e-9


def test_prices_of_one_choose_as_accuracy_does(column):
    known, surrogate = drawn({"a": (0.4, 2), "b": (6, 2), "c": (6, 1)})
    fitted = {"sharp": column(0), "steady": column(1)}

    def rows(objective):
        choice = selection.choose(
            fitted, known=known, surrogate=surrogate, objectives=objective
        )
        assert all(
            ("cost" in cell) == (objective == "by_cost") for cell in choice.cells
        )
        return {row["detector"]: row for row in choice.ranking}

    by_cost, by_osa = rows("by_cost"), rows("osa")
    for name, row in by_osa.items():
        assert by_cost[name]["mean"] == pytest.approx(1 - row["mean"])
        assert by_cost[name]["worst"] == pytest.approx(1 - row["worst"])
        assert by_cost[name]["value"] == pytest.approx(row["value"] - 1)


def test_prices_may_be_gains_and_rows_may_have_a_floor(column):
    known, surrogate = drawn({"a": (0.4, 2), "b": (6, 2), "c": (6, 1)})
    fitted = {"sharp": column(0), "steady": column(1)}

    def best(matrix):
        return selection.choose(
            fitted,
            known=known,
            surrogate=surrogate,
            objectives="by_cost",
            options={"cost_matrix": matrix},
        )

    plain = 1.0 - np.eye(4)
    # What every decision costs alike makes no difference.
    floor = np.array([[1.0], [3.0], [0.5], [-2.0]])
    one, other = best(plain), best(plain + floor)
    assert other.name == one.name
    by_name = {row["detector"]: row["mean"] for row in one.ranking}
    paid = (floor[:3, 0][known.labels].mean() + floor[3, 0]) / 2
    for row in other.ranking:
        assert row["mean"] == pytest.approx(by_name[row["detector"]] + paid)
    # To reject a known is a gain: all are rejected, whoever scores them.
    gain = plain.copy()
    gain[:3, 3] = -0.5
    assert best(gain).ranking[0]["mean"] == pytest.approx(-0.25, abs=0.01)


def test_by_mean_and_by_worst_can_differ(column):
    shifts = {"a": (0.4, 2), "b": (6, 2), "c": (6, 2)}
    known, surrogate = drawn(shifts)
    fitted = {"sharp": column(0), "steady": column(1)}

    def best(by):
        return selection.choose(
            fitted, known=known, surrogate=surrogate, by=by, combined=False
        ).ranking[0]

    assert best("worst")["worst"] >= best("mean")["worst"]
    assert best("mean")["mean"] >= best("worst")["mean"]


def test_detectors_that_complete_each_other_are_combined(column, tmp_path):
    # every kind shows a little in both columns, by independent noise
    shifts = {"a": (2, 2, 0), "b": (2, 2, 0), "c": (2, 2, 0)}
    known, surrogate = drawn(shifts)
    fitted = {name: column(i) for i, name in enumerate(["one", "two", "noise"])}
    choice = selection.choose(fitted, objectives=BOTH, known=known, surrogate=surrogate)
    assert choice.name == STACKING
    assert choice.weights["noise"] < 0.1 < choice.weights["one"]
    assert sum(choice.weights.values()) == pytest.approx(1)
    rejector = Rejector.calibrate(choice, known=known, surrogate=surrogate)
    assert rejector.threshold.method == choice.objective
    assert rejector.threshold.alpha == choice.alpha
    new, strange = drawn(shifts, seed=1)
    test = Outputs.concat([new, strange])
    done = rejector.operate(test, alpha=0.5)
    single = [
        Rejector.calibrate(one, known=known, surrogate=surrogate, alpha=0.5)
        .operate(test, alpha=0.5)
        .oosa
        for one in fitted.values()
    ]
    assert done.oosa > max(single) + 0.02
    rejector.save(tmp_path / "r")
    again = Rejector.load(tmp_path / "r")
    np.testing.assert_array_equal(again.predict(test), rejector.predict(test))


def test_a_combination_that_gains_nothing_is_not_chosen(column):
    shifts = {"a": (3, 0, 0), "b": (3, 0, 0)}
    known, surrogate = drawn(shifts)
    fitted = {name: column(i) for i, name in enumerate(["good", "x", "y"])}
    choice = selection.choose(fitted, objectives=BOTH, known=known, surrogate=surrogate)
    assert choice.name == "good"
    names = {row["detector"] for row in choice.ranking}
    assert names == {"good", "x", "y", RANK, STACKING, ONE}
    forced = selection.choose(
        fitted, objectives=BOTH, known=known, surrogate=surrogate, min_gain=-1
    )
    assert forced.is_combined


def test_with_one_kind_of_unknowns_samples_are_left_out(column):
    known, surrogate = drawn({"a": (3, 0)})
    fitted = {"good": column(0), "bad": column(1)}
    choice = selection.choose(fitted, objectives=BOTH, known=known, surrogate=surrogate)
    assert (choice.name, choice.left_out) == ("good", "samples")
    assert {row["group"] for row in choice.cells} == {f"part {i}" for i in range(1, 6)}


def test_the_choice_does_not_depend_on_the_order_of_samples(column):
    shifts = {"a": (2, 3), "b": (3, 1)}
    known, surrogate = drawn(shifts)
    fitted = {"one": column(0), "two": column(1)}
    first = selection.choose(fitted, known=known, surrogate=surrogate)
    order = np.random.default_rng(3).permutation(len(surrogate))
    second = selection.choose(fitted, known=known, surrogate=surrogate.take(order))
    assert first.name == second.name
    assert first.ranking[0]["mean"] == pytest.approx(second.ranking[0]["mean"])


def test_what_cannot_be_chosen_from_is_refused(column):
    known, surrogate = drawn({"a": (3, 0)})
    both = {"one": column(0), "two": column(1)}
    for bad, message in (
        ({"fitted": {}}, "fitted must be non-empty"),
        ({"fitted": [column(0), column(1)]}, "fitted must be of different names"),
        ({"fitted": {"stacking": column(0)}}, "names must be other than"),
        ({"known": surrogate}, "known must be labelled samples of known classes"),
        ({"surrogate": known}, "surrogate must be unknown samples only"),
        ({"folds": 1}, "folds must be from 2"),
        ({"objectives": ["best"]}, "objectives must be one of"),
        ({"by": "luck"}, "by must be one of"),
        ({"alpha": 2}, "alpha must be"),
        ({"surrogate": surrogate.take(slice(0, 3))}, "surrogate must be at least 5"),
        ({"min_gain": np.nan}, "min_gain must be"),
        ({"known": [1, 2]}, "choose: known must be Outputs"),
        ({"surrogate": [surrogate]}, r"surrogate must be Outputs.*Join several with"),
        ({"fitted": [detectors.PostMax()]}, r"fitted detectors, .*Fit each first"),
        (
            {"objectives": "by_cost", "options": {"price": 2}},
            "choose: .*price",
        ),
    ):
        arguments = {"fitted": both, "known": known, "surrogate": surrogate}
        arguments |= {"objectives": BOTH} | bad
        with pytest.raises((TypeError, ValueError), match=message):
            selection.choose(arguments.pop("fitted"), **arguments)


def test_the_sentence_and_the_weights_are_those_of_the_choice(column):
    known, surrogate = drawn({"a": (3, 1), "b": (2, 1)})
    both = {"good": column(0), "weak": column(1)}
    parts = {"known": known, "surrogate": surrogate, "objectives": "osa"}
    alone = selection.choose(both, **parts, combined=False)
    assert dict(alone.weights) == {"good": 1.0}
    assert not alone.is_combined
    best = alone.ranking[0]
    assert best["detector"] == "good"
    assert str(alone) == (
        f"good with objective osa: {best['mean']:.3f} on average and "
        f"{best['worst']:.3f} at worst (b) on groups left out"
    )
    made = selection.choose(both, **parts, min_gain=-1)
    assert made.is_combined
    assert made.fitted.detector.method == made.name
    first, second = sorted(made.weights, key=lambda name: -made.weights[name])
    shares = f"of {first} ({made.weights[first]:.0%}), {second} ("
    assert str(made).startswith(f"{made.name} {shares}")


def test_the_default_rule_with_two_kinds_and_without_logits():
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 3

    def part(centre, **about):
        return Outputs(features=centre + rng.normal(size=(300, 4)), **about)

    train, known = (part(4 * np.eye(3, 4)[labels], labels=labels) for _ in range(2))
    away = {"a": [3.0, 3.0, 3.0, 0.0], "b": [9.0, 9.0, 9.0, 9.0]}
    unknown = [
        part(np.array(centre), labels=np.full(300, -1), groups=np.full(300, name))
        for name, centre in away.items()
    ]
    fitted = [detectors.make(name).fit(train) for name in ("rmds", "osnn")]
    choice = selection.choose(fitted, known=known, surrogate=Outputs.concat(unknown))
    assert (choice.name, choice.left_out) == ("consensus", "kinds")
    assert dict(choice.weights) == {"rmds": 0.5, "osnn": 0.5}
    assert len(choice.fitted.detector.parts) == 2
    assert str(choice).startswith("consensus of rmds, osnn: expected open-set")
    assert f"unknowns {choice.ranking[0]['new_kind']:.2f} (90%" in str(choice)
    assert choice.fitted.known(known).mean() > choice.fitted.known(unknown[0]).mean()


def test_options_of_the_objective_stay_with_the_choice(column):
    known, surrogate = drawn({"a": (3, 0), "b": (2, 2)})
    fitted = {"one": column(0), "two": column(1)}
    parts = {"known": known, "surrogate": surrogate}
    choice = selection.choose(
        fitted, **parts, objectives="at_fpr", options={"fpr": 0.2}
    )
    assert Rejector.calibrate(choice, **parts).threshold.target == 0.2
    assert Rejector.calibrate(choice, **parts, fpr=0.1).threshold.target == 0.1
    other = Rejector.calibrate(choice, **parts, objective="at_tpr").threshold
    assert (other.method, other.target) == ("at_tpr", 0.95)


def test_choosing_one_is_judged_by_whom_it_would_have_chosen(column):
    """The slow way: in every turn and fold, look for the best column by brute force."""
    shifts = {"a": (3, 0, 1), "b": (0, 3, 1), "c": (1, 1, 2)}
    known, surrogate = drawn(shifts)
    fitted = {name: column(i) for i, name in enumerate("xyz")}
    choice = selection.choose(
        fitted, known=known, surrogate=surrogate, objectives=["osa"], folds=3
    )
    fold = np.random.default_rng(0).permutation(len(known)) % 3
    x, u = (np.asarray(part.features) for part in (known, surrogate))
    right = known.logits.argmax(axis=1) == known.labels

    def osa(column, rows, strange, threshold):
        accepted = x[rows, column] >= threshold
        rejected = u[strange, column] < threshold
        return (np.mean(accepted & right[rows]) + np.mean(rejected)) / 2

    for cell in choice.cells:
        if cell["detector"] != ONE:
            continue
        out = surrogate.groups == cell["group"]
        values = []
        for k in range(3):
            rows, best = fold != k, {}
            for c in range(3):
                cuts = [*x[rows, c], *u[~out, c], np.inf]
                of_kind = [
                    max(osa(c, rows, surrogate.groups == kind, cut) for cut in cuts)
                    for kind in set("abc") - {cell["group"]}
                ]
                best[c] = np.mean(of_kind) + np.min(of_kind)
            c = max(best, key=best.get)
            cuts = np.sort([*x[rows, c], *u[~out, c], np.inf])
            found = [osa(c, rows, ~out, cut) for cut in cuts]
            threshold = cuts[int(np.argmax(np.round(found, 12)))]
            values.append((osa(c, ~rows, out, threshold), np.count_nonzero(~rows)))
        urr_and_ccr = np.average(
            [value for value, _ in values], weights=[n for _, n in values]
        )
        assert cell["oosa"] == pytest.approx(urr_and_ccr, abs=0.01)


def test_of_many_equals_none_is_chosen_for_its_luck(column):
    # Ten detectors of the same worth, with noise of their own.
    shifts = dict.fromkeys("abc", (1.2,) * 10)
    known, surrogate = drawn(shifts)
    fitted = {f"d{i}": column(i) for i in range(10)}
    choice = selection.choose(fitted, objectives=BOTH, known=known, surrogate=surrogate)
    assert choice.is_combined
    values = {row["detector"]: row["value"] for row in reversed(choice.ranking)}
    assert values[ONE] < max(values[name] for name in fitted)


def test_a_combination_carries_only_what_it_uses(column):
    shifts = {"a": (2, 2, 0), "b": (2, 2, 0), "c": (2, 2, 0)}
    known, surrogate = drawn(shifts)
    fitted = {name: column(i) for i, name in enumerate(["one", "two", "noise"])}
    choice = selection.choose(fitted, objectives=BOTH, known=known, surrogate=surrogate)
    assert choice.is_combined
    assert 0 not in choice.weights.values()
    assert len(choice.fitted.detector.parts) == len(choice.weights)
    assert all(f"{name} ({w:.0%})" in str(choice) for name, w in choice.weights.items())


@pytest.mark.parametrize(
    ("single", "combined", "choosing", "min_gain", "winner"),
    [
        (0.90, 0.88, 0.85, 0.005, STACKING),  # the best single one was lucky
        (0.90, 0.88, 0.88, 0.005, "good"),  # no gain over choosing one
        (0.90, 0.88, 0.88, -1, STACKING),
        (0.90, 0.70, 0.50, 0.005, "good"),  # so much is no luck
        (0.80, 0.90, 0.80, 0.005, STACKING),
        # At each limit, with differences that are exact:
        (0.75, 0.625, 0.5, 0.125, "good"),  # a gain of just `min_gain` is not enough
        (0.75, 0.625, 0.5, 0.12, STACKING),
        (0.30, 0.15, -0.5, 0.0, "good"),  # so much below the single one is no luck
        (0.30, 0.15, -0.5, -0.01, STACKING),
    ],
)
def test_a_combination_is_held_against_choosing_one(
    single, combined, choosing, min_gain, winner
):
    values = {"good": single, STACKING: combined, ONE: choosing, RANK: 0.1}
    rows = [{"detector": name, "value": value} for name, value in values.items()]
    rows.sort(key=lambda row: -row["value"])
    assert _winner(rows, {"good"}, min_gain)["detector"] == winner


@pytest.mark.parametrize("side", ["known", "unknown"])
def test_infinite_scores_are_no_part_of_a_combination(column, side):
    known, surrogate = drawn({"a": (2, 2, 2), "b": (2, 2, 2)})
    part = {"known": known, "unknown": surrogate}[side]
    value = np.inf if side == "known" else -np.inf
    features = np.asarray(part.features).copy()
    features[:, 2] = value
    part = replaced(part, features=features)
    parts = {"known": known, "surrogate": surrogate}
    parts["known" if side == "known" else "surrogate"] = part
    fitted = {name: column(i) for i, name in enumerate(["x", "y", "perfect"])}
    choice = selection.choose(fitted, objectives=BOTH, **parts)
    assert choice.name == "perfect"
    assert choice.ranking[0]["mean"] > 0.99
    only = {name: fitted[name] for name in ["perfect"]} | {"again": column(2)}
    assert selection.choose(only, objectives=BOTH, **parts).name == "perfect"


def test_objectives_are_named_and_counted_once(column):
    known, surrogate = drawn({"a": (2, 2), "b": (2, 2)})
    fitted = {name: column(i) for i, name in enumerate("xy")}
    with pytest.raises(ValueError, match="objectives must be one or more of osa"):
        selection.choose(fitted, known=known, surrogate=surrogate, objectives=[])
    twice = selection.choose(
        fitted, known=known, surrogate=surrogate, objectives=["osa", "osa"]
    )
    assert len(twice.ranking) == 5


def test_options_go_to_the_objectives(column):
    known, surrogate = drawn({"a": (1, 2), "b": (2, 1)})
    fitted = {name: column(i) for i, name in enumerate("xy")}
    parts = {"known": known, "surrogate": surrogate, "objectives": ["at_fpr"]}
    strict, lax = (
        selection.choose(fitted, **parts, options={"fpr": fpr}) for fpr in (0.01, 0.3)
    )
    for detector in "xy":
        low, high = (
            next(c["urr"] for c in choice.cells if c["detector"] == detector)
            for choice in (strict, lax)
        )
        assert low > high
    with pytest.raises(TypeError, match="an option must be"):
        selection.choose(fitted, **parts, options={"tpr": 0.5})


def test_one_detector_alone_is_not_combined_with_itself(column):
    known, surrogate = drawn({"a": (2, 1), "b": (2, 1)})
    choice = selection.choose(
        {"only": column(0)}, objectives="osa", known=known, surrogate=surrogate
    )
    assert {row["detector"] for row in choice.ranking} == {"only"}
    assert "ranking" not in repr(choice)
    assert "cells" not in repr(choice)


@pytest.mark.parametrize("alpha", [0.3, 0.5])
def test_the_interval_of_a_cost_is_the_normal_one_of_its_samples(alpha):
    """All groups are tried with the same knowns: their costs are averaged first."""
    rng = np.random.default_rng(0)
    known, sizes = rng.integers(0, 5, (3, 40)).astype(float), (30, 50, 20)
    trials = [
        Trial(
            detector="it",
            objective="by_cost",
            group=str(size),
            hits=np.ones(40),
            rejected=np.ones(size),
            cost_known=row,
            cost_unknown=rng.integers(0, 5, size).astype(float),
        )
        for row, size in zip(known, sizes, strict=True)
    ]
    of_known = [sum(column) / 3 for column in zip(*known.tolist(), strict=True)]
    variance = alpha**2 * np.var(of_known) / 40
    mean = alpha * np.mean(of_known)
    for one in trials:
        share = (1 - alpha) / 3
        variance += share**2 * np.var(one.cost_unknown) / one.cost_unknown.size
        mean += share * np.mean(one.cost_unknown)
    found = _interval_of_cost(trials, alpha)
    half = norm.ppf(0.975) * np.sqrt(variance)
    assert (found.low, found.high) == pytest.approx((mean - half, mean + half))
    assert (found.level, found.method) == (0.95, "normal")
