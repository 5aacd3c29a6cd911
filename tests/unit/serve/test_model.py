"""A model before the rejector: inputs in, decisions out."""

import io

import numpy as np
import pytest
from starlette.testclient import TestClient

from openset import ArtefactError, Outputs, Rejector, detectors, serve
from openset.datasets import cut
from openset.integrations.onnx import export
from openset.serve._onnx_model import outputs_by_name
from openset.serve._responses import Decider
from openset.train import Trained
from tests.train.tiny import fit_tiny, image_data, last_unknown, rows_data
from tests.unit.serve.conftest import split
from tests.unit.serve.live import serving

onnx = pytest.importorskip("onnx", reason="the extra onnx")
pytest.importorskip("onnxruntime", reason="the extra onnx")

WEIGHT = np.random.default_rng(5).normal(size=(4, 5)).astype(np.float32)
HEAD = np.eye(5, 3, dtype=np.float32) * 2


def network(path, *, names=("logits", "features"), kind=None, width=4, gives=None):
    """Write x -> x @ WEIGHT (features) -> @ HEAD (logits)."""
    helper = onnx.helper
    kind = onnx.TensorProto.FLOAT if kind is None else kind
    logits, features = names

    def value(name, size):
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", size])

    nodes = [
        helper.make_node("Cast", ["x"], ["real"], to=onnx.TensorProto.FLOAT),
        helper.make_node("MatMul", ["real", "weight"], [features]),
        helper.make_node("MatMul", [features, "head"], [logits]),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", kind, ["n", width])],
        [
            v
            for v in (value(logits, 3), value(features, 5))
            if v.name in (gives or names)
        ],
        [
            onnx.numpy_helper.from_array(WEIGHT, "weight"),
            onnx.numpy_helper.from_array(HEAD, "head"),
        ],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    return path


@pytest.fixture(params=[("logits", "features"), ("y", "z")], ids=["named", "ordered"])
def model(request, tmp_path):
    return network(tmp_path / "model.onnx", names=request.param)


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_inputs_go_through_the_model(rejector, model):
    client = TestClient(serve.app(rejector, model=model))
    x = np.random.default_rng(1).normal(size=(40, 4)).astype(np.float32)
    features = x @ WEIGHT
    scores = rejector.score(Outputs(logits=features @ HEAD, features=features))
    by_json = client.post("/predict", json={"inputs": x.tolist()})
    by_npy = client.post(
        "/predict", content=npy(x), headers={"Content-Type": "application/x-npy"}
    )
    for answer in (by_json, by_npy):
        assert answer.status_code == 200, answer.text
        assert np.allclose(answer.json()["known"], scores.known, atol=1e-4)
        assert answer.json()["predicted"] == scores.predicted.tolist()
    about = client.get("/rejector").json()
    assert about["arrays"] == about["needs"] == ["inputs"]
    schema = client.get("/openapi.json").json()["paths"]["/predict"]["post"]
    content = schema["requestBody"]["content"]["application/json"]
    example = content["examples"]["two samples"]["value"]
    assert np.shape(example["inputs"]) == (2, 4)
    assert client.post("/predict", json=example).status_code == 200


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (
            [[1.0, 2.0]],
            r"inputs must be of shape (any, 4), not empty, got shape (1, 2)",
        ),
        ([1.0, 2.0, 3.0, 4.0], "got shape (4,)"),
        ([[float("nan")] * 4], "inputs must be free of NaN"),
        ([[1e300] * 4], "free of NaN"),  # beyond the model's 32 bits, and inf - inf
    ],
)
def test_bad_inputs_are_refused(rejector, tmp_path, inputs, words):
    model = network(tmp_path / "model.onnx")
    client = TestClient(serve.app(rejector, model=model))
    answer = client.post(
        "/predict",
        content=npy(np.array(inputs)),
        headers={"Content-Type": "application/x-npy"},
    )
    assert answer.status_code == 422
    assert words in answer.json()["detail"]


def test_logits_are_not_asked_for_when_a_model_makes_them(rejector, tmp_path):
    model = network(tmp_path / "model.onnx")
    client = TestClient(serve.app(rejector, model=model))
    answer = client.post("/predict", json={"logits": [[1, 2, 3]]})
    assert answer.status_code == 422
    assert "a key must be one of inputs, threshold" in answer.json()["detail"]


def test_a_model_of_integers_wants_integers(rejector, tmp_path):
    path = network(tmp_path / "model.onnx", kind=onnx.TensorProto.INT64)
    client = TestClient(serve.app(rejector, model=path))
    assert client.post("/predict", json={"inputs": [[1, 2, 3, 4]]}).status_code == 200
    answer = client.post("/predict", json={"inputs": [[1, 2, 3, 4.5]]})
    assert answer.status_code == 422
    assert "inputs must be integers (int64)" in answer.json()["detail"]


