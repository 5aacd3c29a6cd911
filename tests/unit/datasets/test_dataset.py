"""The `Dataset` value, arrays, and ``.npz`` files."""

import numpy as np
import pytest

from openset import ArtefactError, datasets
from openset.datasets import Dataset, from_arrays, lazy_inputs
from openset.datasets._arrays import from_npz

PETS = {"inputs": np.eye(4), "labels": [0, 1, 1, 0], "classes": ["cat", "dog"]}
PETS |= {"kind": "table", "name": "pets"}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"kind": "sound"}, ValueError, "kind must be one of 'image', 'text', 'table'"),
        ({"labels": [0, 1]}, ValueError, "inputs and labels must have the same length"),
        ({"labels": [0, 1, 2, 0]}, ValueError, "labels must be below 2"),
        ({"labels": [0, 1, -1, 0]}, ValueError, "unlisted must be given exactly if"),
        ({"unlisted": "oos"}, ValueError, "unlisted must be given exactly if"),
        ({"labels": [0.5] * 4}, TypeError, "labels must be integers"),
        ({"classes": ["cat", "cat"]}, ValueError, "classes must be free of duplicates"),
        ({"ids": ["n1"]}, ValueError, "ids must be one per class, got 1 for 2"),
        (
            {"inputs": np.array([{}] * 4)},
            TypeError,
            "inputs must be numbers or strings",
        ),
        ({"parts": {"extra": [0]}}, ValueError, "parts must be one of 'train'"),
        ({"parts": {"train": []}}, ValueError, "part train must be a non-empty list"),
        ({"parts": {"train": [0.5]}}, ValueError, "part train must be a non-empty"),
        ({"parts": {"test": [4]}}, ValueError, r"part test must be rows in 0\.\.3"),
        (
            {"parts": {"train": [0, 1], "test": [1]}},
            ValueError,
            "parts must be disjoint.*must not be tested on",
        ),
        (
            {"labels": [0, 1, -1, 0], "unlisted": "cat"},
            ValueError,
            "unlisted must be no class name",
        ),
    ],
)
def test_what_is_no_data_set_is_refused_with_the_rule(changes, error, message):
    with pytest.raises(error, match=f"Dataset: .*{message}"):
        Dataset(**(PETS | changes))


def test_inputs_and_labels_cannot_be_written_to():
    pets = Dataset(**PETS)
    for array in (pets.inputs, pets.labels):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    PETS["inputs"][0, 0] = 1.0  # the caller's own array stays writeable


def test_a_class_is_found_by_name_id_or_number():
    pets = Dataset(**PETS, ids=["n1", "n2"])
    assert [pets.number(c) for c in ("dog", "n2", 1, np.int64(1))] == [1] * 4
    for stranger in ("cow", 2, -1, True):
        with pytest.raises(
            ValueError, match=r"class must be a class of pets \(0..1, or"
        ):
            pets.number(stranger)


def test_unlisted_samples_are_found_by_their_name():
    pets = Dataset(**(PETS | {"labels": [0, 1, -1, 0]}), unlisted="oos")
    assert pets.number("oos") == -1
    assert pets.counts.tolist() == [2, 1]
    assert "oos=1" in repr(pets)
    assert pets.take([0, 1]).unlisted == ""


def test_a_part_is_a_data_set_of_its_own():
    pets = Dataset(**PETS, parts={"train": [3, 0], "test": [1]})
    train = pets.part("train")
    assert train.inputs.tolist() == np.eye(4)[[3, 0]].tolist()
    assert train.labels.tolist() == [0, 0]
    assert (train.name, train.label_set) == ("pets:train", "pets")
    with pytest.raises(ValueError, match="Its parts: train, test"):
        pets.part("validation")


def test_rows_are_taken_by_mask_or_number():
    pets = Dataset(**PETS)
    assert pets.take(pets.labels == 1).labels.tolist() == [1, 1]
    with pytest.raises(ValueError, match="rows must be non-empty"):
        pets.take([])


