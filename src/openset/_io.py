"""Files: written to a temporary name and renamed, locked, read without unpickling."""

import errno
import hashlib
import io
import json
import os
import secrets
import shutil
import struct
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from openset import _npz
from openset._types import ArtefactError, MissingExtraError


def optional(caller: str, module: str, *, name: str) -> ModuleType:
    """Import an optional dependency; if it is missing, name the extra to install."""
    try:
        return import_module(module)
    except ImportError as error:
        # A module of ours is there: a package it imports is missing.
        is_ours = module.startswith("openset.")
        missing = error.name if is_ours and error.name else module
        msg = (
            f'{caller}: needs {missing}; install it with: pip install "openset[{name}]"'
        )
        raise MissingExtraError(msg) from error


# A package compiled for another version of a dependency can fail in many ways.
BROKEN_IMPORT = (ImportError, OSError, RuntimeError, AttributeError)


def first_line(error: BaseException) -> str:
    r"""Return the type of an error and the first line of its message.

    Examples
    --------
    >>> first_line(RuntimeError("operator does not exist\nand much more"))
    'RuntimeError: operator does not exist'
    """
    first, _, _ = str(error).strip().partition("\n")
    return f"{type(error).__name__}: {first}"


@contextmanager
def importing(caller: str, name: str) -> Iterator[None]:
    """Guard the imports of a module that needs an extra: errors name the extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None:  # transformers: something below it does not import
            msg = f"{caller}: {name} is installed but does not import ({error})"
        else:
            msg = (
                f"{caller}: needs {error.name}; install it with: "
                f'pip install "openset[{name}]"'
            )
        raise MissingExtraError(msg, name=error.name) from error


@contextmanager
def fitting(caller: str, package: str, *, remedy: str = "") -> Iterator[None]:
    """Guard an import that needs torchvision: explain if it does not fit torch.

    torchvision is compiled for one version of torch, with or without GPU support; with
    another torch its import fails. `remedy` is added to the advice.
    """
    try:
        yield
    except ModuleNotFoundError:
        raise
    except BROKEN_IMPORT as error:
        version = sys.modules["torch"].__version__
        # Both must come from the same index: a GPU build does not fit a CPU build.
        _, _, build = version.partition("+")
        place = f" --index-url https://download.pytorch.org/whl/{build}"
        msg = (
            f"{caller}: {package} is installed but does not import "
            f"({first_line(error)}). Install the torchvision that fits this torch: "
            f"pip uninstall torchvision, then pip install torch=={version} torchvision"
            f"{place if build else ''}{remedy}"
        )
        raise MissingExtraError(msg) from error


def library(caller: str, name: str) -> ModuleType:
    """Import a package of networks, which no extra of ours brings, or a part of it."""
    top = name.partition(".")[0]
    try:
        with fitting(caller, top):
            return import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or top
        msg = f"{caller}: needs {missing}; install it with: pip install {missing}"
        raise MissingExtraError(msg) from error


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

    For an instant neither exists; :func:`openset.outputs.put_folder` avoids that.
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


def write_npz(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write named arrays; object arrays, which would be pickled, raise an error."""
    _need_plain(path, arrays)
    write(path, lambda stream: np.savez(stream, **arrays))  # type: ignore[arg-type]


def npz_bytes(path: Path | str, arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return what :func:`write_npz` would write; `path` is for errors."""
    _need_plain(path, arrays)
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def _need_plain(path: Path | str, arrays: Mapping[str, NDArray[Any]]) -> None:
    for name, array in arrays.items():
        if array.dtype.hasobject:
            msg = f"{path}: {name} must be numbers or strings, got dtype {array.dtype}"
            raise TypeError(msg)


def read_npz(
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
            return _npz.arrays(archive)
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


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the file name to errors about its content."""
    try:
        yield
    except (ValueError, TypeError) as error:
        again = type(error)(f"{path}: {error}")
        again.__dict__.update(error.__dict__)
        raise again from error


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


# Error codes of file systems without locks, such as some network folders.
_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP}


@contextmanager
def locked(path: Path, *, busy: str = "", wait: float = 0) -> Iterator[bool]:
    """Hold the lock file `path`; only one process or thread can at a time.

    Waits until the lock is free; with a message `busy`, raises BlockingIOError if it is
    not after `wait` seconds.
    The operating system releases the lock when the process ends, even if it is killed;
    the file stays. Yields False, without a lock, if the file system has no locks.
    """
    from filelock import FileLock, Timeout  # noqa: PLC0415  # not for `import openset`

    path.parent.mkdir(parents=True, exist_ok=True)
    # The soft lock that filelock falls back to would not be released by a killed
    # process.
    lock = FileLock(path, fallback_to_soft=False)
    is_held = True
    try:
        lock.acquire(timeout=wait if busy else -1)
    except Timeout as error:
        raise BlockingIOError(busy) from error
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        is_held = False
    try:
        yield is_held
    finally:
        lock.release()


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Yield a temporary folder; also remove those that killed processes left behind.

    The lock in a folder is that of the process that uses it.
    """
    for lock in Path(tempfile.gettempdir()).glob(f"{prefix}*/.lock"):
        # Still in use, or gone meanwhile.
        with suppress(OSError):
            with locked(lock, busy="in use") as is_held:
                if is_held:
                    shutil.rmtree(lock.parent, ignore_errors=True)
            if is_held:  # Windows keeps the lock until it is released
                shutil.rmtree(lock.parent, ignore_errors=True)
    with (
        tempfile.TemporaryDirectory(prefix=prefix) as name,
        locked(Path(name) / ".lock"),
    ):
        yield Path(name)