@pytest.mark.parametrize("value", [256, -1, 2**40])
def test_values_the_networks_type_does_not_have_are_refused(rejector, tmp_path, value):
    """They would wrap: 256 to 0, and -1 to 255."""
    path = network(tmp_path / "model.onnx", kind=onnx.TensorProto.UINT8)
    client = TestClient(serve.app(rejector, model=path))
    assert client.post("/predict", json={"inputs": [[0, 9, 9, 255]]}).is_success
    answers = (
        client.post("/predict", json={"inputs": [[1, 2, 3, value]]}),
        client.post(
            "/predict",
            content=npy(np.array([[1, 2, 3, value]])),
            headers={"Content-Type": "application/x-npy"},
        ),
    )
    for answer in answers:
        assert answer.status_code == 422
        found = answer.json()["detail"]
        assert "inputs must be from 0 to 255 (uint8), got values from" in found
        assert str(value) in found


def in_json(client):
    schema = client.get("/openapi.json").json()["paths"]["/predict"]["post"]
    return schema["requestBody"]["content"]["application/json"]


@pytest.mark.parametrize("kind", ["UINT8", "INT64", "FLOAT"])
def test_the_example_of_the_schema_is_answered(rejector, tmp_path, kind):
    kind = getattr(onnx.TensorProto, kind)
    path = network(tmp_path / "model.onnx", kind=kind)
    client = TestClient(serve.app(rejector, model=path))
    for example in in_json(client)["examples"].values():
        assert client.post("/predict", json=example["value"]).status_code == 200


def test_without_a_known_size_there_is_no_example(rejector, tmp_path):
    path = network(tmp_path / "model.onnx", width="any")  # takes four, says any
    found = in_json(TestClient(serve.app(rejector, model=path)))
    assert "examples" not in found
    assert found["schema"]["properties"]["inputs"]["items"]["type"] == "array"


def test_a_network_that_cannot_run_is_refused_at_once(by_logits, tmp_path):
    """It makes seven samples of any number: only a run finds out."""
    helper, real = onnx.helper, onnx.TensorProto.FLOAT
    shape = onnx.numpy_helper.from_array(np.array([7, 3]), "shape")
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["logits"])],
        "network",
        [helper.make_tensor_value_info("x", real, ["n", 4])],
        [helper.make_tensor_value_info("logits", real, [7, 3])],
        [shape],
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=9)
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(ValueError, match=r"must be able to run a batch of its own"):
        serve.app(by_logits, model=tmp_path / "model.onnx")


@pytest.mark.parametrize("names", [("logits", "features"), ("y", "z")])
def test_what_export_wrote_is_served(by_logits, tmp_path, names):
    plain = network(tmp_path / "model.onnx", names=names, gives=names[:1])
    both = export(by_logits, tmp_path / "both.onnx", plain)
    x = np.random.default_rng(1).normal(size=(40, 4)).astype(np.float32)
    client = TestClient(serve.app(by_logits, model=both))
    answer = client.post("/predict", json={"inputs": x.tolist()})
    assert answer.status_code == 200, answer.text
    expected = by_logits.predict(Outputs(logits=x @ WEIGHT @ HEAD))
    assert answer.json()["decisions"] == expected.tolist()


def test_an_exported_rejector_without_a_network_is_refused(
    by_logits, rejector, tmp_path
):
    for one in (by_logits, rejector):  # one takes logits, one features as well
        alone = export(one, tmp_path / "alone.onnx")
        with pytest.raises(ArtefactError, match=r"exported without a network\. Serve"):
            serve.app(one, model=alone)


def test_what_the_model_cannot_run_is_the_clients_error(rejector, tmp_path):
    """The graph says five columns, its matrix has four rows: only a run finds out."""
    path = network(tmp_path / "model.onnx", width="any")
    client = TestClient(serve.app(rejector, model=path))
    answer = client.post("/predict", json={"inputs": [[1.0, 2.0]]})
    assert answer.status_code == 422
    assert "the model cannot run these inputs" in answer.json()["detail"]


