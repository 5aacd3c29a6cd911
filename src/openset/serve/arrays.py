"""Arrays and images from untrusted bytes: nothing is unpickled, sizes are checked."""

import io
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from openset import _check, _npz
from openset._optional import optional
from openset.datasets import lazy_inputs

NUMBERS, TEXTS = ("logits", "features", "inputs"), ("ids", "classes", "input_step")
"""Arrays of an archive that are read, such as `Outputs.save` writes; others are not."""

_MOST_PACKED, _FREE = 16, 4 << 20
"""An archive may unpack to so many times its size, and to some bytes in any case."""
_MOST_PIXELS = 50_000_000  # of a request; 150 MB once decoded
_MOST_JSON = 1 << 20  # bytes: it takes many times its size in memory

Document = TypeVar("Document", bound=BaseModel)


class RequestError(ValueError):
    """A request that is refused; `status` is the HTTP status of the answer."""

    status = 422


def refuse(status: int, name: str, rule: str, got: object) -> NoReturn:
    """Raise a `RequestError` that says which rule was broken, and by what."""
    try:
        _check.fail("predict", name, rule, str(got)[:200], error=RequestError)
    except RequestError as error:
        error.status = status
        raise


def parsed(kind: type[Document], body: bytes) -> Document:
    """Return a document of JSON; of what is wrong with it, say the first thing."""
    if len(body) > _MOST_JSON:
        refuse(413, "JSON", f"at most {_MOST_JSON} bytes", len(body))
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))[:80]
        refuse(422, "JSON", "as in /docs", f"{first['msg'][:120]} ({place})")


def of_rows(name: str, rows: Sequence[Any]) -> Any:
    """Convert rows of numbers to an array; texts stay as they are."""
    if rows and isinstance(rows[0], str):
        return rows
    try:
        return checked(name, np.array(rows, np.float64))
    except (ValueError, OverflowError) as error:
        if isinstance(error, RequestError):
            raise
        refuse(422, name, "rows of numbers, of one length", error)


def checked(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of numbers in the byte order of this machine, or raise."""
    if array.dtype.kind not in "fiu" or array.dtype.itemsize > 8:
        rule = "integers or floats of at most 64 bits"
        refuse(422, name, rule, f"dtype {array.dtype}")
    if not array.size:
        refuse(422, name, "non-empty", f"shape {array.shape}")
    # Arrays inside a body may be unaligned; arithmetic is slow on those.
    return np.require(array, array.dtype.newbyteorder("="), "A")


def from_npz(content: bytes, *, max_bytes: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of an archive that make a request."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {i.filename.removesuffix(".npy"): i for i in archive.infolist()}
            wanted = {n: members[n] for n in (*NUMBERS, *TEXTS) if n in members}
            # No more of a member is unpacked than the size it declares.
            declared = sum(info.file_size for info in wanted.values())
            most = min(max_bytes, _MOST_PACKED * len(content) + _FREE)
            if declared > most:
                refuse(413, "the unpacked archive", f"at most {most} bytes", declared)
            found = {
                name: _npz.array(name, _npz.unpacked(archive, info))
                for name, info in wanted.items()
            }
    except RequestError:
        raise
    except Exception as error:  # a forged archive makes zipfile and NumPy raise many
        refuse(400, "the body", "a .npz archive", f"a damaged one ({error})")
    if not found.keys() & {*NUMBERS}:
        have = ", ".join(sorted(members)[:8]) or "nothing"
        refuse(422, "the archive", f"one with {', '.join(NUMBERS)}", have)
    for name, array in found.items():
        if name in NUMBERS:
            found[name] = checked(name, array)
        elif array.dtype.kind not in "Uiu":
            refuse(422, name, "texts", f"dtype {array.dtype}")
    return found


def need_texts(arrays: Mapping[str, NDArray[Any]], width: int | None) -> None:
    """Raise unless the texts of an archive are as many as its numbers need."""
    n = next(
        (a.shape[0] for name, a in arrays.items() if name in NUMBERS and a.ndim), 0
    )
    shapes = {"ids": (n,), "classes": (width,), "input_step": ()}
    for name, shape in shapes.items():
        if name in arrays and arrays[name].shape not in (shape, (0,)):
            refuse(422, name, f"texts of shape {shape}", f"shape {arrays[name].shape}")


def images(files: Sequence[bytes], *, keep: bool) -> lazy_inputs.ImageFiles:
    """Return PNG and JPEG files, decoded when used; their pixels are counted before.

    One that is no image is refused; with `keep` it is left to the network, which marks
    the sample as invalid.
    """
    pillow = optional("PIL.Image", "vision")
    streams: list[Any] = []
    n_pixels = 0
    for i, content in enumerate(files):
        stream = io.BytesIO(content)
        try:
            opened = pillow.open(stream, formats=("PNG", "JPEG"))
            n_pixels += opened.width * opened.height
        except Exception as error:  # Pillow raises many kinds for damaged files
            if not keep:
                refuse(400, f"file {i}", "a PNG or JPEG image", type(error).__name__)
            stream = io.BytesIO()
        streams.append(stream)
    if n_pixels > _MOST_PIXELS:
        refuse(413, "the images", f"of at most {_MOST_PIXELS} pixels", n_pixels)
    names = tuple(f"file {i}" for i in range(len(streams)))
    return lazy_inputs.ImageFiles(tuple(streams), names=names)
