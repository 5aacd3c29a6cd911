"""Arrays from untrusted bytes: nothing is unpickled, and sizes are checked.

NumPy's own readers parse the headers. What they claim is compared with the bytes that
arrived before an array is made.
"""

import io
import zipfile
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _npz
from openset.serve._errors import RequestError, refuse, too_large

NPY_MAGIC, ZIP_MAGIC = b"\x93NUMPY", b"PK"
IDS, CLASSES, INPUT_STEP = "ids", "classes", "input_step"
TEXTS = (IDS, CLASSES, INPUT_STEP)
"""What a file of outputs may say beside its numbers."""
_LONGEST_ID = 256
_MOST_PACKED, _FREE = 16, 4 << 20
"""An archive may unpack to so many times its size, and to some bytes in any case."""


def from_npy(name: str, content: bytes) -> NDArray[Any]:
    """Return the array of a ``.npy`` file as a view of its bytes."""
    try:
        array = _npz.array(name, content)
    # NumPy evaluates the header as a Python literal; given nonsense, that raises more
    # kinds of errors than are documented.
    except Exception as error:
        if str(error).startswith(f"{name} "):  # our own sentence
            raise RequestError(400, f"predict: {_short(error)}") from error
        got = f"a damaged one ({_short(error)})"
        refuse("a .npy file of numbers", name=name, got=got, status=400)
    return array if name in TEXTS else checked(name, array)


def checked(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of numbers in the byte order of this machine, or raise."""
    if array.dtype.kind not in "fiu" or array.dtype.itemsize > 8:
        rule = "integers or floats of at most 64 bits"
        refuse(rule, name=name, got=f"dtype {_short(array.dtype)}")
    if not array.size:
        refuse("non-empty", name=name, got=f"shape {array.shape}")
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    # Arrays inside a body may be unaligned; arithmetic is slow on those.
    return array if array.flags.aligned else array.copy()


def from_npz(
    content: bytes, names: Collection[str], *, max_bytes: int
) -> dict[str, NDArray[Any]]:
    """Return the arrays of a ``.npz`` that are called `names`; skip all others."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {
                info.filename.removesuffix(".npy"): info for info in archive.infolist()
            }
            wanted = {n: info for n, info in members.items() if n in names}
            # No more of a member is unpacked than the size it declares.
            declared = sum(info.file_size for info in wanted.values())
            most = min(max_bytes, _MOST_PACKED * len(content) + _FREE)
            if declared > most:
                too_large("the unpacked archive", got=declared, max_bytes=most)
            found = {n: _npz.unpacked(archive, info) for n, info in wanted.items()}
    except RequestError:
        raise
    except Exception as error:  # a forged archive makes zipfile raise many kinds
        got = f"a damaged one ({_short(error)})"
        refuse("a .npz archive", name="the body", got=got, status=400)
    if not found.keys() - {*TEXTS}:
        have = ", ".join(sorted(members)[:8]) or "nothing"
        rule = f"one with {' or '.join(name for name in names if name not in TEXTS)}"
        refuse(rule, name="the archive", got=_short(have))
    return {name: from_npy(name, data) for name, data in found.items()}


def ids_of(values: Any, n: int) -> NDArray[np.str_]:
    """Return the ids of `n` samples: short texts or integers."""
    rule = f"{n} texts of at most {_LONGEST_ID} characters, or integers"
    # An array of texts takes as much for each as for the longest.
    if isinstance(values, list) and any(len(str(one)) > _LONGEST_ID for one in values):
        refuse(rule, name="ids", got="a longer one")
    try:
        found = np.asarray(values)
    except ValueError:  # lists of different lengths
        refuse(rule, name="ids", got="lists")
    if found.dtype.kind not in "Uiu" or found.shape != (n,):
        got = f"dtype {_short(found.dtype)}, shape {found.shape}"
        refuse(rule, name="ids", got=got)
    if found.dtype.itemsize > 4 * _LONGEST_ID:
        refuse(rule, name="ids", got="a longer one")
    if found.dtype.kind == "U":
        return found
    # As wide as they are: NumPy would make 84 bytes of an integer of one.
    width = max(len(str(found.max())), len(str(found.min()))) if n else 1
    return found.astype(f"U{width}")


def texts_of(name: str, array: NDArray[Any] | None, ndim: int) -> Any:
    """Return a text, or a list of texts; empty if there is none."""
    if array is None:
        return "" if ndim == 0 else []
    if array.dtype.kind != "U" or array.ndim != ndim:
        got = f"dtype {_short(array.dtype)}, shape {array.shape}"
        refuse("a text" if ndim == 0 else "texts", name=name, got=got)
    return array.tolist()


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 200 else text[:200] + "…"
