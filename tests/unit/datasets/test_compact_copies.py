"""The packaged data sets, against the loader that comes with them."""

import functools
import io
import json
import lzma

import numpy as np
import pytest

from openset import ArtefactError, datasets, protocols
from openset.datasets import _compact_copies
from openset.datasets._catalogue import CATALOGUE

TABLES = {
    "letter": (20_000, 16, 26),
    "penbased": (10_992, 16, 10),
    "optdigits": (5_620, 64, 10),
    "satimage": (6_435, 36, 6),
    "vowel": (990, 10, 11),
    "segment": (2_310, 19, 7),
}


def load(name, root):
    return datasets.load(name, root, offline=True)


@pytest.fixture(scope="module")
def load_once(data_root):
    """Load large sets of images for several tests."""
    return functools.cache(lambda name: load(name, data_root))


def same(found, expected, parts=("train", "test")):
    for part in parts:
        got = found.part(part)
        assert np.array_equal(got.inputs, expected[f"{part}_x"])
        assert np.array_equal(got.labels, expected[f"{part}_y"])
    assert list(found.classes) == [str(c) for c in expected["class_names"]]


@pytest.mark.parametrize("name", ["mnist", "omniglot"])
def test_images_equal_those_of_the_other_loader(name, load_once, reference):
    same(load_once(name), reference.load(name))


def test_tinyimagenet_validation_images_are_found_by_wordnet_id(data_root, reference):
    found = load("tinyimagenet32_val", data_root)
    expected = reference.load("tinyimagenet32_val")
    same(found, expected, parts=("test",))
    assert list(found.ids) == expected["wnids"] == sorted(expected["wnids"])
    assert found.label_set == "tinyimagenet"


@pytest.mark.parametrize("name", ["cifar10", "svhn"])
def test_lossy_images_equal_those_of_the_other_loader(
    name, data_root, reference, tmp_path
):
    # The first 300 images of each part, in the same format: all would take a minute.
    few = {}
    with np.load(data_root / f"{name}_webp.npz") as whole:
        for part in ("train", "test"):
            sizes = whole[f"{part}_n"][:300]
            few[f"{part}_n"], few[f"{part}_y"] = sizes, whole[f"{part}_y"][:300]
            few[f"{part}_b"] = whole[f"{part}_b"][: int(sizes.astype(int).sum())]
    np.savez(tmp_path / f"{name}_webp.npz", **few)
    found = datasets.load(name, tmp_path, offline=True, verify=False)
    for part in ("train", "test"):
        images = reference._webp(few[f"{part}_b"], few[f"{part}_n"])
        assert np.array_equal(found.part(part).inputs, images)
        assert np.array_equal(found.part(part).labels, few[f"{part}_y"])
    assert "lossy" in found.note
    few["test_b"] = few["test_b"][:-1]
    np.savez(tmp_path / f"{name}_webp.npz", **few)
    with pytest.raises(ArtefactError, match="image bytes, got"):
        datasets.load(name, tmp_path, offline=True, verify=False)


@pytest.mark.parametrize(
    "file", ["cifar10_webp.npz", "svhn_webp.npz", "omniglot.npz.xz"]
)
def test_checksums_of_the_large_files_fit(file, data_root):
    from openset.datasets._download import check  # noqa: PLC0415

    digests = {
        s.compact_copy.file.name: s.compact_copy.file.digest
        for s in CATALOGUE.values()
        if s.compact_copy
    }
    check(data_root / file, digests[file])
    with pytest.raises(ArtefactError, match="must have sha256:000"):
        check(data_root / file, "sha256:000")


@pytest.mark.parametrize(
    "name",
    ["digits", "clinc150", "banking77", "letter", "vowel"],
)
def test_the_registry_knows_the_sizes(name, data_root):
    found = load(name, data_root)
    source = CATALOGUE[name]
    assert (len(found), len(found.classes)) == (source.n_samples, source.n_classes)
    assert found.kind == source.kind


def test_banking77_equals_the_other_loaders(tmp_path, reference):
    same(load("banking77", tmp_path), reference.load("banking77"))


def test_clinc150_calls_its_out_of_scope_texts_oos(tmp_path, reference):
    found, expected = load("clinc150", tmp_path), reference.load("clinc150")
    assert list(found.classes) == expected["class_names"]
    assert np.array_equal(found.part("test").inputs, expected["test_x"])
    assert np.array_equal(found.part("test").labels, expected["test_y"])
    assert np.array_equal(found.part("validation").inputs, expected["val_x"])
    train = found.part("train")
    assert np.array_equal(train.inputs[train.labels >= 0], expected["train_x"])
    assert np.array_equal(train.inputs[train.labels == -1], expected["oos_train_x"])


def test_clinc150_is_cut_with_its_own_unknowns(data_root):
    clinc = load("clinc150", data_root)
    p = protocols.Protocol(known=clinc.classes, unknown=["oos"])
    made = datasets.cut(clinc, p)
    assert (len(made.train), len(made.validation)) == (15_000, 3_000)
    assert int((made.test.labels == -1).sum()) == 1_000
    assert set(made.test.groups[made.test.labels == -1]) == {"oos"}


