"""A finished run: its files, and its network used again."""

import json

import torch
from numpy.testing import assert_array_equal

from openset import Scores, detectors
from openset.train import Odin
from tests.train.tiny import fit_tiny, image_data


def test_scores_of_a_name_have_the_scale_of_the_detector(tmp_path):
    trained = fit_tiny(epochs=1, out=tmp_path)
    train, test = trained.outputs["train"], trained.outputs["test"]
    for name in ("msp", "maxlogit"):
        ours = Scores.load(tmp_path / "scores" / f"{name}.npz").known
        theirs = detectors.make(name).fit(train).score(test).known
        assert_array_equal(ours, theirs, name)
    record = json.loads((tmp_path / "trained.json").read_text())
    assert "log-odds" in record["scales"]["msp"]


def test_a_step_runs_where_the_network_is():
    model = fit_tiny(image_data(), epochs=1).model().to("meta")
    inputs = torch.zeros(2, 3, 16, 16, dtype=torch.uint8)
    moved = model.moved(inputs, Odin())
    assert moved.device.type == "meta"
    assert moved.shape == inputs.shape
