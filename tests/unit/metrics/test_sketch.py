"""Sketch: what it refuses, saves and says. Brackets are in tests/property."""

import numpy as np
import pytest

from openset import Scores, metrics
from openset._types import ArtefactError, UndefinedMetricError
from openset.metrics import Bracket, Sketch, bins

LABELS, PREDICTED = [0, 1, 1, -1, -1], [0, 1, 0, 0, 1]
KNOWN = [0.9, 0.4, 0.8, 0.4, -np.inf]
SCORES = Scores(labels=LABELS, predicted=PREDICTED, known=KNOWN)


@pytest.fixture(scope="module")
def sketch():
    made = Sketch()
    made.update(SCORES)
    return made


def test_brackets_are_exact_where_scores_differ_or_are_single_numbers(sketch):
    # The known and the unknown sample at 0.4 share an interval: one pair of 6 is open.
    assert sketch.bracket("auroc") == Bracket(5 / 6, 1.0)
    assert sketch.bracket("auroc").width == pytest.approx(1 / 6)
    tied = Sketch()
    tied.update(labels=[0, -1], predicted=[0, 0], known=[1.0, 1.0])
    assert tied.bracket("auroc") == Bracket(0.5, 0.5)
    assert tied.bracket("openauc", ties="strict") == Bracket(0.0, 0.0)


def test_table_of_brackets_contains_the_evaluation(sketch):
    found = sketch.brackets(0.5)
    assert {"osa", "f_score_micro", "osa_best"} < set(found)
    for key, bracket in found.items():
        assert metrics.get(key).value(SCORES, 0.5) in bracket, key


def test_counts_are_known_exactly(sketch):
    assert (len(sketch), sketch.n_known, sketch.n_unknown, sketch.n_correct) == (
        5,
        3,
        2,
        2,
    )
    assert repr(sketch) == "Sketch(n=5, known=3, unknown=2)"


def test_bracket_has_its_ends_and_a_middle():
    bracket = Bracket(0.25, 0.75)
    assert (bracket.width, bracket.middle) == (0.5, 0.5)
    assert 0.25 in bracket
    assert 0.75 in bracket
    assert 0.2 not in bracket
    assert 0.8 not in bracket


def test_samples_are_counted_in_chunks_of_any_size(monkeypatch):
    rng = np.random.default_rng(0)
    columns = {
        "labels": rng.integers(-1, 3, 50),
        "predicted": rng.integers(0, 3, 50),
        "known": rng.normal(size=50),
    }
    whole = Sketch()
    whole.update(**columns)
    monkeypatch.setattr("openset.metrics._sketch._CHUNK", 7)
    for given in (columns, {"scores": Scores(**columns)}):
        cut = Sketch()
        cut.update(**given)
        assert len(cut) == 50
        for name, table in whole.state().items():
            np.testing.assert_array_equal(cut.state()[name], table)
    # An error in the last chunk: none is counted.
    columns["known"][49] = np.nan
    with pytest.raises(ValueError, match="free of NaN, got 1 NaN"):
        cut.update(**columns)
    assert len(cut) == 50


def test_what_was_computed_is_forgotten_with_new_samples():
    more = Sketch()
    more.update(labels=[0, -1], predicted=[0, 0], known=[2.0, 1.0])
    assert more.bracket("auroc") == Bracket(1.0, 1.0)
    more.update(labels=[-1], predicted=[0], known=[3.0])
    assert more.bracket("auroc") == Bracket(0.5, 0.5)
    other = Sketch()
    other.update(labels=[-1, -1], predicted=[0, 0], known=[4.0, 5.0])
    more.merge(other, other)
    assert more.bracket("auroc") == Bracket(1 / 6, 1 / 6)


