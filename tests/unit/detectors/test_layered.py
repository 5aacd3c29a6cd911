"""Detectors over several layers, on arrays; with networks: tests/unit/train."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from openset import CalibrationWarning, Outputs, Rejector
from openset.detectors import KNN, MSP, ByLayer, Fitted, GramBounds, Mahalanobis
from openset.detectors.layered import (
    layer_names,
    layer_of,
    with_deviations_of,
    with_weights,
)
from openset.outputs import replaced

LAYERS = (("a", 2), ("b", 3))
GRAMS = (("gram:a", 2), ("gram:b", 3))


def drawn(n, *, seed=0, layers=LAYERS, logits=True):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    features = rng.normal(size=(n, 5)) + labels[:, None] + 1
    return Outputs(
        logits=np.eye(3)[labels] * 4 + rng.normal(size=(n, 3)) if logits else None,
        features=features,
        labels=labels,
        layers=layers,
    )


def part(outputs, columns):
    return Outputs(features=outputs.features[:, columns], labels=outputs.labels)


A, B = slice(0, 2), slice(2, 5)


@pytest.mark.parametrize("detector", [Mahalanobis(), KNN(k=3)])
def test_the_knownness_is_the_weighted_sum_over_the_layers(detector):
    train, new = drawn(60, seed=1), drawn(20, seed=2)
    fitted = ByLayer(detector=detector).fit(train)
    alone = [detector.fit(part(train, c)).known(part(new, c)) for c in (A, B)]
    assert_allclose(fitted.known(new), alone[0] + alone[1])
    weighted = with_weights(fitted, [2.0, 0.5])
    assert_allclose(weighted.known(new), 2 * alone[0] + 0.5 * alone[1])
    for name, expected, columns in (("a", alone[0], A), ("b", alone[1], B)):
        assert_allclose(layer_of(fitted, name).known(part(new, columns)), expected)


def test_without_logits_the_first_layer_names_the_class():
    train, new = (drawn(n, seed=n, logits=False) for n in (60, 21))
    fitted = ByLayer().fit(train)
    first = Mahalanobis().fit(part(train, A)).score(part(new, A)).predicted
    assert_array_equal(fitted.score(new).predicted, first)
    assert fitted.detector.predicts_classes
    assert not ByLayer(detector="knn").predicts_classes
    with pytest.raises(ValueError, match="outputs must have logits"):
        ByLayer(detector=KNN(k=3)).fit(train).score(new)


def test_it_needs_what_the_detector_of_its_layers_needs():
    assert ByLayer().fit_needs == ("features", "labels")
    assert ByLayer().score_needs == ("features",)
    assert ByLayer(detector="knn").fit_needs == ("features",)
    assert ByLayer(detector="msp").score_needs == ("features", "logits")


@pytest.mark.parametrize(
    "detector", ["vim", ("knn",), ("knn", {}, 1), 3, None, ByLayer(), GramBounds()]
)
def test_a_detector_that_layers_cannot_have_is_refused(detector):
    with pytest.raises(ValueError, match="Layered: detector must be a detector, or it"):
        ByLayer(detector=detector)


@pytest.mark.parametrize("detector", ["knn", ("knn", {"k": 4}), ["knn", {}], KNN(k=2)])
def test_a_recipe_is_remade_from_its_parameters(detector):
    recipe = ByLayer(detector=detector, epsilon=0.5, std=[1, 2], layers=[["a", 2]])
    assert recipe.std == (1.0, 2.0)
    assert recipe.layers == (("a", 2),)
    assert ByLayer(**recipe.params()) == recipe
    assert ByLayer(detector=detector).params()["std"] is None
    gram = GramBounds(powers=[1, 3], held_out=0.2, seed=5, layers=[["gram:a", 2]])
    assert GramBounds(**gram.params()) == gram


def test_the_defaults_are_the_published_ones():
    powers = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    options = {"layers": [], "powers": powers, "held_out": 0.1, "seed": 0}
    assert GramBounds().params() == options
    detector = ["mahalanobis", Mahalanobis().params()]
    options = {"detector": detector, "layers": [], "epsilon": 0.0, "std": None}
    assert ByLayer().params() == options


def test_layers_with_a_step_of_the_input_are_marked():
    assert layer_names(ByLayer(layers=LAYERS)) == ("a", "b")
    assert layer_names(ByLayer(layers=LAYERS, epsilon=0.1)) == ("step:a", "step:b")
    assert layer_names(MSP()) == ()
    train = drawn(60)
    stepped = drawn(60, layers=[("step:a", 2), ("step:b", 3)])
    fitted = ByLayer(epsilon=0.1, layers=LAYERS).fit(train)
    assert np.isfinite(fitted.known(stepped)).all()
    with pytest.raises(ValueError, match=r"of the layers step:a \(2\), step:b"):
        fitted.known(train)
    plain = ByLayer().fit(train)
    with pytest.raises(ValueError, match=r"layers a \(2\), b .* got step:a \(2\)"):
        plain.known(stepped)


def test_outputs_of_no_named_layer_are_refused_unless_the_recipe_names_them():
    bare = drawn(60, layers=())
    with pytest.raises(ValueError, match=r"ByLayer\.fit: outputs must be the features"):
        ByLayer().fit(bare)
    fitted = ByLayer(layers=LAYERS).fit(bare)
    assert_array_equal(fitted.known(bare), ByLayer().fit(drawn(60)).known(drawn(60)))
    other = drawn(60, layers=(("c", 4), ("d", 1)))
    assert ByLayer(layers=LAYERS).fit(other).detector.layers == other.layers


def slow_deviations(train, new, classes, columns):
    """How far each sample lies outside of the bounds of a class, relative to them."""
    total = []
    for row, c in zip(new.features[:, columns], classes, strict=True):
        mine = train.features[train.labels == c][:, columns]
        low, high = mine.min(axis=0), mine.max(axis=0)
        below = np.maximum(low - row, 0) / np.abs(low + 1e-6)
        above = np.maximum(row - high, 0) / np.abs(high + 1e-6)
        total.append(below.sum() + above.sum())
    return np.array(total)


def test_gram_without_held_out_samples_has_equal_weights():
    train, new = drawn(60, seed=1, layers=GRAMS), drawn(20, seed=2, layers=GRAMS)
    fitted = GramBounds(held_out=0.0).fit(train)
    predicted = new.logits.argmax(axis=1)
    alone = [slow_deviations(train, new, predicted, c) for c in (A, B)]
    assert_allclose(fitted.known(new), -alone[0] - alone[1])
    held = drawn(30, seed=3, layers=GRAMS)
    means = [slow_deviations(train, held, held.labels, c).mean() for c in (A, B)]
    scaled = with_deviations_of(fitted, held)
    assert_allclose(scaled.state["weights"], 1 / np.array(means))
    assert_allclose(scaled.known(new), -alone[0] / means[0] - alone[1] / means[1])
    # Samples inside of all bounds say nothing about how far others are out.
    inside = with_deviations_of(fitted, train)
    assert_array_equal(inside.state["weights"], [1, 1])


def test_gram_holds_out_a_share_of_each_class():
    train = drawn(60, layers=GRAMS)
    held = GramBounds(held_out=0.26, seed=3)._held(train.labels)
    assert_array_equal(np.bincount(train.labels[held]), [5, 5, 5])  # of 20
    assert_array_equal(held, np.unique(held))
    kept = train.take(np.setdiff1d(np.arange(60), held))
    by_hand = with_deviations_of(GramBounds(held_out=0.0).fit(kept), train.take(held))
    fitted = GramBounds(held_out=0.26, seed=3).fit(train)
    for name, array in by_hand.state.items():
        assert_allclose(fitted.state[name], array)
    other = GramBounds(held_out=0.26, seed=4)._held(train.labels)
    assert not np.array_equal(held, other)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GramBounds(powers=[]), "Gram: powers must be one or several"),
        (lambda: GramBounds(powers=[0]), "Gram: powers must be an integer >= 1"),
        (lambda: GramBounds(held_out=1.0), "held_out must be"),
        (lambda: GramBounds(held_out=-0.1), "held_out must be"),
        (lambda: GramBounds(seed=-1), "seed must be"),
        (lambda: ByLayer(epsilon=-0.1), "epsilon must be"),
        (lambda: GramBounds().fit(drawn(60)), "got the means of layer 'a'"),
        (
            lambda: GramBounds(held_out=0.0).fit(
                drawn(60, layers=GRAMS).take(np.arange(60) % 3 < 2)
            ),
            "Gram.fit: outputs must be samples of every class .* none of class 2",
        ),
        (lambda: layer_of(ByLayer().fit(drawn(60)), "c"), "layer must be one of 'a'"),
        (
            lambda: with_weights(ByLayer().fit(drawn(60)), [1.0]),
            "layers and weights must have the same length, got 2, 1",
        ),
        (
            lambda: with_deviations_of(
                GramBounds().fit(drawn(60, layers=GRAMS)),
                Outputs(logits=np.ones((1, 3)), features=np.ones((1, 5))),
            ),
            "validation must be known samples with labels, got no labels",
        ),
        (
            lambda: with_deviations_of(
                GramBounds().fit(drawn(60, layers=GRAMS)),
                replaced(drawn(3, layers=GRAMS), labels=np.array([0, -1, 2])),
            ),
            "validation must be known samples with labels, got some with label -1",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("value", [MSP().fit(), ByLayer(), 3])
def test_what_is_no_fit_over_layers_is_named(value):
    with pytest.raises(TypeError, match="layer_of: fitted must be a fitted detector o"):
        layer_of(value, "a")
    with pytest.raises(TypeError, match="with_weights: fitted must be a fitted detec"):
        with_weights(value, [1.0])


@pytest.mark.parametrize(
    "recipe", [ByLayer(detector=KNN(k=3)), GramBounds(held_out=0.2)]
)
def test_it_is_saved_without_pickle(recipe, tmp_path):
    layers = GRAMS if isinstance(recipe, GramBounds) else LAYERS
    train = drawn(60, layers=layers)
    fitted = recipe.fit(train)
    again = Fitted.load(fitted.save(tmp_path / "layers.npz"))
    assert again.detector == fitted.detector
    assert_array_equal(again.known(train), fitted.known(train))


@pytest.mark.parametrize("saved", ["fitted", "rejector"])
def test_a_plain_detector_notices_layers_in_another_order(saved, tmp_path):
    train, order = drawn(60), [("b", 3), ("a", 2)]
    fitted = KNN(k=2).fit(train)
    if saved == "fitted":
        again = Fitted.load(fitted.save(tmp_path / "knn.npz"))
    else:
        surrogate = replaced(drawn(60, seed=1), labels=np.full(60, -1))
        known = drawn(60, seed=2)
        with pytest.warns(CalibrationWarning):
            made = Rejector.calibrate(fitted, known=known, surrogate=surrogate)
        again = Rejector.load(made.save(tmp_path / "rejector")).fitted
    with pytest.raises(ValueError, match=r"layers a \(2\), b \(3\), as in fit, got b"):
        again.known(drawn(5, layers=order))
    expected = fitted.known(drawn(5))
    assert_array_equal(again.known(drawn(5, layers=())), expected)
    # One that uses no features does not mind.
    assert MSP().fit(train).known(drawn(5, layers=order)).size == 5
