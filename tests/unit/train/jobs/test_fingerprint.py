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


@pytest.mark.parametrize("lazy", [lambda x: x, lambda x: lazy_inputs.Joined((x,))])
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
