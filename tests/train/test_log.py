"""Experiment trackers, with the real packages and stores on this machine."""

import pytest

from openset.train.log import TRACKERS
from tests.waiting import wait_until


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="the extra mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "ours")
    return mlflow


def test_a_run_that_is_started_again_is_continued(tmp_path, mlflow):
    given = {"recipe": {"lr": 0.1}, "classes": list(range(400)), "a(b)": 1}
    for epochs in (range(2), range(2, 3)):
        run = TRACKERS["mlflow"](tmp_path, "one", given)
        for epoch in epochs:
            run.log({"loss": 3.0 - epoch}, step=epoch)
        run.close(failed=epoch == 1)
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("ours").experiment_id
    (found,) = client.search_runs([experiment])
    history = client.get_metric_history(found.info.run_id, "loss")
    assert [(one.step, one.value) for one in history] == [(0, 3), (1, 2), (2, 1)]
    assert found.info.status == "FINISHED"
    assert found.info.run_name == "one"
    assert found.data.params["recipe.lr"] == "0.1"
    assert found.data.params["a_b_"] == "1"
    assert len(found.data.params["classes"]) == 500


def test_wandb_keeps_an_offline_run(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="the extra wandb")
    for name, value in {"MODE": "offline", "SILENT": "true", "DIR": ""}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    run = TRACKERS["wandb"](tmp_path, "one", {"recipe": {"lr": 0.125}})
    run.log({"openauc": 0.8125}, step=0)
    run.close(failed=False)
    name = (tmp_path / "wandb-run-id").read_text()
    (kept,) = tmp_path.glob(f"wandb/offline-run-*-{name}/run-{name}.wandb")

    def is_there():
        content = kept.read_bytes()
        return all(t in content for t in (b"openauc", b"0.8125", b"recipe.lr"))

    wait_until(is_there)  # wandb's own process writes the file, after `finish`


@pytest.mark.filterwarnings("ignore::DeprecationWarning:tensorboard")
def test_tensorboard_reads_what_was_logged(tmp_path):
    pytest.importorskip("tensorboard", reason="the extra tensorboard")
    from tensorboard.backend.event_processing import (  # noqa: PLC0415
        event_accumulator,
    )

    run = TRACKERS["tensorboard"](tmp_path, "one", {})
    for epoch, value in enumerate((0.5, 0.75)):
        run.log({"openauc": value}, step=epoch)
    run.close(failed=False)
    events = event_accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    found = events.Tensors("openauc")
    assert [one.step for one in found] == [0, 1]
    assert [one.tensor_proto.float_val[0] for one in found] == [0.5, 0.75]
