"""The Open Inference Protocol, with Triton's own client."""

import json
import re
import struct
from pathlib import Path

import httpx
import numpy as np
import pytest
from starlette.testclient import TestClient

from openset import Outputs, serve
from tests.serve.live import serving
from tests.serve.test_images import picture, png

triton = pytest.importorskip("tritonclient.http", reason="a foreign client")

URL = "/v2/models/openset/infer"
ROWS = [[9.0, 0.0, 0.0], [0.0, 0.1, 0.0]]


@pytest.fixture(scope="module")
def pets(logits_folder):
    with serving(logits_folder, "--name", "pets") as live:
        yield live


@pytest.fixture(scope="module")
def client(pets):
    return triton.InferenceServerClient(f"127.0.0.1:{pets.port}")


def test_the_code_of_the_page_runs(
    pets, logits_folder, by_logits, test_split, tmp_path
):
    """Only the address, the name and the files are others; nothing is served twice."""
    page = Path(__file__).parents[3] / "docs" / "serving.md"
    code = page.read_text("utf-8").replace("localhost:8000", f"127.0.0.1:{pets.port}")
    post, call, function = re.findall(r"```python\n(.*?)```", code, re.DOTALL)
    path = test_split.save(tmp_path / "unseen.npz")
    names = {}
    exec(post.replace("demo-output/unseen.npz", str(path)), names)  # noqa: S102  # our own page
    assert names["answer"]["decisions"] == by_logits.predict(test_split).tolist()
    function = function.replace("rejector/", str(logits_folder))
    names = {"f": lambda batch: batch[:, :3], "batch": np.zeros((2, 4))}
    exec(function.replace("serve.run(application)", ""), names)  # noqa: S102
    answer = TestClient(names["application"]).post(
        "/predict", json={"inputs": [[9.0, 0.0, 0.0, 0.0]]}
    )
    assert answer.json()["decisions"] == [0]
    names = {}
    exec(call.replace('"openset"', '"pets"'), names)  # noqa: S102  # our own page
    assert names["answer"].as_numpy("decision").shape == (1,)


def tensor(array, kind="FP32", *, name="logits", binary=True):
    one = triton.InferInput(name, array.shape, kind)
    one.set_data_from_numpy(array, binary_data=binary)
    return one


