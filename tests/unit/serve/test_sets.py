"""Prediction sets in every answer of the server."""

import io

import numpy as np
import pytest
from starlette.testclient import TestClient

from openset import Outputs, Rejector, detectors, serve
from openset.integrations.onnx import export
from openset.serve._responses import Decider
from tests.unit.serve.conftest import split
from tests.unit.serve.test_model import HEAD, WEIGHT, network
from tests.unit.serve.test_predict import npz


def calibrated(detector):
    return Rejector.calibrate(
        detector.fit(split(1, 300, unknown=0)),
        known=split(2, 300, unknown=0.4),
        sets=0.98,
    )


@pytest.fixture(scope="module")
def client(with_sets):
    return TestClient(serve.app(with_sets))


@pytest.mark.parametrize("cut", [None, 1.0, "-inf", "inf"])
def test_answers_hold_the_sets_of_predict(client, with_sets, test_split, cut):
    logits = test_split.logits
    body = {"logits": logits.tolist(), "threshold": cut}
    found = client.post("/predict", json=body).json()
    accepted = np.array(found["decisions"]) != -1
    mask = with_sets.sets.contains(logits) & accepted[:, None]
    expected = [np.flatnonzero(row).tolist() for row in mask]
    assert found["sets"] == expected
    if cut is None:
        assert expected == with_sets.decide(Outputs(logits=logits)).set_classes
        assert {0, 1, 2} <= {len(one) for one in expected}
    query = {} if cut is None else {"threshold": cut}
    headers = {"Content-Type": "application/x-npz", "Accept": "application/x-npz"}
    content = npz(logits=logits)
    answer = client.post("/predict", content=content, headers=headers, params=query)
    with np.load(io.BytesIO(answer.content)) as arrays:
        np.testing.assert_array_equal(arrays["sets"], mask)


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
def test_triton_gets_sets(client, with_sets, test_split, binary):
    triton = pytest.importorskip("tritonclient.http", reason="a foreign client")
    logits = test_split.logits.astype(np.float32)
    one = triton.InferInput("logits", logits.shape, "FP32")
    one.set_data_from_numpy(logits)
    wanted = triton.InferRequestedOutput("set", binary_data=binary)
    side = triton.InferenceServerClient
    body, size = side.generate_request_body([one], outputs=[wanted])
    name = "Inference-Header-Content-Length"
    answer = client.post(
        "/v2/models/openset/infer", content=body, headers={name: str(size)}
    )
    length = answer.headers.get(name)
    found = side.parse_response_body(
        answer.content, header_length=None if length is None else int(length)
    ).as_numpy("set")
    np.testing.assert_array_equal(found, with_sets.decide(Outputs(logits=logits)).sets)
    about = client.get("/v2/models/openset").json()["outputs"]
    assert about[-1] == {"name": "set", "datatype": "BOOL", "shape": [-1, 3]}


def test_sets_are_described(client, with_sets):
    schema = client.get("/openapi.json").json()
    answer = schema["paths"]["/predict"]["post"]["responses"]["200"]
    described = answer["content"]["application/json"]
    found = client.post("/predict", json={"logits": [[1.0, 2.0, 3.0]]}).json()
    assert found.keys() == described["schema"]["properties"].keys()
    assert "sets" in described["schema"]["required"]
    assert described["example"]["sets"] == [[0], []]
    assert client.get("/rejector").json()["sets"] == str(with_sets.sets)


def test_a_rejector_without_sets_says_nothing_of_them(by_logits):
    client = TestClient(serve.app(by_logits))
    found = client.post("/predict", json={"logits": [[1.0, 2.0, 3.0]]}).json()
    assert "sets" not in found
    assert client.get("/rejector").json()["sets"] is None
    outputs = client.get("/v2/models/openset").json()["outputs"]
    assert "set" not in {one["name"] for one in outputs}
    assert "sets" not in client.get("/openapi.json").text


def test_sets_need_logits_even_if_the_detector_does_not():
    rejector = calibrated(detectors.OSNN())
    assert Decider(rejector, None).needs == ("logits", "features")
    client = TestClient(serve.app(rejector))
    answer = client.post("/predict", json={"features": [[1.0, 2.0, 3.0, 4.0, 5.0]]})
    assert answer.status_code == 422
    assert "from which prediction sets are made" in answer.json()["detail"]


def test_what_export_wrote_with_sets_is_served(tmp_path):
    rejector = calibrated(detectors.KNN(k=3))
    path = network(tmp_path / "model.onnx", gives=["logits"])
    exported = export(rejector, tmp_path / "exported.onnx", path)
    x = np.random.default_rng(1).normal(size=(40, 4)).astype(np.float32)
    outputs = Outputs(logits=x @ WEIGHT @ HEAD, features=x @ WEIGHT)
    client = TestClient(serve.app(rejector, model=exported))
    answer = client.post("/predict", json={"inputs": x.tolist()})
    assert answer.status_code == 200, answer.text
    assert answer.json()["sets"] == rejector.decide(outputs).set_classes
