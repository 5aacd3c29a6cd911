"""What a well-meant request gets."""

import http.client
import io
import sys

import httpx
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from openset import Outputs, Rejector, Scores, detectors, serve
from openset._types import MissingExtraError
from tests.unit.serve.conftest import split
from tests.waiting import PATIENCE


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def npz(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def binary(kind="octet-stream"):
    return {"Content-Type": f"application/{kind}"}


def check(answer, rejector, outputs):
    """Compare an answer with what the rejector says in this process, bit for bit."""
    assert answer.status_code == 200, answer.text
    found = answer.json()
    decided = rejector.decide(outputs)
    decisions, scores = decided.labels, decided
    assert found["decisions"] == decisions.tolist()
    assert found["known"] == scores.known.tolist()
    assert found["predicted"] == scores.predicted.tolist()
    assert found["names"] == [rejector.name_of(c) for c in decisions]
    assert found["threshold"] == rejector.threshold.value
    assert found["n_unknown"] == np.count_nonzero(decisions == -1)
    return found


def test_json_gets_what_predict_says(live, rejector, test_split):
    body = {
        "logits": test_split.logits.tolist(),
        "features": test_split.features.tolist(),
    }
    found = check(live.post(json=body), rejector, test_split)
    assert 0 < found["n_unknown"] < len(test_split)


@pytest.mark.parametrize("dtype", ["f4", "f8", ">f4", "f2"])
def test_npz_gets_what_predict_says_in_every_dtype(live, rejector, test_split, dtype):
    logits, features = (
        test_split.logits.astype(dtype),
        test_split.features.astype(dtype),
    )
    body = npz(logits=logits, features=features)
    native = np.dtype(dtype).newbyteorder("=")
    there = Outputs(logits=logits.astype(native), features=features.astype(native))
    check(live.post(content=body, headers=binary("x-npz")), rejector, there)


def test_a_saved_split_can_be_posted_as_it_is(live, rejector, test_split, tmp_path):
    body = test_split.save(tmp_path / "test.npz").read_bytes()
    check(live.post(content=body, headers=binary()), rejector, test_split)


def test_a_file_of_classes_in_another_order_or_of_moved_inputs_is_refused(
    live, rejector, test_split
):
    own = rejector.classes
    arrays = {"logits": test_split.logits, "features": test_split.features}
    wrong = {
        "classes of outputs must be those of the rejector": {"classes": own[::-1]},
        "outputs must be of inputs as the network got them": {"input_step": "ODIN"},
        "classes must be texts, got dtype int64": {"classes": [0, 1, 2]},
        "input_step must be a text": {"input_step": ["ODIN"]},
    }
    for message, said in wrong.items():
        answer = live.post(content=npz(**arrays, **said), headers=binary())
        assert answer.status_code == 422, answer.text
        assert message in answer.json()["detail"]
    said = {"classes": own, "input_step": ""}
    answer = live.post(content=npz(**arrays, **said), headers=binary())
    check(answer, rejector, test_split)


def test_npy_is_logits_or_what_name_says(by_logits, test_split):
    client = TestClient(serve.app(by_logits))
    logits = np.asfortranarray(test_split.logits)
    for path in ("/predict", "/predict?name=logits"):
        answer = client.post(path, content=npy(logits), headers=binary("x-npy"))
        check(answer, by_logits, test_split)
    answer = client.post(
        "/predict?name=features", content=npy(logits), headers=binary("x-npy")
    )
    assert answer.status_code == 422
    assert "MSP.score: outputs must have logits" in answer.json()["detail"]


def test_npy_is_features_for_a_detector_that_classifies_from_them():
    train = split(1, 60, unknown=0)
    fitted = detectors.OSNN().fit(train)
    rejector = Rejector.calibrate(fitted, known=split(2, 60, unknown=0.3))
    client = TestClient(serve.app(rejector))
    assert client.get("/rejector").json()["needs"] == ["features"]
    new = Outputs(features=split(3, 20, unknown=0.3).features)
    answer = client.post("/predict", content=npy(new.features), headers=binary())
    check(answer, rejector, new)


@pytest.mark.parametrize("value", [0.0, 3.25, "inf", "-inf"])
def test_a_threshold_of_ones_own_replaces_the_calibrated_one(
    by_logits, test_split, value
):
    client = TestClient(serve.app(by_logits))
    logits = test_split.logits
    scores = by_logits.score(test_split)
    expected = scores.decided(float(value)).tolist()
    by_body = client.post(
        "/predict", json={"logits": logits.tolist(), "threshold": value}
    )
    by_query = client.post(
        f"/predict?threshold={value}", content=npy(logits), headers=binary()
    )
    for answer in (by_body, by_query):
        assert answer.json()["decisions"] == expected
        assert answer.json()["threshold"] == value


def test_infinities_in_arrays_are_numbers_beyond_all_floats(by_logits):
    client = TestClient(serve.app(by_logits))
    logits = [[-np.inf, 5.0, 1.0]]
    check_known = by_logits.known(Outputs(logits=logits)).tolist()
    for text in ("-1e999", "-Infinity"):
        answer = client.post(
            "/predict",
            content=f'{{"logits": [[{text}, 5, 1]]}}',
            headers=binary("json"),
        )
        assert answer.json()["known"] == check_known
    answer = client.post("/predict", json={"logits": [["-inf", 5, 1]]})
    assert answer.status_code == 422
    assert "got a str in them. Write infinities as 1e999" in answer.json()["detail"]


@pytest.mark.parametrize(
    "path", ["/healthz", "/", "/metrics", "/rejector", "/openapi.json"]
)
def test_head_gets_the_headers_of_get_alone(live, path):
    connection = http.client.HTTPConnection("127.0.0.1", live.port, timeout=PATIENCE)
    connection.request("HEAD", path)
    answer = connection.getresponse()
    assert answer.status == 200
    assert answer.read() == b""
    # No body is in the way of the next answer over this connection.
    connection.request("GET", path)
    again = connection.getresponse()
    assert again.read() != b""
    for name in ("content-type", "content-security-policy"):
        assert answer.headers[name] == again.headers[name]
    if path != "/metrics":  # which counts on
        assert answer.headers["content-length"] == again.headers["content-length"]
    connection.request("HEAD", "/predict")
    assert connection.getresponse().status == 405
    connection.close()


def test_infinite_knownness_is_a_text():
    one = Outputs(logits=[[1.0], [2.0]], labels=[0, 0])  # one class: always certain
    fitted = detectors.MSP().fit(one)
    rejector = Rejector.calibrate(fitted, known=one, objective="at_tpr")
    client = TestClient(serve.app(rejector))
    found = client.post("/predict", json={"logits": [[3.0]]}).json()
    assert found["known"] == ["inf"]
    assert found["threshold"] == "inf"
    assert "openset_knownness_bucket" in client.get("/metrics").text
    assert client.get("/rejector").json()["reference"]["known"][0] == "inf"


def test_metrics_count_what_happened(by_logits, test_split):
    client = TestClient(serve.app(by_logits))
    body = {"logits": test_split.logits.tolist()}
    for _ in range(3):
        assert client.post("/predict", json=body).status_code == 200
    assert client.post("/predict", json={}).status_code == 422
    assert client.get("/no/such/path").status_code == 404
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(client.get("/metrics").text)
        for sample in family.samples
    }

    def value(name, **labels):
        return samples["openset_" + name, tuple(sorted(labels.items()))]

    decided = by_logits.decide(test_split)
    decisions, scores = decided.labels, decided
    n_unknown = np.count_nonzero(decisions == -1)
    assert value("requests_total", path="/predict", status="200") == 3
    assert value("requests_total", path="/predict", status="422") == 1
    assert value("requests_total", path="other", status="404") == 1
    assert value("request_seconds_count", path="/predict") == 4
    assert value("samples_total", decision="unknown") == 3 * n_unknown
    assert value("samples_total", decision="accepted") == 3 * (200 - n_unknown)
    assert value("unknown_rate") == pytest.approx(n_unknown / 200)
    assert value("threshold") == by_logits.threshold.value
    edges = {
        dict(labels)["le"]: count
        for (name, labels), count in samples.items()
        if name == "openset_knownness_bucket"
    }
    assert len(edges) > 10
    for edge, count in edges.items():
        assert count == 3 * np.count_nonzero(scores.known <= float(edge))


