"""`Fitted`: knownness, probabilities, outputs it refuses, files."""

import json
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from openset import ArtefactError, Outputs
from openset.detectors import (
    KNN,
    MSP,
    Energy,
    Entropy,
    Fitted,
    OpenMax,
)
from openset.outputs import replaced
from openset.testing import example_outputs as split
from openset.testing import in_library


@pytest.fixture
def outputs():
    return split(50)


def test_known_is_score_without_labels(outputs):
    unlabelled = Outputs(logits=outputs.logits)
    fitted = Energy().fit(outputs)
    assert_array_equal(fitted.known(unlabelled), fitted.score(outputs).known)
    with pytest.raises(ValueError, match="outputs must have labels, got none"):
        fitted.score(unlabelled)


def test_known_refuses_nan():
    infinite = Outputs(logits=[[0.0, 1.0], [np.inf, 0.0]])
    words = "free of NaN, got NaN for 1 samples, first in row 1"
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match=words):
        Entropy().fit(infinite).known(infinite)


def test_a_method_without_a_probability_says_so(outputs):
    fitted = Energy().fit(outputs)
    with pytest.raises(TypeError, match="Energy: defines no probability"):
        fitted.probability(outputs)
    with pytest.raises(TypeError, match="Energy: defines no class probabilities"):
        fitted.class_probabilities(outputs)
    found = OpenMax().fit(split(200)).class_probabilities(outputs)
    assert found.shape == (50, 5)
    assert_allclose(found.sum(axis=1), 1)


def test_outputs_of_another_width_are_refused(outputs):
    fitted = KNN(k=3).fit(outputs)
    narrow = Outputs(features=outputs.features[:, :5])
    with pytest.raises(ValueError, match="must be 32, as in fit or calibration, got 5"):
        fitted.known(narrow)
    narrow = Outputs(logits=outputs.logits, features=narrow.features, labels=[0] * 50)
    with pytest.raises(ValueError, match="must be 32, as in fit or calibration, got 5"):
        fitted.score(narrow)
    bare = Outputs(logits=outputs.logits, labels=outputs.labels)
    for call in (fitted.score, fitted.known):
        with pytest.raises(ValueError, match=r"KNN\.score: outputs must have features"):
            call(bare)


def test_outputs_of_another_library_are_refused_with_the_remedy(outputs):
    torch = pytest.importorskip("torch")
    fitted = KNN(k=3).fit(outputs)
    with pytest.raises(ValueError, match=r"Move one: fitted\.to\(outputs\.logits\)"):
        fitted.known(in_library(outputs, torch))


def test_another_process_is_sent_the_arrays_alone(outputs):
    fitted = KNN(k=3).fit(outputs)
    expected = fitted.known(outputs)
    sent = pickle.loads(pickle.dumps(fitted))  # noqa: S301  # our own, just written
    assert "_states" in fitted.__dict__
    assert "_states" not in sent.__dict__
    assert_array_equal(sent.known(outputs), expected)


def test_a_file_that_is_no_fit_is_refused(outputs, tmp_path):
    path = tmp_path / "other.npz"
    np.savez(path, recipe=np.array(json.dumps({"kind": "x", "schema": 1})))
    with pytest.raises(ArtefactError, match=r"must be an openset\.Fitted of schema 1"):
        Fitted.load(path)
    np.savez(path, logits=np.ones(3))
    with pytest.raises(ArtefactError, match="holds no detector"):
        Fitted.load(path)
    with pytest.raises(ValueError, match=r"must be one of '\.npz'"):
        MSP().fit(outputs).save(tmp_path / "fitted.pkl")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"detector": "magic"}, "a detector that is not registered: 'magic'"),
        ({"params": {"magic": 1}}, "cannot make .*unexpected keyword argument"),
        ({"params": {"k": 0}}, "cannot make .*k must be an integer >= 1"),
        ({"params": [1]}, "cannot make"),
        ({"widths": None}, "is damaged"),
    ],
)
def test_a_file_of_another_version_is_refused(change, message, outputs, tmp_path):
    path = KNN(k=3).fit(outputs).save(tmp_path / "knn.npz")
    arrays = dict(np.load(path))
    recipe = json.loads(str(arrays["recipe"])) | change
    np.savez(path, **arrays | {"recipe": np.array(json.dumps(recipe))})
    with pytest.raises(ArtefactError, match=message):
        Fitted.load(path)


def test_numbers_of_numpy_are_kept_as_pythons(outputs, tmp_path):
    recipe = KNN(k=np.int64(3), seed=np.int32(1))
    assert repr(recipe) == repr(KNN(k=3, seed=1))
    single = split(50, dtype=np.float32)
    fitted = MSP(temperature=np.float64(1.5)).fit(single)  # once it lifted the dtype
    again = Fitted.load(fitted.save(tmp_path / "msp.npz"))
    assert_array_equal(again.known(single), fitted.known(single))
    assert_array_equal(
        MSP(temperature=1.5).fit(single).known(single), again.known(single)
    )


@pytest.mark.parametrize("value", [np.ones((3, 4)), "train.npz", None])
def test_what_is_no_outputs_is_named(value, outputs):
    fitted = MSP().fit(outputs)
    for call in (KNN().fit, fitted.known, fitted.score, fitted.probability):
        with pytest.raises(TypeError, match=r"outputs must be Outputs, got"):
            call(value)


@pytest.mark.parametrize("place", ["numpy", "cpu", None, split(3)])
def test_a_place_is_told_by_an_array(place, outputs):
    with pytest.raises(TypeError, match=r"Fitted\.to: like must be an array, got"):
        MSP().fit(outputs).to(place)


def test_a_fit_shows_its_recipe_and_arrays(outputs):
    shown = repr(KNN(k=3).fit(outputs))
    assert "KNN(k=3" in shown
    assert "bank(50, 32)" in shown
    assert "no state" in repr(MSP().fit(outputs))


def test_classes_in_another_order_than_in_fitting_are_refused(outputs):
    def named(*classes):
        return replaced(outputs, classes=classes)

    fitted = MSP().fit(named("a", "b", "c", "d"))
    expected = fitted.known(outputs)  # without names
    assert_array_equal(fitted.known(named("a", "b", "c", "d")), expected)
    rule = "MSP.score: classes of outputs .* got 'c' for class 1, which is 'b' there"
    for use in (fitted.known, fitted.score, fitted.to(outputs.logits).known):
        with pytest.raises(ValueError, match=rule):
            use(named("a", "c", "b", "d"))
