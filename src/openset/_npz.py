"""The one file format: a ``.npz`` of named arrays, with a member of JSON if need be.

An archive may be damaged or forged. A few kilobytes can unpack to gigabytes, and a
header can claim any shape. So only stored and deflated members are read, each up to the
size it declares and no further, and an array is made only if its header fits the bytes
that are there.
"""

import io
import json
import math
import zipfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from openset import _check, _io
from openset._types import ArtefactError

_ABOUT = "about"  # the member of JSON
_KINDS = "biufU"  # numbers and text: nothing else is ours
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_PARSING = Lock()


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


@lru_cache(maxsize=64)
def _header(start: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Return shape, order and type of a ``.npy``, and where its content starts.

    NumPy parses a header as Python, which takes longer than all else here (a server
    reads the same one again and again), and fails at random in two threads at once:
    "AST constructor recursion depth mismatch" of CPython 3.11.
    """
    stream = io.BytesIO(start)
    if (version := npy.read_magic(stream)) != (1, 0):
        msg = f"a .npy must be of version 1.0, got {version}"
        raise ValueError(msg)
    with _PARSING:
        return *npy.read_array_header_1_0(stream), stream.tell()


def array(name: str, content: bytes) -> NDArray[Any]:
    """Return the array of the bytes of a ``.npy``, without a copy."""
    n_header = 10 + int.from_bytes(content[8:10], "little")
    shape, is_fortran, dtype, start = _header(content[:n_header])
    if dtype.kind not in _KINDS or not dtype.itemsize:
        msg = (
            f"{name} must hold numbers or text, got dtype {dtype} (pickled objects are "
            "never loaded)"
        )
        raise ValueError(msg)
    wanted, have = math.prod(shape) * dtype.itemsize, len(content) - start
    # An array without entries may claim any length, and any width of its text.
    if wanted != have or max((*shape, dtype.itemsize)) > len(content):
        msg = (
            f"{name} must have as many bytes as its header says, got {have} for shape "
            f"{shape} of {dtype}, which takes {wanted}"
        )
        raise ValueError(msg)
    if not wanted:
        return np.empty(shape, dtype)
    flat = np.frombuffer(content, dtype=dtype, offset=start)
    return flat.reshape(shape, order="F" if is_fortran else "C")


def save(
    target: Path | IO[bytes],
    arrays: Mapping[str, NDArray[Any]],
    about: Mapping[str, Any] | None = None,
) -> None:
    """Write named arrays and, as JSON, what they are about; :func:`load` reads both.

    Object arrays, which would be pickled, raise an error.
    """
    for name, one in arrays.items():
        if one.dtype.hasobject:
            got = f"dtype {one.dtype}"
            _check.fail("save", name, "numbers or strings", got, error=TypeError)
    members: dict[str, Any] = dict(arrays)
    if about is not None:
        members[_ABOUT] = np.array(json.dumps(about, allow_nan=False))
    if isinstance(target, Path):
        _io.write(target, lambda stream: np.savez(stream, **members))
    else:
        np.savez(target, **members)


def load(
    caller: str, source: Path | IO[bytes], *, kind: str = ""
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what :func:`save` wrote, or any ``.npz``: the arrays, and what they are.

    Damaged files, and those with pickled objects, raise ArtefactError.

    Parameters
    ----------
    caller
        For errors.
    source
        A file, or an open stream of its bytes.
    kind
        ``about["kind"]`` must be this, and ``about["schema"]`` 1.
    """
    place = source if isinstance(source, Path) else "the archive"
    try:
        with zipfile.ZipFile(source) as archive:
            found = {
                info.filename.removesuffix(".npy"): array(
                    info.filename, unpacked(archive, info)
                )
                for info in archive.infolist()
            }
        about = json.loads(str(found.pop(_ABOUT, "{}")))
    except FileNotFoundError as error:
        msg = f"{caller}: no such file: {place}"
        raise FileNotFoundError(msg) from error
    # A damaged or forged archive makes zipfile, zlib, NumPy and json raise anything.
    except Exception as error:
        msg = f"{caller}: {place} is damaged or not a .npz archive ({error})"
        raise ArtefactError(msg) from error
    if kind:
        need_kind(caller, str(place), about, kind)
    return found, about


def need_kind(caller: str, place: str, about: Any, kind: str) -> dict[str, Any]:
    """Return parsed JSON without its kind and schema, which must be these."""
    content = dict(about) if isinstance(about, dict) else {}
    found = content.pop("kind", None), content.pop("schema", None)
    if found != (kind, 1):
        rule, got = f"an {kind} of schema 1", f"{found[0]} of schema {found[1]}"
        remedy = "Upgrade openset to read newer files" if found[0] == kind else ""
        _check.fail(caller, place, rule, got, remedy, ArtefactError)
    return content


def group(arrays: Mapping[str, NDArray[Any]], name: str) -> dict[str, NDArray[Any]]:
    """Return the arrays whose names begin with ``name.``, without that.

    Examples
    --------
    >>> group({"state.mean": np.zeros(1), "seen.ids": np.ones(1)}, "state")
    {'mean': array([0.])}
    """
    start = f"{name}."
    return {k.removeprefix(start): a for k, a in arrays.items() if k.startswith(start)}
