"""What a well-meant request gets: what `Rejector.decide` says, bit for bit."""

import json
import sys

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.serve.conftest import npz, split

from openset import Outputs, Rejector, detectors, extract, serve
from openset._types import MissingExtraError


def both(outputs):
    return {"logits": outputs.logits.tolist(), "features": outputs.features.tolist()}


def check(answer, rejector, outputs):
    assert answer.status_code == 200, answer.text
    found = answer.json()
    decided = rejector.decide(outputs)
    assert found == {
        "decisions": decided.labels.tolist(),
        "names": [rejector.name_of(c) for c in decided.labels],
        "predicted": decided.predicted.tolist(),
        "known": decided.known.tolist(),
        "threshold": rejector.threshold.value,
        "n_unknown": np.count_nonzero(decided.labels == -1),
    }
    return found


def test_json_gets_what_predict_says(live, rejector, test_split):
    found = check(live.post(json=both(test_split)), rejector, test_split)
    assert 0 < found["n_unknown"] < len(test_split)


@pytest.mark.parametrize("dtype", ["f4", "f8", ">f4", "f2"])
def test_npz_gets_what_predict_says_in_every_dtype(
    live, rejector, test_split, dtype, tmp_path
):
    names = ("logits", "features")
    arrays = {name: getattr(test_split, name).astype(dtype) for name in names}
    answer = live.post("/predict/npz", content=npz(**arrays))
    check(answer, rejector, Outputs(**arrays))
    saved = test_split.save(tmp_path / "test.npz").read_bytes()  # as it is
    check(live.post("/predict/npz", content=saved), rejector, test_split)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"classes": np.array(["dog", "cat", "eel"])}, "classes"),
        ({"input_step": np.array("odin:epsilon=0.1")}, "perturbed"),
    ],
)
def test_a_file_of_other_outputs_is_refused(live, test_split, changes, words):
    arrays = {"logits": test_split.logits, "features": test_split.features}
    answer = live.post("/predict/npz", content=npz(**arrays, **changes))
    assert answer.status_code == 422
    assert words in answer.json()["detail"]


@pytest.mark.parametrize("value", [0.0, 3.25, "inf", "-inf"])
def test_a_threshold_of_ones_own_replaces_the_calibrated_one(
    live, rejector, test_split, value
):
    expected = rejector.decide(test_split, threshold=float(value)).labels.tolist()
    answer = live.post(json={**both(test_split), "threshold": value})
    assert answer.json()["decisions"] == expected
    assert answer.json()["threshold"] == value
    body = npz(logits=test_split.logits, features=test_split.features)
    answer = live.post(f"/predict/npz?threshold={value}", content=body)
    assert answer.json()["decisions"] == expected


def test_infinities_are_numbers_in_and_texts_out(by_logits):
    client = TestClient(serve.app(by_logits))
    wanted = by_logits.known(Outputs(logits=[[-np.inf, 5.0, 1.0]])).tolist()
    for text in ("-1e999", "-Infinity"):
        answer = client.post("/predict", content=f'{{"logits": [[{text}, 5, 1]]}}')
        assert answer.json()["known"] == wanted
    one = Outputs(logits=[[1.0], [2.0]], labels=[0, 0])  # one class: always certain
    fitted = detectors.MSP().fit(one)
    certain = Rejector.calibrate(fitted, known=one, objective="at_tpr")
    client = TestClient(serve.app(certain))
    found = client.post("/predict", json={"logits": [[3.0]]}).json()
    assert (found["known"], found["threshold"]) == (["inf"], "inf")


def test_invalid_samples_are_refused_or_marked(by_logits, test_split):
    logits = np.array(test_split.logits)
    logits[3, 1], logits[5, :2] = np.nan, np.inf
    body = npz(logits=logits)
    answer = TestClient(serve.app(by_logits)).post("/predict/npz", content=body)
    assert answer.status_code == 422
    assert "must be free of NaN" in answer.json()["detail"]
    client = TestClient(serve.app(by_logits, invalid="reject"))
    found = client.post("/predict/npz", content=body).json()
    decided = by_logits.decide(Outputs(logits=logits, invalid="keep"), invalid="reject")
    assert found["decisions"] == decided.labels.tolist()
    assert np.flatnonzero(found["invalid"]).tolist() == [3, 5]
    assert found["known"][3] is None
    assert (
        'openset_samples_total{decision="invalid"} 2.0' in client.get("/metrics").text
    )


