"""`openset export`."""

import numpy as np
import onnxruntime
import pytest
from numpy.testing import assert_array_equal

from openset import Outputs, Rejector
from openset.cli import main


def test_a_saved_rejector_becomes_an_onnx_file(run, files, tmp_path):
    out = tmp_path / "model.onnx"
    text = run("export", "rejector", "--onnx", "--out", out)
    rejector, test = Rejector.load(files / "rejector"), Outputs.load(files / "test.npz")
    assert f"wrote {out}: threshold {rejector.threshold}" in text
    feeds = {"logits": test.logits.astype(np.float32)}
    [classes] = onnxruntime.InferenceSession(out).run(["class"], feeds)
    assert_array_equal(classes, rejector.predict(test))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("rejector --out model.bin", "must be one of '.onnx'"),
        ("rejector --out model.onnx --head head.npz", "are for a network by name"),
        (
            "rejector --out model.onnx --model net.onnx --pixels side=8",
            "are for a network by name",
        ),
        ("rejector --out same.onnx --model same.onnx", "another file than those"),
        ("missing --out model.onnx", "missing"),
    ],
)
def test_what_is_refused(files, monkeypatch, capsys, words, said):
    monkeypatch.chdir(files)
    (files / "same.onnx").touch()
    with pytest.raises(SystemExit) as end:
        main(["export", *words.split()])
    assert end.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())
