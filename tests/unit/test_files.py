"""Files appear whole or not at all, and errors name them."""

from pathlib import Path

import numpy as np
import pytest

from openset import _io

FULL = Path("/dev/full")  # takes nothing, as a full disk does


def fill(_):
    with FULL.open("wb", buffering=0) as full:
        full.write(b"more than fits")


def too_short(_):
    msg = "200000 requested and 25584 written"  # what NumPy says of a full disk
    raise OSError(msg)


@pytest.mark.parametrize(
    ("writer", "said"), [(fill, "No space left"), (too_short, "25584 written")]
)
def test_a_full_disk_names_the_file_and_leaves_none(tmp_path, writer, said):
    if writer is fill and not FULL.exists():
        pytest.skip("this system has no /dev/full")
    path = tmp_path / "scores.npz"
    with pytest.raises(OSError, match=said) as caught:
        _io.write(path, writer)
    assert str(path) in str(caught.value)
    with (
        pytest.raises(OSError, match=said) as caught,
        _io.replacing_folder(tmp_path / "outputs"),
    ):
        writer(None)
    assert str(tmp_path / "outputs") in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_other_errors_are_left_as_they_are(tmp_path):
    def of_another_file(_):
        np.load(tmp_path / "absent.npy")

    with pytest.raises(FileNotFoundError) as caught:
        _io.write(tmp_path / "scores.npz", of_another_file)
    assert caught.value.filename.endswith("absent.npy")
