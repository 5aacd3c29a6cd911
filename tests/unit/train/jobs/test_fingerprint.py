"""A folder of results belongs to its data: other images are other data."""

import numpy as np
import pytest

from openset import datasets, protocols
from openset.datasets import lazy_inputs
from openset.train.jobs import _fingerprint

image = pytest.importorskip("PIL.Image")


def write(folder, *, grey):
    for name in ("train/cat", "train/dog", "test/cat", "test/dog"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for i in range(3):
            image.new("RGB", (4, 4), (grey, grey, i)).save(folder / name / f"{i}.png")


@pytest.mark.parametrize(
    "lazy", [lambda x: x, lambda x: lazy_inputs.Picked(x, np.arange(len(x)))]
)
def test_images_that_were_changed_are_other_samples(lazy, tmp_path):
    def found():
        data = datasets.load(str(tmp_path))
        data = datasets.Dataset(
            name=data.name, kind=data.kind, inputs=lazy(data.inputs),
            labels=data.labels, classes=data.classes, parts=data.parts,
        )  # fmt: skip
        protocol = protocols.Protocol(
            known=("cat",), unknown=("dog",), source=data.name
        )
        return _fingerprint.of_cut(datasets.cut(data, protocol))

    write(tmp_path, grey=0)
    before = found()
    assert found() == before
    write(tmp_path, grey=200)  # the same names, sizes and numbers
    assert found() != before


def test_texts_that_were_changed_are_other_samples():
    one, other = (
        _fingerprint._bytes_of_input(text) for text in ("a card", np.str_("a cart"))
    )
    assert one != other


def rows_cut(inputs):
    data = datasets.from_arrays(inputs, np.arange(len(inputs)) % 2, name="rows")
    data = data.with_parts(test=0.5)
    return datasets.cut(data, protocols.Protocol(known=["0"], unknown=["1"]))


def test_one_sample_of_many_that_was_changed_is_noticed():
    inputs = np.zeros((2000, 2), dtype=np.float32)
    before = _fingerprint.of_cut(rows_cut(inputs))
    for row in range(0, 100, 2):
        other = inputs.copy()
        other[row] = 1
        assert _fingerprint.of_cut(rows_cut(other)) != before, row


def test_one_image_of_many_that_was_changed_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(_fingerprint, "_N_READ", 2)
    monkeypatch.setattr(_fingerprint, "_N_DECODED", 1)
    write(tmp_path, grey=0)
    data = datasets.load(str(tmp_path))
    protocol = protocols.Protocol(known=("cat",), unknown=("dog",), source=data.name)
    for part in ("train", "test"):
        before = _fingerprint.of_cut(datasets.cut(data, protocol))
        image.new("RGB", (4, 4), (9, 9, 9)).save(tmp_path / part / "cat" / "1.png")
        assert _fingerprint.of_cut(datasets.cut(data, protocol)) != before
    # Of very much data only some are read: here the first and the last image.
    monkeypatch.setattr(_fingerprint, "_WHOLE", 0)
    before = _fingerprint.of_cut(datasets.cut(data, protocol))
    image.new("RGB", (4, 4), (8, 8, 8)).save(tmp_path / "train" / "cat" / "1.png")
    assert _fingerprint.of_cut(datasets.cut(data, protocol)) == before
