"""One bad sample does not fail the others of its request, and nobody misses it."""

import io
import json

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient
from typer.testing import CliRunner

from openset import Outputs, serve
from openset.cli import app
from tests.unit.serve.live import serving
from tests.unit.serve.test_predict import binary, npy, npz

V2 = "/v2/models/openset/infer"
BAD = [3, 17]
N = 24


def rows(test_split):
    """Return logits and features, two rows of them bad, and the good ones alone."""
    logits = np.array(test_split.logits[:N])
    features = np.array(test_split.features[:N])
    logits[3, 1] = np.nan
    logits[17] = [np.inf, np.inf, 0]
    return {"logits": logits, "features": features}, np.delete(np.arange(N), BAD)


def counted(server):
    """Return the numbers of samples by decision, and the unknown rate."""
    found = {}
    for family in text_string_to_metric_families(server.get("/metrics").text):
        for one in family.samples:
            if one.name == "openset_samples_total":
                found[one.labels["decision"]] = one.value
            if one.name == "openset_unknown_rate":
                found["rate"] = one.value
    return found


def check(found, rejector, test_split):
    """Compare an answer with what the rejector says of the good samples alone."""
    _, good = rows(test_split)
    alone = rejector.decide(test_split.take(good))
    assert np.flatnonzero(found["invalid"]).tolist() == BAD
    for i in BAD:
        assert (found["decisions"][i], found["predicted"][i]) == (-1, -1)
    assert [found["decisions"][i] for i in good] == alone.labels.tolist()
    assert [found["known"][i] for i in good] == alone.known.tolist()
    assert [found["predicted"][i] for i in good] == alone.predicted.tolist()
    return alone


@pytest.fixture(scope="module")
def lenient(folder, tmp_path_factory):
    log = tmp_path_factory.mktemp("log")
    options = ["--invalid", "reject", "--log", log, "--log-rate", 1]
    with serving(folder, *options) as server:
        server.log = log
        yield server


def test_bad_rows_are_marked_counted_and_logged_and_the_others_answered(
    lenient, folder, rejector, test_split
):
    arrays, good = rows(test_split)
    before = counted(lenient)
    answer = lenient.post(content=npz(**arrays), headers=binary("x-npz"))
    assert answer.status_code == 200, answer.text
    found = answer.json()
    alone = check(found, rejector, test_split)
    assert [found["known"][i] for i in BAD] == [None, None]
    assert [found["names"][i] for i in BAD] == ["unknown", "unknown"]
    assert (found["n_invalid"], found["n_unknown"]) == (2, alone.n_rejected)
    now = counted(lenient)
    assert now["invalid"] - before["invalid"] == 2
    assert now["unknown"] - before["unknown"] == alone.n_rejected
    assert now["accepted"] - before["accepted"] == len(good) - alone.n_rejected
    assert now["rate"] == alone.n_rejected / len(good)  # invalid ones are no unknowns

    # The same as JSON, where NaN and Infinity are Python's, and as .npz back.
    body = json.dumps({n: a.tolist() for n, a in arrays.items()})
    head = {"Content-Type": "application/json"}
    check(lenient.post(content=body, headers=head).json(), rejector, test_split)
    head = {**binary("x-npz"), "Accept": "application/x-npz"}
    answer = lenient.post(content=npz(**arrays), headers=head)
    with np.load(io.BytesIO(answer.content)) as back:
        check({n: back[n] for n in back.files}, rejector, test_split)
        assert np.isnan(back["known"][BAD]).all()

    # A request of bad rows alone.
    alone = {n: a[BAD] for n, a in arrays.items()}
    found = lenient.post(content=npz(**alone), headers=binary("x-npz")).json()
    assert (found["decisions"], found["n_invalid"]) == ([-1, -1], 2)
    assert counted(lenient)["invalid"] - before["invalid"] == 8

    # What was wrong with a request as a whole still is.
    wide = npz(logits=np.full((2, 4), np.nan), features=arrays["features"][:2])
    assert lenient.post(content=wide, headers=binary("x-npz")).status_code == 422
    assert lenient.stop() == 0
    log = lenient.log
    logged = Outputs.load(log / "traffic-000001.npz", invalid="keep")
    assert len(logged) == 3 * N + 2
    assert np.flatnonzero(logged.is_invalid)[:2].tolist() == BAD
    words = ["watch", str(folder), str(log), "--json", "--false-alarms", "0.1"]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    document = json.loads(result.stdout)
    assert (document["n"], document["n_invalid"]) == (3 * (N - 2), 8)


def test_the_protocol_v2_says_which_samples_are_invalid(by_logits, test_split):
    client = TestClient(serve.app(by_logits, invalid="reject"))
    logits = rows(test_split)[0]["logits"]
    one = {"name": "logits", "datatype": "FP64", "shape": [N, 3]}
    about = client.get("/v2/models/openset").json()["outputs"]
    assert {"name": "invalid", "datatype": "BOOL", "shape": [-1]} in about
    body = json.dumps({"inputs": [one | {"data": logits.tolist()}]})
    answer = client.post(V2, content=body)
    found = {o["name"]: o["data"] for o in answer.json()["outputs"]}
    found["decisions"] = found["decision"]
    check(found, by_logits, test_split)
    assert [found["known"][i] for i in BAD] == [None, None]
    # As Triton's client reads it.
    assert np.isnan(np.array(found["known"], dtype=np.float64)[BAD]).all()
    asked = {"outputs": [{"name": "invalid", "parameters": {"binary_data": True}}]}
    body = json.dumps({"inputs": [one | {"data": logits.tolist()}], **asked})
    answer = client.post(V2, content=body)
    size = int(answer.headers["Inference-Header-Content-Length"])
    assert np.flatnonzero(np.frombuffer(answer.content[size:], bool)).tolist() == BAD


