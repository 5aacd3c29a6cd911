"""Rejectors as ONNX graphs, run by onnxruntime."""

import json
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from openset import ArtefactError, Outputs, Rejector, detectors
from openset.detectors._registry import REGISTRY
from openset.detectors.combined import knots_of
from openset.detectors.layered import with_weights
from openset.integrations.onnx import OPSET, export, exportable
from openset.integrations.torch import OpenSetModule
from openset.outputs import replaced
from openset.rejector import SetRule
from openset.testing import example_outputs as split
from openset.testing._example import N_CLASSES, WIDTH
from tests.unit.integrations.rejectors import altered, assert_same_knownness

RECIPES = {
    **{name: detectors.make(name) for name in exportable()},
    "knn": detectors.KNN(k=5),
    "knn, a bank of 50": detectors.KNN(k=3, bank=50),
    "msp, T = 2": detectors.MSP(temperature=2.0),
    "energy, T = 3": detectors.Energy(temperature=3.0),
    "gen, top 2": detectors.GEN(top=2),
    "gen, top 1": detectors.GEN(top=1),
    "gen, gamma = 1": detectors.GEN(gamma=1.0),
    "postmax, l1": detectors.PostMax(norm="l1"),
    "postmax, none": detectors.PostMax(norm="none"),
    "scale, 50 %": detectors.SCALE(percentile=50),
    "scale, relu": detectors.SCALE(relu=True),
    "ash, prune": detectors.ASH(variant="p", percentile=65),
    "ash, binarise": detectors.ASH(variant="b", percentile=65),
    "ash, relu": detectors.ASH(relu=True),
    "vra, clip": detectors.VRA(below="clip", per_feature=True),
    "lts, 50 %": detectors.LTS(percentile=50),
    "vim, 5": detectors.ViM(dim=5),
    "mahalanobis++": detectors.Mahalanobis(normalize=True),
    "rmds, unit": detectors.RMDS(normalize=True),
    "gradnorm, T = 3": detectors.GradNorm(temperature=3.0),
    "relation, squared": detectors.Relation(power=2.0, cut=0.1),
    "fdbd, zero": detectors.FDBD(origin="zero"),
    "nci, 0.1": detectors.NCI(alpha=0.1),
    "nno, tau": detectors.NNO(tau=3.0),
    "combined": detectors.Combined(parts=["msp", "knn", "postmax"]),
    "combined, logits": detectors.Combined(parts=["energy", ["gen", {"top": 2}]]),
    "openmax, all": detectors.OpenMax(alpha=4),
    "openmax, cosine": detectors.OpenMax(distance="cosine", translate=None),
    "openmax, euclidean": detectors.OpenMax(distance="euclidean", translate=1.0),
}


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # others would wait for work, busily
    options.log_severity_level = 3  # that the threshold is an input is meant
    return onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"]
    )


def calibrated(recipe, *, dtype=np.float32, **options):
    train = split(160, seed=1, dtype=dtype)
    if recipe.recipes:
        parts = [one.fit(train) for one in recipe.recipes]
        held_out = split(80, seed=5, dtype=dtype)
        reference = [one.known(held_out) for one in parts]
        fitted = detectors.combine(parts, reference=reference)
    else:
        fitted = recipe.fit(train)
    return Rejector.calibrate(
        fitted,
        known=split(80, seed=2, dtype=np.float32),
        surrogate=split(40, seed=3, unknown=1.0, dtype=np.float32),
        **options,
    )


@pytest.fixture(scope="module")
def test():
    return split(60, seed=4, unknown=0.4, dtype=np.float32)


def feeds(running, outputs):
    arrays = {"logits": outputs.logits, "features": outputs.features}
    wanted = {entry.name for entry in running.get_inputs()}
    return {name: a for name, a in arrays.items() if name in wanted}


def run(path, outputs, **more):
    running = session(path)
    classes, known = running.run(
        ["class", "knownness"], {**feeds(running, outputs), **more}
    )
    assert (classes.dtype, known.dtype) == (np.int64, np.float32)
    return classes, known


