"""Places named by a URL: object stores and web servers, through fsspec."""

from typing import Any

from openset import _check, _extras
from openset._types import MissingExtraError

_PART = 1 << 20  # bytes to ask for at once


def is_url(place: object) -> bool:
    """Return whether a place is named by a URL, such as ``s3://bucket/folder``.

    Examples
    --------
    >>> from pathlib import Path
    >>> [is_url(one) for one in ("s3://bucket/shards", "shards", Path("shards"))]
    [True, False, False]
    """
    return isinstance(place, str) and "://" in place


def file_system(url: str, *, caller: str) -> tuple[Any, str]:
    """Return the fsspec file system of a URL, and the path in it."""
    fsspec = _extras.optional(caller, "fsspec", name="cloud")
    try:
        found, path = fsspec.url_to_fs(url)
    except ImportError as error:  # "Install s3fs to access S3"
        msg = f"{caller}: {url} needs another package: {error}"
        raise MissingExtraError(msg) from error
    except ValueError as error:
        rule = "a URL that fsspec knows"
        msg = _check.must(rule, caller=caller, name=url, got=str(error))
        raise ValueError(msg) from error
    found.invalidate_cache()  # others write there, too
    return found, path.rstrip("/")


def read(url: str, *, caller: str, most: int) -> bytes:
    """Return the content of a file; of a longer one its first `most` bytes."""
    found, path = file_system(url, caller=caller)
    content = bytearray()
    try:
        with found.open(path, "rb") as stream:
            # A web server's stream may give less than it is asked for.
            while part := stream.read(min(_PART, max(0, most - len(content)))):
                content += part
    except FileNotFoundError as error:
        msg = f"{caller}: no such file: {url}"
        raise FileNotFoundError(msg) from error
    except Exception as error:  # every driver has errors of its own
        msg = f"{caller}: {url} could not be read ({_extras.first_line(error)})"
        raise ConnectionError(msg) from error
    return bytes(content)


def names(url: str, *, caller: str) -> list[str] | None:
    """Return the names of what is in a folder; None if it is a file."""
    found, path = file_system(url, caller=caller)
    try:
        listed = [one.rstrip("/") for one in found.ls(path, detail=False)]
    except FileNotFoundError:
        return []
    except Exception as error:  # as above
        msg = f"{caller}: {url} could not be read ({_extras.first_line(error)})"
        raise ConnectionError(msg) from error
    if listed == [path]:
        return None
    return [one.rpartition("/")[2] for one in listed]


def write(url: str, content: bytes, *, caller: str) -> None:
    """Upload a file. In object stores it appears as a whole."""
    found, path = file_system(url, caller=caller)
    try:
        # Some keep folders: they want them made.
        found.makedirs(path.rpartition("/")[0], exist_ok=True)
        found.pipe_file(path, content)
    except Exception as error:  # as above
        why = _extras.first_line(error)
        msg = (
            f"{caller}: {url} could not be written ({why}). Check that you may write "
            "there"
        )
        raise ConnectionError(msg) from error