def test_drawn_parts_have_exact_shares_of_each_class():
    labels = np.repeat([0, 1], [50, 30])
    data = from_arrays(np.arange(80.0)[:, None], labels)
    cut = data.with_parts(test=0.2, validation=0.1, rng=3)
    sizes = {p: np.bincount(cut.part(p).labels).tolist() for p in cut.parts}
    assert sizes == {"train": [35, 21], "validation": [5, 3], "test": [10, 6]}
    again = data.with_parts(test=0.2, validation=0.1, rng=3)
    assert again.parts["test"].tolist() == cut.parts["test"].tolist()
    with pytest.raises(ValueError, match=r"test \+ validation must be below 1"):
        data.with_parts(test=0.6, validation=0.5)


def test_digits_are_always_there():
    digits = datasets.load("digits", "no/such/folder", offline=True)
    assert digits.inputs.shape == (1797, 64)
    assert digits.counts.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_a_saved_data_set_is_loaded_as_it_was(tmp_path):
    pets = Dataset(
        **(PETS | {"labels": [0, 1, -1, 0]}),
        ids=["n1", "n2"],
        parts={"train": [0, 1, 2], "test": [3]},
        unlisted="oos",
        label_set="animals",
        note="noisy",
    )
    again = datasets.load(pets.save(tmp_path / "pets.npz"))
    for field in ("classes", "kind", "name", "ids", "unlisted", "label_set", "note"):
        assert getattr(again, field) == getattr(pets, field)
    assert np.array_equal(again.inputs, pets.inputs)
    assert np.array_equal(again.labels, pets.labels)
    assert {p: r.tolist() for p, r in again.parts.items()} == {
        "train": [0, 1, 2],
        "test": [3],
    }


def test_only_arrays_are_saved_and_only_as_npz(tmp_path):
    files = lazy_inputs.ImageFiles(("a.png",))
    lazy = Dataset(inputs=files, labels=[0], classes=["cat"], kind="image")
    with pytest.raises(TypeError, match=r"got lazy images\. Use"):
        lazy.save(tmp_path / "a.npz")
    with pytest.raises(ValueError, match=r"path must be a \.npz file"):
        Dataset(**PETS).save(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("inputs", "kind"),
    [
        (np.zeros((2, 8, 8)), "image"),
        (np.zeros((2, 8, 8, 3), np.uint8), "image"),
        (np.zeros((2, 5)), "table"),
        (["hello", "bye"], "text"),
    ],
)
def test_the_kind_of_arrays_is_told_by_their_shape(inputs, kind):
    assert from_arrays(inputs, [0, 1]).kind == kind


@pytest.mark.parametrize(
    "inputs", [np.zeros(2), np.zeros((2, 2), complex), [b"a", b"b"]]
)
def test_arrays_of_no_kind_are_refused(inputs):
    with pytest.raises(TypeError, match="inputs must be images"):
        from_arrays(inputs, [0, 1])


def test_class_names_become_numbers_in_their_given_order():
    data = from_arrays(np.eye(3), ["dog", "cat", "dog"], classes=["dog", "cow", "cat"])
    assert data.labels.tolist() == [0, 2, 0]
    assert from_arrays(np.eye(3), ["dog", "cat", "dog"]).labels.tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match="labels must be among classes, got 'dog'"):
        from_arrays(np.eye(3), ["dog", "cat", "dog"], classes=["cat"])
    with pytest.raises(TypeError, match="labels must be class numbers or names"):
        from_arrays(np.eye(3), [0.1, 0.2, 0.3])


def test_train_and_test_arrays_must_fit_together():
    with pytest.raises(ValueError, match=r"must have one shape, got \(3,\) and \(2,\)"):
        from_arrays(np.eye(3), [0, 1, 2], test=(np.eye(2), [0, 1]))
    with pytest.raises(ValueError, match="inputs and labels must have the same length"):
        from_arrays(np.eye(3), [0, 1])


def test_npz_files_with_train_and_test_arrays_are_read(tmp_path):
    np.savez(
        tmp_path / "mine.npz",
        train_x=np.eye(3),
        train_y=[0, 1, 0],
        test_x=np.ones((1, 3)),
        test_y=[1],
        class_names=["cat", "dog"],
    )
    found = datasets.load(str(tmp_path / "mine.npz"))
    assert repr(found) == "Dataset(mine, table, n=4, classes=2, train=3, test=1)"
    assert found.classes == ("cat", "dog")


