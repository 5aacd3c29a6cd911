"""Files and folders: written to a temporary name, and renamed when complete."""

import csv
import errno
import hashlib
import io
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add a note with the file's name to errors about it or its content."""
    try:
        yield
    except (ValueError, TypeError, EOFError, OSError) as error:
        if str(path) not in str(error):
            error.add_note(f"in {path}")
        raise


def _beside(path: Path) -> Path:
    """Return an unused name beside `path`, and make the folder above.

    Not by `tempfile`: its files are private, and some network and FUSE file systems
    do not let permissions be changed afterwards.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.parent / f".{path.name}.{secrets.token_hex(4)}"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file that is renamed to `path` on success."""
    with naming(path):
        temporary = _beside(path)
        try:
            yield temporary
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def write(path: Path, writer: Callable[[BinaryIO], object]) -> None:
    """Write a binary file with `writer`; it appears at `path` only when complete."""
    with replacing(path) as temporary, temporary.open("wb") as stream:
        writer(stream)


def put(path: Path, content: str | bytes) -> None:
    """Write a file with this content; it appears at `path` only when complete."""
    data = content.encode() if isinstance(content, str) else content
    write(path, lambda stream: stream.write(data))


def csv_text(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return a table as CSV; floats are written so that they read back equal."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to `path` on success.

    An existing folder is kept until the new one is complete; for an instant neither is
    there.
    """
    with naming(path):
        temporary, old = _beside(path), _beside(path)
        temporary.mkdir()
        try:
            yield temporary
            if path.exists():
                path.rename(old)
            temporary.rename(path)
        except BaseException:
            if old.exists():
                old.rename(path)
            raise
        finally:
            for folder in (temporary, old):
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def locked(path: Path, *, busy: str = "") -> Iterator[None]:
    """Hold the lock file `path`; only one process or thread can at a time.

    Waits until the lock is free; with a message `busy`, raises BlockingIOError instead.
    The lock ends with the process, even if it is killed; the file stays. Where a
    network folder has no locks, nothing is locked.
    """
    from filelock import FileLock, Timeout  # noqa: PLC0415  # not for `import openset`

    path.parent.mkdir(parents=True, exist_ok=True)
    # The soft lock that filelock falls back to may outlive a process elsewhere.
    lock = FileLock(path, timeout=0 if busy else -1, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise BlockingIOError(busy) from error
    except OSError as error:
        if error.errno not in {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}:
            raise
    try:
        yield
    finally:
        lock.release()


def is_there(path: Path) -> bool:
    """Whether a path exists, as far as this user may look."""
    # Path.exists raises an error below a folder that is closed to this user, such as
    # the home folder of another one.
    return os.path.exists(path)  # noqa: PTH110


def is_url(place: object) -> bool:
    """Return whether a place is named by a URL, such as ``s3://bucket/folder``.

    Examples
    --------
    >>> [is_url(one) for one in ("s3://bucket/shards", "shards", Path("shards"))]
    [True, False, False]
    """
    return isinstance(place, str) and "://" in place


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
