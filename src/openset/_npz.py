"""Arrays of ``.npz`` archives that may be damaged or forged.

A few kilobytes can unpack to gigabytes, and a header can claim any shape. So only
stored and deflated members are read, each up to the size it declares and no further,
and an array is made only if its header fits the bytes that are there.
"""

import io
import math
import zipfile
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

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


def array(name: str, content: bytes) -> NDArray[Any]:
    """Return the array of the bytes of a ``.npy``, without a copy."""
    stream = io.BytesIO(content)
    version = npy.read_magic(stream)
    if version not in _HEADERS:
        msg = f"{name} must be .npy of version 1.0 or 2.0, got {version}"
        raise ValueError(msg)
    shape, is_fortran, dtype = _HEADERS[version](stream)
    if dtype.hasobject:
        msg = f"{name} holds pickled objects, which are never loaded"
        raise ValueError(msg)
    start = stream.tell()
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