def test_files_that_are_no_model_are_refused(rejector, tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        serve.app(rejector, model=tmp_path / "no.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    with pytest.raises(
        ArtefactError, match="model must be an ONNX model that onnxruntime"
    ):
        serve.app(rejector, model=tmp_path / "bad.onnx")
    text = network(tmp_path / "text.onnx", kind=onnx.TensorProto.BFLOAT16)
    with pytest.raises(ArtefactError, match="model"):
        serve.app(rejector, model=text)


def test_outputs_are_found_by_name_else_by_order():
    assert outputs_by_name(["features", "extra", "logits"]) == {
        "logits": "logits",
        "features": "features",
    }
    assert outputs_by_name(["logits", "z"]) == {"logits": "logits"}
    assert outputs_by_name(["y"]) == {"logits": "y"}
    assert outputs_by_name(["y", "z", "rest"]) == {"logits": "y", "features": "z"}


@pytest.mark.parametrize("kind", ["images", "images brought to size", "rows"])
def test_a_training_run_is_a_model(kind, tmp_path):
    data = rows_data() if kind == "rows" else image_data(48, side=20)
    options = {"network": "mlp" if kind == "rows" else "osrci"}
    if kind == "images brought to size":
        options["side"] = 16
    fit_tiny(data, epochs=2, out=tmp_path / "run", **options)
    trained = Trained.load(tmp_path / "run")
    test = trained.outputs["test"]
    rejector = Rejector.calibrate(
        detectors.make("energy").fit(trained.outputs["train"]),
        known=trained.outputs["validation"],
        surrogate=test.take(test.labels == -1),
        accept_risk=True,  # two epochs teach next to nothing
    )
    client = TestClient(serve.app(rejector, model=tmp_path / "run"))
    shapes = {
        "images": [None, 3, 20, 20],
        "images brought to size": [None, 3, None, None],
        "rows": [None, 4],
    }
    assert client.get("/rejector").json()["shape"] == shapes[kind]
    inputs = cut(data, last_unknown(data)).test.inputs
    if kind != "rows":
        inputs = inputs.transpose(0, 3, 1, 2)
    stream = io.BytesIO()
    np.save(stream, np.ascontiguousarray(inputs))
    sent = {"content": stream.getvalue()}
    header = {"Content-Type": "application/x-npy"}
    answer = client.post("/predict", headers=header, **sent)
    assert answer.status_code == 200, answer.text
    assert answer.json()["decisions"] == rejector.predict(test).tolist()
    wrong = client.post("/predict", json={"inputs": [[0.5, 1.0]]})
    assert wrong.status_code == 422
    assert "of shape (any, " in wrong.json()["detail"]


def test_a_folder_without_a_run_is_refused(rejector, tmp_path):
    with pytest.raises(FileNotFoundError, match="must be the folder of a finished run"):
        serve.app(rejector, model=tmp_path)


def test_a_network_the_rejector_does_not_fit_is_refused_at_once(tmp_path):
    known = Outputs(logits=np.eye(4) * 5, labels=[0, 1, 2, 3])
    rejector = Rejector.calibrate(
        detectors.MSP().fit(known), known=known, objective="at_tpr"
    )
    path = network(tmp_path / "model.onnx")
    with pytest.raises(ValueError, match="n_classes of model must be 4"):
        serve.app(rejector, model=path)


@pytest.mark.parametrize("width", [4, "any"])
def test_features_are_found_where_a_file_gives_logits_alone(tmp_path, width):
    """As `openset export` finds them: the input of the last linear layer."""
    rejector = Rejector.calibrate(
        detectors.KNN(k=3).fit(split(1, 60, unknown=0)), known=split(2, 60, unknown=0.3)
    )
    path = network(tmp_path / "model.onnx", gives=["logits"], width=width)
    exported = export(rejector, tmp_path / "exported.onnx", path)
    x = np.random.default_rng(1).normal(size=(40, 4)).astype(np.float32)
    expected = rejector.predict(Outputs(logits=x @ WEIGHT @ HEAD, features=x @ WEIGHT))
    for file in (path, exported):
        client = TestClient(serve.app(rejector, model=file))
        answer = client.post("/predict", json={"inputs": x.tolist()})
        assert answer.status_code == 200, answer.text
        assert answer.json()["decisions"] == expected.tolist()


@pytest.mark.parametrize("width", [4, "any"])
def test_a_network_without_what_the_detector_needs_is_refused_at_once(tmp_path, width):
    known = split(2, 60, unknown=0.3)
    fitted = detectors.KNN(k=3).fit(split(1, 60, unknown=0))
    rejector = Rejector.calibrate(fitted, known=known)
    path = tmp_path / "model.onnx"
    # The class is the argmax of the logits, so features alone do not do.
    with pytest.raises(
        ValueError,
        match=r"must be a network with the outputs logits and features, which knn "
        r"needs, got one with features\. Export it with outputs called logits and feat",
    ):
        serve.app(rejector, model=network(path, gives=["features"], width=width))
    serve.app(rejector, model=network(path, width=width))


def test_features_alone_do_for_a_detector_that_names_the_class(tmp_path):
    known = split(2, 60, unknown=0.3)
    train = split(1, 60, unknown=0)
    path = network(tmp_path / "model.onnx", gives=["features"])
    rejector = Rejector.calibrate(detectors.OSNN().fit(train), known=known)
    client = TestClient(serve.app(rejector, model=path))
    assert client.post("/predict", json={"inputs": [[1, 2, 3, 4]]}).status_code == 200
    # Of several, the first names the class: here by its logits.
    parts = [detectors.KNN(k=3).fit(train), detectors.OSNN().fit(train)]
    both = detectors.combine(parts, reference=[one.known(known) for one in parts])
    rejector = Rejector.calibrate(both, known=known)
    assert Decider(rejector, None).needs == ("logits", "features")
    with pytest.raises(
        ValueError, match="a network with the outputs logits and features"
    ):
        serve.app(rejector, model=path)


def test_the_command_says_what_the_network_lacks(folder, tmp_path):
    path = network(tmp_path / "model.onnx", gives=["features"])
    with (
        pytest.raises(RuntimeError, match="which postmax") as caught,
        serving(folder, "--model", path),
    ):
        pass
    assert "Traceback" not in str(caught.value)
