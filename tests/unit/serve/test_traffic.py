"""The sampled, bounded log of the traffic."""

import numpy as np
import pytest
from starlette.testclient import TestClient

from openset import Outputs, serve
from openset.serve import _traffic
from openset.serve._traffic import Traffic
from tests.unit.serve.live import serving
from tests.unit.serve.test_predict import npz


def batch(n, seed=0, *, features=False):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, 3))
    return Outputs(
        logits=logits, features=rng.normal(size=(n, 5)) if features else None
    )


def files(folder):
    return sorted(folder.glob("traffic-*.npz"))


def read(folder):
    return [Outputs.load(file) for file in files(folder)]


def test_files_hold_all_samples_in_order_at_rate_one(tmp_path):
    log = Traffic(tmp_path, rate=1.0, most=100)
    parts = [batch(n, n) for n in (1, 4096, 5000, 3)]
    for part in parts:
        ids = np.array([f"{len(part)}/{i}" for i in range(len(part))])
        log.add(part, ids)
    log.close()
    found = read(tmp_path)
    assert [len(one) for one in found] == [4096, 4096, 908]
    assert [file.name for file in files(tmp_path)] == [
        "traffic-000001.npz", "traffic-000002.npz", "traffic-000003.npz",
    ]  # fmt: skip
    joined = Outputs.concat(found)
    assert (joined.logits == Outputs.concat(parts).logits).all()
    assert joined.ids[0] == "1/0"
    assert joined.ids[-1] == "3/2"


def test_a_sample_is_kept_with_the_stated_probability(tmp_path):
    log = Traffic(tmp_path, rate=0.1, most=100, seed=0)
    for _ in range(20):
        log.add(batch(1000), None)
    log.close()
    n = sum(map(len, read(tmp_path)))
    # Twenty thousand draws at 0.1: the standard deviation is 42.
    assert abs(n - 2000) < 5 * 42


def test_the_oldest_files_are_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr(_traffic, "ROWS", 10)
    log = Traffic(tmp_path, rate=1.0, most=3)
    log.add(batch(75), None)
    log.close()
    assert [file.stem[-2:] for file in files(tmp_path)] == ["06", "07", "08"]
    again = Traffic(tmp_path, rate=1.0, most=3)  # goes on counting
    again.add(batch(10), None)
    assert [file.stem[-2:] for file in files(tmp_path)] == ["07", "08", "09"]


def test_files_of_other_names_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(_traffic, "ROWS", 10)
    for name in ("monday", "old", "000999", "1000000"):
        batch(1).save(tmp_path / f"traffic-{name}.npz")
    log = Traffic(tmp_path, rate=1.0, most=2)
    log.add(batch(10), None)
    log.add(batch(3), None)
    log.close()
    assert {file.stem.removeprefix("traffic-") for file in files(tmp_path)} == {
        "monday", "old", "1000001", "1000002",
    }  # fmt: skip


def test_requests_of_different_types_share_a_file(tmp_path):
    log = Traffic(tmp_path, rate=1.0, most=2)
    log.add(batch(2), None)
    log.add(Outputs(logits=batch(3).logits.astype(np.float16)), None)
    log.close()
    assert [len(one) for one in read(tmp_path)] == [5]


def test_requests_with_and_without_features_have_files_of_their_own(tmp_path):
    log = Traffic(tmp_path, rate=1.0, most=9)
    for features in (True, False, True):
        log.add(batch(2, features=features), None)
    log.close()
    shapes = [(len(one), one.features is not None) for one in read(tmp_path)]
    assert shapes == [(4, True), (2, False)]


def test_a_full_disk_costs_no_request(tmp_path, by_logits, caplog):
    folder = tmp_path / "log"
    application = serve.app(by_logits, log=folder, log_rate=1.0)
    folder.rmdir()
    folder.write_text("in the way")
    client = TestClient(application)
    body = npz(logits=np.zeros((4096, 3)))
    octets = {"Content-Type": "application/octet-stream"}
    answer = client.post("/predict", content=body, headers=octets)
    assert answer.status_code == 200
    assert "The traffic log lost 4096 samples" in caplog.text


@pytest.mark.parametrize("workers", [1, 2])
def test_a_server_logs_what_it_is_asked_and_the_ids(logits_folder, tmp_path, workers):
    options = ("--log", tmp_path / "log", "--log-rate", 1, "--workers", workers)
    with serving(logits_folder, *options) as live:
        rows = {"logits": [[1.0, 2.0, 3.0]], "ids": ["first"]}
        assert live.post(json=rows).status_code == 200
        body = npz(logits=np.eye(3), ids=np.array(["a", "b", "c"]))
        octets = {"Content-Type": "application/octet-stream"}
        assert live.post(content=body, headers=octets).status_code == 200
        assert live.post(json={"logits": [[1.0]]}).status_code == 422  # not logged
        assert live.stop() == 0
    found = read(tmp_path / "log")
    assert sorted(name for one in found for name in one.ids) == [
        "a", "b", "c", "first",
    ]  # fmt: skip
    assert not [p for p in (tmp_path / "log").iterdir() if "tmp" in p.name]


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (["a"], "shape (1,)"),
        (["a", "x" * 300], "a longer one"),
        ([1.5, 2.5], "dtype float64"),
        ("ab", "shape ()"),
    ],
)
def test_bad_ids_are_refused(by_logits, ids, words):
    client = TestClient(serve.app(by_logits))
    answer = client.post("/predict", json={"logits": [[1, 2, 3]] * 2, "ids": ids})
    assert answer.status_code == 422
    assert words in answer.json()["detail"]


@pytest.mark.parametrize(
    "options", [{"log_rate": 0}, {"log_rate": 2}, {"log_files": 0}]
)
def test_bad_settings_are_refused(by_logits, tmp_path, options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be"):
        serve.app(by_logits, log=tmp_path, **options)