def agree(rejector, path, outputs):
    """Check knownness to 1e-5, and the decision wherever that can tell."""
    classes, known = run(path, outputs)
    wanted = rejector.known(outputs)
    assert_same_knownness(known, wanted)
    limit = rejector.threshold.of(np.argmax(outputs.logits, axis=1))
    with np.errstate(invalid="ignore"):
        is_clear = ~(np.abs(wanted - limit) <= 2e-5 * np.maximum(1, np.abs(limit)))
    assert is_clear.mean() > 0.9
    assert_array_equal(classes[is_clear], rejector.predict(outputs)[is_clear])
    return classes


def test_every_detector_of_the_registry_is_exportable():
    assert set(REGISTRY.built_in()) <= set(exportable())


@pytest.mark.parametrize("name", RECIPES)
def test_the_graph_says_what_the_rejector_says(name, test, tmp_path):
    rejector = calibrated(RECIPES[name])
    path = export(rejector, tmp_path / "rejector.onnx")
    classes = agree(rejector, path, test)
    assert {-1, 0, 1, 2, 3} == set(classes.tolist())
    # The batch axis is dynamic: one sample at a time gives the same.
    assert_array_equal(run(path, test.take([59]))[0], classes[59:])


@pytest.mark.parametrize("name", ["mahalanobis", "knn"])
def test_the_graph_of_a_detector_over_layers_takes_them_side_by_side(name, tmp_path):
    layers = [("conv1", 2), ("conv2", WIDTH - 2)]

    def of_layers(*sizes, **options):
        return replaced(
            split(*sizes, **options, dtype=np.float32), layers=tuple(layers)
        )

    recipe = detectors.ByLayer(detector=(name, {"k": 5} if name == "knn" else {}))
    fitted = recipe.fit(of_layers(160, seed=1))
    rejector = Rejector.calibrate(
        with_weights(fitted, [0.5, 2.0]),
        known=of_layers(80, seed=2),
        surrogate=of_layers(40, seed=3, unknown=1.0),
    )
    path = export(rejector, tmp_path / "rejector.onnx")
    agree(rejector, path, of_layers(60, seed=4, unknown=0.4))
    with pytest.raises(ValueError, match="model must be left out for a detector over"):
        export(rejector, path, nn.Linear(3, 3), example=torch.ones(1, 3))


def test_a_detector_without_a_graph_is_named(tmp_path):
    layers = (("gram:conv1", WIDTH),)
    outputs = replaced(split(80, seed=2, dtype=np.float32), layers=layers)
    fitted = detectors.GramBounds().fit(outputs)
    rejector = Rejector.calibrate(
        fitted,
        known=replaced(split(80, seed=3), layers=layers),
        objective="at_tpr",
        tpr=0.9,
    )
    with pytest.raises(ValueError, match=r"detector must be one of .*, got gram"):
        export(rejector, tmp_path / "rejector.onnx")


def test_the_graph_gives_the_sets_of_the_rejector(tmp_path):
    rng = np.random.default_rng(0)
    logits, new = rng.normal(size=(2, 400, 9)).astype(np.float32)
    new[0] = 0.5  # equal probabilities: the lower class comes first
    labels = rng.permuted(np.argsort(-logits, axis=1)[:, :3], axis=1)[:, 0]
    made = Rejector.calibrate(
        detectors.Energy().fit(None),
        known=Outputs(logits=logits, labels=labels),
        objective="at_tpr",
        tpr=0.8,
    )
    rule = SetRule.calibrate(logits, labels)
    rejector = replace(made, sets=rule)
    path = export(rejector, tmp_path / "rejector.onnx")
    running = session(path)
    classes, found = running.run(["class", "set"], {"logits": new})
    expected = rejector.decide(Outputs(logits=new))
    assert_array_equal(classes, expected.labels)
    assert_array_equal(found, expected.sets)
    assert found.dtype == np.bool_
    sizes = found.sum(axis=1)
    assert sizes.min() == 0
    assert np.unique(sizes).size >= 4
    facts = running.get_modelmeta().custom_metadata_map
    assert SetRule.from_dict(json.loads(facts["openset.sets"])) == rule
    # One sample at a time; and NaN is in no set.
    assert_array_equal(running.run(["set"], {"logits": new[:1]})[0], found[:1])
    assert not running.run(["set"], {"logits": np.float32([[np.nan] * 9])})[0].any()


