"""Open files as on Windows: they cannot be renamed, replaced or deleted."""

import errno
import os
import shutil
from pathlib import Path

import pytest

FILES, MAPS = Path("/proc/self/fd"), Path("/proc/self/maps")


def held():
    """Return the paths of all files that this process has open or mapped."""
    found = set()
    for one in FILES.iterdir():
        try:
            found.add(str(one.readlink()))
        except OSError:  # of the listing itself
            continue
    lines = MAPS.read_text(encoding="utf-8").splitlines()
    return found | {line[line.index("/") :] for line in lines if "/" in line}


def refuse(path, *, is_new=False):
    """Raise what Windows raises, if the path is open, or a folder of open files."""
    path = Path(path)
    if is_new and path.is_dir():
        raise PermissionError(errno.EACCES, "Access is denied", str(path))
    real = str(path.resolve())
    if any(one == real or one.startswith(f"{real}/") for one in held()):
        msg = "The process cannot access the file"
        raise PermissionError(errno.EACCES, msg, str(path))


def keep(monkeypatch):
    """Let open files be kept by the file system during a test."""
    if not MAPS.exists():
        pytest.skip("this system does not say which files are open")

    def guarded(name):
        real = getattr(os, name)

        def one(path, *, dir_fd=None):
            refuse(path)
            return real(path)

        def two(path, target, **_):
            refuse(path)
            refuse(target, is_new=True)
            return real(path, target)

        return two if name in {"replace", "rename"} else one

    for name in ("replace", "rename", "unlink", "rmdir"):
        monkeypatch.setattr(os, name, guarded(name))

    # The one of the standard library deletes by descriptors of folders.
    def rmtree(folder, ignore_errors=False, **_):  # noqa: FBT002
        for path in (*sorted(Path(folder).rglob("*"), reverse=True), Path(folder)):
            try:
                (path.rmdir if path.is_dir() else path.unlink)()
            except OSError:
                if not ignore_errors:
                    raise

    monkeypatch.setattr(shutil, "rmtree", rmtree)
