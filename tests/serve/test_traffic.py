"""The sampled, bounded log of the traffic."""

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.serve.conftest import npz
from tests.serve.live import serving

from openset import Outputs, serve, watch
from openset.serve import traffic
from openset.serve.traffic import Traffic


def batch(n, seed=0, *, features=False):
    rng = np.random.default_rng(seed)
    made = rng.normal(size=(n, 5)) if features else None
    return Outputs(logits=rng.normal(size=(n, 3)), features=made)


def read(folder):
    return [Outputs.load(file) for file in sorted(folder.glob("traffic-*.npz"))]


def test_files_hold_all_samples_in_order_at_rate_one(tmp_path):
    log = Traffic(tmp_path, rate=1.0)
    parts = [batch(n, n) for n in (1, 4096, 5000, 3)]
    for part in parts:
        log.add(part, [f"{len(part)}/{i}" for i in range(len(part))])
    log.close()
    found = read(tmp_path)
    assert max(map(len, found)) == 4096
    joined = Outputs.concat(found)
    assert (joined.logits == Outputs.concat(parts).logits).all()
    assert joined.ids[[0, -1]].tolist() == ["1/0", "3/2"]


def test_a_sample_is_kept_with_the_stated_probability(tmp_path):
    log = Traffic(tmp_path, rate=0.1)
    for _ in range(20):
        log.add(batch(1000), None)
    log.close()
    # Twenty thousand draws at 0.1: the standard deviation is 42.
    assert abs(sum(map(len, read(tmp_path))) - 2000) < 5 * 42


def test_the_oldest_files_are_deleted_and_those_of_others_left_alone(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(traffic, "ROWS", 10)
    monkeypatch.setattr(traffic, "FILES", 3)
    batch(1).save(tmp_path / "traffic-monday.npz")
    log = Traffic(tmp_path, rate=1.0)
    log.add(batch(75), [str(i) for i in range(75)])
    *kept, last = read(tmp_path)
    assert [one.ids[0] for one in kept] == ["50", "60", "70"]
    assert last.ids is None


def test_requests_with_and_without_features_have_files_of_their_own(tmp_path):
    log = Traffic(tmp_path, rate=1.0)
    for features in (True, False, True):
        log.add(batch(2, features=features), None)
    log.close()
    shapes = sorted((len(one), one.features is not None) for one in read(tmp_path))
    assert shapes == [(2, False), (4, True)]


def test_a_full_disk_costs_no_request(tmp_path, by_logits, caplog):
    folder = tmp_path / "log"
    application = serve.app(by_logits, log=folder, log_rate=1.0)
    folder.rmdir()
    folder.write_text("in the way")
    client = TestClient(application)
    answer = client.post("/predict/npz", content=npz(logits=np.zeros((4096, 3))))
    assert answer.status_code == 200
    assert "The traffic log lost 4096 samples" in caplog.text


@pytest.mark.parametrize("workers", [1, 2])
def test_watch_reads_what_a_server_logged(
    logits_folder, by_logits, test_split, tmp_path, workers
):
    log = ["--log", tmp_path / "log", "--log-rate", 1]
    with serving(logits_folder, "--workers", workers, *log) as live:
        for i in range(0, 200, 20):
            part = test_split.take(slice(i, i + 20))
            ids = np.array([f"{j}.png" for j in range(i, i + 20)])
            live.post("/predict/npz", content=npz(logits=part.logits, ids=ids))
        live.stop()
    joined = Outputs.concat(read(tmp_path / "log"))
    order = np.argsort([int(one.removesuffix(".png")) for one in joined.ids])
    assert (joined.logits[order] == test_split.logits).all()
    assert len(watch.read(by_logits, tmp_path / "log").scores) == 200