def test_what_choose_stacked_is_exported(test, tmp_path):
    train, known = split(160, seed=1), split(80, seed=2, dtype=np.float32)
    parts = [detectors.make(name).fit(train) for name in ("maxlogit", "knn", "rmds")]
    knots = [knots_of(part.known(known)) for part in parts]
    fitted = detectors.combine(
        parts, knots=np.stack(knots), weights=[0.5, 0.2, 0.3], method="stacking"
    )
    surrogate = split(40, seed=3, unknown=1.0, dtype=np.float32)
    rejector = Rejector.calibrate(fitted, known=known, surrogate=surrogate)
    path = export(rejector, tmp_path / "rejector.onnx")
    agree(rejector, path, test)
    # Beyond all knots on either side, and exactly on them.
    for factor in (0, 1000):
        far = Outputs(logits=test.logits * factor, features=test.features * factor)
        assert_allclose(run(path, far)[1], rejector.known(far), atol=1e-5)
    nan = replaced(
        Outputs(logits=test.logits, features=test.features),
        features=np.full_like(test.features, np.nan),
    )
    classes, known = run(path, nan)
    assert np.isnan(known).all()
    assert set(classes) == {-1}


@pytest.mark.parametrize("name", exportable())
def test_a_detector_fitted_in_float64_is_exported_in_float32(name, test, tmp_path):
    rejector = calibrated(RECIPES[name], dtype=np.float64)
    agree(rejector, export(rejector, tmp_path / "rejector.onnx"), test)


@pytest.mark.parametrize(
    "name",
    ["msp", "maxlogit", "energy", "gen", "postmax", "entropy", "klm", "gradnorm",
     "relation", "temperature", "lts"],
)  # fmt: skip
def test_large_logits_neither_overflow_nor_underflow(name, test, tmp_path):
    rejector = calibrated(RECIPES[name])
    path = export(rejector, tmp_path / "rejector.onnx")
    large = Outputs(logits=test.logits * np.float32(100), features=test.features)
    known = run(path, large)[1]
    assert np.isfinite(known).all()
    assert_allclose(known, rejector.known(large), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["react", "ash", "dice", "vra"])
def test_large_features_do_not_overflow(name, test, tmp_path):
    rejector = calibrated(RECIPES[name])
    path = export(rejector, tmp_path / "rejector.onnx")
    # Where the product of features and weights is large, and of both signs.
    signs = np.where(np.arange(WIDTH) % 2, 40, -40).astype(np.float32)
    large = Outputs(logits=test.logits, features=np.abs(test.features) * signs)
    if name == "ash":
        large = replaced(large, features=np.abs(large.features))
    known = run(path, large)[1]
    assert np.isfinite(known).all()
    assert_allclose(known, rejector.known(large), rtol=1e-5, atol=1e-5)


def test_a_feature_at_the_lower_bound_of_vra_is_kept(tmp_path):
    rejector = calibrated(detectors.VRA())
    low = np.float32(rejector.fitted.state["low"])
    at_bound = Outputs(
        logits=np.zeros((2, N_CLASSES), np.float32),
        features=np.repeat([low, np.nextafter(low, -1)], WIDTH).reshape(2, WIDTH),
    )
    path = export(rejector, tmp_path / "rejector.onnx")
    known = rejector.known(at_bound)
    assert abs(known[0] - known[1]) > 0.1
    assert_allclose(run(path, at_bound)[1], known, rtol=1e-5)


def test_a_class_without_a_pattern_is_unknown_in_the_graph_of_she(test, tmp_path):
    train = split(160, seed=1, dtype=np.float32)
    rejector = Rejector.calibrate(
        detectors.SHE().fit(train.take(train.labels != 3)),
        known=split(80, seed=2, dtype=np.float32),
        surrogate=split(40, seed=3, unknown=1.0, dtype=np.float32),
    )
    known = run(export(rejector, tmp_path / "rejector.onnx"), test)[1]
    assert np.isneginf(known).any()
    assert_allclose(known, rejector.known(test), rtol=1e-5)


