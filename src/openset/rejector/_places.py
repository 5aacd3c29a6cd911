"""Where a rejector is kept, a folder or a URL: its two files as bytes."""

import hashlib
import json
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from openset import _check, _io, _locks, _urls
from openset._types import ArtefactError

MANIFEST = "manifest.json"
_LOCK = ".lock"
_CALLER = "Rejector.load"
_MOST_MANIFEST = 256 << 20  # bytes to take from a server
_STATE = re.compile(r"state(-[0-9a-f]{16})?\.npz")
# Files we write, under their own or a temporary name (see _io.replacing).
_OURS = re.compile(rf"{re.escape(_LOCK)}|\.?({_STATE.pattern}|manifest\.json)(\..+)?")
# What a repository of a hub has beside them.
_BESIDE = {"README.md", ".git", ".gitattributes"}


def place_of(folder: str | Path, *, caller: str = _CALLER) -> Path | str:
    """Return the path of a folder, or the URL of one that is elsewhere."""
    if not (isinstance(folder, str) and _urls.is_url(folder)):
        return Path(folder)
    found, path = _urls.file_system(folder, caller=caller)
    # Of a local folder by its URL: an upload would not write a file in one step.
    return Path(path) if "file" in found.protocol else folder.rstrip("/")


def at(place: Path | str, name: str) -> Path | str:
    """Return where a file of a rejector is."""
    return place / name if isinstance(place, Path) else f"{place}/{name}"


def check_destination(folder: str | Path, *, caller: str, name: str) -> None:
    """Raise if the place holds something other than a rejector."""
    place = place_of(folder, caller=caller)
    names = _names(place, caller=caller)
    if names is None or (
        MANIFEST not in names
        and not all(_OURS.fullmatch(one) or one in _BESIDE for one in names)
    ):
        msg = _check.must(
            f"a new folder, or one with a rejector ({MANIFEST})",
            caller=caller,
            name=name,
            got=f"{place}, which holds something else",
        )
        raise ValueError(msg)


def _names(place: Path | str, *, caller: str) -> list[str] | None:
    """Return what is in a folder, nothing if it is new; None if it is a file."""
    if isinstance(place, str):
        return _urls.names(place, caller=caller)
    if not place.exists():
        return []
    return [path.name for path in place.iterdir()] if place.is_dir() else None


def put(place: Path | str, state: str, content: bytes, text: bytes) -> None:
    """Write arrays and manifest, in this order."""
    if isinstance(place, str):
        for name, one in ((state, content), (MANIFEST, text)):
            _urls.write(f"{place}/{name}", one, caller="Rejector.save")
        return
    folder = place
    with (
        _io.making(folder, lock=_LOCK),
        _locks.locked(folder / _LOCK) as is_alone,
    ):
        try:
            # Whoever has opened this very rejector may still have to read its arrays.
            if not _holds(folder / state, content):
                _io.put(folder / state, content)
            _io.put(folder / MANIFEST, text)
        finally:
            if is_alone:
                _tidy(folder)


def _holds(path: Path, content: bytes) -> bool:
    return path.is_file() and path.read_bytes() == content


def _tidy(folder: Path) -> None:
    """Remove the arrays of earlier rejectors, and what a killed save left behind."""
    used = {_LOCK, MANIFEST}
    with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
        used |= json.loads((folder / MANIFEST).read_bytes())["files"].keys()
    for path in folder.iterdir():
        if _OURS.fullmatch(path.name) and path.name not in used:
            # Windows keeps files that are open; a later save removes them.
            with suppress(PermissionError):
                path.unlink()


def manifest_of(folder: str | Path) -> bytes:
    """Return the bytes of the manifest of a rejector, unchecked."""
    folder = place_of(folder)
    if isinstance(folder, str):
        text = _urls.read(f"{folder}/{MANIFEST}", caller=_CALLER, most=_MOST_MANIFEST)
        if len(text) == _MOST_MANIFEST:
            msg = f"{_CALLER}: {folder}/{MANIFEST} is no manifest: it is too long"
            raise ArtefactError(msg)
        return text
    path = folder / MANIFEST
    if not folder.exists():
        msg = f"{_CALLER}: no such folder: {folder}"
        raise FileNotFoundError(msg)
    if not path.is_file():
        msg = f"{_CALLER}: {folder} is not a rejector: it has no {MANIFEST}"
        raise ArtefactError(msg)
    return path.read_bytes()


def state_name(files: Mapping[str, Any]) -> str:
    """Return the name of the arrays' file; a name that leads elsewhere is refused."""
    (name,) = files
    if not _STATE.fullmatch(name):
        msg = f"files must name state-HASH.npz, got {name!r}"
        raise ValueError(msg)
    return name


def stamp(path: Path | str) -> tuple[int, ...] | None:
    """Return what tells a file from one that took its name; None without a file."""
    if isinstance(path, str):
        return None
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def checked_bytes(path: Path | str, written: Mapping[str, Any]) -> bytes:
    """Return the bytes of a file, if they are those the manifest was written for."""
    try:
        if isinstance(path, Path):
            content = _content(path, written["bytes"])
        else:  # not one byte more than is needed to see that there are too many
            most = written["bytes"] + 1
            content = _urls.read(path, caller=_CALLER, most=most)
            _check_size(path, len(content), written["bytes"])
    except FileNotFoundError as error:
        msg = f"{_CALLER}: {path} is missing. Restore it, or calibrate again"
        raise ArtefactError(msg) from error
    if hashlib.sha256(content).hexdigest() != written["sha256"]:
        msg = (
            f"{_CALLER}: {path} was changed after it was written: its sha256 is not "
            f"that of the manifest. Restore it, or calibrate again"
        )
        raise ArtefactError(msg)
    return content


def _content(path: Path, n_bytes: int) -> bytes:
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        what = "a symbolic link" if path.is_symlink() else "a device or a folder"
        msg = f"{_CALLER}: {path} must be a file, got {what}. Copy the file there"
        raise ArtefactError(msg)
    _check_size(path, found.st_size, n_bytes)
    return path.read_bytes()


def _check_size(path: Path | str, found: int, n_bytes: int) -> None:
    if found != n_bytes:
        what = "truncated" if found < n_bytes else "changed"
        more = "more" if found > n_bytes and isinstance(path, str) else f"{found} bytes"
        msg = (
            f"{_CALLER}: {path} is {what}: {more} where the manifest says {n_bytes}. "
            "Restore it, or calibrate again"
        )
        raise ArtefactError(msg)
