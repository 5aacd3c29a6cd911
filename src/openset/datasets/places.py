"""The files of a data set below the root: found, or fetched and checked by pooch."""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from openset import _io
from openset._types import ArtefactError, MissingExtraError

ROOT, OFFLINE = "OPENSET_DATA", "OPENSET_OFFLINE"
_BY_HAND = "its publisher offers no direct download"


class File(NamedTuple):
    """An official file: its checksum as the publisher gives it, and its address."""

    name: str
    digest: str
    url: str = ""


def default_root() -> Path:
    """Return the folder of data sets: $OPENSET_DATA, else the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    with suppress(RuntimeError):  # of a user without a home folder, in a container
        return Path(os.environ.get(ROOT) or f"{cache}/openset").expanduser()
    return Path("openset-data")


def is_offline() -> bool:
    """Whether the environment forbids downloads."""
    return os.environ.get(OFFLINE, "").lower() not in ("", "0", "false", "no")


@dataclass(frozen=True)
class Place:
    """The folder of one data set, ``<root>/<name>/``; its files may lie in the root."""

    root: Path
    name: str
    files: tuple[File, ...] = ()
    folders: tuple[str, ...] = ()
    offline: bool = True

    @property
    def path(self) -> Path:
        """The folder, into which files are downloaded."""
        return self.root / self.name

    @property
    def copy(self) -> Path:
        """What :meth:`Dataset.save` wrote; it is read instead of official files."""
        return self.root / f"{self.name}.npz"

    def is_filled(self) -> bool:
        """Whether a copy, all files, or a folder that archives leave is there."""
        is_here = _io.is_there(self.copy) or any(map(self.find, self.folders))
        names = [file.name for file in self.files]
        return is_here or bool(names and all(map(self.find, names)))

    def find(self, name: str) -> Path | None:
        """Return a file or folder of the set, if it is there."""
        both = (self.path / name, self.root / name)
        return next((one for one in both if _io.is_there(one)), None)

    def get(self, *files: File) -> list[Path]:
        """Return the paths of files; those that are missing are downloaded."""
        missing = [file for file in files if self.find(file.name) is None]
        if missing and not all(file.url for file in missing):
            raise self._not_there(_BY_HAND, map(self.line, missing))
        if missing and self.offline:
            why = f"downloads are switched off (offline=True or {OFFLINE}=1)"
            raise self._not_there(why, map(self.line, missing))
        for file in missing:
            self._download(file)
        return [self.find(file.name) or self.path for file in files]

    def _not_there(self, why: str, lines: Iterable[str]) -> FileNotFoundError:
        where, text = f"{self.name!r} is not under {self.root}", "\n".join(lines)
        return FileNotFoundError(f"datasets.load: {where}, and {why}. Put\n{text}")

    def line(self, file: File) -> str:
        """Return where a file belongs, its checksum and its address, as text."""
        source = f"  from {file.url}" if file.url else ""
        return f"  {self.path / file.name}  ({file.digest}){source}"

    def _download(self, file: File) -> None:
        import pooch  # noqa: PLC0415  # slow to import, for downloads only

        try:
            pooch.retrieve(file.url, file.digest, file.name, self.path)
        except (OSError, ValueError) as error:  # of the connection, of the checksum
            line = self.line(file).strip()
            msg = f"datasets: could not download {file.name} ({error}). Put\n  {line}"
            raise ConnectionError(msg) from error

    def tree(self, marker: str, *archives: File) -> Path:
        """Return the folder `marker`; unpack its archives if it is not there."""
        if (found := self.find(marker)) is not None:
            return found
        paths = self.get(*archives)
        self.path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".unpack.", dir=self.path) as name:
            for path in paths:
                # Links and paths out of the folder are refused or left out.
                more: Any = {} if path.suffix == ".zip" else {"filter": "data"}
                with reading(path):
                    shutil.unpack_archive(path, name, **more)
            # The marker appears last: once it is there, all others are.
            for entry in sorted(Path(name).iterdir(), key=lambda e: e.name == marker):
                if not (self.path / entry.name).exists():
                    entry.rename(self.path / entry.name)
        if not (self.path / marker).exists():
            msg = f"datasets: {archives[0].name} must hold {marker}, got no such folder"
            raise ArtefactError(msg)
        return self.path / marker

    def folder(self) -> Path:
        """Return the first folder that is there; for sets of images without files."""
        paths = [self.path / name for name in self.folders]
        if found := next((path for path in paths if path.is_dir()), None):
            return found
        raise self._not_there(_BY_HAND, (f"  {path}  (unpacked)" for path in paths))


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn the errors of a reader into one that names the file or folder."""
    try:
        yield
    except (
        *(ArtefactError, MissingExtraError, MemoryError),
        *(FileNotFoundError, ConnectionError, PermissionError),
    ):
        raise
    except Exception as error:  # whatever a reader of some format raises
        why = f"{type(error).__name__}: {error}"
        msg = f"datasets: {path} is damaged or of another kind ({why}). Get it again"
        raise ArtefactError(msg) from error
