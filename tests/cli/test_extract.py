"""`openset extract`, and what goes on from it, as it is typed."""

import tarfile

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from openset import Outputs, datasets, extract, protocols
from openset.train import Trained
from tests.extract.test_data import DAMAGED, GOOD, small, write
from tests.train.tiny import fit_tiny, image_data

NAME, SIDE = "tests.extract.test_data:small", ["--pixels", "side=16", "--device", "cpu"]


@pytest.fixture
def run(run):
    """Return a function that runs a command, and returns all that it says."""
    return lambda *words, **how: " ".join(run(*words, stream="output", **how).split())


def test_a_run_on_a_data_set_by_name(run, tmp_path):
    out, trained, data = tmp_path / "all.npz", tmp_path / "run", datasets.load("digits")
    known, others = data.classes[3:9], (*data.classes[:3], data.classes[9])
    split = protocols.Protocol(known=known, unknown=others, source="digits")
    fit_tiny(data, network="mlp", protocol=split, epochs=2, out=trained)
    text = run("extract", trained, "digits", "--out", out)
    outputs, digits = Outputs.load(out), datasets.load("digits")
    inside = (digits.labels >= 3) & (digits.labels < 9)
    assert_array_equal(outputs.labels, np.where(inside, digits.labels - 3, -1))
    assert_array_equal(outputs.groups, np.array(digits.classes)[digits.labels])
    expected = Trained.load(trained).apply(digits.inputs, progress=False)
    assert_array_equal(outputs.logits, expected.logits)
    right = outputs.logits.argmax(axis=1) == outputs.labels
    assert f"{inside.sum()} samples of known classes, accuracy " in text
    assert f"accuracy {right[inside].mean():.4f}" in text
    # What is not a class of the network is named: it may be misspelt.
    others = ", ".join([*digits.classes[:3], "…"])
    assert f"{(~inside).sum()} samples labelled -1 (unknown), of {others}" in text
    assert "full1.0 Linear" in run("extract", trained, "digits", "--layers", "list")


def test_options_are_those_of_python(run, tmp_path):
    names = [f"{'ab'[i > 5]}/{name}" for i, name in enumerate(GOOD)]
    folder = write(tmp_path / "photos", dict(zip(names, GOOD.values(), strict=True)))
    (tmp_path / "names.txt").write_text("a\nx\nc\nd\n", "utf-8")
    out, pixels = tmp_path / "o.npz", {"mean": (0.5, 0.4, 0.3), "std": (0.2, 0.3, 0.4)}
    text = run(
        "extract", NAME, folder, *SIDE[2:], "--pixels",
        "side=16,mean=0.5,0.4,0.3,std=0.2,0.3,0.4",
        "--step", "odin:epsilon=0.01", "--layers", "1, 3", "--batch-size", 3, "--out",
        out, "--classes", tmp_path / "names.txt",
    )  # fmt: skip
    assert (
        "inputs perturbed by odin:temperature=1000.0,epsilon=0.01,std=0.2 0.3" in text
    )
    network = extract.load(small(), side=16, classes=tuple("axcd"), **pixels)
    expected = extract.run(
        network, folder, step=extract.Odin(epsilon=0.01), layers=["1", "3"],
        batch_size=3, device="cpu", progress=False,
    )  # fmt: skip
    found = Outputs.load(out)
    for name in ("logits", "features", "labels", "groups", "ids"):
        assert_array_equal(getattr(found, name), getattr(expected, name))
    assert found.input_step == expected.input_step
    nobody = run("extract", NAME, folder, *SIDE, "--out", out)
    assert "does not name its classes, so all samples are labelled -1" in nobody


def test_shards_go_on_with_keep(run, tmp_path):
    fit_tiny(image_data(side=16), network="osrci", epochs=1, out=tmp_path / "run")
    for name, content in (("a", GOOD), ("b", GOOD | DAMAGED)):
        write(tmp_path / "photos" / name, content)
        (tmp_path / "tars").mkdir(exist_ok=True)
        with tarfile.open(tmp_path / "tars" / f"{name}.tar", "w") as tar:
            for file in sorted(content):
                tar.add(tmp_path / "photos" / name / file, file)
    words = ["extract", tmp_path / "run", tmp_path / "tars", "-o", tmp_path / "out"]
    words += ["--jobs", 1]
    assert "1 of 2 shards" in run(*words, code=1)
    text = run(*words, "--invalid", "keep")
    assert "1 run now" in text
    assert f"invalid: b: {len(DAMAGED)} samples" in text
    assert "0 run now" in run(*words, "--invalid", "keep")
