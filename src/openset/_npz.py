"""Arrays of ``.npz`` archives that may be damaged or forged.

A few kilobytes can unpack to gigabytes, and a header can claim any shape. So only
stored and deflated members are read, each up to the size it declares and no further,
and an array is made only if its header fits the bytes that are there.
"""

import io
import math
import zipfile
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

_SHORT = 128  # bytes of most headers
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Return the bytes of a member, at most as many as it declares.

    Other methods are refused: zipfile unpacks all of a bzip2 or LZMA member at once,
    however much that is.
    """
    if info.compress_type not in _METHODS:
        msg = f"{info.filename[:80]} is compressed by a method NumPy does not write"
        raise zipfile.BadZipFile(msg)
    with archive.open(info) as member:
        # A size, not read(): only then is no more inflated than is asked for.
        return member.read(info.file_size)


class _Header(NamedTuple):
    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[Any]
    end: int


def _header(content: bytes, name: str = "the array") -> _Header:
    """Read the header of a ``.npy``."""
    stream = io.BytesIO(content)
    version = npy.read_magic(stream)
    if version not in _HEADERS:
        msg = f"{name} must be .npy of version 1.0 or 2.0, got {version}"
        raise ValueError(msg)
    return _Header(*_HEADERS[version](stream), stream.tell())


_short_header = lru_cache(maxsize=64)(_header)


def array(name: str, content: bytes) -> NDArray[Any]:
    """Return the array of the bytes of a ``.npy``, without a copy."""
    try:
        # NumPy compiles a header as Python, which takes longer than all else here; a
        # server reads the same one again and again.
        header = _short_header(content[:_SHORT])
    except Exception:  # longer, or damaged in any way: it is read whole
        header = _header(content, name)
    shape, is_fortran, dtype, start = header
    if dtype.hasobject:
        msg = f"{name} holds pickled objects, which are never loaded"
        raise ValueError(msg)
    wanted, have = math.prod(shape) * dtype.itemsize, len(content) - start
    if wanted != have:
        msg = (
            f"{name} must have as many bytes as its header says, got {have} for shape "
            f"{shape} of {dtype}, which takes {wanted}"
        )
        raise ValueError(msg)
    if not wanted:
        return np.empty(shape, dtype)
    flat = np.frombuffer(content, dtype=dtype, offset=start)
    return flat.reshape(shape, order="F" if is_fortran else "C")


def arrays(archive: zipfile.ZipFile) -> dict[str, NDArray[Any]]:
    """Return every array of an archive, by name."""
    return {
        info.filename.removesuffix(".npy"): array(
            info.filename, unpacked(archive, info)
        )
        for info in archive.infolist()
    }
