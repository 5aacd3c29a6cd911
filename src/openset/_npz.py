"""Named arrays in ``.npz`` archives: written, and read without unpickling.

An archive may be damaged or forged. A few kilobytes can unpack to gigabytes, and a
header can claim any shape. So only stored and deflated members are read, each up to the
size it declares and no further, and an array is made only if its header fits the bytes
that are there.
"""

import io
import math
import struct
import zipfile
import zlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from openset import _io
from openset._types import ArtefactError

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


def write(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write named arrays; object arrays, which would be pickled, raise an error."""
    _need_plain(path, arrays)
    _io.write(path, lambda stream: np.savez(stream, **arrays))  # type: ignore[arg-type]


def to_bytes(path: Path | str, arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return what :func:`write` would write; `path` is for errors."""
    _need_plain(path, arrays)
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def _need_plain(path: Path | str, arrays: Mapping[str, NDArray[Any]]) -> None:
    for name, array in arrays.items():
        if array.dtype.hasobject:
            msg = f"{path}: {name} must be numbers or strings, got dtype {array.dtype}"
            raise TypeError(msg)


def read(
    caller: str, path: Path | str, *, content: bytes | None = None
) -> dict[str, NDArray[Any]]:
    """Read every array of a ``.npz``; damaged or pickled files raise ArtefactError.

    With `content`, the bytes of the file, `path` is only used in errors.
    """
    source = Path(path) if content is None else io.BytesIO(content)
    if isinstance(source, Path) and not source.exists():
        msg = f"{caller}: no such file: {path}"
        raise FileNotFoundError(msg)
    # np.load takes any file that is not a zip for a pickle: check first.
    if not zipfile.is_zipfile(source):
        msg = f"{caller}: {path} {_why_no_archive(source)}"
        raise ArtefactError(msg)
    try:
        with zipfile.ZipFile(source) as archive:
            return arrays(archive)
    # A damaged or forged archive can make zipfile and zlib raise any of these.
    except (
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        EOFError,
        KeyError,
        NotImplementedError,  # a compression method zipfile lacks
        OSError,
        OverflowError,
        RuntimeError,  # a password is needed
        ValueError,
    ) as error:
        why = f"is damaged or not a .npz archive ({error}). Write it again"
        if "pickle" in str(error).lower():
            why = (
                f"must hold numbers and text, got an array of objects: {error}. Write "
                "it again, text with dtype str instead of object"
            )
        msg = f"{caller}: {path} {why}"
        raise ArtefactError(msg) from error


def _why_no_archive(source: Path | io.BytesIO) -> str:
    if isinstance(source, Path) and source.is_dir():
        return "must be a file, got a folder"
    with source.open("rb") if isinstance(source, Path) else source as stream:
        stream.seek(0)
        start = stream.read(6)
    if start == b"\x93NUMPY":
        return (
            "must be a .npz archive of named arrays, got a single array. Write all "
            "of them with np.savez"
        )
    if not start:
        return "must be a .npz archive, got an empty file. Write it again"
    return "is damaged or not a .npz archive. Write it again"


def pick(
    caller: str,
    path: Path,
    arrays: Mapping[str, NDArray[Any]],
    *,
    required: tuple[str, ...],
    optional: tuple[str, ...],
    remedy: str = "",
) -> dict[str, NDArray[Any]]:
    """Keep the arrays with expected names; raise if required ones are missing."""
    missing = [name for name in required if name not in arrays]
    if missing:
        msg = (
            f"{caller}: {path} must hold {', '.join(required)}; missing "
            f"{', '.join(missing)} (it has {', '.join(sorted(arrays)) or 'nothing'})"
            f"{'. ' if remedy else ''}{remedy}"
        )
        raise ArtefactError(msg)
    return {name: arrays[name] for name in (*required, *optional) if name in arrays}