@pytest.mark.parametrize("name", TABLES)
def test_tables_hold_the_rows_of_the_other_loader(name, tmp_path, reference):
    found, expected = load(name, tmp_path), reference.load(name)
    n, width, n_classes = TABLES[name]
    assert (found.inputs.shape, len(found.classes)) == ((n, width), n_classes)
    assert set(found.parts) == {"train", "test"}
    ours = np.column_stack([found.labels, found.inputs])
    theirs = np.concatenate(
        [np.column_stack([expected[f"{p}_y"], expected[f"{p}_x"]]) for p in found.parts]
    )
    assert np.array_equal(np.sort(ours, axis=0), np.sort(theirs, axis=0))


def test_letter_trains_on_its_first_sixteen_thousand_rows(data_root, reference):
    same(load("letter", data_root), reference.load("letter"))


def test_mnist_against_omniglot_is_cut_at_one_size(load_once):
    mnist, omniglot = load_once("mnist"), load_once("omniglot")
    few = omniglot.part("test").take(np.arange(0, 13_180, 20))
    few = datasets.resized(few, 28, channels=1)
    p = protocols.outlier(mnist, few.classes[-659:], rng=0)
    made = datasets.cut(mnist, p, unknown=few)
    assert int((made.test.labels == -1).sum()) == 659
    assert made.test.inputs.shape == (10_659, 28, 28)


def test_a_damaged_packaged_file_is_refused(tmp_path, monkeypatch):
    raw = bytearray((_compact_copies.SHIPPED / "uci.npz.xz").read_bytes())
    raw[len(raw) // 2] ^= 1
    (tmp_path / "uci.npz.xz").write_bytes(raw)
    monkeypatch.setattr(_compact_copies, "SHIPPED", tmp_path)
    with pytest.raises(ArtefactError, match=r"must have sha256:6691bb72"):
        datasets.load("vowel", tmp_path, offline=True)
    with pytest.raises(ArtefactError, match=r"uci.npz.xz is damaged"):
        datasets.load("vowel", tmp_path, offline=True, verify=False)


def test_what_is_there_is_listed_as_available(data_root):
    here = datasets.available(data_root)
    assert {"digits", "mnist", "cifar10", "clinc150", "letter"} <= set(here)
    assert "imagenet" not in here


def test_official_clinc150_json_is_read(tmp_path):
    texts = {
        key: [[f"{key} {i}", "oos" if "oos" in key else c] for i, c in enumerate("ab")]
        for key in ("train", "val", "test", "oos_train", "oos_val", "oos_test")
    }
    (tmp_path / "clinc150").mkdir()
    path = tmp_path / "clinc150" / "data_full.json"
    path.write_text(json.dumps(texts))
    found = datasets.load("clinc150", tmp_path, offline=True)
    assert found.part("test").labels.tolist() == [0, 1, -1, -1]
    path.write_text(json.dumps({"train": []}))
    with pytest.raises(ArtefactError, match=r"data_full.json is damaged"):
        datasets.load("clinc150", tmp_path, offline=True)
    path.write_text("{")
    with pytest.raises(ArtefactError, match=r"data_full.json is damaged"):
        datasets.load("clinc150", tmp_path, offline=True)


def test_official_banking77_tables_are_read(tmp_path):
    folder = tmp_path / "banking77"
    folder.mkdir()
    (folder / "train.csv").write_text(
        'text,category\n"Lost, again",lost_card\nHow much?,fee\n'
    )
    with pytest.raises(FileNotFoundError, match=r"banking77/test.csv  from https"):
        datasets.load("banking77", tmp_path, offline=True)
    (folder / "test.csv").write_text("text,category\nWhere?,lost_card\n")
    found = datasets.load("banking77", tmp_path, offline=True)
    assert found.inputs.tolist() == ["Lost, again", "How much?", "Where?"]
    assert found.labels.tolist() == [1, 0, 1]
    (folder / "test.csv").write_text("sentence\nWhere?\n")
    with pytest.raises(ArtefactError, match=r"test.csv is damaged"):
        datasets.load("banking77", tmp_path, offline=True)


def test_a_small_omniglot_file_is_refused(tmp_path):
    path = tmp_path / "omniglot.npz.xz"
    stream = io.BytesIO()
    bits = np.zeros((20, 1379), np.uint8)
    np.savez(stream, background=bits, evaluation=bits)
    path.write_bytes(lzma.compress(stream.getvalue()))
    with pytest.raises(ArtefactError, match="must hold 20 drawings of 964 characters"):
        datasets.load("omniglot", tmp_path, offline=True, verify=False)


def test_webp_images_of_another_size_are_refused(tmp_path):
    image = pytest.importorskip("PIL.Image", reason="images need Pillow (extra vision)")
    stream = io.BytesIO()
    image.fromarray(np.zeros((16, 16, 3), np.uint8)).save(stream, "WEBP", quality=75)
    body = np.frombuffer(stream.getvalue()[20:], np.uint8)
    few = {}
    for part in ("train", "test"):
        few |= {f"{part}_b": body, f"{part}_n": np.array([body.size]), f"{part}_y": [0]}
    np.savez(tmp_path / "cifar10_webp.npz", **few)
    with pytest.raises(ArtefactError, match=r"must be 32 x 32, got \(16, 16, 3\)"):
        datasets.load("cifar10", tmp_path, offline=True, verify=False)


def test_omniglot_at_the_size_of_mnist_is_omniglot_resized(load_once):
    small, large = load_once("omniglot28"), load_once("omniglot")
    assert small.inputs.shape == (32_460, 28, 28)
    assert np.array_equal(small.labels, large.labels)
    assert small.label_set == "omniglot"
    few = datasets.resized(large.take([0, 32_459]), 28, channels=1)
    assert np.array_equal(small.inputs[[0, 32_459]], few.inputs)
