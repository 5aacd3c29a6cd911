"""A trained network is used again: in the process that trained it, and in another."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

from openset import Rejector, Scores, detectors
from openset._types import ArtefactError
from openset.datasets import cut
from openset.integrations.torch import OpenSetModule
from openset.train import Odin, Trained, extract, fit, recipe
from openset.train.augment import Pipeline
from tests.train.tiny import (
    fit_tiny,
    image_data,
    last_unknown,
    rows_data,
    rows_network,
)


def inputs_of(data):
    """Return the inputs of the test part, in the order of its outputs."""
    return cut(data, last_unknown(data)).test.inputs


def assert_same(found, expected):
    for name in ("logits", "features", "weight", "bias"):
        ours, theirs = getattr(found, name), getattr(expected, name)
        assert (ours is None) == (theirs is None), name
        if ours is not None:
            assert_array_equal(ours, theirs, name)
    assert found.classes == expected.classes


def test_the_model_goes_on_to_extraction_and_rejection(tmp_path):
    data = image_data(side=20)
    fit_tiny(data, network="osrci", side=16, epochs=2, out=tmp_path)
    loaded = Trained.load(tmp_path)
    model = loaded.model()
    images = torch.from_numpy(inputs_of(data).transpose(0, 3, 1, 2).copy())
    test = loaded.outputs["test"]
    assert_array_equal(model(images).numpy(), test.logits)
    again = extract(model, [images], head="learner.network.head", progress=False)
    assert_array_equal(again.features, test.features)
    known = loaded.outputs["validation"]
    surrogate = test.take(test.labels == -1)
    fitted = detectors.make("maxlogit").fit(loaded.outputs["train"])
    rejector = Rejector.calibrate(fitted, known=known, surrogate=surrogate)
    result = OpenSetModule(model, rejector)(images)
    assert_array_equal(result.classes.numpy(), rejector.predict(test))
    assert not model.training
    assert not any(p.requires_grad for p in model.parameters())


@pytest.mark.parametrize("is_image", [True, False])
def test_odins_step_moves_pixels_and_rows(is_image):
    std = (0.5, 1.0, 2.0) if is_image else (1.0,)
    data = image_data(side=32) if is_image else rows_data()
    pixels = Pipeline(std=std, mean=(0.5, 0.5, 0.5)) if is_image else Pipeline()
    short = replace(recipe("torchosr"), pipeline=pixels, epochs=1, batch=8)
    about = {"data": data, "protocol": last_unknown(data), "recipe": short}
    about["network"] = "osrci" if is_image else "mlp"
    trained = fit(method="softmax", accelerator="cpu", progress=False, **about)
    model, inputs = trained.model(), inputs_of(data)
    start = model.prepared(trained.opened().prepare(inputs)).requires_grad_()
    (model(start) / 2).log_softmax(dim=1).amax(dim=1).sum().backward()
    scale = torch.tensor(std).reshape(-1, 1, 1) if is_image else 1
    expected = model(start.detach() + 0.1 * start.grad.sign() / scale)
    found = trained.apply(inputs, step=Odin(temperature=2, epsilon=0.1))
    assert_allclose(found.logits, expected, atol=1e-5)
    assert np.abs(found.logits - trained.outputs["test"].logits).max() > 1e-4


def test_a_model_of_ones_own_must_be_brought_again(tmp_path):
    data = rows_data()

    def own():
        return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))

    trained = fit_tiny(data, network=own(), out=tmp_path)
    loaded = Trained.load(tmp_path)
    with pytest.raises(ValueError, match=r"network must be a model like .*Sequential"):
        loaded.apply(inputs_of(data))
    found = loaded.apply(inputs_of(data), network=own())
    assert_same(found, trained.outputs["test"])
    wrong = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    with pytest.raises(ArtefactError, match="must be weights that fit the network"):
        loaded.model(wrong)


OF_ROWS = {
    r"rows of 4 numbers, as in training.*\(2, 3\)": np.zeros((2, 3)),
    "logits must be free of NaN, got NaN in 2": np.full((2, 4), np.inf),
    "could not convert string": [["a", "b"]],
    "inputs must be at least one": np.zeros((0, 4)),
}
OF_IMAGES = {
    r"of 16 × 16, as in training, got shape \(2, 20, 20\)": np.zeros((2, 20, 20), "u1"),
    "^Trained.apply: data must be images as uint8, .*float64": np.zeros((2, 16, 16)),
    "^Trained.apply: data must be images as uint8, .*U1": "a folder",
    "Read image files with": ["a.png"],
    "has no len": 5,
}


@pytest.mark.parametrize("kind", ["rows", "images"])
def test_inputs_of_another_kind_are_refused(kind):
    trained = fit_tiny(epochs=1)
    if kind == "images":
        trained = fit_tiny(image_data(), network="osrci", epochs=1)
    for message, inputs in (OF_IMAGES if kind == "images" else OF_ROWS).items():
        with pytest.raises((ValueError, TypeError), match=message):
            trained.apply(inputs)


def test_a_run_comes_back_from_its_folder(tmp_path):
    trained = fit_tiny(out=tmp_path / "run")
    back = Trained.load(tmp_path / "run")
    assert back.spec == trained.spec
    assert back.log == trained.log
    assert back.learner is None
    for part, outputs in trained.outputs.items():
        assert_same(back.outputs[part], outputs)
        assert_array_equal(back.outputs[part].groups, outputs.groups)
    for rule, scores in trained.scores.items():
        assert_array_equal(back.scores[rule].known, scores.known)
    assert back.evaluate() == trained.evaluate()
    assert repr(back) == repr(trained)


DIFFERING = {
    "seed": {"seed": 1},
    "method": {"method": "ceplus"},
    "recipe": {"lr": 0.2},
    "options": {"options": {"smoothing": 0.1}},
    "protocol, samples": {"validation": 0.2},
    "network": {"network": rows_network(3)},
    "samples": {"data": rows_data(64)},
}


def test_another_run_does_not_get_into_the_folder(tmp_path):
    fit_tiny(out=tmp_path, epochs=1)
    for named, change in DIFFERING.items():
        said = rf"out must be .*differs in {named}.*\. "
        with pytest.raises(ValueError, match=said):
            fit_tiny(**({"out": tmp_path, "epochs": 1} | change))


def test_scores_of_a_name_have_the_scale_of_the_detector(tmp_path):
    trained = fit_tiny(epochs=1, out=tmp_path)
    train, test = trained.outputs["train"], trained.outputs["test"]
    for name in ("msp", "maxlogit"):
        ours = Scores.load(tmp_path / "scores" / f"{name}.npz").known
        theirs = detectors.make(name).fit(train).score(test).known
        assert_array_equal(ours, theirs, name)