def test_ties_and_zero_features_are_treated_alike(tmp_path):
    zeros = Outputs(
        logits=np.float32([[2, 2, 0, 0], [0, 0, 0, 0], [2, 1, 0, 0]]),
        features=np.float32(np.outer([0, 0, 1e-3], np.arange(WIDTH))),  # a short one
    )
    for name in exportable():
        rejector = calibrated(RECIPES[name])
        path = export(rejector, tmp_path / f"{name}.onnx")
        assert_allclose(
            run(path, zeros)[1], rejector.known(zeros), rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("name", exportable())
def test_a_sample_with_nan_is_unknown_and_harms_no_other(name, test, tmp_path):
    path = export(calibrated(RECIPES[name]), tmp_path / "rejector.onnx")
    classes, known = run(path, test)
    logits, features = np.array(test.logits), np.array(test.features)
    logits[-1, 1] = features[-1, 1] = np.nan
    broken = replaced(test, logits=logits, features=features)
    with_nan = run(path, broken)
    assert with_nan[0][-1] == -1
    assert np.isnan(with_nan[1][-1])
    assert_array_equal(with_nan[0][:-1], classes[:-1])
    assert_array_equal(with_nan[1][:-1], known[:-1])


@pytest.mark.parametrize("name", exportable())
def test_a_sample_without_a_class_is_unknown_and_harms_no_other(name, test, tmp_path):
    """Two logits of +inf, or none above -inf: as in Python, it is invalid."""
    path = export(calibrated(RECIPES[name]), tmp_path / "rejector.onnx")
    classes, known = run(path, test)
    logits = np.array(test.logits)
    logits[-1, :2], logits[0] = np.inf, -np.inf
    found = run(path, replaced(test, logits=logits))
    assert found[0][[0, -1]].tolist() == [-1, -1]
    assert np.isnan(found[1][[0, -1]]).all()
    assert_array_equal(found[0][1:-1], classes[1:-1])
    assert_array_equal(found[1][1:-1], known[1:-1])


@pytest.mark.parametrize("name", exportable())
def test_samples_far_out_are_decided_as_in_python_and_harm_no_other(
    name, test, tmp_path
):
    """Masked classes, a logit of +inf, and numbers whose squares are no float32."""
    rejector = calibrated(RECIPES[name])
    logits, features = np.array(test.logits[:5]), np.array(test.features[:5])
    logits[0, 0], logits[1, 0], logits[2, 1:] = np.inf, -np.inf, -np.inf
    logits[3] *= np.float32(1e8)
    features[4] *= np.float32(1e25)
    far = Outputs(logits=logits, features=features)
    with np.errstate(all="ignore"):
        decided = rejector.decide(far, invalid="reject")
        alone = [rejector.decide(far.take([i]), invalid="reject") for i in range(5)]
    assert decided.is_invalid.tolist() == [one.n_invalid == 1 for one in alone]
    assert decided.labels.tolist() == [int(one.labels[0]) for one in alone]
    path = export(rejector, tmp_path / "rejector.onnx")
    assert run(path, far)[0].tolist() == decided.labels.tolist()


@pytest.mark.parametrize("name", ["scale", "ash"])
def test_what_raises_in_python_is_unknown_in_the_graph(name, test, tmp_path):
    rejector = calibrated(RECIPES[name])
    path = export(rejector, tmp_path / "rejector.onnx")
    negative = Outputs(logits=test.logits, features=-np.array(test.features) - 1)
    with pytest.raises(ValueError, match="non-negative"):
        rejector.known(negative)
    classes, known = run(path, negative)
    assert np.isnan(known).all()
    assert_array_equal(classes, -1)


def test_the_threshold_is_an_input_with_the_calibrated_default(test, tmp_path):
    rejector = calibrated(detectors.MaxLogit())
    path = export(rejector, tmp_path / "rejector.onnx")
    known = rejector.known(test)
    for value in (-np.inf, np.median(known), np.inf):
        classes, _ = run(path, test, threshold=np.float32([value]))
        assert_array_equal(classes >= 0, known >= value)
    [entry] = session(path).get_overridable_initializers()
    assert (entry.name, entry.shape) == ("threshold", [1])


def test_a_threshold_between_two_float32_numbers_is_rounded_up(test, tmp_path):
    rejector = calibrated(detectors.MaxLogit())
    score = np.float32(rejector.known(test)[-1])
    for value in (score, np.nextafter(np.float64(score), np.inf)):
        moved = altered(rejector, value=float(value))
        path = export(moved, tmp_path / "rejector.onnx")
        assert_array_equal(run(path, test)[0], moved.predict(test))


def test_thresholds_per_class_are_exported(test, tmp_path):
    limits = (-np.inf, np.inf, 1.0)  # the last class has none: the common one
    rejector = altered(calibrated(detectors.MSP()), per_class=limits)
    path = export(rejector, tmp_path / "rejector.onnx")
    classes, _ = run(path, test)
    assert_array_equal(classes, rejector.predict(test))
    assert 1 not in classes


@pytest.mark.parametrize("n_classes", [1, 2])
def test_one_or_two_classes_alone(n_classes, tmp_path):
    known = Outputs(
        logits=np.float32([[1.0, 0.5], [-2.0, -3.0]])[:, :n_classes],
        features=np.float32([[1.0, 2.0], [3.0, 1.0]]),
        weight=np.float32([[1.0, 0.0], [0.5, 1.0]])[:n_classes],
        bias=np.zeros(n_classes, np.float32),
        labels=[0, 0],
    )
    for name in ("msp", "gen", "energy", "entropy", "temperature", "pnml"):
        fitted = detectors.make(name).fit(known)
        rejector = Rejector.calibrate(fitted, known=known, objective="at_tpr", tpr=1.0)
        path = export(rejector, tmp_path / "rejector.onnx")
        assert_allclose(run(path, known)[1], rejector.known(known), rtol=1e-6)


def test_the_file_states_its_birth_and_operator_set(tmp_path):
    rejector = calibrated(detectors.KNN(k=5))
    model = onnx.load(export(rejector, tmp_path / "deep" / "rejector.onnx"))
    assert [entry.version for entry in model.opset_import] == [OPSET]
    facts = {entry.key: entry.value for entry in model.metadata_props}
    assert json.loads(facts["openset.detector"])["params"]["k"] == 5
    assert json.loads(facts["openset.threshold"])["method"] == "osa"
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["rejector.onnx"]


def network():
    outputs = split(4)
    model = nn.Sequential(
        nn.Linear(6, WIDTH), nn.ReLU(), nn.Linear(WIDTH, N_CLASSES)
    ).eval()
    with torch.no_grad():
        model[2].weight.copy_(torch.tensor(outputs.weight))
        model[2].bias.copy_(torch.tensor(outputs.bias))
    return model


def outputs_of(model, inputs):
    with torch.no_grad():
        features = model[:2](inputs)
        return Outputs(logits=model[2](features).numpy(), features=features.numpy())


@pytest.mark.parametrize("name", ["msp", "knn"])
def test_a_torch_module_is_exported_with_its_rejector(name, tmp_path):
    torch.manual_seed(0)
    model, inputs = network().train(), torch.randn(20, 6) * 3
    rejector = calibrated(RECIPES[name])
    path = export(rejector, tmp_path / "net.onnx", model, example=inputs[:2])
    assert model.training
    running = session(path)
    [name] = [entry.name for entry in running.get_inputs()]
    for rows in (slice(0, 20), slice(0, 1)):
        batch = inputs[rows]
        outputs = outputs_of(model, batch)
        logits, classes, known = running.run(None, {name: batch.numpy()})
        assert_allclose(logits, outputs.logits, atol=1e-5)
        assert_allclose(known, rejector.known(outputs), rtol=1e-4, atol=1e-5)
        assert_array_equal(classes, rejector.predict(outputs))


def onnx_network(opset, *, gemm=True, softmax=False, names=("logits",)):
    """Write x -> relu(x A) -> logits by hand, in an operator set."""
    rng = np.random.default_rng(0)
    outputs = split(4, dtype=np.float32)
    arrays = {
        "A": rng.normal(size=(6, WIDTH)).astype(np.float32),
        "W": np.array(outputs.weight.T),
        "b": np.array(outputs.bias),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "A"], ["h"]),
        helper.make_node("Relu", ["h"], ["f"]),
    ]
    if gemm:
        nodes.append(helper.make_node("Gemm", ["f", "W", "b"], ["z"]))
    else:
        nodes.append(helper.make_node("MatMul", ["f", "W"], ["m"]))
        nodes.append(helper.make_node("Add", ["b", "m"], ["z"]))
    nodes.append(
        helper.make_node("Softmax" if softmax else "Identity", ["z"], names[:1])
    )
    nodes.extend(helper.make_node("Identity", ["h"], [name]) for name in names[1:])
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 6])],
        [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", None])
            for n in names
        ],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    return model, arrays


