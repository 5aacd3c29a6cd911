"""The Open Inference Protocol, with Triton's own client."""

import json
import struct
from itertools import product

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.serve.live import serving

from openset import Outputs, serve

URL = "/v2/models/openset/infer"
ROWS = [[9.0, 0.0, 0.0], [0.0, 0.1, 0.0]]


@pytest.fixture(scope="module")
def triton():
    return pytest.importorskip("tritonclient.http", reason="a foreign client")


@pytest.fixture(scope="module")
def client(triton, logits_folder):
    with serving(logits_folder, "--name", "pets") as live:
        yield triton.InferenceServerClient(f"127.0.0.1:{live.port}")


def test_triton_finds_the_server_and_the_model(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("pets")
    assert not client.is_model_ready("cars")
    assert client.get_server_metadata()["name"] == "openset"
    found = client.get_model_metadata("pets")
    first = {"name": "logits", "datatype": "FP32", "shape": [-1, 3]}
    assert found["inputs"] == [first]
    names = [one["name"] for one in found["outputs"]]
    assert names == ["decision", "name", "predicted", "known", "threshold"]
    version = found["versions"][0]
    assert client.is_model_ready("pets", version)
    assert not client.is_model_ready("pets", "2")


@pytest.mark.parametrize("how", [*product(["FP32", "FP64"], [True, False])])
def test_triton_gets_what_predict_says(triton, client, by_logits, test_split, how):
    kind, binary = how
    dtype = np.float32 if kind == "FP32" else np.float64
    logits = np.ascontiguousarray(test_split.logits, dtype)
    wanted = [
        triton.InferRequestedOutput(name, binary_data=binary)
        for name in ("decision", "name", "known")
    ]
    given = triton.InferInput("logits", logits.shape, kind)
    given.set_data_from_numpy(logits, binary_data=binary)
    answer = client.infer("pets", [given], outputs=wanted, request_id="me")
    decided = by_logits.decide(Outputs(logits=logits))
    assert (answer.as_numpy("decision") == decided.labels).all()
    assert (answer.as_numpy("known") == decided.known).all()
    names = [n.decode() if binary else n for n in answer.as_numpy("name")]
    assert names == [by_logits.name_of(label) for label in decided.labels]
    assert answer.get_response()["id"] == "me"


def test_triton_is_told_what_is_wrong(triton, client):
    wide = triton.InferInput("logits", (2, 4), "FP32")
    wide.set_data_from_numpy(np.zeros((2, 4), np.float32))
    with pytest.raises(triton.InferenceServerException, match="n_classes must be 3"):
        client.infer("pets", [wide])
    with pytest.raises(triton.InferenceServerException, match="no model 'cars'"):
        client.get_model_metadata("cars")


def test_sets_and_invalid_samples_are_tensors(with_sets):
    client = TestClient(serve.app(with_sets, invalid="reject"))
    rows = [*ROWS, [float("nan"), 0.0, 1.0]]
    one = {"name": "logits", "datatype": "FP64", "shape": [3, 3]}
    body = json.dumps({"inputs": [one | {"data": rows}]})
    found = client.post(URL, content=body).json()["outputs"]
    found = {one["name"]: one["data"] for one in found}
    outputs = Outputs(logits=rows, invalid="keep")
    decided = with_sets.decide(outputs, invalid="reject")
    assert found["set"] == decided.sets.ravel().tolist()
    assert found["invalid"] == [False, False, True]
    assert found["known"][2] is None


def document(**changes):
    one = {"name": "logits", "datatype": "FP32", "shape": [2, 3], "data": ROWS}
    return {"inputs": [one | changes]}


SIZE = {"binary_data_size": 24}
BAD = {
    "no inputs": {},
    "an empty list": {"inputs": []},
    "a list": [],
    "numbers as inputs": {"inputs": [1]},
    "another name": document(name="images"),
    "an input twice": {"inputs": document()["inputs"] * 2},
    "another type": document(datatype="BYTES"),
    "no type": document(datatype=None),
    "a negative shape": document(shape=[-1, 3]),
    "a text as a shape": document(shape="23"),
    "another shape": document(shape=[2, 4]),
    "a huge shape": document(shape=[2**39] * 8),
    "no numbers": document(data=None),
    "texts": document(data=["1"] * 6),
    "bytes that are not there": document(parameters=SIZE),
    "fewer than no bytes": document(parameters={"binary_data_size": -1}),
    "parameters of no kind": document(parameters=3),
    "another output": document() | {"outputs": [{"name": "x"}]},
    "outputs of no kind": document() | {"outputs": 3},
    "beyond its type": document(datatype="INT8", data=[300, 1, 2, 3, 4, 5]),
    "no integers": document(datatype="UINT8"),
    "a bad flag": document() | {"parameters": {"binary_data_output": "false"}},
    "a bad threshold": document() | {"parameters": {"threshold": "high"}},
}


@pytest.mark.parametrize("name", BAD)
def test_bad_requests_are_refused(by_logits, name):
    answer = TestClient(serve.app(by_logits)).post(URL, json=BAD[name])
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"].startswith("predict: ")


def test_bytes_left_over_and_false_lengths_are_refused(by_logits):
    client = TestClient(serve.app(by_logits))
    text = json.dumps(document(data=None, parameters=SIZE)).encode()
    numbers = struct.pack("<6f", *np.ravel(ROWS))

    def answer(content, length):
        headers = {"Inference-Header-Content-Length": length}
        return client.post(URL, content=content, headers=headers)

    assert answer(text + numbers, str(len(text))).status_code == 200
    assert "1 bytes more" in answer(text + numbers + b"x", str(len(text))).text
    for length in ("9999", "-1", "many", "9" * 99):
        assert answer(text + numbers, length).status_code == 400


def test_large_documents_are_limited_like_json(by_logits):
    rows = np.zeros((100_000, 3)).tolist()
    body = json.dumps(document(data=rows, shape=[100_000, 3]))
    client = TestClient(serve.app(by_logits))
    assert client.post(URL, content=body).status_code == 413
