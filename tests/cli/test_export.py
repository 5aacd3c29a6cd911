"""`openset export`."""

import numpy as np
import onnxruntime
from numpy.testing import assert_array_equal

from openset import Outputs, Rejector


def test_a_saved_rejector_becomes_an_onnx_file(run, files, tmp_path):
    out = tmp_path / "model.onnx"
    text = run("export", "rejector", "--onnx", "--out", out)
    rejector, test = Rejector.load(files / "rejector"), Outputs.load(files / "test.npz")
    assert f"wrote {out}: threshold {rejector.threshold}" in text
    feeds = {"logits": test.logits.astype(np.float32)}
    [classes] = onnxruntime.InferenceSession(out).run(["class"], feeds)
    assert_array_equal(classes, rejector.predict(test))
