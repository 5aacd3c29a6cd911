"""PNG and JPEG images from untrusted bytes."""

import io
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from openset import _extras
from openset.datasets import lazy_inputs
from openset.serve._errors import refuse, too_large

_FORMATS = ("PNG", "JPEG")
_MOST_PIXELS = 50_000_000  # of a request; 150 MB once decoded
_MOST_FILES = 1024


Decoded = list[NDArray[np.uint8] | None]


def decoded(files: Sequence[tuple[str, bytes]], *, keep: bool) -> Decoded:
    """Return images as (h, w, 3), red first; raise for sizes above the limit.

    As in training and ``openset extract``, the orientation in the EXIF data is not
    applied. A file that is no image is refused; with `keep` it is None.
    """
    images = _extras.optional("openset.serve", "PIL.Image", name="vision")
    left = _MOST_PIXELS
    found: Decoded = []
    for name, content in files:
        try:
            opened = images.open(io.BytesIO(content), formats=_FORMATS)
        # Pillow raises many kinds of errors for damaged files.
        except Exception as error:
            if not keep:
                _refuse(name, error)
            found.append(None)
            continue
        left -= opened.width * opened.height
        if left < 0:
            size = f"{name} of {opened.width} x {opened.height}"
            too_large(
                "the images together",
                got=f"more, with {size}",
                max_bytes=_MOST_PIXELS,
                unit="pixels",
                remedy="Send smaller images, or fewer",
            )
        try:
            found.append(np.asarray(lazy_inputs.converted(opened)))
        except Exception as error:  # as above
            if not keep:
                _refuse(name, error)
            found.append(None)
    return found


def of_form(body: bytes, content_type: str) -> list[tuple[str, bytes]]:
    """Return the names and contents of the files of a form."""
    multipart = _extras.optional("openset.serve", "python_multipart", name="serve")
    files: list[tuple[str, bytes]] = []

    def on_file(file: Any) -> None:
        if len(files) == _MOST_FILES:
            refuse(f"at most {_MOST_FILES} files", name="a form", got="more")
        file.file_object.seek(0)
        name = (file.file_name or b"").decode("utf-8", "replace")
        files.append((name[:200], file.file_object.read()))
        file.close()

    def on_field(field: Any) -> None:
        name = (field.field_name or b"").decode("utf-8", "replace")
        refuse("files alone", name="a form", got=f"a field {name[:80]!r}")

    try:
        parser = multipart.FormParser(
            content_type="multipart/form-data",
            on_field=on_field,
            on_file=on_file,
            boundary=_boundary(content_type),
            config={"MAX_MEMORY_FILE_SIZE": len(body) + 1},  # never on disk
        )
        parser.write(body)
        parser.finalize()
    except multipart.exceptions.FormParserError as error:
        refuse("a form", name="the body", got=f"something else ({error})", status=400)
    if not files:
        refuse("one with an image", name="a form", got="no file")
    return files


def _boundary(content_type: str) -> bytes:
    from python_multipart.multipart import parse_options_header  # noqa: PLC0415

    _, options = parse_options_header(content_type)
    boundary: bytes = options.get(b"boundary", b"")
    if not boundary:
        rule = "one with a boundary"
        refuse(rule, name="Content-Type", got=content_type[:80], status=400)
    return boundary


def _refuse(name: str, error: Exception) -> NoReturn:
    got = f"something else ({type(error).__name__})"
    what = name[:80] or "the image"
    refuse("a PNG or JPEG image", name=what, got=got, status=400)
