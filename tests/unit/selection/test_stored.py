"""The missing-kinds benchmark runs what users run, and what the rule says in words."""

import importlib
import importlib.util
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from openset import Rejector, selection
from openset.selection._robust import CONSENSUS, candidates_of, decide
from tests.unit.selection import plain_rule
from tests.unit.selection.test_robust import fit, network

PATH = Path(__file__).parents[3] / "benchmarks" / "_stored.py"


@pytest.fixture(scope="module")
def stored():
    spec = importlib.util.spec_from_file_location("_stored", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def saved_scores(offer, train, known, surrogate):
    """Score as the benchmark does when it makes a network."""
    names = [one.detector.name for one in offer]
    groups = np.unique(surrogate.groups).tolist()

    def columns(part):
        return np.column_stack([one.score(part).known for one in offer])

    right = np.column_stack([one.score(known).is_correct for one in offer])
    near = [
        selection.leave_classes_out(one.detector, train, known, folds=3)
        for one in offer
    ]
    kinds = {g: columns(surrogate.take(surrogate.groups == g)) for g in groups}
    return {
        "names": np.array(names),
        "labels": known.labels,
        "facts": np.array([1.0, 6, known.n_classes]),
        "known": columns(known),
        "known_correct": right,
        "known_test": columns(known),
        "known_test_correct": right,
        "lco_known": np.column_stack([one.known[~one.is_unknown] for one in near]),
        "lco": np.column_stack([one.known[one.is_unknown] for one in near]),
        **{f"cal:{g}": x for g, x in kinds.items()},
        **{f"test:{g}": x for g, x in kinds.items()},
    }


@pytest.mark.parametrize(
    "names",
    [("msp", "rmds", "vim", "osnn", "maxlogit", "knn"), ("msp", "maxlogit"), ("knn",)],
)
@pytest.mark.parametrize("kinds", [("a",), ("a", "b", "c")])
def test_the_benchmark_decides_as_choose_and_calibrate_do(stored, names, kinds):
    train, known, surrogate = network(kinds=kinds)
    offer = fit(train, *names)
    choice = selection.choose(offer, known=known, surrogate=surrogate)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = Rejector.calibrate(
            choice, known=known, surrogate=surrogate, train=train, accept_risk=True
        )
    saved = saved_scores(offer, train, known, surrogate)
    found = stored.chosen(stored.Network.of(saved, names), kinds)
    if choice.is_combined:
        assert (choice.name, found.name) == (CONSENSUS, CONSENSUS)
    assert [names[d] for d in found.members] == list(choice.weights)
    assert found.report.threshold.value == pytest.approx(made.threshold.value)
    assert found.report.codes == made.report.codes
    assert found.report.kinds == made.report.kinds
    ends = [
        (r.new_kind.interval.low, r.new_kind.value, r.new_kind.interval.high)
        for r in (found.report, made.report)
    ]
    assert ends[0] == pytest.approx(ends[1])


def drawn_scores(seed):
    """Draw scores of some detectors: groups at distances that vary by detector."""
    rng = np.random.default_rng(seed)
    names = ["msp", "rmds", "maxlogit", "osnn", "vim", "knn", "fdbd"]
    offer = [
        names[: rng.integers(2, 8)],
        ["msp", "knn", "maxlogit"],
        ["knn", "maxlogit", "fdbd"],
    ][seed % 3]
    n_kinds = int(rng.integers(1, 5))
    n, sizes = 90, rng.integers(25, 60, n_kinds)
    level = rng.normal(size=(90, 1))
    known = {d: level[:, 0] + rng.normal(size=n) for d in offer}
    shift = rng.uniform(-0.5, 3.0, size=(n_kinds, len(offer)))
    shift[:, -1] += rng.uniform(0, 3)  # one detector may be much better
    unknown = {
        f"group {g}": {
            d: rng.normal(size=sizes[g]) * 1.4 - shift[g, i]
            for i, d in enumerate(offer)
        }
        for g in range(n_kinds)
    }
    if seed % 4 == 0:  # a group that is no kind of its own
        unknown["again"] = {
            d: rng.permutation(x)[:30] for d, x in unknown["group 0"].items()
        }
    return known, rng.random(n) < 0.85, unknown


def stored_network(stored, known, is_right, unknown):
    columns = {g: np.column_stack(list(x.values())) for g, x in unknown.items()}
    of_known = np.column_stack(list(known.values()))
    return stored.Network(
        names=tuple(known),
        labels=np.arange(is_right.size) % 3,
        n_classes=3,
        is_right=is_right,
        known=of_known,
        shown=columns,
        test_is_right=is_right,
        test_known=of_known,
        test=columns,
        near=(of_known, of_known),
    )


def test_the_rule_is_what_it_says_in_plain_loops(stored):
    seen = set()
    for seed in range(60):
        known, is_right, unknown = drawn_scores(seed)
        one = stored_network(stored, known, is_right, unknown)
        made = candidates_of(one.data(tuple(unknown)), one.names)
        verdict = decide(made)
        name, members, sets, ccr, rejected = plain_rule.decide(known, is_right, unknown)
        assert verdict.name == name, seed
        assert [one.names[d] for d in made.members] == members
        assert {frozenset(n) for n in made.kinds.names} == {frozenset(s) for s in sets}
        row = verdict.ranking[0]
        n = {
            frozenset(s): sum(
                unknown[g]["knn" if "knn" in known else "msp"].size for g in s
            )
            for s in sets
        }
        expected = plain_rule.interval(
            ccr, is_right.size, [n[frozenset(s)] for s in sets], rejected
        )
        actual = row["low"], row["new_kind"], row["high"]
        assert actual == pytest.approx(expected), seed
        is_simple = name in plain_rule.SIMPLE
        seen.add((name == CONSENSUS, is_simple, len(sets) > 1, len(members) > 1))
    assert len(seen) >= 7


def test_the_benchmark_reaches_what_the_threshold_reaches(stored):
    known, is_right, unknown = drawn_scores(3)
    one = stored_network(stored, known, is_right, unknown)
    # Other samples to test on: those of the calibration are refused.
    known = {d: x * 1.1 + 0.013 for d, x in known.items()}
    unknown = {
        g: {d: x * 1.1 - 0.013 for d, x in of.items()} for g, of in unknown.items()
    }
    other = stored_network(stored, known, is_right, unknown)
    one = replace(one, test_known=other.known, test=other.shown)
    kind, first = next(iter(unknown)), next(iter(known))
    found = stored.calibrated(one, tuple(unknown), (0,), "osa", first)
    cut = found.report.threshold.value
    expected = plain_rule.osa_at(known[first], is_right, unknown[kind][first], cut)
    assert found.operate(kind).oosa == pytest.approx(expected)
    best = max(
        plain_rule.osa_at(known[d], is_right, unknown[kind][d], cut)
        for d in known
        for cut in [*known[d], *unknown[kind][d], np.inf]
    )
    assert one.oracle[kind] == pytest.approx(best)


def test_right_answers_of_single_samples_add_up_to_the_open_set_accuracy(stored):
    known, is_right, unknown = drawn_scores(7)
    one = stored_network(stored, known, is_right, unknown)
    fresh = {kind: scores + 0.01 for kind, scores in one.test.items()}
    one = replace(one, test=fresh, test_known=one.known + 0.01)
    found = stored.chosen(one, [*unknown])
    for kind in unknown:
        ccr, urr = (side.mean() for side in found.right(kind))
        assert found.operate(kind).oosa == pytest.approx((ccr + urr) / 2)
        assert 0 < ccr < 1  # neither everything nor nothing is accepted


def test_a_gain_and_its_error_are_those_of_resampled_test_samples(monkeypatch):
    monkeypatch.syspath_prepend(PATH.parent)
    tables = importlib.import_module("_missing_kinds_tables")
    rng = np.random.default_rng(0)
    kinds = ["a", "a", "b"]

    def rows(share):
        known, of = rng.random((3, 80)) < share, {"a": 50, "b": 70}
        return [
            {
                "network": "n",
                "left out": kind,
                "right": (known[i], rng.random(of[kind]) < share),
            }
            for i, kind in enumerate(kinds)
        ]

    chosen, usual = rows(0.8), rows(0.6)

    def gain(picked):
        each = [
            np.mean(row["right"][side][picked[part]])
            - np.mean(base["right"][side][picked[part]])
            for row, base in zip(chosen, usual, strict=True)
            for side, part in enumerate(("known", row["left out"]))
        ]
        return sum(each) / (2 * len(kinds))

    sizes = {"known": 80, "a": 50, "b": 70}
    value, error = tables.gains(chosen, usual)["n"]
    assert value == pytest.approx(gain({p: np.arange(n) for p, n in sizes.items()}))
    again = [
        gain({p: rng.integers(0, n, n) for p, n in sizes.items()}) for _ in range(4000)
    ]
    assert error == pytest.approx(np.std(again), rel=0.06)
