"""Archives that may be forged: nothing is unpacked beyond what was declared."""

import io

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from openset import _npz


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def test_what_numpy_writes_is_read_as_numpy_reads_it(tmp_path):
    arrays = {
        "plain": np.arange(12.0).reshape(3, 4),
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "words": np.array(["ant", "bee"]),
        "number": np.array(7),
        "empty": np.zeros((0, 4)),
        "swapped": np.arange(3, dtype=">i4"),
        "half": np.ones(5, np.float16),
        "wide": np.arange(6.0).reshape((1,) * 30 + (2, 3)),
    }
    for save in (np.savez, np.savez_compressed):
        path = tmp_path / f"{save.__name__}.npz"
        save(path, **arrays)
        found, _ = _npz.load("test", path)
        with np.load(path) as theirs:
            assert found.keys() == set(theirs.files)
            for name, array in found.items():
                assert array.dtype == theirs[name].dtype
                assert_array_equal(array, theirs[name])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (npy(np.arange(4))[:-8], "as many bytes as its header says, got 24"),
        (npy(np.arange(4)) + b"x", "as many bytes as its header says, got 33"),
        (npy(np.arange(4)).replace(b"\x01\x00", b"\x03\x00", 1), "of version 1.0, got"),
        (
            npy(np.arange(4))
            .replace(b"(4,)", b"(4000000000000,)")
            .replace(b"            \n", b"\n"),
            "which takes 32000000000000",
        ),
        (b"nonsense", "magic"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(content, words):
    with pytest.raises(ValueError, match=words):
        _npz.array("logits", content)
