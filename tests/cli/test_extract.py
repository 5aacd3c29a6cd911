"""`openset extract`, and what goes on from it, as it is typed."""

import io
import tarfile
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from typer.testing import CliRunner

from openset import Outputs, datasets, extract, protocols
from openset.cli import app
from openset.datasets import image_lists
from openset.train import Trained
from tests.extract.test_data import DAMAGED, GOOD, PIXELS, same_rows, small, write
from tests.train.tiny import fit_tiny, image_data

NAME, SIDE = "tests.extract.test_data:small", ["--pixels", "side=16", "--device", "cpu"]


def run(*words):
    done = CliRunner().invoke(app, [*map(str, words)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("extract")
    names = datasets.load("digits").classes
    protocols.Protocol(
        known=names[3:9], unknown=(*names[:3], names[9]), source="digits"
    ).save(folder / "protocol.json")
    run(
        "train", "-m", "softmax", "--data", "digits", "--recipe", "arpl", "--epochs", 2,
        "--set", "lr=0.02", "--protocol", folder / "protocol.json",
        "--out", folder / "run",
    )  # fmt: skip
    return folder / "run"


def test_a_run_on_a_data_set_by_name(trained, tmp_path):
    out = tmp_path / "all.npz"
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


def test_options_are_those_of_python(tmp_path):
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
    assert (found.layers, found.input_step) == (expected.layers, expected.input_step)
    nobody = run("extract", NAME, folder, *SIDE, "--out", out)
    assert "does not name its classes, so all samples are labelled -1" in nobody
    listed = tmp_path / "list.txt"
    listed.write_text(f"{names[3]} 2\n{names[0]} -1\n", "utf-8")
    run("extract", NAME, folder, *SIDE, "--list", listed, "--out", out)
    assert Outputs.load(out).labels.tolist() == [2, -1]
    assert Outputs.load(out).ids.tolist() == [names[3], names[0]]


def archive(path, files):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            for one, data in ((name, content), (name[:-3] + "cls", b"1")):
                info = tarfile.TarInfo(one)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


def test_shards_go_on_with_keep(tmp_path):
    fit_tiny(image_data(side=16), network="osrci", epochs=1, out=tmp_path / "run")
    tars, out = tmp_path / "tars", tmp_path / "out"
    archive(tars / "a.tar", GOOD)
    archive(tars / "b.tar", dict(sorted((GOOD | DAMAGED).items())))
    archive(tars / "c.tar", {"04-text.jpg": DAMAGED["04-text.jpg"]})
    words = ["extract", tmp_path / "run", tars, "-o", out, "--jobs", 1]
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == 1
    said = " ".join(done.output.split())
    assert "1 of 3 shards" in said
    # The member of the archive is named, not the file it was unpacked to.
    assert "00-first.jpg of /" in said
    text = run(*words, "--invalid", "keep")
    assert "2 run now" in text
    assert "invalid: b: 6 samples invalid: c: 1 samples" in text
    plain = Outputs.load(out / "a.npz")
    trained = Trained.load(tmp_path / "run")
    assert_allclose(plain.logits, trained.apply(PIXELS).logits, rtol=1e-4)
    same_rows(Outputs.load(out / "b.npz", invalid="keep"), plain)
    # Nothing in it can be read, yet its outputs have the width of the others.
    lost = Outputs.load(out / "c.npz", invalid="keep")
    assert lost.is_invalid.all()
    assert lost.logits.shape == (1, plain.n_classes)
    assert "0 run now" in run(*words, "--invalid", "keep")


def test_a_list_of_a_benchmark_by_name(tmp_path, monkeypatch):
    folder = write(tmp_path / "images", GOOD)
    given = image_lists.of_unknown("x", tuple(list(GOOD)[:2]))
    monkeypatch.setattr("openset.bench.named.names", lambda: ["openood:cifar10"])
    monkeypatch.setattr(
        "openset.bench.named.load",
        lambda _: SimpleNamespace(images=lambda _part: given.paths),
    )
    words = ["extract", NAME, folder, *SIDE, "--out", tmp_path / "o.npz"]
    run(*words, "--list", "openood:cifar10/near/tin")
    found = Outputs.load(tmp_path / "o.npz")
    assert (set(found.labels), set(found.groups)) == ({-1}, {"tin"})
    with pytest.raises(FileNotFoundError, match="openood:other/near/x"):
        run(*words, "--list", "openood:other/near/x")
