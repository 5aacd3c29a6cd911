"""What is known of each data set before it is read, and how to read it."""

import csv
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from openset import _check, _io, _plugins
from openset.datasets import official, own
from openset.datasets.dataset import Dataset
from openset.datasets.places import File, Place, default_root, reading

Loader = Callable[[Path], Dataset]
"""Reads a data set of its own from the folder of data sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """What is known of a data set before it is read.

    `kind` is "image", "text" or "table", `n_classes` and `n_samples` are its size; they
    are empty or None if they are only known after loading. `source` says who publishes
    it. `upright` says that its images have an upright position and keep their class
    when turned: objects and scenes, not digits (a 6 upside down is a 9), letters or
    textures. `function` reads it: from the place of its files, or, if it is not built
    in, from the root. `folders` are those that unpacked archives leave.
    """

    name: str
    function: Callable[[Any], Dataset]
    kind: str = ""
    n_classes: int | None = None
    n_samples: int | None = None
    about: str = ""
    source: str = ""
    upright: bool = False
    files: tuple[File, ...] = ()
    folders: tuple[str, ...] = ()

    @property
    def is_built_in(self) -> bool:
        """Whether it comes with openset."""
        return _plugins.is_built_in(self)

    @property
    def how(self) -> str:
        """How to get it: "always there", "download", "by hand" or "plug-in …"."""
        if not self.is_built_in:
            return f"plug-in {_plugins.reference(self)}"
        if self.files and all(file.url for file in self.files):
            return "download"
        return "by hand" if self.files or self.folders else "always there"

    def place(self, root: str | Path | None, *, offline: bool = True) -> Place:
        """Return where its files are, or belong."""
        at = default_root() if root is None else Path(root)
        return Place(at, self.name, self.files, self.folders, offline)

    def is_here(self, root: str | Path | None) -> bool:
        """Return whether it can be read without a download, as far as one can tell."""
        return self.how not in ("download", "by hand") or self.place(root).is_filled()

    def load(self, place: Place) -> Dataset:
        """Read it; a data set of a plug-in gets the name it was loaded by."""
        if self.is_built_in and _io.is_there(place.copy):
            return own.from_npz(place.copy)
        if self.is_built_in:
            with reading(place.path):
                return self.function(place)
        found = self.function(place.root)
        if not isinstance(found, Dataset):
            name, got = f"what {_plugins.reference(self)} returns", type(found).__name__
            remedy = "datasets.from_arrays makes one of arrays"
            _check.fail("datasets.load", name, "a Dataset", got, remedy, TypeError)
        # Protocols name the data set of their classes: under this name it is loaded.
        is_own = found.label_set == found.name
        label_set = self.name if is_own else found.label_set
        return replace(found, name=self.name, label_set=label_set)


def _accept(caller: str, value: Any) -> Info:
    """Take a loader that was imported, or what `register` made of one."""
    return value if isinstance(value, Info) else external(caller, value)


def external(caller: str, function: Any, **known: Any) -> Info:
    """Describe a loader, as far as it is known; its docstring says what it reads."""
    if isinstance(function, Dataset) or not callable(function):
        rule, got = "a function (root) -> Dataset", type(function).__name__
        _check.fail(caller, "loader", rule, got, error=TypeError)
    text = inspect.getdoc(function) or ""
    known["about"] = known.get("about") or text.partition("\n")[0]
    known.setdefault("name", _plugins.reference(function))
    return Info(function=function, **known)


CATALOGUE: _plugins.Registry[Info] = _plugins.Registry(
    "openset.datasets", "a data set", _accept, package="datasets"
)


def _rows(name: str) -> list[dict[str, str]]:
    path = Path(__file__).with_name(name)
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def _register(row: dict[str, str]) -> None:
    files = [one for one in _rows("official.csv") if one["name"] == row["name"]]
    known = Info(
        name=row["name"],
        function=getattr(official, row["reader"]),
        kind=row["kind"],
        n_classes=int(row["n_classes"]) if row["n_classes"] else None,
        n_samples=int(row["n_samples"]) if row["n_samples"] else None,
        about=row["about"],
        source=row["source"] or (files[0]["url"] if files else ""),
        upright=bool(row["upright"]),
        files=tuple(File(f["file"], f"md5:{f['md5']}", f["url"]) for f in files),
        folders=tuple(row["folders"].split()),
    )
    CATALOGUE.register(known.name, known)


for _row in _rows("sets.csv"):
    _register(_row)