@pytest.mark.parametrize("opset", [13, 18, 20])
@pytest.mark.parametrize("gemm", [True, False])
def test_an_onnx_file_gets_two_more_outputs(opset, gemm, tmp_path):
    model, arrays = onnx_network(opset, gemm=gemm)
    onnx.save(model, tmp_path / "network.onnx")
    rejector = calibrated(detectors.Mahalanobis())
    path = export(rejector, tmp_path / "both.onnx", tmp_path / "network.onnx")
    x = np.random.default_rng(1).normal(size=(9, 6)).astype(np.float32)
    features = np.maximum(x @ arrays["A"], 0)
    outputs = Outputs(logits=features @ arrays["W"] + arrays["b"], features=features)
    logits, classes, known = session(path).run(None, {"x": x})
    assert_allclose(logits, outputs.logits, rtol=1e-5)
    assert_allclose(known, rejector.known(outputs), rtol=1e-4)
    assert_array_equal(classes, rejector.predict(outputs))
    assert onnx.load(path).opset_import[0].version == max(opset, OPSET)


def test_tensors_of_a_network_are_found_or_named(tmp_path):
    rejector = calibrated(detectors.Mahalanobis())
    model, _ = onnx_network(18, names=("a", "b2"))
    with pytest.raises(ValueError, match=r"logits must be the name of .*\(a, b2\)"):
        export(rejector, tmp_path / "x.onnx", model)
    with pytest.raises(ValueError, match=r"logits must be the name of .* got 'c'"):
        export(rejector, tmp_path / "x.onnx", model, logits="c")
    with pytest.raises(ValueError, match=r"features must be the name of .* got 'c'"):
        export(rejector, tmp_path / "x.onnx", model, logits="a", features="c")
    export(rejector, tmp_path / "x.onnx", model, logits="a")
    x = np.ones((2, 6), dtype=np.float32)
    found = session(tmp_path / "x.onnx").run(["knownness"], {"x": x})
    export(rejector, tmp_path / "x.onnx", model, logits="z", features="f")
    named = session(tmp_path / "x.onnx").run(["knownness"], {"x": x})
    assert_array_equal(found, named)


