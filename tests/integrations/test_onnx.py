"""Rejectors as ONNX graphs, run by onnxruntime.

Every detector of the registry is exported and compared in `tests/contract`. An export
takes seconds: what odd samples do is tested on a few, one for each piece of code that
detectors share.
"""

import json
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from array_api_compat import array_namespace
from numpy.testing import assert_allclose, assert_array_equal
from onnx import helper, numpy_helper
from scipy.special import softmax
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MinMaxScaler,
    Normalizer,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.svm import SVC
from tests.integrations.rejectors import assert_same_knownness
from torch import nn

from openset import ArtefactError, Outputs, Rejector, detectors
from openset.integrations.onnx import OPSET, export
from openset.integrations.sklearn import OpenSetClassifier
from openset.testing import example_outputs as split

RECIPES = {
    "msp": detectors.MSP(temperature=2.0),  # logarithms of what underflows
    "gen": detectors.GEN(top=2),  # the largest of a row; samples it refuses
    "temperature": detectors.Temperature(),  # a number in the state
    "openmax": detectors.OpenMax(alpha=4),  # a loop over ranks, in float64
    "scale": detectors.SCALE(percentile=50),  # shapes features, and refuses some
    "rmds": detectors.RMDS(normalize=True),  # moments
    "wsvm": detectors.WSVM(),  # log(1 + x), exp(x) - 1, log(exp(a) + exp(b))
    "combined": detectors.Combined(parts=["msp", "knn", "postmax"]),  # ranks
}
everyone = pytest.mark.parametrize("name", RECIPES)
WIDTH, N_CLASSES = split(1).features.shape[1], split(1).logits.shape[1]


def of(n, **options):
    return split(n, dtype=np.float32, **options)


TEST = of(60, seed=4, unknown=0.4)


@cache
def calibrated(name):
    recipe, train = RECIPES[name], of(160, seed=1)
    if not recipe.recipes:
        return rejector_of(recipe.fit(train))
    parts = [one.fit(train) for one in recipe.recipes]
    reference = [one.known(of(80, seed=5)) for one in parts]
    return rejector_of(detectors.combine(parts, reference=reference))