def test_answers_hold_the_sets_of_predict(with_sets, test_split):
    client = TestClient(serve.app(with_sets))
    body = {"logits": test_split.logits.tolist()}
    found = client.post("/predict", json=body).json()
    decided = with_sets.decide(test_split)
    assert found["sets"] == [list(one) for one in decided.set_classes]
    assert max(map(len, found["sets"])) > 1


NETWORK = """<ir_version: 8, opset_import: ["": 18]>
network (float[n, 5] x) => (float[n, 3] logits)
<float[5, 3] w = {1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}>
{ logits = MatMul(x, w) }"""


def test_rows_of_numbers_go_through_a_network(tmp_path):
    onnx = pytest.importorskip("onnx", reason="the extra onnx")
    model = onnx.parser.parse_model(NETWORK)
    onnx.save(model, tmp_path / "network.onnx")
    network = extract.load(tmp_path / "network.onnx")
    rows = np.asarray(split(1, 40, unknown=0).features, np.float32)
    outputs = network.apply(rows, labels=np.zeros(40, int), progress=False)
    fitted = detectors.MaxLogit().fit()
    rejector = Rejector.calibrate(fitted, known=outputs, objective="at_tpr")
    client = TestClient(serve.app(rejector, network=network))
    answer = client.post("/predict", json={"inputs": rows.tolist()})
    assert answer.json()["decisions"] == rejector.predict(outputs).tolist()
    answer = client.post("/predict/npz", content=npz(inputs=rows))
    assert answer.json()["decisions"] == rejector.predict(outputs).tolist()
    for wrong in ({"logits": [[1.0, 2.0, 3.0]]}, {"inputs": [[1.0, 2.0]]}):
        assert client.post("/predict", json=wrong).status_code == 422


def test_metrics_count_what_happened(by_logits, test_split):
    client = TestClient(serve.app(by_logits))
    for _ in range(3):
        client.post("/predict", json={"logits": test_split.logits.tolist()})
    assert client.post("/predict", json={}).status_code == 422
    assert client.get("/no/such/path").status_code == 404
    n = 3 * by_logits.decide(test_split).n_rejected
    assert {
        'openset_request_seconds_count{path="/predict",status="200"} 3.0',
        'openset_request_seconds_count{path="/predict",status="422"} 1.0',
        'openset_request_seconds_count{path="other",status="404"} 1.0',
        f'openset_samples_total{{decision="unknown"}} {n}.0',
        f'openset_samples_total{{decision="accepted"}} {600 - n}.0',
    } <= {*client.get("/metrics").text.splitlines()}


def test_the_server_tells_about_itself(live, rejector):
    facts = {"detector": "postmax", "classes": ["cat", "dog", "eel"]}
    facts |= {"widths": {"n_classes": 3, "n_features": 5}}
    facts |= {"needs": ["logits", "features"], "threshold": str(rejector.threshold)}
    assert facts.items() <= live.get("/rejector").json().items()
    assert live.get("/healthz").headers["X-Openset-Rejector"]
    schema = live.get("/openapi.json").json()
    assert {"/predict", "/predict/npz", "/predict/images"} <= set(schema["paths"])
    request = schema["paths"]["/predict"]["post"]["requestBody"]
    assert "logits" in json.dumps(request["content"]["application/json"])


def test_what_is_missing_or_wrong_is_named(by_logits, monkeypatch, tmp_path):
    for options in ({"max_bytes": 0}, {"invalid": "keep"}, {"log_rate": 3.0}):
        log = {"log": tmp_path / "log"}
        [name] = options
        with pytest.raises(ValueError, match=f"openset.serve.app: {name} must be"):
            serve.app(by_logits, **(log | options))
    monkeypatch.setitem(sys.modules, "fastapi", None)
    with pytest.raises(MissingExtraError, match=r'pip install "openset\[serve\]"'):
        serve.app(by_logits)