def test_a_server_refuses_such_rows_unless_told_otherwise(by_logits, test_split):
    client = TestClient(serve.app(by_logits))
    arrays, _ = rows(test_split)
    answer = client.post("/predict", content=npy(arrays["logits"]), headers=binary())
    assert answer.status_code == 422
    assert "free of NaN, got NaN in 2 rows" in answer.json()["detail"] or (
        "in 2 rows, first in row 3" in answer.json()["detail"]
    )
    good = client.post("/predict", json={"logits": [[1, 2, 3]]}).json()
    assert "invalid" not in good
    with pytest.raises(ValueError, match="invalid must be one of 'error', 'reject'"):
        serve.app(by_logits, invalid="keep")


def test_the_schema_has_what_answers_have(by_logits, with_sets):
    for rejector in (by_logits, with_sets):
        client = TestClient(serve.app(rejector, invalid="reject"))
        document = client.get("/openapi.json").json()
        ok = document["paths"]["/predict"]["post"]["responses"]["200"]["content"]
        schema = ok["application/json"]["schema"]
        body = '{"logits": [[NaN, 1, 2], [9, 1, 2]]}'
        head = {"Content-Type": "application/json"}
        found = client.post("/predict", content=body, headers=head).json()
        assert set(schema["required"]) == set(found)
        assert set(ok["application/json"]["example"]) == set(found)
        if "sets" in found:
            assert found["sets"][0] == []
        else:
            assert found["threshold"] == by_logits.threshold.value


class Scaled:
    """A network of two layers that fails for numbers it cannot take."""

    def __init__(self):
        self.seen = []

    def __call__(self, batch):  # noqa: D102  # a magic method
        self.seen.append(len(batch))
        with np.errstate(all="ignore"):
            return batch[:, :3] * np.where(batch[:, 3:] > 100, np.inf, 1.0)


def test_what_the_network_cannot_take_is_left_out_before_it_runs_again(by_logits):
    network = Scaled()
    example = np.ones((2, 4))
    client = TestClient(
        serve.app(by_logits, model=network, example=example, invalid="reject")
    )
    x = np.random.default_rng(0).normal(size=(6, 4))
    x[1, 0], x[4] = np.nan, [0, 1, 2, 999]  # 0 * inf within the network
    network.seen.clear()
    answer = client.post("/predict", content=npy(x), headers=binary()).json()
    assert np.flatnonzero(answer["invalid"]).tolist() == [1, 4]
    assert network.seen == [5, 4]
    good = np.delete(x, [1, 4], axis=0)
    expected = by_logits.decide(Outputs(logits=good[:, :3]))
    found = [answer["known"][i] for i in (0, 2, 3, 5)]
    assert found == expected.known.tolist()
    answer = client.post("/predict", content=npy(x[[1]]), headers=binary()).json()
    assert (answer["decisions"], answer["n_invalid"]) == ([-1], 1)
    strict = TestClient(serve.app(by_logits, model=Scaled(), example=example))
    answer = strict.post("/predict", content=npy(x), headers=binary())
    assert answer.status_code == 422
    assert "NaN in 1 samples, first in row 1" in answer.json()["detail"]


def test_a_network_of_a_fixed_batch_size_gets_as_many_samples(by_logits):
    from openset.serve._model import CallableModel  # noqa: PLC0415

    model = CallableModel(Scaled(), np.ones((6, 4)))
    model.shape = (6, 4)
    x = np.random.default_rng(0).normal(size=(6, 4))
    x[0, 0], x[4] = np.nan, [0, 1, 2, 999]
    is_valid = np.array([False, True, True, True, False, True])
    outputs = model.run_some(model, x, is_valid)
    assert np.array_equal(outputs.logits, x[is_valid, :3])
    with pytest.raises(ValueError, match="first in row 4") as error:
        model.run_some(model, x, np.arange(6) > 0)
    assert error.value.rows == (3,)  # among the valid ones


def test_a_damaged_image_is_one_invalid_sample_of_a_form(by_pixels, tmp_path):
    from tests.unit.serve.test_images import picture, png  # noqa: PLC0415

    model, rejector = by_pixels
    log = tmp_path / "log"
    application = serve.app(
        rejector, model=model, invalid="reject", log=log, log_rate=1.0
    )
    files = [("file", (f"{i}.png", png(picture(i)))) for i in range(4)]
    files[1] = ("file", ("1.png", files[1][1][1][:90]))  # cut
    files[2] = ("file", ("2.png", b"no image at all"))
    with TestClient(application) as client:
        found = client.post("/predict", files=files).json()
    assert found["invalid"] == [False, True, True, False]
    pictures = [picture(0), picture(3)]
    alone = rejector.decide(model.apply(pictures, progress=False))
    assert [found["decisions"][i] for i in (0, 3)] == alone.labels.tolist()
    assert [found["known"][i] for i in (0, 3)] == alone.known.tolist()
    logged = Outputs.load(log / "traffic-000001.npz")
    assert logged.ids.tolist() == ["0.png", "3.png"]
    with TestClient(serve.app(rejector, model=model)) as client:
        assert client.post("/predict", files=files).status_code == 400
