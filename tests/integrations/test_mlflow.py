"""A rejector in MLflow: opened by MLflow's own loader."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from openset import Outputs, Rejector, detectors

mlflow = pytest.importorskip("mlflow", reason="the extra mlflow")
from openset.integrations.mlflow import log_model, save_model  # noqa: E402

# MLflow's first import warns of its own code.
pytestmark = pytest.mark.filterwarnings("ignore:.*type hint is inferred:UserWarning")


@pytest.fixture(autouse=True)
def tracking(tmp_path, monkeypatch):
    """Keep what MLflow writes in a folder of the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())


def samples(rng, n=80):
    labels = rng.integers(0, 3, n)
    features = rng.normal(size=(n, 4)) + 3 * np.eye(3, 4)[labels]
    return Outputs(
        features=features,
        logits=features[:, :3] * 2,
        labels=labels,
        classes=("cat", "dog", "emu"),
    )


def test_mlflow_loads_what_was_saved_and_decides_alike(rng, tmp_path):
    fitted, known = detectors.NNGuide(k=3).fit(samples(rng)), samples(rng)
    rejector = Rejector.calibrate(fitted, known=known, objective="at_tpr", tpr=0.8)
    new = samples(rng)
    save_model(rejector, tmp_path / "model")
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    arrays = {"logits": new.logits, "features": new.features}
    table = pd.DataFrame({name: list(array) for name, array in arrays.items()})
    expected = rejector.decide(new)
    for given in (arrays, table, {**arrays, "labels": new.labels}):
        found = model.predict(given)
        assert_array_equal(found["decision"], expected.labels)
        assert_array_equal(found["known"], expected.known)
        names = [rejector.name_of(one) for one in expected.labels]
        assert found["name"].tolist() == names
    assert {"unknown", "cat"} <= set(names)
    facts = model.metadata.metadata
    assert facts["objective"] == "at_tpr"
    assert facts["calibration_samples"] == {"known": 80, "unknown": 0}
    with pytest.raises(ValueError, match="must be given, got neither"):
        model.predict({"x": new.logits})


def test_a_logged_model_takes_the_outputs_it_needs_and_has_a_column_of_sets(rng):
    fitted, known = detectors.MSP().fit(samples(rng)), samples(rng)
    rejector = Rejector.calibrate(fitted, known=known, objective="at_tpr", sets=0.95)
    with mlflow.start_run():
        logged = log_model(rejector)
    new = samples(rng)
    model, decided = mlflow.pyfunc.load_model(logged.model_uri), rejector.decide(new)
    found = model.predict({"logits": new.logits.tolist()})
    assert_array_equal(found["decision"], decided.labels)
    names = [[*map(rejector.name_of, classes)] for classes in decided.set_classes]
    assert found["set"].tolist() == names


def test_something_else_than_a_rejector_is_refused(tmp_path):
    with pytest.raises(TypeError, match="save_model: rejector must be a Rejector"):
        save_model("rejector/", tmp_path / "model")
