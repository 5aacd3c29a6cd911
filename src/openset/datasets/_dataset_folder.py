"""The folder of a data set: finds, downloads and unpacks its files."""

import lzma
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from openset import _io, _locks
from openset._types import ArtefactError
from openset.datasets import _download
from openset.datasets._download import File

ROOT = "OPENSET_DATA"

# Where torchvision puts the same files below a root, if elsewhere.
_TORCHVISION = {
    "mnist": "MNIST/raw",
    "omniglot": "omniglot-py",
    "stanford-cars": "stanford_cars",
}

# What readers raise when a file is damaged.
_DAMAGE = (
    ValueError,
    EOFError,
    OSError,
    KeyError,
    TypeError,
    IndexError,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


def default_root() -> Path:
    """Return the folder of data sets: $OPENSET_DATA, else the user's cache.

    For a user without a home folder, as in some containers, that is ``openset-data`` in
    the current folder.
    """
    if os.environ.get(ROOT):
        return Path(os.environ[ROOT]).expanduser()
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "openset"
    try:
        return Path.home() / ".cache" / "openset"
    except RuntimeError:
        return Path.cwd() / "openset-data"


class DatasetFolder:
    """The folder of one data set, ``<root>/<name>/``.

    Files are also found in ``<root>/`` itself and where torchvision puts them below the
    same root; downloads go to ``<root>/<name>/``.
    """

    def __init__(
        self, name: str, root: Path, *, offline: bool = True, verify: bool = True
    ) -> None:
        self.name = name
        self.root = root
        self.path = root / name
        self.offline = offline
        self.verify = verify

    def of(self, name: str) -> "DatasetFolder":
        """Return the folder of another data set below the same root."""
        return DatasetFolder(name, self.root, offline=self.offline, verify=self.verify)

    def find(self, relative: str) -> Path | None:
        """Return the file or folder `relative`, if it is there."""
        bases = [self.path, self.root]
        if self.name in _TORCHVISION:
            bases.append(self.root / _TORCHVISION[self.name])
        for base in bases:
            if _io.is_there(base / relative):
                return base / relative
        return None

    def files(self, *wanted: File) -> list[Path]:
        """Return these files, downloaded if allowed, and checked if wanted."""
        missing = [file for file in wanted if self.find(file.name) is None]
        if missing and (self.offline or not all(file.urls for file in missing)):
            raise FileNotFoundError(self.how_to_get(missing))
        for file in missing:
            try:
                _download.download(file, self.path / file.name)
            except OSError as error:
                if not _io.is_of_the_disk(error):
                    raise
                msg = (
                    f"datasets.load: {self.path} must be a folder that can be written, "
                    f"got: {error}. Name another one by root or ${ROOT}"
                )
                raise OSError(msg) from error
        paths = []
        for file in wanted:
            path = self.find(file.name)
            if path is None:  # deleted in the meantime
                raise FileNotFoundError(self.how_to_get([file]))
            if self.verify and file not in missing:  # a download was checked already
                _download.check(path, file.digest)
            paths.append(path)
        return paths

    def tree(self, marker: str, *archives: File) -> Path:
        """Return the unpacked folder `marker`; unpack its archives if necessary."""
        found = self.find(marker)
        if found is not None:
            return found
        paths = self.files(*archives)
        with _locks.locked(self.path / f".{marker}.lock"):
            if self.find(marker) is None:  # else another process was faster
                for path in paths:
                    unpack(path, self.path, last=marker)
        if not (self.path / marker).exists():
            msg = f"datasets: {archives[0].name} must hold {marker}, got no such folder"
            raise ArtefactError(msg)
        return self.path / marker

    def line(self, file: File) -> str:
        """Return where a file belongs, its checksum and its address, as text."""
        source = f"  from {file.urls[0]}" if file.urls else ""
        return f"  {self.path / file.name}  ({file.digest}){source}"

    def how_to_get(self, files: Iterable[File]) -> str:
        """Return a text that says which file to put where."""
        files = list(files)
        lines = [self.line(file) for file in files]
        by_hand = [file for file in files if not file.urls]
        if by_hand:
            why = "its publisher offers no direct download"
        else:
            why = f"downloads are switched off (offline=True or {_download.OFFLINE}=1)"
        return (
            f"datasets.load: {self.name!r} is not under {self.root}, and {why}. Put\n"
            + "\n".join(lines)
        )


def unpack(archive: Path, folder: Path, *, last: str = "") -> None:
    """Unpack a .zip or .tar archive, completely or not at all, inside `folder`.

    The entry called `last` appears last: once it is there, all others are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unpack.", dir=folder) as name:
        temporary = Path(name)
        with reading(archive, "an archive"):
            if archive.suffix == ".zip":
                _unzip(archive, temporary)
            else:
                _untar(archive, temporary)
        for entry in sorted(temporary.iterdir(), key=lambda entry: entry.name == last):
            merge(entry, folder / entry.name)


def merge(source: Path, target: Path) -> None:
    """Move a folder to `target`, into the folder of that name if there is one."""
    try:
        source.replace(target)
    except OSError:
        # Another one may have put its copy there a moment ago.
        if not (source.is_dir() and target.is_dir()):
            raise
    else:
        return
    for entry in source.iterdir():
        merge(entry, target / entry.name)


def _untar(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as tar:
        for member in tar:
            target = _inside(archive, folder, member.name)
            if member.isdir():
                target.mkdir(parents=True, exist_ok=True)
            elif member.isfile():
                stream = tar.extractfile(member)
                if stream is not None:
                    _write(stream, target)
            else:
                # Data sets are files; a link could point out of the folder.
                msg = f"datasets: {archive} holds {member.name!r}, a link or device"
                raise ArtefactError(msg)


def _unzip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as packed:
        for info in packed.infolist():
            target = _inside(archive, folder, info.filename)
            if info.is_dir():
                target.mkdir(parents=True, exist_ok=True)
            else:
                with packed.open(info) as stream:
                    _write(stream, target)


def _inside(archive: Path, folder: Path, name: str) -> Path:
    path = PurePosixPath(name.replace("\\", "/"))
    has_drive = any(":" in part for part in path.parts[:1])
    if path.is_absolute() or ".." in path.parts or has_drive:
        msg = f"datasets: {archive} holds {name!r}, a path out of its folder"
        raise ArtefactError(msg)
    return folder.joinpath(*path.parts)


def _write(stream: IO[bytes], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as out:
        shutil.copyfileobj(stream, out)


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn the errors of a reader into one that names the file."""
    try:
        yield
    except (ArtefactError, FileNotFoundError):
        raise
    except _DAMAGE as error:
        msg = (
            f"datasets: {path} is damaged or not {what} ({error}). Delete it and load "
            "again"
        )
        raise ArtefactError(msg) from error