def rejector_of(fitted):
    surrogate = of(40, seed=3, unknown=1.0)
    return Rejector.calibrate(fitted, known=of(80, seed=2), surrogate=surrogate)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Return the session of a recipe; each is exported once."""
    folder = tmp_path_factory.mktemp("onnx")
    return cache(lambda name: session(export(calibrated(name), folder / name)))


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # others would wait for work, busily
    options.log_severity_level = 3  # that the threshold is an input is meant
    cpu = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(path, options, providers=cpu)


def run(running, outputs, **more):
    wanted = {entry.name for entry in running.get_inputs()} & {"logits", "features"}
    feeds = {name: getattr(outputs, name) for name in wanted}
    classes, known = running.run(["class", "knownness"], feeds | more)
    assert (classes.dtype, known.dtype) == (np.int64, np.float32)
    return classes, known


@everyone
def test_the_graph_says_what_the_rejector_says(name, exported):
    rejector = calibrated(name)
    classes, known = run(exported(name), TEST)
    assert_same_knownness(known, rejector.known(TEST))
    assert_array_equal(classes, rejector.predict(TEST))
    assert {-1, 0, 1, 2, 3} == set(classes.tolist())
    # The batch axis is dynamic: one sample at a time gives the same.
    assert_array_equal(run(exported(name), TEST.take([59]))[0], classes[59:])


@everyone
def test_an_invalid_sample_is_unknown_and_harms_no_other(name, exported):
    """With NaN; with two logits of +inf, or none above -inf: as in Python."""
    classes, known = run(exported(name), TEST)
    logits, features = np.array(TEST.logits), np.array(TEST.features)
    logits[0, 1] = features[0, 1] = np.nan
    logits[1, :2], logits[2] = np.inf, -np.inf
    spoilt = Outputs(logits=logits, features=features, invalid="keep")
    found = run(exported(name), spoilt)
    assert found[0][:3].tolist() == [-1, -1, -1]
    assert np.isnan(found[1][:3]).all()
    assert_array_equal(found[0][3:], classes[3:])
    assert_array_equal(found[1][3:], known[3:])


@everyone
def test_samples_far_out_are_decided_as_in_python(name, exported):
    """Masked classes, +inf, negative features, and squares that are no float32."""
    rejector = calibrated(name)
    logits, features = np.array(TEST.logits[:6]), np.array(TEST.features[:6])
    logits[0, 0], logits[1, 0], logits[2, 1:] = np.inf, -np.inf, -np.inf
    logits[3] *= np.float32(1e8)
    features[4] *= np.float32(1e25)
    features[5] = -1 - features[5]
    far = Outputs(logits=logits, features=features)
    with np.errstate(all="ignore"):
        decided = rejector.decide(far, invalid="reject")
    classes, known = run(exported(name), far)
    assert classes.tolist() == decided.labels.tolist()
    assert np.isnan(known).tolist() == decided.is_invalid.tolist()


def test_the_threshold_is_an_input_with_the_calibrated_default(exported, tmp_path):
    running, rejector = exported("msp"), calibrated("msp")
    for value in (-np.inf, 0.0, 3.0, np.inf):
        classes, _ = run(running, TEST, threshold=np.float32([value]))
        assert_array_equal(classes, rejector.decide(TEST, threshold=value).labels)
    # Just above the score of a sample, by less than float32 can tell: it is rejected.
    exact = rejector_of(detectors.MaxLogit().fit())
    value = float(exact.known(TEST)[7]) * (1 + 1e-9)
    above = replace(exact, threshold=replace(exact.threshold, value=value))
    path = export(above, tmp_path / "rejector.onnx")
    assert above.predict(TEST)[7] == -1
    assert_array_equal(run(session(path), TEST)[0], above.predict(TEST))


@dataclass(frozen=True, kw_only=True)
class Tiny(detectors.Detector, register=False):
    """The definitions of these functions lose all digits of small numbers."""

    def score_batch(self, state, batch):
        """Use both of them."""
        xp, x = array_namespace(batch.logits), batch.logits
        return xp.log1p(x[:, 0]) - xp.expm1(-x[:, 1])


def test_small_numbers_keep_their_digits(tmp_path):
    logits = np.float32([[1e-12, 3e-12], [3e-9, 1e-12], [2e-3, 0.7], [5.0, 8.0]])
    known = Outputs(logits=logits, labels=[1, 0, 1, 1])
    fitted = Tiny().fit(known)
    rejector = Rejector.calibrate(fitted, known=known, objective="at_tpr", tpr=1.0)
    running = session(export(rejector, tmp_path / "rejector.onnx"))
    assert_allclose(run(running, known)[1], rejector.known(known), rtol=1e-5)


@pytest.mark.parametrize(("name", "n_classes"), [("gen", 2), ("pnml", 1)])
def test_one_or_two_classes_alone(name, n_classes, tmp_path):
    known = Outputs(
        logits=np.float32([[1.0, 0.5], [-2.0, -3.0]])[:, :n_classes],
        features=np.float32([[1.0, 2.0], [3.0, 1.0]]),
        weight=np.float32([[1.0, 0.0], [0.5, 1.0]])[:n_classes],
        bias=np.zeros(n_classes, np.float32),
        labels=[0, 0],
    )
    fitted = detectors.make(name).fit(known)
    rejector = Rejector.calibrate(fitted, known=known, objective="at_tpr", tpr=1.0)
    path = export(rejector, tmp_path / "rejector.onnx")
    found = run(session(path), known)[1]
    assert_allclose(found, rejector.known(known), rtol=1e-6)


def network():
    outputs = split(4)
    layers = nn.Linear(6, WIDTH), nn.ReLU(), nn.Linear(WIDTH, N_CLASSES)
    with torch.no_grad():
        layers[2].weight.copy_(torch.tensor(outputs.weight))
        layers[2].bias.copy_(torch.tensor(outputs.bias))
    return nn.Sequential(*layers)


def test_a_torch_module_is_exported_with_its_rejector(tmp_path):
    torch.manual_seed(0)
    model, inputs = network(), torch.randn(20, 6) * 3
    rejector = calibrated("rmds")
    # One sample is enough as an example.
    path = export(rejector, tmp_path / "net.onnx", model, example=inputs[:1])
    assert model.training
    assert b".py" not in path.read_bytes()  # no paths of this machine
    running = session(path)
    with torch.no_grad():
        features = model[:2](inputs)
        outputs = Outputs(logits=model[2](features).numpy(), features=features.numpy())
    entry = running.get_inputs()[0].name
    for rows in (slice(0, 20), slice(0, 1)):
        feeds = {entry: inputs[rows].numpy()}
        logits, classes, known = running.run(None, feeds)
        assert_allclose(logits, outputs.logits[rows], atol=1e-5)
        assert_allclose(known, rejector.known(outputs)[rows], rtol=1e-4, atol=1e-4)
        assert_array_equal(classes, rejector.predict(outputs)[rows])


def onnx_network(opset, *, gemm=True, softmax=False, names=("logits",), kind="f4"):
    """Write x -> relu(x A) -> logits by hand, in an operator set."""
    rng = np.random.default_rng(0)
    outputs = split(4)
    arrays = {"A": rng.normal(size=(6, WIDTH)), "W": outputs.weight.T}
    arrays |= {"b": outputs.bias}
    make = helper.make_node
    nodes = [make("MatMul", ["x", "A"], ["h"]), make("Relu", ["h"], ["f"])]
    if gemm:
        nodes.append(make("Gemm", ["f", "W", "b"], ["z"]))
    else:
        nodes.append(make("MatMul", ["f", "W"], ["m"]))
        nodes.append(make("Add", ["b", "m"], ["z"]))
    nodes.append(make("Softmax" if softmax else "Identity", ["z"], names[:1]))
    nodes.extend(make("Identity", ["h"], [name]) for name in names[1:])
    of_kind = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", of_kind, ["batch", 6])],
        [helper.make_tensor_value_info(n, of_kind, ["batch", None]) for n in names],
        [numpy_helper.from_array(a.astype(kind), n) for n, a in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    return model


@pytest.mark.parametrize(
    ("opset", "how"),
    [(8, {}), (13, {"gemm": False}), (20, {"softmax": True}), (18, {"kind": "f8"})],
)
def test_an_onnx_file_gets_two_more_outputs(opset, how, tmp_path):
    model, rejector = onnx_network(opset, **how), calibrated("rmds")
    arrays = {a.name: numpy_helper.to_array(a) for a in model.graph.initializer}
    if opset == 8:
        model.ir_version = 3  # where constants are inputs too
        for one in model.graph.initializer:
            entry = helper.make_tensor_value_info(one.name, one.data_type, one.dims)
            model.graph.input.append(entry)
    onnx.save(model, tmp_path / "network.onnx")
    path, cut = tmp_path / "both.onnx", "z" if "softmax" in how else None
    export(rejector, path, tmp_path / "network.onnx", logits=cut)
    x = np.random.default_rng(1).normal(size=(9, 6)).astype(arrays["A"].dtype)
    features = np.maximum(x @ arrays["A"], 0)
    logits = features @ arrays["W"] + arrays["b"]
    found, classes, known = session(path).run(None, {"x": x})
    assert_allclose(found, softmax(logits, 1) if cut else logits, rtol=1e-5)
    outputs = Outputs(logits=logits.astype("f4"), features=features.astype("f4"))
    assert_allclose(known, rejector.known(outputs), rtol=1e-4, atol=1e-4)
    assert_array_equal(classes, rejector.predict(outputs))
    assert {e.domain: e.version for e in onnx.load(path).opset_import}[""] >= OPSET
    facts = {one.key: one.value for one in onnx.load(path).metadata_props}
    assert json.loads(facts["openset.detector"])["params"]["normalize"]
    assert json.loads(facts["openset.threshold"])["method"] == "osa"


SCALED = make_pipeline(StandardScaler(), PCA(10), Normalizer(), LogisticRegression())
INSIDE = OpenSetClassifier(LogisticRegression(), detector="energy", cv=2)


@pytest.mark.parametrize(
    ("model", "n_classes"),
    [
        (make_pipeline(MinMaxScaler(), INSIDE), 8),
        (OpenSetClassifier(SCALED, cv=2), 8),
        (OpenSetClassifier(RidgeClassifier(), detector="msp", cv=2), 2),
    ],
    ids=["a pipeline that ends in it", "a pipeline in it", "two classes"],
)
def test_a_pipeline_of_scikit_learn_is_exported_as_a_whole(model, n_classes, tmp_path):
    pixels, y = load_digits(return_X_y=True)
    rows, y = pixels[:600] + 1000, np.where(y >= n_classes, -1, y)[:600]
    model.fit(rows[::2], y[::2])
    path = export(model, tmp_path / "pipeline.onnx")
    classes, known = session(path).run(["class", "knownness"], {"input": rows[1::2]})
    assert_array_equal(classes, model.predict(rows[1::2]))
    *before, last = [one for _, one in getattr(model, "steps", [("", model)])]
    inputs = before[0].transform(rows[1::2]) if before else rows[1::2]
    assert_allclose(known, last.knownness(inputs), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "estimator",
    [SVC(), make_pipeline(QuantileTransformer(n_quantiles=9), LogisticRegression())],
)
def test_what_is_not_linear_is_not_exported_as_if_it_were(estimator, tmp_path):
    pixels, y = load_digits(return_X_y=True)
    model = OpenSetClassifier(estimator, detector="msp", cv=2)
    model.fit(pixels[:300], y[:300])
    with pytest.raises(ValueError, match="must be a chain of linear steps, got "):
        export(model, tmp_path / "pipeline.onnx")


def wide(width, classes):
    return nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, classes))


TWO = ("a", "b2")
ERRORS = (ValueError, FileNotFoundError, onnx.checker.ValidationError)
REFUSED = [
    ("No such file", lambda: "missing.onnx", {}),
    ("example must be an input of the module", network, {}),
    (r"n_classes of the model must be", lambda: wide(WIDTH, 9), {"example": 1}),
    (r"n_features of the model must be", lambda: wide(9, N_CLASSES), {"example": 1}),
    (r"logits must be .*\(a, b2\)", lambda: onnx_network(18, names=TWO), {}),
    ("got 'c'", lambda: onnx_network(18, names=TWO), {"logits": "c"}),
    ("sorted.*\n.*input 'c'|input 'c'", lambda: onnx_network(18), {"features": "c"}),
    ("the Softmax of 'z'", lambda: onnx_network(18, softmax=True), {}),
    ("'class' has been used", lambda: onnx_network(18, names=("logits", "class")), {}),
]


@pytest.mark.parametrize(("words", "make", "options"), REFUSED)
def test_what_cannot_be_exported_is_refused(words, make, options, tmp_path):
    if "example" in options:
        options = {"example": torch.ones(2, 6)}
    model = make()
    if isinstance(model, onnx.ModelProto):
        onnx.save(model, tmp_path / "network.onnx")
        model = tmp_path / "network.onnx"
    with pytest.raises(ERRORS, match=words):
        export(calibrated("rmds"), tmp_path / "x.onnx", model, **options)
    assert not (tmp_path / "x.onnx").exists()


def test_a_rejector_that_cannot_be_exported_is_refused(tmp_path):
    path, rejector = tmp_path / "x.onnx", calibrated("msp")
    with pytest.raises(TypeError, match="rejector must be a Rejector, got Fitted"):
        export(rejector.fitted, path)
    (tmp_path / "damaged.onnx").write_bytes(b"not a model at all")
    with pytest.raises(ArtefactError, match="damaged or not an ONNX model"):
        export(rejector, path, tmp_path / "damaged.onnx")
    faiss = detectors.Fitted(detector=detectors.KNN(backend="faiss"), state={})
    with pytest.raises(ValueError, match="backend must be 'matmul'"):
        export(replace(rejector, fitted=faiss), path)
    head = split(4).take([0])
    alone = detectors.SCALE().fit(
        Outputs(logits=head.logits, weight=head.weight, bias=head.bias)
    )
    with pytest.raises(ValueError, match="fitted on outputs with features"):
        export(replace(rejector, fitted=alone), path)
    assert not path.exists()
