"""What is known of each data set before it is read, and how to read it."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from openset import _check, _io, _plugins
from openset.datasets._compact_copies import CompactCopy
from openset.datasets._dataset import Dataset
from openset.datasets._dataset_folder import DatasetFolder
from openset.datasets._download import File

Loader = Callable[[Path], Dataset]
"""Reads a data set of its own from the folder of data sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetInfo(ABC):
    """What is known of a data set before it is read.

    `kind` is "image", "text" or "table", `n_classes` and `n_samples` are its size; they
    are empty or None if they are only known after loading. `origin` says who publishes
    files that cannot be downloaded. `upright` says that its images have an upright
    position and keep their class when turned: objects and scenes, not digits (a 6
    upside down is a 9), letters or textures.
    """

    name: str
    kind: str = ""
    n_classes: int | None = None
    n_samples: int | None = None
    about: str = ""
    origin: str = ""
    upright: bool = False

    @property
    @abstractmethod
    def how(self) -> str:
        """How to get it: "always there", "download", or "needs FILE"."""

    @property
    def source(self) -> str:
        """Who publishes it: a web address or a name; "" if unknown."""
        return self.origin

    @abstractmethod
    def is_here(self, place: DatasetFolder) -> bool:
        """Return whether it can be read without a download, as far as one can tell."""

    @abstractmethod
    def load(self, place: DatasetFolder) -> Dataset:
        """Read the data set."""

    def files_text(self, place: DatasetFolder) -> list[str]:
        """Return lines that say which files it needs, and where they belong."""
        return []


