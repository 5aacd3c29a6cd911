"""Hugging Face data sets: the real library, on files this test writes, off the net."""

import socket

import numpy as np
import pytest

from openset import ArtefactError, datasets, protocols

hf = pytest.importorskip("datasets", reason="needs Hugging Face datasets (extra hub)")
image = pytest.importorskip("PIL.Image", reason="images need Pillow (extra vision)")

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (6, 5, 4, 3), np.uint8)
PICTURES = [image.fromarray(one) for one in PIXELS]


@pytest.fixture(autouse=True)
def library(tmp_path, monkeypatch):
    """Give the library a cache of its own, and nobody to talk to."""
    hf.disable_progress_bars()
    monkeypatch.setattr(hf.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    asked = []

    def connect(self, address):
        asked.append(address)
        raise OSError("no net in tests")  # noqa: EM101

    monkeypatch.setattr(socket.socket, "connect", connect)
    yield asked
    hf.enable_progress_bars()


def split(columns, **types):
    """Make a split; columns are as the library guesses them unless told."""
    made = hf.Dataset.from_dict(columns)
    for name, feature in types.items():
        made = made.cast_column(name, feature)
    return made


def texts(*values, labels, names=("neg", "pos")):
    columns = {"text": list(values), "label": list(labels)}
    return split(columns, label=hf.ClassLabel(names=list(names)))


def load(folder, *made, **splits):
    """Let the library save splits, and load them."""
    (made[0] if made else hf.DatasetDict(splits)).save_to_disk(folder / "mine")
    return datasets.load(folder / "mine")


def test_saved_texts_become_a_data_set_which_a_protocol_cuts(tmp_path):
    train = texts(*"abcabc", labels=[0, 1, 2] * 2, names="xyz")
    test = texts(*"abc", labels=[0, 1, 2], names="xyz")
    found = load(tmp_path, train=train, test=test)
    assert repr(found) == "Dataset(mine, text, n=9, classes=3, train=6, test=3)"
    assert found.inputs.tolist() == list("abcabcabc")
    assert (found.labels.tolist(), found.classes) == ([0, 1, 2] * 3, ("x", "y", "z"))
    cut = datasets.cut(found, protocols.Protocol(known=["x", "z"], unknown=["y"]))
    assert cut.train.labels.tolist() == [0, 1, 0, 1]
    assert cut.test.labels.tolist() == [0, 1, -1]
    for name in (f"hf:{tmp_path / 'mine'}", tmp_path / "mine"):
        assert datasets.load(name, labels="label").inputs[1] == "b"


@pytest.mark.parametrize("decode", [True, False])
def test_saved_images_are_decoded_when_asked_for(decode, tmp_path):
    types = {"image": hf.Image(decode=decode), "label": hf.ClassLabel(names=["a", "b"])}
    train = split({"image": PICTURES[:4], "label": [0, 1, 1, 0]}, **types)
    val = split({"image": PICTURES[4:], "label": [1, 0]}, **types)
    found = load(tmp_path, train=train, val=val)
    assert repr(found).endswith("image, n=6, classes=2, train=4, validation=2)")
    for row in range(6):
        assert np.array_equal(found.inputs[row], PIXELS[row])
    chosen = found.part("validation").take([1])
    assert np.array_equal(chosen.inputs[0], PIXELS[5])
    small = np.asarray(PICTURES[5].resize((8, 8), image.Resampling.LANCZOS))
    assert np.array_equal(datasets.resized(chosen, 8).inputs[0], small)


def test_grey_images_become_rgb(tmp_path):
    grey = [image.fromarray(PIXELS[row, :, :, 0]) for row in range(2)]
    found = load(tmp_path, split({"image": grey, "label": [*"xy"]}, image=hf.Image()))
    assert np.array_equal(found.inputs[1], np.repeat(PIXELS[1, :, :, :1], 3, axis=2))


@pytest.mark.parametrize("stored", [{"bytes": b"no image", "path": None}, None])
def test_an_image_that_cannot_be_read_is_named(stored, tmp_path):
    made = split({"image": PICTURES[:2], "label": [*"xy"]}, image=hf.Image())
    raw = made.cast_column("image", hf.Image(decode=False))
    rows = [raw[0]["image"], stored]
    found = load(tmp_path, split({"image": rows, "label": [*"xy"]}, image=hf.Image()))
    assert np.array_equal(found.inputs[0], PIXELS[0])
    with pytest.raises(ArtefactError, match=r"image 1 of .*mine is missing or da"):
        found.inputs[1]


def test_rows_that_were_selected_are_the_ones_read_and_numbers_keep_order(tmp_path):
    whole = split({"text": list("pqrs"), "target": [3, 2, 7, 10]})
    found = load(tmp_path, train=whole.select([3, 1]))
    assert found.inputs.tolist() == ["s", "q"]
    assert (found.classes, found.labels.tolist()) == (("2", "10"), [1, 0])


# --- folders in the form of a hub repository ------------------------------------------


def test_a_repository_of_csv_or_parquet_files_is_read(tmp_path):
    folder = tmp_path / "intents"
    folder.mkdir()
    (folder / "train.csv").write_text("text,intent\nhi,greet\n12,number\nbye,leave\n")
    (folder / "test.csv").write_text("text,intent\nsee you,leave\n")
    found = datasets.load(f"hf:{folder}")
    assert found.inputs.tolist() == ["hi", "12", "bye", "see you"]
    assert found.classes == ("greet", "leave", "number")
    assert found.labels.tolist() == [0, 2, 1, 1]
    assert [rows.tolist() for rows in found.parts.values()] == [[0, 1, 2], [3]]
    for part in ("train", "validation", "test"):
        path = tmp_path / "repo" / "data" / f"{part}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        texts("a", "b", labels=[0, 1]).to_parquet(path)
    found = datasets.load(f"hf:{tmp_path / 'repo'}")
    assert repr(found).endswith("n=6, classes=2, train=2, validation=2, test=2)")


# --- labels, and what is refused ------------------------------------------------------


def test_a_split_without_labels_is_left_out(tmp_path):
    train, test = texts("a", "b", labels=[0, 1]), texts("c", "d", labels=[-1, -1])
    more = texts("e", labels=[-1])
    found = load(tmp_path, train=train, test=test, unsupervised=more)
    assert set(found.parts) == {"train"}
    with pytest.raises(ValueError, match="or test split, got unsupervised"):
        load(tmp_path / "odd", unsupervised=more)


A, X = {"text": ["a"]}, {"label": ["x"]}


@pytest.mark.parametrize(
    ("made", "options", "message"),
    [
        (A | {"label": [None]}, {}, "'label' .*, got 1 without"),
        ({"text": ["a", None], "label": [*"xy"]}, {}, "'text' .*, got 1 without"),
        ({"x": [1.0]} | X, {}, "column of images or texts, got none"),
        ({"x": [1.0]} | X, {"inputs": "x"}, "images or texts in 'x', got n"),
        (A | {"b": ["r"]} | X, {}, r"one column .*inputs='…'"),
        (A | X | {"class": ["y"]}, {}, r"one class .*labels="),
        (A, {}, "one class column, got none"),
        (A | X, {"inputs": "b"}, "column of .* must be one"),
        (A | {"n": [1]}, {"labels": "b"}, "column of .* must be one"),
        (A | {"label": [0.5]}, {}, "must be class names or numbers"),
        ([0, -1], {}, "a class in 'label' for every sample"),
        ([-1, -1], {}, "a class in 'label' for every sample"),
    ],
)
def test_what_cannot_be_understood_is_asked_for(made, options, message, tmp_path):
    whole = split(made) if isinstance(made, dict) else texts("a", "b", labels=made)
    whole.save_to_disk(tmp_path / "odd")
    with pytest.raises((TypeError, ValueError), match=message):
        datasets.load(tmp_path / "odd", **options)


def test_damage_is_named(tmp_path):
    load(tmp_path, texts("a", "b", labels=[0, 1]))
    (arrow,) = (tmp_path / "mine").glob("*.arrow")
    arrow.write_bytes(arrow.read_bytes()[:50])
    with pytest.raises(ArtefactError, match=r"mine is damaged"):
        datasets.load(tmp_path / "mine")
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "train.parquet").write_bytes(b"PAR1 no parquet")
    with pytest.raises(ArtefactError, match=r"repo is damaged"):
        datasets.load(f"hf:{tmp_path / 'repo'}")


def test_offline_asks_nobody_and_says_what_to_do(library, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hf.config, "HF_HUB_OFFLINE", False)
    with pytest.raises(FileNotFoundError, match=r"hf:owner/name.*OPENSET_OFFLINE=1"):
        datasets.load("hf:owner/name", offline=True)
    assert library == []
