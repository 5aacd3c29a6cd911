"""The command that writes a rejector for other runtimes."""

import numpy as np
import onnxruntime
import pytest
from numpy.testing import assert_array_equal
from typer.testing import CliRunner

from openset import Rejector, detectors
from openset.cli import app
from openset.testing import example_outputs as split


@pytest.fixture
def rejector():
    known = split(80, seed=2, dtype=np.float32)
    return Rejector.calibrate(
        detectors.PostMax().fit(split(160, seed=1, dtype=np.float32)),
        known=known,
        surrogate=split(40, seed=3, unknown=1.0, dtype=np.float32),
    )


def test_a_saved_rejector_becomes_an_onnx_file(rejector, tmp_path):
    folder, out = rejector.save(tmp_path / "rejector"), tmp_path / "model.onnx"
    result = CliRunner().invoke(
        app, ["export", str(folder), "--onnx", "--out", str(out)]
    )
    assert result.exit_code == 0, result.output
    assert "model.onnx" in result.output
    test = split(60, seed=4, unknown=0.4, dtype=np.float32)
    feeds = {"logits": test.logits, "features": test.features}
    [classes] = onnxruntime.InferenceSession(out).run(["class"], feeds)
    assert_array_equal(classes, rejector.predict(test))


def test_the_format_must_be_said(rejector, tmp_path):
    folder = rejector.save(tmp_path / "rejector")
    result = CliRunner().invoke(
        app, ["export", str(folder), "--out", str(tmp_path / "model.bin")]
    )
    assert isinstance(result.exception, ValueError)
    assert "ends in .onnx, or used with --onnx" in str(result.exception)
