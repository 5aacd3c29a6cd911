"""`openset serve`: what reaches the server; the server itself is in tests/serve."""

import numpy as np
import pytest
from starlette.testclient import TestClient

from openset import Outputs, Rejector, extract, serve
from openset.cli import main


@pytest.fixture
def started(files, monkeypatch):
    """Run the command without a server; return its application and addresses."""
    found = {}
    monkeypatch.chdir(files)
    monkeypatch.setattr(serve, "run", lambda make, **how: found.update(how, make=make))

    def call(*words):
        with pytest.raises(SystemExit) as end:
            main(["serve", *words])
        return end.value.code, found

    return call


def test_options_reach_the_server(started, files, tmp_path):
    words = "--port", "0", "--workers", "3", "--invalid", "reject", "--name", "mine"
    log = tmp_path / "traffic"
    code, found = started("rejector", *words, "--log", str(log), "--log-rate", "1")
    assert (code, found.pop("port"), found.pop("workers")) == (0, 0, 3)
    test = Outputs.load(files / "test.npz").take(slice(9))
    logits = [*test.logits.tolist(), [float("nan")] * 3]
    with TestClient(found["make"]()) as client:
        answer = client.post("/predict", json={"logits": [*logits[:-1], [0, 0, 0]]})
        assert client.get("/v2/models/mine").status_code == 200
    decided = Rejector.load(files / "rejector").predict(test)
    assert answer.json()["decisions"] == [*decided.tolist(), -1]
    assert list(log.glob("traffic-*.npz"))


def test_the_network_of_a_training_run_is_served(started, tmp_path):
    pytest.importorskip("torch", reason="the extra torch")
    from tests.serve import test_images as images  # noqa: PLC0415
    from tests.train.tiny import fit_tiny, image_data  # noqa: PLC0415

    fit_tiny(image_data(), out=tmp_path / "run")
    network = extract.load(tmp_path / "run")
    square = np.s_[:16, :16]
    rejector = images.as_calibrated(network, shape=square)
    folder = rejector.save(tmp_path / "rejector")
    _, found = started(str(folder), "--model", str(tmp_path / "run"))
    one = images.picture(3)[square]
    expected = rejector.predict(network.apply([one], progress=False))
    with TestClient(found["make"]()) as client:
        sent = images.form(images.png(one))
        answer = client.post("/predict/images", files=sent)
    assert answer.json()["decisions"] == expected.tolist()


def test_cautions_are_said_when_a_server_starts(started, capsys, files):
    codes = {one.code for one in Rejector.load(files / "rejector").cautions}
    started("rejector")
    assert all(code in capsys.readouterr().err for code in codes)
