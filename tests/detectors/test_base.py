"""`Detector`: what fitting refuses, how a class is registered, what it returns."""

import warnings
from dataclasses import FrozenInstanceError, dataclass
from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from openset import Outputs
from openset.detectors import (
    ASH,
    KNN,
    NCI,
    Detector,
    Mahalanobis,
    ReAct,
    ViM,
    make,
)
from openset.detectors.constraints import COUNT, POSITIVE, option
from openset.outputs import replaced
from openset.testing import example_outputs as split
from tests.extras import torch

OUTPUTS = split(50)


@pytest.mark.parametrize(
    ("detector", "array", "where"),
    [
        (KNN(k=3), "features", ", first in row 0"),
        (KNN(k=3, bank=45), "features", ", first in row [0-5]"),
        (Mahalanobis(), "features", ", first in row 0"),
        (ReAct(), "weight", ""),
    ],
)
def test_nan_in_a_memory_map_is_found_in_fitting(detector, array, where, tmp_path):
    folder = OUTPUTS.save(tmp_path / "train")
    values = np.array(getattr(OUTPUTS, array))
    values[:10, 2] = np.nan  # more rows than a bank of 45 leaves out
    np.save(folder / f"{array}.npy", values)
    with pytest.raises(ValueError, match=f"{array} must be free of NaN.*{where}$"):
        detector.fit(Outputs.load(folder))


@pytest.mark.parametrize(
    "name", ["fdbd", "osnn", "knn", "nnguide", "mahalanobis", "vim", "nci", "pisvm"]
)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_an_infinite_training_feature_is_named_in_fitting(name):
    features = np.array(OUTPUTS.features)
    features[3, 2] = np.inf
    recipe = KNN(k=5) if name == "knn" else make(name)
    with pytest.raises(ValueError, match=r"\.fit: features must be finite.* row 3\."):
        recipe.fit(replaced(OUTPUTS, features=features))


class _Plain(Detector):
    """Returns whatever it is told to; not registered."""

    def __init__(self, result=None, state=None):
        object.__setattr__(self, "result", result)
        object.__setattr__(self, "made", {} if state is None else state)

    def fit_state(self, train):
        return self.made

    def score_batch(self, state, batch):
        return self.result(batch)


@pytest.mark.parametrize(
    ("result", "got"),
    [
        (lambda batch: batch.top_logit[:-1], r"shape \(\d+,\)"),
        (lambda batch: batch.top_logit[:, None], r"shape \(\d+, 1\)"),
        (lambda batch: batch.logits, r"shape \(\d+, 4\)"),
        (lambda batch: 1.0, r"float of shape \(\)"),
        (lambda batch: list(batch.top_logit), r"list of shape \(\)"),
    ],
)
def test_scores_are_one_number_per_sample(result, got):
    fitted = _Plain(result=result).fit(OUTPUTS)
    rule = f"result of score_batch must be an array of one number .*, got .*{got}"
    for use in (fitted.known, fitted.score):
        with pytest.raises(ValueError, match=rule):
            use(OUTPUTS)


def test_parameters_that_saving_would_lose_are_refused(tmp_path):
    fitted = _Plain(result=lambda batch: batch.top_logit).fit(OUTPUTS)
    assert fitted.known(OUTPUTS).shape == (len(OUTPUTS),)  # of use all the same
    with pytest.raises(TypeError, match=r"fields of a dataclass.* got result, stat"):
        fitted.save(tmp_path / "plain.npz")
    assert not (tmp_path / "plain.npz").exists()


@pytest.mark.parametrize("detector", [ViM(dim=4), ReAct(), NCI()])
def test_a_last_layer_that_does_not_fit_the_logits_is_warned_of(detector):
    rng = np.random.default_rng(0)
    features = np.abs(rng.normal(size=(90, 12)))
    weight, bias = rng.normal(size=(3, 12)), rng.normal(size=3)
    logits = features @ weight.T + bias
    arrays = {"features": features, "labels": np.arange(90) % 3}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        halves = logits.astype(np.float16)
        # One scale, one shift for each sample, and rounding are fine.
        for same in (logits, 3 * logits, logits - features[:, :1], halves):
            detector.fit(Outputs(logits=same, **arrays, weight=weight, bias=bias))
    unit = weight / np.linalg.norm(weight, axis=1, keepdims=True)
    swapped = weight[[1, 0, 2]], bias[[1, 0, 2]]
    for wrong in ((-weight, -bias), swapped, (weight, 0 * bias), (unit, bias)):
        head = dict(zip(("weight", "bias"), wrong, strict=True))
        with pytest.warns(UserWarning, match=r"fit: features, weight and bias do not"):
            detector.fit(Outputs(logits=logits, **arrays, **head))


@pytest.mark.parametrize("asarray", [np.asarray, torch.asarray])
def test_a_fit_keeps_its_own_copy_of_the_head(asarray):
    outputs = split(8)
    features, weight, bias = (
        asarray(np.array(a)) for a in (outputs.features, outputs.weight, outputs.bias)
    )
    mine = Outputs(features=features, labels=outputs.labels, weight=weight, bias=bias)
    fitted = ASH().fit(mine)
    before = fitted.score(mine).known
    weight[:] = 0
    assert_array_equal(fitted.score(mine).known, before)


def test_a_state_is_named_arrays_in_the_dtype_of_the_training_outputs():
    made = {"means": np.ones(2), "classes": [1, 2], "one": 1.0}
    fitted = _Plain(state=made).fit(split(50, dtype=np.float32))
    assert {n: a.tolist() for n, a in fitted.state.items()} == {
        "means": [1, 1],
        "classes": [1, 2],
        "one": 1,
    }
    dtypes = [str(array.dtype) for array in fitted.state.values()]
    assert dtypes == ["float32", "int64", "float32"]
    assert fitted.prepared(np.ones(1), np.float64)["means"].dtype == np.float64


@pytest.mark.parametrize(
    "decorate",
    [
        lambda kind: kind,
        dataclass(frozen=True, kw_only=True),
        dataclass(frozen=True, kw_only=True, slots=True),
    ],
)
def test_a_subclass_is_a_frozen_dataclass_with_a_decorator_or_without(decorate):
    @decorate
    class Times(Detector, register=False):
        constraints: ClassVar = {"power": COUNT}
        power: int = 1
        factor: float = option(2.0, POSITIVE)

        def score_batch(self, state, batch):
            return self.factor * batch.top_logit**self.power

    one = Times(factor=3.0)
    assert one.params() == {"power": 1, "factor": 3.0}
    assert (one, hash(one)) == (Times(factor=3.0), hash(Times(factor=3.0)))
    for wrong in ({"factor": 0}, {"power": 0}):
        with pytest.raises(ValueError, match=f"Times: {next(iter(wrong))} must be"):
            Times(**wrong)
    with pytest.raises(FrozenInstanceError):
        one.factor = 1.0