@pytest.mark.parametrize("recipe", [detectors.MSP(), detectors.KNN(k=5)])
def test_a_network_that_ends_in_a_softmax_is_refused_or_cut(recipe, tmp_path):
    model, arrays = onnx_network(18, softmax=True)
    rejector, path = calibrated(recipe), tmp_path / "x.onnx"
    with pytest.raises(ValueError, match=r"got 'logits', the Softmax of 'z'"):
        export(rejector, path, model)
    assert list(tmp_path.iterdir()) == []
    export(rejector, path, model, logits="z")
    x = np.random.default_rng(1).normal(size=(9, 6)).astype(np.float32)
    features = np.maximum(x @ arrays["A"], 0)
    outputs = Outputs(logits=features @ arrays["W"] + arrays["b"], features=features)
    [classes] = session(path).run(["class"], {"x": x})
    assert_array_equal(classes, rejector.predict(outputs))


def test_a_network_with_our_names_is_refused(tmp_path):
    rejector = calibrated(detectors.MSP())
    model, _ = onnx_network(18, names=("logits", "class"))
    with pytest.raises(ValueError, match=r"free of tensors named class, .* got class"):
        export(rejector, tmp_path / "x.onnx", model)
    model, _ = onnx_network(18)
    model.graph.initializer.append(numpy_helper.from_array(np.ones(1), "threshold"))
    with pytest.raises(ValueError, match=r"free of tensors .* got threshold"):
        export(rejector, tmp_path / "x.onnx", model)


def test_nodes_of_a_network_may_have_any_name(tmp_path):
    model, _ = onnx_network(18)
    model.graph.node[0].name = "class"
    export(calibrated(detectors.MSP()), tmp_path / "x.onnx", model)
    x = np.ones((2, 6), dtype=np.float32)
    assert session(tmp_path / "x.onnx").run(["class"], {"x": x})[0].shape == (2,)


