"""Arrays from untrusted bytes: nothing is unpickled, no size is believed.

A ``.npy`` header of a few bytes can claim a shape of terabytes, and a ``.npz`` of a few
kilobytes can unpack to gigabytes. Both claims are compared with the bytes that arrived
before any array is made.
"""

import io
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Collection
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from openset import _npz
from openset.serve._errors import RequestError, refuse, too_large

Buffer: TypeAlias = bytes | bytearray | memoryview

NPY_MAGIC, ZIP_MAGIC = b"\x93NUMPY", b"PK"
_MAX_HEADER = 4096  # numpy writes 118 bytes for a matrix
_LENGTHS = {(1, 0): "<H", (2, 0): "<I"}  # of the header, by version
_FIELDS = {
    "descr": re.compile(r"'descr'\s*:\s*'([<>|=]?[A-Za-z]\d{0,4})'"),
    "fortran_order": re.compile(r"'fortran_order'\s*:\s*True"),
    "shape": re.compile(r"'shape'\s*:\s*\(([\d\s,]*)\)"),
}


def from_npy(name: str, content: Buffer) -> NDArray[Any]:
    """Return the array of a ``.npy`` file as a view of its bytes."""
    shape, is_fortran, dtype, start = _header(name, content)
    if 0 in shape:  # with a 0, any other size would pass the test below
        refuse("non-empty", name=name, got=f"shape {_short(shape)}")
    wanted = math.prod(shape) * dtype.itemsize
    have = len(content) - start
    if wanted != have:
        msg = (
            f"predict: {name} must have as many bytes as its header says, got {have} "
            f"for shape {_short(shape)} of {dtype}, which takes {_short(wanted)}"
        )
        raise RequestError(400, msg)
    flat = np.frombuffer(content, dtype=dtype, offset=start)
    array = flat.reshape(shape, order="F" if is_fortran else "C")
    array = array.astype(dtype.newbyteorder("="), copy=False)
    # Arrays inside an archive may be unaligned; arithmetic is slow on those.
    return array if array.flags.aligned else array.copy()


def from_npz(
    content: Buffer, names: Collection[str], *, max_bytes: int
) -> dict[str, NDArray[Any]]:
    """Return the arrays of a ``.npz`` that are called `names`; skip all others."""
    try:
        with zipfile.ZipFile(_Window(content)) as archive:
            members = {
                info.filename.removesuffix(".npy"): info for info in archive.infolist()
            }
            wanted = {n: info for n, info in members.items() if n in names}
            # No more of a member is unpacked than the size it declares.
            declared = sum(info.file_size for info in wanted.values())
            if declared > max_bytes:
                too_large("the unpacked archive", got=declared, max_bytes=max_bytes)
            found = {n: _member(archive, info, content) for n, info in wanted.items()}
    except RequestError:
        raise
    # A forged archive can make zipfile and zlib raise any of these.
    except (
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        EOFError,
        KeyError,
        IndexError,
        NotImplementedError,  # a compression method zipfile lacks
        OSError,
        OverflowError,
        RuntimeError,  # a password is needed
        UnicodeError,
        ValueError,
    ) as error:
        got = f"a damaged one ({_short(error)})"
        refuse("a .npz archive", name="the body", got=got, status=400)
    if not found:
        have = ", ".join(sorted(members)[:8]) or "nothing"
        rule = f"one with {' or '.join(names)}"
        refuse(rule, name="the archive", got=_short(have))
    return {name: from_npy(name, data) for name, data in found.items()}


class _Window:
    """A readable file over bytes, without the copy that io.BytesIO makes."""

    def __init__(self, content: Buffer) -> None:
        self._view = memoryview(content)
        self._at = 0

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._view)}
        self._at = max(0, start[whence] + offset)  # like io.BytesIO from the end
        return self._at

    def tell(self) -> int:
        return self._at

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        stop = len(self._view) if size < 0 else self._at + size
        found = bytes(self._view[self._at : stop])
        self._at += len(found)
        return found


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, content: Buffer) -> Buffer:
    """Return a member's bytes; not a copy if they are stored uncompressed."""
    is_plain = info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1
    if not is_plain:
        return _npz.unpacked(archive, info)
    # The local header has 30 bytes and two strings, whose lengths are its last fields.
    local = info.header_offset
    mark, *lengths = struct.unpack_from("<4s22xHH", content, local)
    start = local + 30 + sum(lengths)
    stop = start + info.file_size
    is_whole = info.compress_size == info.file_size and stop <= len(content)
    if mark != b"PK\x03\x04" or not is_whole:
        msg = f"{info.filename[:80]} is not where the archive says"
        raise zipfile.BadZipFile(msg)
    # Its checksum is not computed: a bare .npy has none, and TCP has its own.
    return memoryview(content)[start:stop]


def _header(
    name: str, content: Buffer
) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Read the shape, the order, the dtype and the offset of the numbers.

    NumPy's own reader evaluates the header as Python and, given nonsense, raises more
    errors than it documents. Three patterns are enough for the headers of plain arrays.
    """
    version = tuple(content[6:8])
    if version not in _LENGTHS:
        got = f"version {version}" if len(version) == 2 else "a cut header"
        refuse(".npy of version 1.0 or 2.0", name=name, got=got, status=400)
    length = _LENGTHS[version]
    start = 8 + struct.calcsize(length)
    size = struct.unpack_from(length, content, 8)[0] if len(content) >= start else 0
    if size > _MAX_HEADER:
        rule = f"at most {_MAX_HEADER} bytes"
        refuse(rule, name=f"the header of {name}", got=size, status=400)
    text = bytes(content[start : start + size]).decode("latin1")
    found = {key: pattern.search(text) for key, pattern in _FIELDS.items()}
    if len(text) < size or "'descr'" not in text or not found["shape"]:
        refuse(".npy", name=name, got="a damaged header", status=400)
    dtype = _dtype(name, found["descr"])
    sizes = found["shape"][1].split(",")
    shape = tuple(int(n) for n in sizes if n.strip())
    if len(shape) > 8:
        rule, got = "at most 8 dimensions", f"{len(shape)} dimensions"
        refuse(rule, name=name, got=got, status=400)
    return shape, found["fortran_order"] is not None, dtype, start + size


def _dtype(name: str, found: re.Match[str] | None) -> np.dtype[Any]:
    rule = "integers or floats of at most 64 bits"
    if found is None:
        refuse(rule, name=name, got="records, dates or the like")
    try:
        dtype = np.dtype(found[1])
    except TypeError:
        refuse(rule, name=name, got=f"dtype {found[1]}")
    if dtype.hasobject:
        got = "dtype object: pickled objects are never loaded"
        refuse("numbers", name=name, got=got)
    if dtype.kind not in "fiu" or dtype.itemsize > 8:
        refuse(rule, name=name, got=f"dtype {dtype}")
    return dtype


def _short(value: object) -> str:
    """Write a value of a client, shortened."""
    if isinstance(value, int) and abs(value) >= 10**18:
        return "more than 10^18 bytes"
    if isinstance(value, tuple):
        parts = ", ".join(
            str(n) if abs(n) < 10**18 else "more than 10^18" for n in value[:8]
        )
        return f"({parts}{', …' if len(value) > 8 else ''})"
    text = str(value)
    return text if len(text) <= 120 else f"{text[:120]}…"