def test_state_is_a_copy(sketch):
    state = sketch.state()
    again = Sketch.from_state(**state)
    state["bins"][:] = 0
    assert again.brackets() == sketch.brackets()
    negative = sketch.state()
    negative["fine"][0, :2] += [-1, 1]
    with pytest.raises(ValueError, match=r"fine must be integers .*none negative"):
        Sketch.from_state(**negative)
    for dtype in (np.uint8, np.int32):
        narrow = {name: table.astype(dtype) for name, table in sketch.state().items()}
        assert Sketch.from_state(**narrow).brackets() == sketch.brackets()
    real = {name: table.astype(float) for name, table in sketch.state().items()}
    with pytest.raises(ValueError, match="bins must be integers of shape"):
        Sketch.from_state(**real)


def test_whole_brackets_are_without_a_margin_where_counts_are_exact():
    """Sums of integers do not depend on their order, other sums in the last digits."""
    one = Sketch()
    one.update(labels=[0, 0, -1], predicted=[0, 1, 0], known=[3.0, 2.0, 1.0])
    for name in ("auroc", "openauc", "augrc", "fpr_at_tpr", "ccr_at_fpr", "accuracy"):
        assert one.bracket(name).width == 0, name
    exact = metrics.aurc(
        Scores(labels=[0, 0, -1], predicted=[0, 1, 0], known=[3, 2, 1])
    )
    assert one.bracket("aurc").low == pytest.approx(exact - 1e-11, abs=1e-15)
    assert one.bracket("aurc").high == pytest.approx(exact + 1e-11, abs=1e-15)
    assert one.bracket("partial_openauc").width == pytest.approx(2e-12, rel=1e-3)
    assert one.bracket("osa", threshold="best").width == pytest.approx(2e-12, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "n_known", "n_unknown"),
    [("auroc", 2**26, 2**27), ("openauc", 2**26, 2**27), ("augrc", 2**25, 2**25)],
)
def test_there_is_a_margin_where_pairs_are_too_many_to_be_counted_exactly(
    name, n_known, n_unknown
):
    """From 2**53 on; pairs of all samples count twice, as ties count half."""
    one = Sketch()
    one.update(labels=[0, -1], predicted=[0, 0], known=[2.0, 1.0])

    def width(name, n_known, n_unknown):
        state = one.state()
        for table in state.values():
            table[0] *= n_known
            table[2] *= n_unknown
        return Sketch.from_state(**state).bracket(name).width

    assert width(name, n_known, n_unknown) == pytest.approx(2e-12, rel=1e-3)
    assert width(name, n_known, n_unknown - 1) == 0
    assert width("fpr_at_tpr", n_known, n_unknown) == 0


def test_saved_sketch_is_read_back(sketch, tmp_path):
    path = sketch.save(tmp_path / "sketch.npz")
    assert path.stat().st_size < 10_000
    again = Sketch.load(path)
    assert again.brackets(0.5) == sketch.brackets(0.5)
    again.merge(sketch)
    assert len(again) == 10
    assert len(sketch) == 5


