"""Where shards and results are: a folder, or an object store by its URL."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from openset import _io, _locks
from openset._urls import file_system, is_url


@dataclass(frozen=True)
class Folder:
    """A folder for results; its files are written under a temporary name."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def locked(self, busy: str) -> AbstractContextManager[object]:
        """Keep other runs out."""
        return _locks.locked(self.path / ".lock", busy=busy)

    def tidy(self) -> None:
        """Remove what a killed run left."""
        for left in [*self.path.glob(".*.*"), *self.path.glob("*/.*.*")]:
            if left.is_file():
                left.unlink(missing_ok=True)

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None without it."""
        path = self.path / name
        return path.read_bytes() if path.exists() else None

    def write(self, name: str, content: bytes) -> None:
        """Write a file."""
        _io.put(self.path / name, content)

    def has(self, name: str) -> bool:
        """Return whether there is a file."""
        return (self.path / name).exists()

    def holding(self) -> Callable[[str], bool]:
        """Return a function that tells whether a file exists, for many files."""
        return self.has

    def names(self, folder: str) -> list[str]:
        """Return the .json files in a folder of it."""
        found = (self.path / folder).glob("*.json")
        return sorted(f"{folder}/{one.name}" for one in found)

    def remove(self, folder: str) -> None:
        """Delete a folder of it."""
        shutil.rmtree(self.path / folder, ignore_errors=True)

    def filling(self) -> AbstractContextManager[Path]:
        """Yield the folder in which a job writes the files of a shard."""
        return nullcontext(self.path)


@dataclass(frozen=True)
class ObjectStore:
    """A place for results in an object store, by its URL.

    A file is uploaded once it is complete, and appears there as a whole. There are no
    locks: of two runs at the same time the later one wins, with the same results.
    """

    url: str
    caller: str

    def __str__(self) -> str:
        return self.url

    def _at(self, name: str) -> tuple[Any, str]:
        found, path = file_system(self.url, caller=self.caller)
        return found, f"{path}/{name}"

    def locked(self, busy: str) -> AbstractContextManager[object]:
        """Do nothing: an object store has no locks."""
        return nullcontext()

    def tidy(self) -> None:
        """Do nothing: a killed run leaves no files of parts."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None without it."""
        found, path = self._at(name)
        return found.cat_file(path) if found.exists(path) else None

    def write(self, name: str, content: bytes) -> None:
        """Upload a file."""
        found, path = self._at(name)
        found.pipe_file(path, content)

    def has(self, name: str) -> bool:
        """Return whether there is a file."""
        found, path = self._at(name)
        return found.exists(path)

    def holding(self) -> Callable[[str], bool]:
        """Return a function that tells whether a file exists, from one listing."""
        found, path = self._at("")
        return {one.removeprefix(path) for one in found.find(path)}.__contains__

    def names(self, folder: str) -> list[str]:
        """Return the .json files in a folder of it."""
        found, path = self._at(folder)
        files = [one for one in sorted(found.find(path)) if one.endswith(".json")]
        return [f"{folder}{one.removeprefix(path)}" for one in files]

    def remove(self, folder: str) -> None:
        """Delete a folder of it."""
        found, path = self._at(folder)
        with suppress(FileNotFoundError):
            found.rm(path, recursive=True)

    @contextmanager
    def filling(self) -> Iterator[Path]:
        """Yield a folder for the files of a shard; then upload them."""
        with tempfile.TemporaryDirectory(prefix="openset-results-") as folder:
            yield Path(folder)
            # Those of the folder itself last: with them a shard is done.
            files = sorted(Path(folder).rglob("*"))
            for file in sorted(files, key=lambda one: one.parent == Path(folder)):
                if file.is_file():
                    name = file.relative_to(folder).as_posix()
                    found, path = self._at(name)
                    # Some keep folders: they want them made.
                    found.makedirs(path.rpartition("/")[0], exist_ok=True)
                    found.put_file(str(file), path)


Store = Folder | ObjectStore


def store(place: str | Path, *, caller: str) -> Store:
    """Return the place for results."""
    if isinstance(place, str) and is_url(place):
        found, path = file_system(place, caller=caller)
        # Of a local folder by its URL: an upload would not write a file in one step.
        is_local = "file" in found.protocol
        return Folder(Path(path)) if is_local else ObjectStore(place, caller)
    return Folder(Path(place).resolve())  # workers may have another current folder


@dataclass(frozen=True)
class Entry:
    """A file or folder in an object store: its name, its files, and their size.

    The tag is what the store says of the content, such as the ETag of S3.
    """

    url: str
    name: str
    files: tuple[str, ...]
    is_folder: bool
    n_bytes: int
    tag: str = ""


def entries(url: str, *, caller: str) -> list[Entry]:
    """List what is directly in a folder of an object store."""
    found, path = file_system(url, caller=caller)
    listed = []
    for one in sorted(found.ls(path, detail=True), key=lambda one: one["name"]):
        name = PurePosixPath(one["name"]).name
        is_folder = one["type"] == "directory"
        inner = found.ls(one["name"], detail=True) if is_folder else [one]
        files = [file for file in inner if file["type"] == "file"]
        paths = tuple(file["name"] for file in files)
        size = sum(file["size"] or 0 for file in files)
        tags = [str(file.get("ETag") or file.get("etag") or "") for file in files]
        tag = " ".join(tags) if all(tags) else ""
        listed.append(Entry(url, name, paths, is_folder, size, tag))
    return listed


@contextmanager
def downloaded(
    url: str, files: Sequence[str], name: str, *, is_folder: bool
) -> Iterator[Path]:
    """Yield a temporary copy of a file, or of a folder of files."""
    found, _ = file_system(url, caller="shards")
    with tempfile.TemporaryDirectory(
        prefix="openset-shard-",
        ignore_cleanup_errors=True,  # Windows keeps files that are still open
    ) as folder:
        place = Path(folder) / name
        (place if is_folder else Path(folder)).mkdir(exist_ok=True)
        for file in files:
            inner = place / PurePosixPath(file).name if is_folder else place
            found.get_file(file, str(inner))
        yield place