def test_triton_finds_the_server_and_the_model(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("pets")
    assert not client.is_model_ready("cars")
    assert client.get_server_metadata()["name"] == "openset"
    found = client.get_model_metadata("pets")
    assert found["inputs"][0] == {
        "name": "logits", "datatype": "FP32", "shape": [-1, 3],
    }  # fmt: skip
    names = [one["name"] for one in found["outputs"]]
    assert names == ["decision", "name", "predicted", "known", "threshold"]
    version = found["versions"][0]
    assert client.is_model_ready("pets", version)
    assert not client.is_model_ready("pets", "2")
    with pytest.raises(triton.InferenceServerException, match="no model 'cars'"):
        client.get_model_metadata("cars")


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
@pytest.mark.parametrize("kind", ["FP32", "FP64"])
def test_triton_gets_what_predict_says(client, by_logits, test_split, binary, kind):
    dtype = np.float32 if kind == "FP32" else np.float64
    logits = np.ascontiguousarray(test_split.logits, dtype)
    wanted = [
        triton.InferRequestedOutput(name, binary_data=binary)
        for name in ("decision", "name", "known")
    ]
    answer = client.infer(
        "pets", [tensor(logits, kind, binary=binary)], outputs=wanted, request_id="me"
    )
    decided = by_logits.decide(Outputs(logits=logits))
    assert (answer.as_numpy("decision") == decided.labels).all()
    assert (answer.as_numpy("known") == decided.known).all()
    names = [n.decode() if binary else n for n in answer.as_numpy("name")]
    assert names == [by_logits.name_of(label) for label in decided.labels]
    assert answer.get_response()["id"] == "me"


def test_triton_may_bring_its_own_threshold(client):
    inputs = [tensor(np.array(ROWS, np.float32))]
    for cut, expected in (("-inf", [0, 1]), (1e9, [-1, -1])):
        answer = client.infer("pets", inputs, parameters={"threshold": cut})
        assert answer.as_numpy("decision").tolist() == expected
        assert answer.as_numpy("threshold").tolist() == [float(cut)] * 2


def test_triton_is_told_what_is_wrong(client):
    wide = tensor(np.zeros((2, 4), np.float32))
    with pytest.raises(triton.InferenceServerException, match="n_classes must be 3"):
        client.infer("pets", [wide])
    with pytest.raises(triton.InferenceServerException, match="got 'gzip'"):
        client.infer("pets", [wide], request_compression_algorithm="gzip")


def test_triton_sends_images(by_pixels):
    model, rejector = by_pixels
    application = serve.app(rejector, model=model)
    pictures = [picture(seed) for seed in range(3)]
    expected = rejector.predict(model.apply(pictures, progress=False)).tolist()
    one = triton.InferInput("images", [3], "BYTES")
    one.set_data_from_numpy(np.array([png(p) for p in pictures], dtype=object))
    body, size = triton.InferenceServerClient.generate_request_body([one])
    headers = {"Inference-Header-Content-Length": str(size)}
    answer = TestClient(application).post(URL, content=bytes(body), headers=headers)
    assert answer.status_code == 200, answer.text
    length = int(answer.headers["Inference-Header-Content-Length"])
    found = triton.InferenceServerClient.parse_response_body(
        answer.content, header_length=length
    )
    assert found.as_numpy("decision").tolist() == expected


def document(**changes):
    one = {"name": "logits", "datatype": "FP32", "shape": [2, 3], "data": ROWS}
    return {"inputs": [one | changes]}


BAD = {
    "no inputs": ({}, "a list of inputs"),
    "a list": ([], "a list of inputs"),
    "numbers as inputs": ({"inputs": [1]}, "a list of inputs"),
    "another name": (document(name="images"), "each of logits, features at most once"),
    "a list as a name": (document(name=[]), "each of logits, features at most once"),
    "another type": (document(datatype="BYTES"), "datatype of logits must be one of"),
    "no type": (document(datatype=None), "datatype of logits must be one of"),
    "a negative shape": (document(shape=[-1, 3]), "shape of logits must be"),
    "a text as a shape": (document(shape="23"), "shape of logits must be"),
    "another shape": (document(shape=[2, 4]), "as many numbers as its shape"),
    "a huge shape": (document(shape=[2**39] * 8), "as many numbers as its shape"),
    "no numbers": (document(data=None), "rows of numbers"),
    "bytes that are not there": (
        document(parameters={"binary_data_size": 24}),
        "binary_data_size of logits must be from 0 to the 0 bytes",
    ),
    "fewer than no bytes": (document(parameters={"binary_data_size": -1}), "from 0 to"),
    "parameters of no kind": (document(parameters=3), "parameters must be an object"),
    "another output": (document() | {"outputs": [{"name": "x"}]}, "outputs must be of"),
    "outputs of no kind": (document() | {"outputs": 3}, "outputs must be a list"),
    "a number beyond its type": (
        document(datatype="INT8", data=[300, 1, 2, 3, 4, 5]),
        "logits must be from -128 to 127 (INT8), got values from 1 to 300",
    ),
    "no integers": (document(datatype="UINT8"), "logits must be integers (UINT8)"),
    "a text as a flag": (
        document() | {"parameters": {"binary_data_output": "false"}},
        "binary_data_output must be true or false, got 'false'",
    ),
    "a bad threshold": (
        document() | {"parameters": {"threshold": "high"}},
        "got 'high'",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_requests_are_refused_in_words(by_logits, name):
    body, words = BAD[name]
    answer = TestClient(serve.app(by_logits)).post(URL, json=body)
    assert answer.status_code == 422, answer.text
    assert words in answer.json()["error"]


def test_bytes_left_over_and_false_lengths_are_refused(by_logits):
    client = TestClient(serve.app(by_logits))
    size = {"parameters": {"binary_data_size": 24}}
    text = json.dumps(document(data=None, **size)).encode()
    numbers = struct.pack("<6f", *np.ravel(ROWS))

    def answer(content, length):
        headers = {"Inference-Header-Content-Length": length}
        return client.post(URL, content=content, headers=headers)

    assert answer(text + numbers, str(len(text))).status_code == 200
    assert "1 bytes more" in answer(text + numbers + b"x", str(len(text))).text
    for length in ("9999", "-1", "many", "9" * 99):
        assert answer(text + numbers, length).status_code == 400


def test_half_a_surrogate_pair_comes_back_as_it_was_sent(by_logits):
    body = json.dumps(document() | {"id": "\ud800"}).encode()
    answer = TestClient(serve.app(by_logits)).post(URL, content=body)
    assert answer.json()["id"] == "\ud800"


def test_large_documents_are_limited_like_json(by_logits):
    client = TestClient(serve.app(by_logits))
    rows = np.zeros((100_000, 3)).tolist()
    body = document(data=rows, shape=[100_000, 3])
    assert client.post(URL, json=body).status_code == 413
    # Without the type of JSON, which binary requests do not have.
    text = json.dumps(body).encode()
    assert client.post(URL, content=text).status_code == 413


def test_while_stopping_it_is_not_ready(by_logits):
    application = serve.app(by_logits)
    client = TestClient(application)
    application.state.stopping = True
    assert client.get("/v2/health/ready").status_code == 503
    assert client.get("/v2/models/openset/ready").status_code == 503
    assert client.get("/v2/health/live").status_code == httpx.codes.OK