@dataclass(frozen=True, slots=True)
class ExactCopy:
    """Another lossless form of a data set, in files that users provide.

    It is used rather than a compact copy, which may be lossy, or a download. `folder`
    is where the files belong, below the folder of the data set.
    """

    origin: str
    files: tuple[File, ...]
    find: Callable[[DatasetFolder], Path | None]
    read: Callable[[DatasetFolder], Dataset]
    folder: str = "package"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltIn(DatasetInfo):
    """A data set that comes with openset: its official files, and copies of it.

    `marker` is the file or folder by which unpacked official files are recognised. A
    data set that is `always_here` needs no files. One that is derived from another has
    its files in the folder of that one, `files_of`.
    """

    read: Callable[[DatasetFolder], Dataset] | None = None
    files: tuple[File, ...] = ()
    marker: str = ""
    exact_copy: ExactCopy | None = None
    compact_copy: CompactCopy | None = None
    always_here: bool = False
    files_of: str = ""

    @property
    def how(self) -> str:
        """How to get it: "always there", "download", or "needs FILE"."""
        if self.always_here or self._is_shipped:
            return "always there"
        if self.files and all(file.urls for file in self.files):
            return "download"
        if not self.files:
            return f"needs {self.marker}"
        return f"needs {self.files[0].name}" + (", …" if len(self.files) > 1 else "")

    @property
    def source(self) -> str:
        """Who publishes it: a web address or a name."""
        urls = [url for file in self.files for url in file.urls[:1]]
        return self.origin or (urls[0] if urls else "")

    @property
    def _is_shipped(self) -> bool:
        return self.compact_copy is not None and self.compact_copy.is_shipped

    def _folder(self, place: DatasetFolder) -> DatasetFolder:
        return place.of(self.files_of) if self.files_of else place

    def is_here(self, place: DatasetFolder) -> bool:
        """Return whether the official files, or a copy of them, are there."""
        place = self._folder(place)
        compact, exact = self.compact_copy, self.exact_copy
        return bool(
            self.always_here
            or (compact is not None and compact.find(place))
            or (exact is not None and exact.find(place))
            or self._has_official_files(place)
        )

    def _has_official_files(self, place: DatasetFolder) -> bool:
        if self.marker:
            if _io.is_there(place.path / self.marker):
                return True
            if not self.files:
                return False
            if place.find(self.marker) is not None:
                return True
        return bool(self.files) and all(place.find(f.name) for f in self.files)

    def load(self, place: DatasetFolder) -> Dataset:
        """Read the official files if they are there, else a copy, else download."""
        place = self._folder(place)
        compact, exact = self.compact_copy, self.exact_copy
        if not self._has_official_files(place):
            if exact is not None and exact.find(place) is not None:
                return exact.read(place)
            if compact is not None and compact.find(place) is not None:
                return compact.load(place, self.name)
        if self.read is not None:
            return self.read(place)
        if compact is None:  # pragma: no cover  # a test over the catalogue forbids it
            msg = f"datasets: {self.name} has no reader"
            raise RuntimeError(msg)
        return compact.load(place, self.name)

    def files_text(self, place: DatasetFolder) -> list[str]:
        """Return lines that say which files it needs, and where they belong."""
        place = self._folder(place)
        lines = [f"from {self.origin}"] if self.origin else []
        if self._is_shipped:
            lines.append("comes with openset")
        ways = {
            "official files:": [place.line(file) for file in self.files],
            "unpacked:": [f"  {place.path / self.marker}"] if self.marker else [],
        }
        if self.exact_copy is not None:
            where = self.exact_copy.find(place) or place.path / self.exact_copy.folder
            files = [f"  {where / f.name}  ({f.digest})" for f in self.exact_copy.files]
            ways[f"{self.exact_copy.origin}:"] = files
        if self.compact_copy is not None and not self._is_shipped:
            ways["one compact file:"] = [place.line(self.compact_copy.file)]
        given = [(way, files) for way, files in ways.items() if files]
        for i, (way, files) in enumerate(given):
            lines += ["or " * (i > 0) + way, *files]
        return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class External(DatasetInfo):
    """A data set of another package: a function that reads it."""

    function: Loader

    @property
    def how(self) -> str:
        """Where its loader comes from."""
        return f"plug-in {_plugins.reference(self)}"

    def is_here(self, place: DatasetFolder) -> bool:
        """Return True: only the loader knows what it needs."""
        return True

    def load(self, place: DatasetFolder) -> Dataset:
        """Call the loader; the data set gets the name it was loaded by."""
        found = self.function(place.root)
        if not isinstance(found, Dataset):
            msg = _check.must(
                "a Dataset",
                caller="datasets.load",
                name=f"what {_plugins.reference(self)} returns",
                got=type(found).__name__,
                remedy="datasets.from_arrays makes one of arrays",
            )
            raise TypeError(msg)
        # Protocols name the data set of their classes: under this name it is loaded.
        own = found.label_set == found.name
        return replace(
            found, name=place.name, label_set=place.name if own else found.label_set
        )

    def files_text(self, place: DatasetFolder) -> list[str]:
        """Return a line that says which function reads it."""
        return [f"read by {_plugins.reference(self)} from {place.root}"]


def _accept(caller: str, value: Any) -> DatasetInfo:
    """Take a loader that was imported, or what `register` made of one."""
    if isinstance(value, DatasetInfo):
        return value
    if isinstance(value, Dataset) or not callable(value):
        msg = _check.must(
            "a function (root) -> Dataset",
            caller=caller,
            name="what is named",
            got=type(value).__name__,
        )
        raise TypeError(msg)
    return external(value)


def external(function: Loader, **known: Any) -> External:
    """Describe a loader, as far as it is known; its docstring says what it reads."""
    text = inspect.getdoc(function) or ""
    about = known.pop("about", "") or text.partition("\n")[0]
    name = getattr(function, "__name__", type(function).__name__)
    settings: dict[str, Any] = {"name": name} | known
    return External(**settings, about=about, function=function)


CATALOGUE: _plugins.Registry[DatasetInfo] = _plugins.Registry(
    "openset.datasets", "a data set", _accept, package="datasets"
)
