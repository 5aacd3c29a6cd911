"""Files and folders: written to a temporary name, replaced in one step, sealed."""

import errno
import hashlib
import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

POINTS = (
    "file: before its temporary name",
    "file: before its content",
    "file: before its new name",
    "file: after its new name",
    "folder: before its temporary name",
    "folder: before its content",
    "folder: before its list of files",
    "folder: before its new name",
    "folder: between the old and the new",
    "folder: after its new name",
    "folder: before it is deleted",
    "end of a file: before it is written",
    "end of a file: after it is written",
)
"""Where a process that writes may be killed. This module writes all files; tests kill a
process at each of these points, and let the disk be full there."""

_observer: Callable[[str, Path], None] | None = None


def observe(observer: Callable[[str, Path], None] | None) -> None:
    """Let tests call a function with the point and the path whenever one is reached."""
    global _observer  # noqa: PLW0603  # set by tests alone
    _observer = observer


def _reached(point: str, path: Path) -> None:
    if _observer is not None:
        _observer(point, path)


_PERMISSIONS = "Choose another folder, or change its permissions"
if os.name == "nt":  # there a file that is open cannot be replaced
    _PERMISSIONS = f"Close the programs that have it open. {_PERMISSIONS}"

_REMEDIES = {
    errno.ENOSPC: "Free some space and try again",
    errno.EDQUOT: "Free some space and try again",
    errno.EROFS: "Choose another folder",
    errno.EACCES: _PERMISSIONS,
    errno.EPERM: _PERMISSIONS,
}


def is_of_the_disk(error: BaseException) -> bool:
    """Whether an error says that the disk is full, or that we may not write to it."""
    return isinstance(error, OSError) and error.errno in _REMEDIES


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name the file in errors, such as that of a full disk, and what can be done."""
    try:
        yield
    except OSError as error:
        if type(error) is OSError and error.errno is None:  # NumPy: short write
            msg = f"{path}: could not be written, is the disk full? ({error})"
            raise OSError(msg) from error
        if len(error.args) == 1:  # told already, by a writer within this one
            raise
        if error.errno in _REMEDIES:
            why, remedy = error.strerror, _REMEDIES[error.errno]
            told = type(error)(f"{path}: could not be written ({why}). {remedy}")
            told.errno = error.errno
            raise told from error
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def making(folder: Path, *, lock: str = "") -> Iterator[None]:
    """Make a folder and its parents; after an error, remove those that are new again.

    They stay if something is in them, other than the file `lock`.
    """
    new = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):
            if new and lock and [one.name for one in folder.iterdir()] == [lock]:
                (folder / lock).unlink()
            for one in new:
                one.rmdir()
        raise


def _temporary(make: Callable[[Path], object], path: Path) -> Path:
    """Make a temporary file or folder beside `path`.

    Not by `tempfile`: its files are private, and some network and FUSE file systems
    do not let permissions be changed afterwards.
    """
    temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}"
    try:
        make(temporary)
    except FileNotFoundError:  # another process made the folder, failed and removed it
        path.parent.mkdir(parents=True, exist_ok=True)
        make(temporary)
    return temporary


# Seconds between attempts. On Windows a reader, or a virus scanner that looks at a new
# file, keeps it from being renamed for a moment.
_PAUSES = (0.01, 0.1, 1.0) if os.name == "nt" else ()


def _rename(rename: Callable[[Path], Path], path: Path) -> None:
    for seconds in _PAUSES:
        try:
            rename(path)
        except PermissionError:
            time.sleep(seconds)
        else:
            return
    rename(path)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file that is renamed to `path` on success."""
    with writing(path), making(path.parent):
        _reached(POINTS[0], path)
        temporary = _temporary(lambda one: one.touch(exist_ok=False), path)
        try:
            _reached(POINTS[1], path)
            yield temporary
            _reached(POINTS[2], path)
            _rename(temporary.replace, path)
        finally:
            temporary.unlink(missing_ok=True)
    _reached(POINTS[3], path)


def write(path: Path, writer: Callable[[BinaryIO], object]) -> None:
    """Write a binary file with `writer`; it appears at `path` only when complete."""
    with replacing(path) as temporary, temporary.open("wb") as stream:
        writer(stream)


