"""The `Dataset` value."""

import numpy as np
import pytest

from openset import datasets
from openset.datasets import Dataset, from_arrays, lazy_inputs

PETS = {"inputs": np.eye(4), "labels": [0, 1, 1, 0], "classes": ["cat", "dog"]}
PETS |= {"kind": "table", "name": "pets"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "sound"}, "kind must be one of 'image', 'text', 'table'"),
        ({"labels": [0, 1]}, "inputs and labels must have the same length"),
        ({"labels": [0, 1, 2, 0]}, "labels must be below 2"),
        ({"labels": [0, 1, -1, 0]}, "unlisted must be given exactly if"),
        ({"unlisted": "oos"}, "unlisted must be given exactly if"),
        ({"labels": [0, 1, -1, 0], "unlisted": "cat"}, "unlisted must be no class"),
        ({"labels": [0.5] * 4}, "labels must be integers"),
        ({"classes": ["cat", "cat"]}, "classes must be free of duplicates"),
        ({"inputs": np.array([{}] * 4)}, "inputs must be numbers or strings"),
        ({"parts": {"extra": [0]}}, "parts must be one of 'train'"),
        ({"parts": {"train": []}}, "part train must be a non-empty list"),
        ({"parts": {"train": [0.5]}}, "part train must be a non-empty"),
        ({"parts": {"test": [4]}}, r"part test must be .* rows in 0\.\.3"),
        ({"parts": {"train": [0, 1], "test": [1]}}, "disjoint.*must not be tested on"),
    ],
)
def test_what_is_no_data_set_is_refused_with_the_rule(changes, message):
    with pytest.raises((TypeError, ValueError), match=f"Dataset: .*{message}"):
        Dataset(**(PETS | changes))


def test_a_class_is_found_by_name_or_number():
    pets = Dataset(**PETS)
    assert [pets.number(c) for c in ("dog", 1, np.int64(1))] == [1] * 3
    for stranger in ("cow", 2, -1, True):
        with pytest.raises(ValueError, match=r"be a class of pets \(0..1, or"):
            pets.number(stranger)


def test_a_part_is_a_data_set_of_its_own():
    pets = Dataset(**PETS, parts={"train": [3, 0], "test": [1]})
    train = pets.part("train")
    assert train.inputs.tolist() == np.eye(4)[[3, 0]].tolist()
    assert train.labels.tolist() == [0, 0]
    assert (train.name, train.label_set) == ("pets:train", "pets")
    with pytest.raises(ValueError, match="name must be one of 'train', 'test'"):
        pets.part("validation")


def test_rows_are_taken_by_mask_or_number():
    pets = Dataset(**PETS)
    assert pets.take(pets.labels == 1).labels.tolist() == [1, 1]
    with pytest.raises(ValueError, match="rows must be a slice, a mask"):
        pets.take([])
    with pytest.raises(ValueError, match=r"test must be a number in \(0, 1\)"):
        pets.with_parts(test=1.0)


def test_a_saved_data_set_is_loaded_as_it_was(tmp_path):
    pets = Dataset(
        **(PETS | {"labels": [0, 1, -1, 0]}),
        parts={"train": [0, 1, 2], "test": [3]},
        unlisted="oos",
        label_set="animals",
    )
    again = datasets.load(pets.save(tmp_path / "pets.npz"))
    for field in ("classes", "kind", "name", "unlisted", "label_set"):
        assert getattr(again, field) == getattr(pets, field)
    assert np.array_equal(again.inputs, pets.inputs)
    assert np.array_equal(again.labels, pets.labels)
    parts = {p: r.tolist() for p, r in again.parts.items()}
    assert parts == {"train": [0, 1, 2], "test": [3]}


def test_only_arrays_are_saved_and_only_as_npz(tmp_path):
    files = lazy_inputs.ImageFiles(("a.png",))
    lazy = Dataset(inputs=files, labels=[0], classes=["cat"], kind="image")
    with pytest.raises(TypeError, match=r"got lazy images\. Use"):
        lazy.save(tmp_path / "a.npz")
    with pytest.raises(ValueError, match=r"the ending of a.csv must be one of .\.npz"):
        Dataset(**PETS).save(tmp_path / "a.csv")


def test_a_number_that_is_the_name_of_another_class_is_refused():
    names = [str(i) for i in range(12)]
    data = from_arrays(np.eye(12), names)  # in code-point order: 0, 1, 10, 11, 2, …
    assert (data.number("2"), data.number(1)) == (4, 1)
    with pytest.raises(ValueError, match="got 2: class '10' has this number"):
        data.number(2)
