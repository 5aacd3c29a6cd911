"""Sketch: what it refuses, saves and says. Brackets are in tests/property."""

import numpy as np
import pytest

from openset import Scores, metrics
from openset._types import ArtefactError, UndefinedMetricError
from openset.metrics import Bracket, Sketch, sketch

SCORES = Scores(
    labels=[0, 1, 1, -1, -1],
    predicted=[0, 1, 0, 0, 1],
    known=[0.9, 0.4, 0.8, 0.4, -np.inf],
)
PAIR = Scores(labels=[0, -1], predicted=[0, 0], known=[0.3, 0.1])


def of(*parts):
    made = Sketch()
    for part in parts:
        made.update(part)
    return made


def draw(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, 3, n)
    known = 5 + rng.normal(size=n) + (labels >= 0)
    return Scores(labels=labels, predicted=rng.integers(0, 3, n), known=known)


@pytest.fixture
def few(monkeypatch):
    """As if memory were for a hundred distinct scores and a thousand bins."""
    monkeypatch.setattr(sketch, "_MOST", 100)
    monkeypatch.setattr(sketch, "_CELLS", 1000)


def test_up_to_the_most_scores_brackets_are_exact():
    made = of(SCORES)
    assert made.bracket("auroc") == Bracket(11 / 12, 11 / 12)
    found, exact = made.brackets(0.5), metrics.evaluate(SCORES, 0.5)
    assert {"osa", "f_score_micro", "osa_best"} < set(found)
    for key, bracket in found.items():
        assert exact[key] in bracket, key
        assert bracket.width <= 1e-10, key
    assert (len(made), made.n_known, made.n_unknown) == (5, 3, 2)
    assert repr(made) == "Sketch(n=5, known=3, unknown=2)"


def test_powers_of_two_are_known_to_be_tied(few):
    rest = draw(300)
    tied = Scores(
        labels=np.repeat([0, -1], 5000), predicted=np.zeros(10_000, int),
        known=np.tile([1.0, 0.5, 0.0, -2.0, 8.0], 2000),
    )  # fmt: skip
    assert of(rest, tied).bracket("auroc").width < 1e-3


def test_new_samples_and_merged_ones_count():
    made = of(PAIR)
    assert made.bracket("auroc") == Bracket(1.0, 1.0)
    made.update(PAIR.take(slice(1, 2)).with_known([1.0]))
    assert made.bracket("auroc") == Bracket(0.5, 0.5)
    made.merge(made)
    assert (len(made), made.bracket("auroc")) == (6, Bracket(0.5, 0.5))


@pytest.mark.parametrize("n", [50, 4000])
def test_a_saved_sketch_is_read_back_and_goes_on_counting(n, few, tmp_path):
    made, more = of(draw(n)), draw(n, seed=1)
    again = Sketch.load(made.save(tmp_path / "sketch.npz"))
    assert again.brackets(5.5) == made.brackets(5.5)
    for one in (made, again):
        one.update(more)
    assert again.brackets() == made.brackets()


@pytest.mark.parametrize(
    "change",
    [
        {"keys": np.array([3, 1, 2, 4])},
        {"keys": np.arange(4.0)},
        {"counts": np.zeros((2, 4), np.int64)},
        {"counts": np.full((3, 4), -1)},
    ],
)
def test_a_file_that_holds_no_sketch_is_refused(tmp_path, change):
    path = of(SCORES).save(tmp_path / "sketch.npz")
    with np.load(path) as arrays:
        np.savez(path, **{**arrays, **change})
    with pytest.raises(ArtefactError, match=r"Sketch.load: .*sketch.npz is damaged"):
        Sketch.load(path)
    SCORES.save(tmp_path / "scores.npz")
    with pytest.raises(ArtefactError, match="must be"):
        Sketch.load(tmp_path / "scores.npz")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.bracket("f_score", threshold=1), "of F micro"),
        (lambda s: s.bracket("youden_best"), "Accumulator"),
        (lambda s: s.bracket("aupr"), "metric must be one of accuracy, auroc"),
        (lambda s: s.bracket("aurc", over="unknown"), "over must be"),
        (lambda s: s.bracket("scod_risk", threshold=0.3, beta=-1), "beta must be"),
        (lambda s: s.bracket("scod_risk", threshold=1), "no sample is accepted"),
        (lambda s: s.bracket("osa"), "threshold must be a number"),
        (lambda s: s.bracket("auroc", threshold=1.0), "must be left out"),
        (lambda s: s.bracket("ccr_at_fpr", fpr=2), "fpr must be a number in"),
        (lambda s: s.bracket("osa", threshold=0.3, alpha=2), "alpha must be a number"),
        (lambda s: s.save("sketch.npy"), r"Sketch.save: .* of sketch.npy must be one"),
    ],
)
def test_wrong_calls_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(of(SCORES))


def test_wrong_types_and_missing_sides_are_refused():
    with pytest.raises(TypeError, match=r"Sketch.update: scores must be Scores, got"):
        Sketch().update([1, 2])
    with pytest.raises(TypeError, match="other must be a Sketch"):
        Sketch().merge(SCORES)
    one = of(PAIR.take(slice(0, 1)))
    for name in ("auroc", "aurc"):
        with pytest.raises(UndefinedMetricError, match="undefined without unknown"):
            one.bracket(name)
    assert one.bracket("augrc_known") == Bracket(0.0, 0.0)
    with pytest.raises(UndefinedMetricError, match="undefined without known"):
        Sketch().bracket("augrc_known")


@pytest.mark.parametrize("highest", [np.inf, 9.0])
def test_what_scores_infinity_is_accepted_at_every_threshold(highest):
    scores = Scores(labels=[-1, -1, 0], predicted=[0] * 3, known=[highest, highest, 1])
    exact = metrics.osa_optimum(scores).value
    assert of(scores).bracket("osa_best") == pytest.approx((exact, exact))
