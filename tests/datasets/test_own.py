"""Your own data: arrays, ``.npz`` and ``.csv`` files, folders of images."""

import numpy as np
import pytest

from openset import ArtefactError, datasets
from openset.datasets import from_arrays

EYE = np.eye(2)
PIXELS = np.full((2, 4, 4), 200, np.uint8)


def test_the_kind_of_arrays_is_told_by_their_shape():
    for inputs, kind in (
        (np.zeros((2, 5)), "table"),
        (np.zeros((2, 4, 4)), "image"),
        (np.zeros((2, 4, 4, 3), np.uint8), "image"),
        (["a", "b"], "text"),
    ):
        assert from_arrays(inputs, [0, 1]).kind == kind


@pytest.mark.parametrize(
    ("inputs", "labels", "more", "words"),
    [
        (np.zeros(2), [0, 1], {}, r"got dtype float64, shape \(2,\)"),
        (np.array([{}, {}]), [0, 1], {}, "got dtype object"),
        (EYE, [0.5, 1], {}, "labels must be class numbers or names, got dtype float64"),
        (EYE, ["cow", "cat"], {"classes": ["cat"]}, "among classes, got 'cow'"),
        (np.eye(3), [0, 1, 2], {"test": (EYE, [0, 1])}, r"one shape, got \(2,\) and"),
        (np.eye(3), [0, 1], {}, "inputs and labels must have the same length"),
        (PIXELS, [0, 1], {"test": (PIXELS / 255, [0, 1])}, "got uint8 and float64"),
    ],
)
def test_arrays_that_make_no_data_set_are_refused(inputs, labels, more, words):
    with pytest.raises((TypeError, ValueError), match=f"from_arrays: .*{words}"):
        from_arrays(inputs, labels, **more)


def test_class_names_become_numbers_in_their_given_order():
    found = from_arrays(EYE, ["dog", "cat"], classes=["dog", "eel", "cat"])
    assert found.labels.tolist() == [0, 2]
    assert from_arrays(EYE, ["dog", "cat"]).classes == ("cat", "dog")
    assert from_arrays(EYE, [0, 2]).classes == ("0", "1", "2")


def test_npz_files_with_inputs_and_labels_are_read(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, inputs=EYE, labels=["b", "a"], part_test=[0, 1])
    found = datasets.load(path)
    assert repr(found) == "Dataset(mine, table, n=2, classes=2, test=2)"
    assert (found.classes, found.labels.tolist()) == (("a", "b"), [1, 0])
    np.savez(path, inputs=EYE, labels=[1, 0], classes=["cat", "dog"])
    assert datasets.load(str(path)).classes == ("cat", "dog")


ALL = {"inputs": EYE, "labels": [0, 1]}


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": EYE}, "must be a data set of inputs and labels, .* got x$"),
        (ALL | {"val_x": EYE, "val_y": [0, 1]}, "got val_x, val_y$"),
        (ALL | {"part_train": [0], "part_val": [1]}, "got part_val$"),
        (ALL | {"classes": ["a"]}, "is not a data set: Dataset: labels must be below"),
        (ALL | {"inputs": np.array([{}, {}])}, "pickled objects"),
    ],
)
def test_npz_files_that_are_no_data_set_are_refused(arrays, words, tmp_path):
    np.savez(tmp_path / "mine.npz", **arrays)
    with pytest.raises(ArtefactError, match=words):
        datasets.load(tmp_path / "mine.npz")


def write(path, *lines):
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def test_a_table_of_texts_is_a_data_set(tmp_path):
    found = datasets.load(
        write(tmp_path / "mail.csv", "label,text", 'pay,"a bill, mine"', "book,a table")
    )
    assert (found.kind, found.name, found.classes) == ("text", "mail", ("book", "pay"))
    assert found.inputs.tolist() == ["a bill, mine", "a table"]
    assert found.labels.tolist() == [1, 0]
    assert not found.parts
    lines = "text\tlabel\tpart", "a\tx\ttest", "b\ty\ttrain", "c\tx\ttest"
    found = datasets.load(write(tmp_path / "mail.tsv", *lines))
    texts = {part: found.inputs[rows].tolist() for part, rows in found.parts.items()}
    assert texts == {"train": ["b"], "test": ["a", "c"]}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (("a,b", "1,2"), "columns text and label, .* got others in row 2"),
        (("text,label",), "got no rows"),
        (("text,label", "a,x", ",y"), "got others in row 3"),
        # The label would be " mine", the rest of the text.
        (("text,label", "a table,book", "a bill, mine,pay"), "got others in row 3"),
        (("text,label", "a bill, mine,pay", "a,b"), "got others in row 2"),
        (("text,label,part", "a,x,dev"), r"part in .* must be one of 'train'"),
    ],
)
def test_other_tables_are_refused(tmp_path, lines, words):
    with pytest.raises(ValueError, match=words):
        datasets.load(write(tmp_path / "t.csv", *lines))


def folders(root, *names):
    image = pytest.importorskip("PIL.Image", reason="images need Pillow (extra vision)")
    for name in names:
        (root / name).mkdir(parents=True)
        for i in range(1 + ("cats" in name)):
            pixels = np.full((4, 5, 3), i, np.uint8)
            image.fromarray(pixels).save(root / name / f"{i}.png")
    return str(root)


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["cats", "dogs"], "n=3, classes=2"),
        (["train/cats", "valid/cats", "test/cats"],
         "n=6, classes=1, test=2, train=2, validation=2"),
        (["train/cats", "val/dogs"], "n=3, classes=2, train=2, test=1"),
        (["train", "bus", "tram/old"], "n=3, classes=3"),  # classes, all of them
    ],
)  # fmt: skip
def test_a_folder_of_images_is_a_data_set(names, shown, tmp_path):
    found = datasets.load(folders(tmp_path / "mine", *names))
    assert repr(found) == f"Dataset(mine, image, {shown})"
    assert list(found.classes) == sorted(found.classes)
    assert found.inputs[0].shape == (4, 5, 3)


def test_a_folder_of_images_alone_is_one_class_and_without_any_refused(tmp_path):
    found = datasets.load(folders(tmp_path, "cats") + "/cats")
    assert (found.classes, found.labels.tolist()) == (("cats",), [0, 0])
    (tmp_path / "dogs" / "old").mkdir(parents=True)
    with pytest.raises(ArtefactError, match="in its folder must be with images"):
        datasets.load(tmp_path / "dogs")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["train/a", "test/a", "notes"], r"must be CLASS/image\.jpg, or PART"),
        (["Train/a", "Test/a"], r"must be CLASS/image\.jpg, or PART"),
        (["training/a", "testing/a"], r"must be CLASS/image\.jpg, or PART"),
        (["archive/a", "archive/b"], "got archive with folders in it, among 'arch"),
        (["train/a", "val/a", "valid/a"], "with one validation part"),
        ([], "a folder with one folder per class, got none"),
    ],
)
def test_other_folders_are_refused(names, words, tmp_path):
    with pytest.raises(ArtefactError, match=words):
        datasets.load(folders(tmp_path, *names))


def test_folders_are_numbered_as_torchvision_numbers_them(import_torchvision, tmp_path):
    theirs = pytest.importorskip("torchvision", reason="not installed").datasets
    folders(tmp_path, "b", "B", "a10", "a2", "é", "cats")
    theirs, found = theirs.ImageFolder(str(tmp_path)), datasets.load(tmp_path)
    assert list(found.classes) == theirs.classes
    for i, (image, label) in enumerate(theirs):
        assert found.labels[i] == label
        assert np.array_equal(found.inputs[i], np.asarray(image))
