"""`openset extract --invalid keep`: damaged images, and NaN from the network."""

import io
import json
import tarfile

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from PIL import Image
from torch import nn
from typer.testing import CliRunner

from openset import Outputs, Rejector, detectors
from openset._types import ArtefactError, InvalidSamplesError
from openset.cli import app
from openset.datasets import image_lists, lazy_inputs
from openset.datasets.lazy_inputs import DamagedImageError, ImageFiles
from openset.integrations import networks
from openset.train import Odin, extract
from tests.train.tiny import fit_tiny, image_data, rows_data

SIDE = 16
NAME = f"{__name__}:small"


class Contrast(nn.Module):
    """Divide by the contrast: an image of one colour becomes NaN."""

    def forward(self, images):  # noqa: D102
        middle = images.mean(dim=(1, 2, 3), keepdim=True)
        return (images - middle) / (images - middle).square().mean(
            dim=(1, 2, 3), keepdim=True
        ).sqrt()


def small():
    torch.manual_seed(0)
    return nn.Sequential(
        Contrast(),
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 4),
    )


def encoded(pixels, kind="png"):
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


PIXELS = np.random.default_rng(0).integers(0, 256, (11, SIDE, SIDE, 3), dtype=np.uint8)
GOOD = {f"{i:02}.png": encoded(one) for i, one in enumerate(PIXELS)}
JPEG = encoded(PIXELS[0], "jpeg")
BOMB = b"BM" + bytes(12) + (40).to_bytes(4, "little") + b"\xff\xff\x00\x00" * 2
DAMAGED = {
    "00-first.jpg": JPEG[: len(JPEG) // 2],
    "04-empty.jpg": b"",
    "04-text.jpg": b"<html>404 Not Found</html>",
    "07-flipped.png": GOOD["07.png"][:50] + b"?" + GOOD["07.png"][51:],
    "07-huge.bmp": BOMB + b"\x01\x00\x18\x00" + bytes(24),
    "99-last.png": GOOD["03.png"][:200],
}


def write(folder, files):
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def write_tar(path, files):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            for one, data in ((name, content), (name[:-3] + "cls", b"1")):
                info = tarfile.TarInfo(one)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


def run(*words):
    done = CliRunner().invoke(app, [*map(str, words)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, " ".join(done.output.split())


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    fit_tiny(image_data(side=SIDE), network="osrci", epochs=1, out=folder)
    return folder


@pytest.fixture(scope="module")
def onnx_file(tmp_path_factory):
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    example = torch.rand(2, 3, SIDE, SIDE)
    torch.onnx.export(
        small().eval(), (example,), path, dynamo=True, verbose=False,
        dynamic_shapes=({0: torch.export.Dim("n")},),
    )  # fmt: skip
    return path


def same_rows(found, plain):
    """Check that damaged images are NaN, and the others as if these were not there."""
    is_bad = np.isin(found.ids, list(DAMAGED))
    assert is_bad.sum() == len(DAMAGED)
    assert_array_equal(found.is_invalid, is_bad)
    for name in ("logits", "features"):
        array = getattr(found, name)
        assert np.isnan(array[is_bad]).all()
        assert_array_equal(array[~is_bad], getattr(plain, name), strict=True)
    assert_array_equal(found.ids[~is_bad], plain.ids)


@pytest.mark.parametrize(
    "words",
    [
        [NAME, "--side", SIDE, "--batch-size", 3],
        [NAME, "--side", SIDE, "--batch-size", 3, "--layers", "1,3"],
        [NAME, "--side", SIDE, "--batch-size", 4, "--odin", "epsilon=0.01"],
        pytest.param(
            ["ONNX", "--batch-size", 3],
            marks=pytest.mark.filterwarnings("ignore::FutureWarning"),  # of torch
        ),
        ["TRAINED"],
        ["TRAINED", "--layers", "LIST"],
    ],
    ids=["module", "layers", "odin", "onnx", "trained", "trained layers"],
)
def test_rows_of_nan_leave_the_others_bit_for_bit(request, tmp_path, words):
    for mark, fixture in (("ONNX", "onnx_file"), ("TRAINED", "trained")):
        if words[0] == mark:
            words = [request.getfixturevalue(fixture), *words[1:]]
    if words[-1] == "LIST":
        names = run("extract", words[0], tmp_path, "--layers", "list")[1].split()
        words = [*words[:-1], names[0]]
    plain = write(tmp_path / "plain" / "photos", GOOD)
    mixed = write(tmp_path / "mixed" / "photos", GOOD | DAMAGED)
    options = [*words[1:], "--unknown"]
    assert run("extract", words[0], plain, *options, "-o", tmp_path / "a.npz")[0] == 0
    out = tmp_path / "b.npz"
    with pytest.raises(
        DamagedImageError, match=r"00-first\.jpg is damaged .*--invalid"
    ):
        run("extract", words[0], mixed, *options, "-o", out)
    assert not out.exists()
    code, text = run("extract", words[0], mixed, *options, "-o", out, "--invalid=keep")
    assert code == 0
    assert "invalid: 6 of 17 samples" in text
    assert "openset predict --invalid reject" in text
    assert "the first: row 0, 00-first.jpg" in text
    with pytest.raises(InvalidSamplesError):
        Outputs.load(out)
    found = Outputs.load(out, invalid="keep")
    same_rows(found, Outputs.load(tmp_path / "a.npz"))
    assert (found.labels == -1).all()
    assert (found.groups == "photos").all()


def test_labels_accuracy_and_decisions_around_damaged_images(trained, tmp_path):
    folder = tmp_path / "photos"
    write(folder / "class 0", GOOD)
    write(folder / "class 1", DAMAGED)
    out = tmp_path / "out.npz"
    _, text = run("extract", trained, folder, "-o", out, "--invalid", "keep")
    found = Outputs.load(out, invalid="keep")
    assert_array_equal(found.is_invalid, found.groups == "class 1")
    names = np.array(["class 0", "class 1"])
    expected = [found.classes.index(n) if n in found.classes else -1 for n in names]
    assert_array_equal(found.labels, np.array(expected)[found.is_invalid.astype(int)])
    has_answer = ~found.is_invalid & (found.labels >= 0)
    right = (found.logits.argmax(axis=1) == found.labels)[has_answer]
    shown = f"{right.mean():.4f}" if right.size else "-"
    assert f"accuracy {shown} without the invalid ones" in text
    valid = found.take(has_answer | (found.groups == "class 0"))
    known = Outputs(logits=valid.logits, labels=valid.logits.argmax(axis=1))
    fitted = detectors.MSP().fit(known)
    rejector = Rejector.calibrate(fitted, known=known, objective="at_tpr", tpr=0.9)
    rejector.save(tmp_path / "rejector")
    words = ["predict", tmp_path / "rejector", out, "--csv", "--invalid", "reject"]
    assert "6 of 17 samples are invalid and answered with unknown" in run(*words)[1]


def test_a_list_may_begin_with_a_damaged_image(tmp_path):
    folder = write(tmp_path / "photos", GOOD | DAMAGED)
    names = sorted(GOOD | DAMAGED)
    lines = [f"{name} {i % 4}\n" for i, name in enumerate(names)]
    (tmp_path / "list.txt").write_text("".join(lines))
    words = ["extract", NAME, folder, "--side", SIDE, "--list", tmp_path / "list.txt"]
    assert run(*words, "-o", tmp_path / "o.npz", "--invalid", "keep")[0] == 0
    found = Outputs.load(tmp_path / "o.npz", invalid="keep")
    listed = image_lists.read(tmp_path / "list.txt")
    assert_array_equal(found.labels, listed.labels)
    assert_array_equal(found.ids[found.is_invalid], sorted(DAMAGED))


@pytest.mark.parametrize("workers", [["--backend", "sequential"], ["--jobs", 2]])
def test_shards_go_on_with_keep(trained, tmp_path, workers):
    tars = tmp_path / "tars"
    write_tar(tars / "a.tar", GOOD)
    write_tar(tars / "b.tar", dict(sorted((GOOD | DAMAGED).items())))
    write_tar(tars / "c.tar", {"04-text.jpg": DAMAGED["04-text.jpg"]})
    out = tmp_path / "out"
    words = ["extract", trained, tars, "-o", out, *workers]
    code, text = run(*words)
    assert code == 1
    assert "1 of 3 shards" in text
    # The member of the archive is named, not the file it was unpacked to.
    assert "openset extract: 00-first.jpg of /" in text
    assert "--invalid keep" in text
    code, text = run(*words, "--invalid", "keep")
    assert code == 0
    assert "2 run now" in text
    assert "invalid: 7 samples in 2 shards" in text
    assert "the first: row 0 of b, 00-first.jpg" in text
    record = json.loads((out / "invalid" / "b.json").read_text())
    assert record == {"shard": "b", "n": 6, "row": 0, "id": "00-first.jpg"}
    plain = Outputs.load(out / "a.npz")
    found = Outputs.load(out / "b.npz", invalid="keep")
    same_rows(found, plain)
    assert (found.labels == 1).all()
    # Nothing in it can be read, yet its outputs have the width of the others.
    lost = Outputs.load(out / "c.npz", invalid="keep")
    assert lost.is_invalid.all()
    assert lost.logits.shape == (1, plain.n_classes)
    code, text = run(*words, "--invalid", "keep")
    assert "0 run now" in text
    assert "invalid: 7 samples in 2 shards" in text


def test_nan_of_the_network_from_a_fine_image_is_named_or_kept(tmp_path):
    grey = {"05-grey.png": encoded(np.full((SIDE, SIDE, 3), 7, np.uint8))}
    folder = write(tmp_path / "photos", GOOD | grey)
    words = ["extract", NAME, folder, "--side", SIDE, "-o", tmp_path / "o.npz"]
    with pytest.raises(
        InvalidSamplesError, match=r"\(05-grey\.png\)\. .*--invalid keep"
    ):
        run(*words)
    code, text = run(*words, "--invalid", "keep")
    assert (code, "1 of 12 samples" in text) == (0, True)
    found = Outputs.load(tmp_path / "o.npz", invalid="keep")
    assert found.ids[found.is_invalid].tolist() == list(grey)


@pytest.mark.parametrize("folder", [None, "out"])
def test_extract_keeps_nan_of_a_loader(tmp_path, folder):
    images = torch.rand(5, 3, SIDE, SIDE)
    images[3] = float("nan")
    out = None if folder is None else tmp_path / folder
    found = extract(small(), [images[:2], images[2:]], out=out, invalid="keep")
    assert found.is_invalid.tolist() == [False, False, False, True, False]
    with pytest.raises(ValueError, match="invalid must be"):
        extract(small(), [images], invalid="drop")


def test_a_last_layer_is_fitted_without_them(tmp_path):
    folder = tmp_path / "photos"
    write(folder / "a", dict(list(GOOD.items())[:6]))
    write(folder / "b", dict(list(GOOD.items())[6:]))
    words = ["extract", NAME, folder, "--side", SIDE, "--batch-size", 3, "-o"]
    run(*words, tmp_path / "plain.npz", "--fit-head", tmp_path / "plain-head.npz")
    for name, content in DAMAGED.items():
        (folder / "b" / name).write_bytes(content)
    out, head = tmp_path / "mixed.npz", tmp_path / "head.npz"
    run(*words, out, "--fit-head", head, "--invalid", "keep")
    found = Outputs.load(out, invalid="keep")
    assert found.is_invalid.sum() == len(DAMAGED)
    plain = Outputs.load(tmp_path / "plain.npz")
    assert_array_equal(found.weight, plain.weight)
    assert_array_equal(found.logits[~found.is_invalid], plain.logits)


def test_only_images_that_cannot_be_read_are_kept(tmp_path):
    folder = write(tmp_path / "photos", GOOD)
    network = networks.load(small(), side=SIDE)
    files = ImageFiles(tuple(lazy_inputs.image_paths(folder)))
    (folder / "03.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"no such image: .*03\.png"):
        network.apply(files, invalid="keep", progress=False)
    (folder / "03.png").mkdir()  # not the image's fault: perhaps that of the disk
    with pytest.raises(ArtefactError, match=r"03\.png cannot be read"):
        network.apply(files, invalid="keep", progress=False)


def test_a_step_over_damaged_images_in_memory(tmp_path):
    folder = write(tmp_path / "photos", GOOD | DAMAGED)
    files = ImageFiles(tuple(lazy_inputs.image_paths(folder)))
    network = networks.load(small(), side=SIDE)
    options = {"batch_size": 3, "device": "cpu", "progress": False, "invalid": "keep"}
    found = network.apply(files, step=Odin(epsilon=0.01), out=tmp_path / "o", **options)
    assert_array_equal(
        found.is_invalid, [path.rpartition("/")[2] in DAMAGED for path in files.paths]
    )


def test_rows_of_a_table_with_nan_are_kept():
    data = rows_data()
    trained, rows = fit_tiny(data, network="mlp", epochs=1), data.inputs[:7]
    plain = trained.apply(rows, progress=False)
    bad = np.insert(rows, [0, 4], np.array([[np.nan], [np.inf]]), axis=0)
    with pytest.raises(ValueError, match="finite"):
        trained.apply(bad, progress=False)
    found = trained.apply(bad, invalid="keep", progress=False)
    assert np.flatnonzero(found.is_invalid).tolist() == [0, 5]
    assert_array_equal(found.logits[~found.is_invalid], plain.logits, strict=True)