def test_damaged_strange_and_pickled_npz_files_are_refused(tmp_path):
    path = tmp_path / "bad.npz"
    with pytest.raises(FileNotFoundError, match="no such file"):
        from_npz(path)
    path.write_bytes(b"PK\x03\x04 broken")
    with pytest.raises(ArtefactError, match="is damaged"):
        from_npz(path)
    with path.open("wb") as stream:
        np.save(stream, np.eye(2))
    with pytest.raises(ArtefactError, match="got a single array"):
        from_npz(path)
    np.savez(path, x=np.eye(2))
    with pytest.raises(ArtefactError, match=r"must hold inputs and labels.*got x"):
        from_npz(path)
    np.savez(path, inputs=np.eye(2), labels=[0, 5], classes=["a"])
    with pytest.raises(
        ArtefactError, match="is not a data set: Dataset: labels must be"
    ):
        from_npz(path)
    np.savez(path, inputs=np.array([{}, {}]), labels=[0, 0])
    with pytest.raises(ArtefactError, match="pickled objects, which are never loaded"):
        from_npz(path)


def test_lazy_inputs_of_two_sets_are_joined_in_order(tmp_path):
    image = pytest.importorskip("PIL.Image", reason="images need Pillow (extra vision)")
    from openset.datasets.lazy_inputs import Joined  # noqa: PLC0415

    paths = []
    for i in range(4):
        paths.append(str(tmp_path / f"{i}.png"))
        image.fromarray(np.full((2, 2, 3), i, np.uint8)).save(paths[-1])
    files = lazy_inputs.ImageFiles
    both = Joined((files(tuple(paths[:3])), files(tuple(paths[3:]))))
    assert [int(both[i][0, 0, 0]) for i in (0, 3, -1)] == [0, 3, 3]
    with pytest.raises(IndexError):
        both[4]
    picked = both.take(np.array([3, 1])).take(np.array([1, 0]))
    assert [int(picked[i].max()) for i in range(len(picked))] == [1, 3]
    assert [int(x.max()) for x in files(tuple(paths))] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("more", "ignored"),
    [
        ({"test_x": np.eye(2)}, "test_x"),
        ({"test_x": np.eye(2), "test_labels": [0, 1]}, "test_labels, test_x"),
        ({"val_x": np.eye(2), "val_y": [0, 1]}, "val_x, val_y"),
    ],
)
def test_parts_of_npz_files_are_never_ignored(more, ignored, tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, train_x=np.eye(2), train_y=[0, 1], **more)
    with pytest.raises(ArtefactError, match=f"must hold its parts as .* {ignored}$"):
        from_npz(path)


def test_rows_of_an_unknown_part_are_refused(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, inputs=np.eye(2), labels=[0, 1], part_train=[0], part_val=[1])
    with pytest.raises(ArtefactError, match=r"got part_val$"):
        from_npz(path)


def test_class_names_are_read_under_both_keys(tmp_path):
    path = tmp_path / "mine.npz"
    names = ["cat", "dog"]
    np.savez(path, inputs=np.eye(2), labels=[0, 1], class_names=names)
    assert from_npz(path).classes == ("cat", "dog")
    np.savez(path, train_x=np.eye(2), train_y=[0, 1], classes=names)
    assert from_npz(path).classes == ("cat", "dog")


def test_pixels_of_two_ranges_are_not_joined():
    bytes_, scaled = np.full((2, 4, 4), 200, dtype=np.uint8), np.full((2, 4, 4), 0.8)
    with pytest.raises(TypeError, match="got uint8 and float64"):
        from_arrays(bytes_, [0, 1], test=(scaled, [0, 1]))
    with pytest.raises(TypeError, match="got uint8 and float64"):
        lazy_inputs.join("cut", [scaled, bytes_])


def test_a_number_that_is_the_name_of_another_class_is_refused():
    names = [str(i) for i in range(12)]
    data = from_arrays(np.eye(12), names)  # in code-point order: 0, 1, 10, 11, 2, …
    assert (data.number("2"), data.number(1)) == (4, 1)
    with pytest.raises(ValueError, match="got 2: class '10' has this number"):
        data.number(2)