def test_a_sketch_is_saved_to_npz_only(sketch, tmp_path):
    with pytest.raises(ValueError, match=r"Sketch.save: .* of sketch.npy must be one"):
        sketch.save(tmp_path / "sketch.npy")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layout": np.array(99)}, "must have bins of layout 2, got 99"),
        ({"layout": np.array([1, 1])}, r"must have bins of layout 2, got \[1 1\]"),
        ({"bins": np.array([1, 1, 1, 1, 2])}, "is damaged"),
        ({"fine_at": np.array([0, 1, 2, 3, 10**9])}, "is damaged"),
        ({"bins": np.array([1, 1, 1, 3, -1])}, "is damaged"),
    ],
)
def test_file_that_does_not_hold_a_sketch_is_refused(sketch, tmp_path, change, message):
    path = sketch.save(tmp_path / "sketch.npz")
    with np.load(path) as arrays:
        np.savez(path, **{**arrays, **change})
    with pytest.raises(ArtefactError, match=message):
        Sketch.load(path)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.bracket("f_score", threshold=1), "needs average='micro'"),
        (lambda s: s.bracket("youden_best"), "Accumulator"),
        (lambda s: s.bracket("aupr"), "must be one of auroc.*AUPR the order"),
        (lambda s: s.bracket("oaa", threshold="best"), "OAA has no best"),
        (lambda s: s.bracket("aurc", over="unknown"), "over must be"),
        (lambda s: s.bracket("scod_risk", threshold=1, beta=-1), "beta must be"),
        (lambda s: s.bracket("scod_risk", threshold=1), "no sample is accepted"),
        (lambda s: s.bracket("osa"), "threshold must be a number or 'best'"),
        (lambda s: s.bracket("ccr", threshold="best"), "osa, f_score or youden"),
        (lambda s: s.bracket("auroc", threshold=1.0), "must be left out"),
        (lambda s: s.bracket("ccr_at_fpr", fpr=2), "fpr must be a number in"),
        (lambda s: s.bracket("osa", threshold=1, alpha=2), "alpha must be a number"),
        (lambda s: s.update(labels=[0], predicted=[0], known=[np.nan]), "free of NaN"),
        (lambda s: s.update(labels=[-2], predicted=[0], known=[1.0]), "labels must"),
        (lambda s: s.update(labels=[0], predicted=[-1], known=[1.0]), "predicted must"),
        (lambda s: s.update(labels=[0], predicted=[0], known=[[1.0]]), "known must"),
        (lambda s: s.update(labels=[0], predicted=[0, 1], known=[1.0]), "length"),
    ],
)
def test_wrong_calls_are_refused_and_change_nothing(sketch, call, message):
    with pytest.raises(ValueError, match=message):
        call(sketch)
    assert len(sketch) == 5


def test_wrong_types_are_refused(sketch):
    with pytest.raises(TypeError, match="Scores, or labels, predicted and known"):
        sketch.update(labels=[0])
    with pytest.raises(TypeError, match="got Scores and 1 of these arrays"):
        sketch.update(SCORES, labels=LABELS)
    with pytest.raises(TypeError, match=r"Sketch.update: scores must be Scores, got"):
        sketch.update([1, 2])
    with pytest.raises(TypeError, match="real numbers"):
        sketch.update(labels=[0], predicted=[0], known=np.array(["a"]))
    with pytest.raises(TypeError, match="other must be a Sketch"):
        sketch.merge(SCORES)
    with pytest.raises(TypeError, match=r"unsupported operand .*'Sketch' and 'Scores'"):
        sketch + SCORES
    with pytest.raises(ValueError, match="of the same samples"):
        Sketch.from_state(**(Sketch().state() | {"fine": sketch.state()["fine"]}))
    with pytest.raises(ValueError, match="bins must be integers of shape"):
        Sketch.from_state(bins=[1], coarse=[1], fine=[1])


def test_metric_without_unknowns_is_undefined():
    one = Sketch()
    one.update(labels=[0], predicted=[0], known=[1.0])
    for name in ("auroc", "aurc"):
        said = rf"'{name}'\): undefined without unknown samples, got 1 known and 0"
        with pytest.raises(UndefinedMetricError, match=said):
            one.bracket(name)
    assert one.bracket("augrc_known") == Bracket(0.0, 0.0)
    with pytest.raises(UndefinedMetricError, match="without known samples, got 0 kn"):
        Sketch().bracket("augrc_known")


def test_risk_of_accepted_samples_is_left_out_where_none_is_accepted(sketch):
    assert "scod_risk" in sketch.brackets(0.5)
    assert "scod_risk" not in sketch.brackets(1.0)
    # One sample is in the bin of the threshold: if it is accepted, the risk is 0.
    one = Sketch()
    one.update(labels=[0, -1], predicted=[0, 0], known=[0.3, 0.1])
    assert one.bracket("scod_risk", threshold=0.3) == Bracket(-1e-12, 1e-12)
    # The unknown one as well: its price is 1000, the margin grows with the risk.
    found = one.bracket("scod_risk", threshold=0.1, beta=1000.0)
    assert found.high - 500 == pytest.approx(5e-10, rel=1e-3)