def test_a_network_of_an_old_format_is_raised(tmp_path):
    model, arrays = onnx_network(8)
    model.ir_version = 3  # where constants are inputs too
    model.graph.input.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape)
        for name, array in arrays.items()
    )
    path = export(calibrated(detectors.KNN(k=5)), tmp_path / "x.onnx", model)
    x = np.ones((2, 6), dtype=np.float32)
    assert session(path).run(["class"], {"x": x})[0].shape == (2,)


def test_logits_of_three_axes_are_refused(tmp_path):
    model, _ = onnx_network(18)
    model.graph.initializer.append(numpy_helper.from_array(np.array([1]), "one"))
    model.graph.node.append(helper.make_node("Unsqueeze", ["logits", "one"], ["deep"]))
    with pytest.raises(ValueError, match=r"'deep' must be of shape \(n, d\), got 3"):
        export(calibrated(detectors.MSP()), tmp_path / "x.onnx", model, logits="deep")


def test_bad_requests_are_named(tmp_path):
    rejector = calibrated(detectors.MSP())
    path = tmp_path / "x.onnx"
    with pytest.raises(FileNotFoundError, match="no such file"):
        export(rejector, path, tmp_path / "missing.onnx")
    (tmp_path / "damaged.onnx").write_bytes(b"not a model at all")
    with pytest.raises(ArtefactError, match="damaged or not an ONNX model"):
        export(rejector, path, tmp_path / "damaged.onnx")
    with pytest.raises(TypeError, match="an ONNX file or a torch module, got int"):
        export(rejector, path, 3)
    with pytest.raises(ValueError, match="example must be an input of the module"):
        export(rejector, path, network())
    with pytest.raises(TypeError, match=r"example must be a tensor.*got ndarray"):
        export(rejector, path, network(), example=np.ones((2, 6)))
    for name in ("example", "logits", "features"):
        with pytest.raises(ValueError, match=f"{name} must be left out without a mod"):
            export(rejector, path, **{name: "z"})
    with pytest.raises(ValueError, match="features must be the name of"):
        export(rejector, path, onnx_network(18)[0], features="c")
    with pytest.raises(TypeError, match="rejector must be a Rejector, got Fitted"):
        export(rejector.fitted, path)
    wrapped = OpenSetModule(network(), rejector, head="2")
    with pytest.raises(TypeError, match="model must be the plain network"):
        export(rejector, path, wrapped, example=torch.ones(2, 6))
    fitted = detectors.Fitted(
        detector=detectors.KNN(k=2, backend="faiss"), state={}, widths={}
    )
    other = altered(rejector, fitted=fitted)
    with pytest.raises(ValueError, match="backend must be 'matmul'"):
        export(other, path)
    head = split(4).take([0])
    alone = detectors.SCALE().fit(
        Outputs(logits=head.logits, weight=head.weight, bias=head.bias)
    )
    other = altered(rejector, fitted=alone)
    with pytest.raises(ValueError, match="fitted on outputs with features"):
        export(other, path)
    assert not path.exists()


def test_a_detector_that_has_no_graph_is_refused_with_the_list(tmp_path):
    class Odd(detectors.Detector):
        name = "odd"
        score_needs = ("logits",)

        def _score(self, state, batch):
            return batch.top_logit

    rejector = calibrated(detectors.MSP())
    fitted = detectors.Fitted(detector=Odd(), state={})
    other = altered(rejector, fitted=fitted)
    with pytest.raises(
        ValueError, match=r"detector must be one of ash, .* got odd\. Give Odd a method"
    ):
        export(other, tmp_path / "x.onnx")


@pytest.mark.parametrize(
    ("width", "classes"), [(WIDTH, N_CLASSES + 1), (WIDTH + 1, N_CLASSES)]
)
def test_a_network_the_rejector_does_not_fit_is_refused(width, classes, tmp_path):
    model = nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, classes))
    what = "n_features" if classes == N_CLASSES else "n_classes"
    rejector = calibrated(RECIPES["knn"])
    with pytest.raises(ValueError, match=f"{what} of the model must be"):
        export(rejector, tmp_path / "net.onnx", model, example=torch.randn(2, 6))
    assert not (tmp_path / "net.onnx").exists()