def put(path: Path, content: str | bytes) -> None:
    """Write a file with this content; it appears at `path` only when complete."""
    data = content.encode() if isinstance(content, str) else content
    write(path, lambda stream: stream.write(data))


@contextmanager
def appending(path: Path, *, anew: bool = False) -> Iterator[BinaryIO]:
    """Open a file to append to: logs, partial downloads. Its end may be incomplete.

    With `anew` it is started from the beginning.
    """
    with writing(path):
        _reached(POINTS[11], path)
        with path.open("wb" if anew else "ab") as stream:
            yield stream
    _reached(POINTS[12], path)


@contextmanager
def replacing_folder(
    path: Path,
    *,
    sealed: bool = False,
    put: Callable[[Path, Path], None] | None = None,
) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to `path` on success, or moved by `put`.

    An existing folder is kept until the new one is complete. With `sealed`, a list of
    the files with their hashes is written last (:func:`unsealed` compares it), and a
    folder that another process has discarded meanwhile is not renamed.
    """
    with writing(path), making(path.parent):
        _reached(POINTS[4], path)
        temporary = _temporary(Path.mkdir, path)
        try:
            if sealed:
                (temporary / _MINE).touch()
            _reached(POINTS[5], path)
            yield temporary
            if sealed:
                _reached(POINTS[6], path)
                _seal(temporary, path)
            (rename_folder if put is None else put)(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def rename_folder(folder: Path, path: Path) -> None:
    """Rename a complete folder to `path`; an existing one is removed.

    For an instant neither exists.
    """
    _reached(POINTS[7], path)
    if not path.exists():
        _rename(folder.rename, path)
        _reached(POINTS[9], path)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
    try:
        _rename(path.rename, old / path.name)
    except OSError:
        old.rmdir()
        raise
    try:
        _reached(POINTS[8], path)
        _rename(folder.rename, path)
    except OSError:
        (old / path.name).rename(path)
        old.rmdir()
        raise
    _reached(POINTS[9], path)
    # Network folders keep the files that another process still reads.
    shutil.rmtree(old, ignore_errors=True)


def discard(folder: Path) -> None:
    """Delete a folder that another process may still write to.

    It is renamed away first: what that process writes next fails. Deleted in place,
    file by file, the folder could lose some files and keep those written later.
    """
    _reached(POINTS[10], folder)
    away = Path(tempfile.mkdtemp(prefix=".gone.", dir=folder.parent))
    try:
        with suppress(FileNotFoundError):  # another process was faster
            _rename(folder.rename, away / "folder")
    finally:
        shutil.rmtree(away, ignore_errors=True)


_FILES, _MINE = "files.json", ".writing"


def _seal(folder: Path, path: Path) -> None:
    """Write the list of all files; raise if the folder is no longer the one begun."""
    try:
        # Writers make missing parents: a discarded folder may be there again, without
        # what was written before.
        (folder / _MINE).unlink()
    except FileNotFoundError as error:
        msg = f"{path}: deleted by another run while it was written"
        raise FileNotFoundError(msg) from error
    text = json.dumps(_listed(folder), indent=1)
    (folder / _FILES).write_text(text, encoding="utf-8")


def _listed(folder: Path) -> dict[str, dict[str, Any]]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": sha256(path),
        }
        for path in files
    }


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


def unsealed(folder: Path, *, content: bool = True) -> str:
    """Return what a sealed folder lacks, "" if it agrees with its list of files.

    Without `content` only names and sizes are compared, not the hashes.
    """
    try:
        listed = json.loads((folder / _FILES).read_text("utf-8"))
        for name, one in listed.items():
            path = folder / name
            if path.stat().st_size != one["bytes"]:
                return f"{name} has changed in size"
            if content and sha256(path) != one["sha256"]:
                return f"{name} has changed in content"
    except FileNotFoundError as error:
        return f"no {Path(error.filename).name}"
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return f"{_FILES} cannot be read ({error})"
    return ""


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add a note with the file's name to errors about its content."""
    try:
        yield
    except (ValueError, TypeError, EOFError) as error:
        error.add_note(f"in {path}")
        raise