def test_the_unknown_rate_forgets_old_samples(by_logits):
    client = TestClient(serve.app(by_logits))
    unknown, known = [[0.0, 0.0, 0.0]] * 600, [[9.0, 0.0, 0.0]] * 600
    for rows in (unknown, known, known):
        client.post("/predict", json={"logits": rows})
    assert "openset_unknown_rate 0.0\n" in client.get("/metrics").text


def test_the_schema_has_examples_that_work(live, folder):
    schema = live.get("/openapi.json").json()
    request = schema["paths"]["/predict"]["post"]["requestBody"]
    content = request["content"]["application/json"]
    for example in content["examples"].values():
        assert live.post(json=example["value"]).status_code == 200
    assert {"/predict", "/healthz", "/metrics", "/rejector"} == set(schema["paths"])
    assert {"200", "400", "413", "415", "422"} <= set(
        schema["paths"]["/predict"]["post"]["responses"]
    )


def test_the_rejector_tells_about_itself(live, rejector):
    found = live.get("/rejector").json()
    assert found["detector"] == "postmax"
    assert found["classes"] == ["cat", "dog", "eel"]
    assert found["widths"] == {"n_classes": 3, "n_features": 5}
    assert found["needs"] == ["logits", "features"]
    assert found["threshold"]["value"] == rejector.threshold.value


def test_many_at_once_get_their_own_answers(live, rejector, test_split):
    with httpx.Client(base_url=live.url) as client:
        for i in range(60):
            one = test_split.take([i])
            body = {"logits": one.logits.tolist(), "features": one.features.tolist()}
            check(client.post("/predict", json=body), rejector, one)


def test_what_is_missing_is_named(by_logits, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    with pytest.raises(MissingExtraError, match=r'pip install "openset\[serve\]"'):
        serve.app(by_logits)


@pytest.mark.parametrize(
    "options", [{"max_bytes": 0}, {"max_in_flight": 0}, {"body_seconds": 0}]
)
def test_limits_must_be_positive(by_logits, options):
    with pytest.raises(ValueError, match=f"serve.app: {next(iter(options))} must be"):
        serve.app(by_logits, **options)


def test_scores_of_the_page_and_of_python_are_the_same_numbers(by_logits, test_split):
    """JSON keeps every bit of a float, so a threshold typed back cuts alike."""
    client = TestClient(serve.app(by_logits))
    found = client.post("/predict", json={"logits": test_split.logits.tolist()}).json()
    scores = Scores(
        labels=test_split.labels, predicted=found["predicted"], known=found["known"]
    )
    for cut in scores.known[:20]:
        answer = client.post(
            "/predict",
            json={"logits": test_split.logits.tolist(), "threshold": float(cut)},
        )
        assert answer.json()["decisions"] == scores.decided(cut).tolist()