@pytest.mark.parametrize(("label", "alpha"), [(0, 0.0), (-1, 1.0)])
def test_risk_is_undefined_where_only_samples_without_weight_are_accepted(label, alpha):
    one = Sketch()
    one.update(labels=[label, -1 - label], predicted=[0, 0], known=[0.3, 0.1])
    with pytest.raises(UndefinedMetricError, match="no sample is accepted"):
        one.bracket("scod_risk", threshold=0.25, alpha=alpha)
    assert one.bracket("scod_risk", threshold=0.25, alpha=0.5).width == 0
    assert one.bracket("scod_risk", threshold=0.05, alpha=alpha).width == 0


@pytest.mark.parametrize("highest", [np.inf, 9.0])
def test_what_scores_infinity_is_accepted_at_every_threshold(highest):
    columns = {
        "labels": [-1, -1, 0],
        "predicted": [0] * 3,
        "known": [highest] * 2 + [1],
    }
    one = Sketch()
    one.update(**columns)
    exact = metrics.osa_optimum(Scores(**columns)).value
    assert exact == pytest.approx(0.5)
    assert one.bracket("osa_best").low == pytest.approx(exact)
    assert one.bracket("osa_best").high == pytest.approx(exact)


def test_first_number_of_a_bin_is_found():
    for number in (3.3, -3.3, 1e-300, 0.0, -0.75, np.inf, -np.inf, -5e-324):
        edge = Sketch.edge(number)
        assert edge <= number
        there = bins.locate_numpy(np.array([np.nextafter(edge, -np.inf), edge, number]))
        assert there.bins[1] == there.bins[2]
        assert there.bins[0] < there.bins[1] or edge == -np.inf
    assert str(Sketch.edge(0.0)) == "0.0"  # not -0.0


@pytest.mark.parametrize(("low", "high"), [(14, 21), (-100, -7)])
def test_scores_over_many_factors_of_two_have_narrow_brackets(low, high):
    """Log densities of a mixture are near -1e6, entropies of a sure network near 0."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, -1], 4000)
    known = -(2.0 ** (rng.uniform(low, high, 8000) + (labels < 0)))
    scores = Scores(labels=labels, predicted=np.zeros(8000, int), known=known)
    sketch = Sketch()
    sketch.update(scores)
    smallest, largest = sketch.bracket("auroc")
    assert smallest <= metrics.auroc(scores) <= largest < smallest + 1e-4


def test_brackets_contain_what_evaluate_says_to_the_last_digit():
    rng = np.random.default_rng(1)
    for n_known in range(3, 60):
        labels = np.repeat([0, -1], [n_known, 30])
        known = rng.integers(0, 9, labels.size).astype(float)
        predicted = rng.integers(0, 2, labels.size)
        scores = Scores(labels=labels, predicted=predicted, known=known)
        sketch = Sketch()
        sketch.update(scores)
        exact = metrics.evaluate(scores, 4.0)
        for key, bracket in sketch.brackets(4.0).items():
            assert exact[key] in bracket, key


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": np.array([0, 1, 255], np.uint8)}, "got 255, which is -1 as uint8"),
        (
            {"known": np.ma.array([0.1, 0.2, 0.3], mask=[0, 1, 0])},
            "known must be free of masked values",
        ),
    ],
)
def test_arrays_that_mean_something_else_are_refused(changes, message):
    arrays = {"labels": [0, 1, -1], "predicted": [0, 1, 0], "known": [0.1, 0.2, 0.3]}
    sketch = Sketch()
    with pytest.raises(ValueError, match=message):
        sketch.update(**arrays | changes)
    assert len(sketch) == 0


def test_columns_of_pandas_in_another_order_are_refused():
    pandas = pytest.importorskip("pandas")
    labels = pandas.Series([0, -1, 1], index=[0, 1, 2])
    known = pandas.Series([0.1, 0.2, 0.3], index=[2, 1, 0])
    with pytest.raises(ValueError, match="known must be in the order of labels"):
        Sketch().update(labels=labels, predicted=[0, 1, 1], known=known)
