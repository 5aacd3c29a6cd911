"""Files of outputs: bit for bit, mapped instead of read, never half of them."""

import io
import json
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from openset import ArtefactError, Outputs
from tests.extras import torch

FULL = Outputs(
    logits=np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32),
    features=np.arange(8.0).reshape(4, 2),
    labels=[0, 1, 2, -1],
    groups=["a", "b", "c", "far"],
    ids=[7, 8, 9, 10],
    classes=["x", "y", "z"],
    weight=np.ones((3, 2)),
    bias=np.zeros(3),
    input_step="ODIN 0.01",
)
ARRAYS = ("logits", "features", "labels", "groups", "ids", "weight", "bias")
BARE = Outputs(logits=np.eye(2))


@pytest.mark.parametrize("name", ["outputs.npz", "outputs"])
def test_files_round_trip_bit_for_bit(tmp_path, name):
    BARE.save(tmp_path / name)
    again = Outputs.load(FULL.save(tmp_path / name))  # replaces what was there
    for field in ARRAYS:
        assert_array_equal(getattr(again, field), getattr(FULL, field), strict=True)
    for field in ("classes", "input_step"):
        assert getattr(again, field) == getattr(FULL, field)
    again.save(tmp_path / name)  # over themselves, while they are open
    assert_array_equal(again.logits, FULL.logits)
    assert Outputs.load(BARE.save(tmp_path / name)).features is None
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_what_numpy_and_torch_write_is_read(tmp_path):
    logits = torch.tensor(FULL.logits).bfloat16()
    again = Outputs.load(Outputs(logits=logits).save(tmp_path / "outputs.npz"))
    assert_array_equal(again.logits, logits.float().numpy(), strict=True)
    np.savez(tmp_path / "a.npz", logits=np.eye(2), labels=[0, -1], classes=["x", "y"])
    assert Outputs.load(tmp_path / "a.npz").classes == ("x", "y")
    (tmp_path / "folder").mkdir()
    np.save(tmp_path / "folder" / "features.npy", np.eye(2))
    assert Outputs.load(tmp_path / "folder").logits is None


def test_a_folder_is_mapped_not_read(tmp_path):
    """A file of 4 GB of logits (sparse on disk) opens, slices and stays unread."""
    (tmp_path / "large").mkdir()
    shape = (1_000_000, 1000)
    header = np.lib.format.open_memmap(
        tmp_path / "large" / "logits.npy", mode="w+", dtype=np.float32, shape=shape
    )
    header[5, 2] = 7
    del header
    whole = Outputs.load(tmp_path / "large")
    tracemalloc.start()
    batch = next(whole.batches(10))
    assert tracemalloc.get_traced_memory()[1] < 100_000, "whatever the number of rows"
    tracemalloc.stop()
    assert isinstance(batch.logits, np.memmap)
    assert batch.logits[5, 2] == 7


def test_only_outputs_are_replaced(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"outputs and nothing else, got .*notes\.txt"):
        FULL.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(ValueError, match=r"ending must be '\.npz', or none for a fold"):
        FULL.save(tmp_path / "outputs.csv")


OBJECTS = io.BytesIO()
np.save(OBJECTS, np.array([[{}]], dtype=object), allow_pickle=True)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("logits.npy", b"\x93NUMPY\x01\x00v\x00{"),
        ("logits.npy", OBJECTS.getvalue()),
        ("meta.json", b'["a"]'),
        ("meta.json", b"{"),
    ],
)
def test_a_damaged_folder_is_refused(tmp_path, name, content):
    (BARE.save(tmp_path / "outputs") / name).write_bytes(content)
    with pytest.raises(ArtefactError, match=f"{name} is damaged, or no array"):
        Outputs.load(tmp_path / "outputs")


def test_what_is_wrong_inside_names_the_file(tmp_path):
    (FULL.save(tmp_path / "a") / "meta.json").write_text(json.dumps({"classes": "ab"}))
    np.savez(tmp_path / "b.npz", logits=np.zeros((4, 2)), labels=[0, 1])
    for name, words in (("a", "class counts must"), ("b.npz", "logits and labels mus")):
        with pytest.raises(ValueError, match=words) as caught:
            Outputs.load(tmp_path / name)
        assert caught.value.__notes__ == [f"in {tmp_path / name}"]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"scores": [1]}, "must be a file with .*, got scores"),
        ({"known": [1], "labels": [0]}, "Scores are read by Scores.load"),
    ],
)
def test_other_files_are_named(tmp_path, arrays, words):
    np.savez(tmp_path / "other.npz", **arrays)
    with pytest.raises(ArtefactError, match=words):
        Outputs.load(tmp_path / "other.npz")
