"""The protocols of a study, and the samples they select from data sets."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pydantic
from pydantic import Field

from openset import _check, datasets, protocols
from openset.bench import dependencies
from openset.datasets import Cut, Dataset
from openset.protocols import Protocol

Share = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]
Classes = Literal["all"] | list[int | str]
Unknowns = Literal["dealt", "shared"]


class Part(pydantic.BaseModel):
    """A part of a study: immutable; unknown keys are errors."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True)

    def recipe(self) -> dict[str, Any]:
        """Return what determines the numbers: all but titles and where it runs."""
        return self.model_dump(exclude={"label", "gpus", "together"})


class Entry(Part):
    """What every protocol of a study has."""

    usual_title: ClassVar[str] = "{one.data}"
    kind: str
    name: str = ""
    data: str = ""
    unknown_data: str = ""
    validation: Share = 0.0
    max_train: Count | None = None
    max_test: Count | None = None
    folds: Count = 1
    unknowns: Unknowns = "dealt"

    @property
    def title(self) -> str:
        """The name; by default derived from the other keys."""
        return self.name or self.usual_title.format(one=self)

    def names(self) -> list[str]:
        """Return the data sets that it names."""
        return [name for name in (self.data, self.unknown_data) if name]


class Drawn(Entry):
    """Classes drawn at random `repeats` times, by :mod:`openset.protocols`.

    With `n_tests` the test part of an operational one is divided into that many splits.
    """

    kind: Literal["holdout", "outlier", "operational"]
    data: str
    known: Count | None = None
    surrogate: Count | None = None
    unknown: Count | None = None
    repeats: Count = 1
    rng: Whole = 0
    n_tests: Count = 1

    @property
    def title(self) -> str:
        """The name; by default the data sets or the numbers of classes."""
        sizes = "/".join(map(str, self.sizes().values()))
        usual = f"→ {self.unknown_data}" if self.unknown_data else sizes
        return self.name or f"{self.data} {usual}"

    def sizes(self) -> dict[str, int]:
        """Return how many classes are drawn, as keywords."""
        names = ("known", "surrogate", "unknown")
        return {f"n_{n}": size for n in names if (size := getattr(self, n)) is not None}


class PublishedSplits(Entry):
    """Published splits; each is a repeat."""

    usual_title = "{one.split_of}"
    kind: Literal["published"]
    split_of: str
    splits: Literal["all"] | list[int | str] = "all"


class NamedClasses(Entry):
    """Classes by name or number, or "all" of them."""

    kind: Literal["classes"]
    data: str
    known: Classes
    unknown: Classes
    surrogate: list[int | str] = []
    rng: Whole = 0


class ProtocolFile(Entry):
    """A protocol, or several, in a JSON file."""

    usual_title = "{one.path}"
    kind: Literal["file"]
    path: str
    data: str


AnyEntry = Annotated[
    Drawn | PublishedSplits | NamedClasses | ProtocolFile,
    Field(discriminator="kind"),
]


def draw(entry: Entry, base: Path, root: Path) -> list[Protocol]:
    """Return the protocols of an entry, one per draw, named after it."""
    try:
        drawn = _drawn(entry, base, root)
    except Exception as error:
        error.add_note(f"in the protocol {entry.title}")
        raise
    return [
        replace(
            protocol,
            name=f"{entry.title}/{i}",
            validation=entry.validation or protocol.validation,
        )
        for i, protocol in enumerate(drawn)
    ]


def n_tests(entry: Entry, base: Path) -> list[int]:
    """Return the number of test splits of each draw, without reading data."""
    if isinstance(entry, ProtocolFile | PublishedSplits):
        found = _drawn(entry, base, base)
        return [one.n_tests if entry.folds == 1 else 1 for one in found]
    return [getattr(entry, "n_tests", 1)] * getattr(entry, "repeats", 1)


def _drawn(entry: Any, base: Path, root: Path) -> list[Protocol]:
    if isinstance(entry, PublishedSplits):
        every = entry.splits == "all"
        splits = protocols.splits(entry.split_of) if every else entry.splits
        return [protocols.published(entry.split_of, split) for split in splits]
    if isinstance(entry, ProtocolFile):
        found = protocols.load(base / entry.path)
        return [found] if isinstance(found, Protocol) else list(found)
    data = _load(entry.data, base, root)
    other = _load(entry.unknown_data, base, root) if entry.unknown_data else data
    if isinstance(entry, NamedClasses):
        return [_named(entry, data, other)]
    how: dict[str, Any] = {"repeats": entry.repeats, "rng": entry.rng} | entry.sizes()
    if entry.kind == "operational" or entry.n_tests > 1:
        how |= {"n_tests": entry.n_tests, "unknowns": entry.unknowns}
    if entry.kind != "outlier":
        return list(getattr(protocols, entry.kind)(data, **how))
    # Omniglot has different classes for training and test: draw from the test classes.
    pool = SimpleNamespace(classes=_tested(other), label_set=other.label_set)
    return list(protocols.outlier(data, pool, **how))


def _tested(data: Dataset) -> list[str]:
    """Names of the classes that occur in the test part."""
    rows = data.parts.get("test", np.arange(len(data)))
    found = np.unique(data.labels[rows])
    return [data.classes[i] for i in found[found >= 0]]


def _named(entry: NamedClasses, data: Dataset, other: Dataset) -> Protocol:
    is_one = other is data
    known, unknown = entry.known, entry.unknown
    if known == "all":
        taken = [*entry.surrogate, *(unknown if is_one else [])]
        numbers = {data.number(c) for c in taken}
        known = [c for i, c in enumerate(data.classes) if i not in numbers]
    if unknown == "all":
        taken = [*entry.surrogate, *known] if is_one else []
        numbers = {data.number(c) for c in taken}
        unknown = [c for c in _tested(other) if other.number(c) not in numbers]
    return Protocol(
        known=tuple(known),
        unknown=tuple(unknown),
        surrogate=tuple(entry.surrogate),
        source=data.label_set,
        unknown_source="" if is_one else other.label_set,
        seed=entry.rng,
    )


def cut(
    entry: Entry,
    protocol: Protocol,
    base: Path,
    root: Path,
    *,
    fold: int = 0,
    negatives: str = "",
) -> Cut:
    """Return the samples of one protocol, limited to the number the entry allows.

    The test part is whole. With folds, the official parts are merged and divided anew;
    `fold` is the one that is tested. `negatives` is a data set of negatives.
    """
    names = {"known": entry.data or protocol.source}
    for part in ("unknown", "negative", "surrogate"):
        source = protocol.source_of(part)
        if getattr(protocol, part) and source != protocol.source:
            names[part] = source
    if entry.unknown_data not in ("", names["known"]):  # refused if it is of no use
        names["unknown"] = entry.unknown_data
    # A protocol may come from a file, which must not decide what code is imported.
    own = entry.names()
    sets = {part: _load(n, base, root, imports=n in own) for part, n in names.items()}
    known = sets.pop("known")
    if not known.parts:  # a folder of classes: as `openset train` does
        known = known.with_parts(test=0.3, rng=0)
    if negatives:
        other = _load(negatives, base, root)
        if other.label_set and other.label_set == known.label_set:
            paths = base / negatives, base / names["known"]
            _check.need_same_file(*paths, caller="bench")
            other = known
        protocol = datasets.with_negatives(protocol, known, other)
        sets |= {} if other is known else {"negative": other}
    if entry.folds == 1:
        whole = datasets.cut(known, replace(protocol, n_tests=1), **sets)
    else:
        n, how = entry.folds, entry.unknowns
        whole = datasets.folds(known, protocol, n, unknowns=how, **sets)[fold]
    seed = protocol.seed
    tests = tuple(test.at_most(entry.max_test, seed=seed) for test in whole.tests)
    train = whole.train.at_most(entry.max_train, seed=seed)
    return replace(whole, train=train, tests=tests)


def _load(name: str, base: Path, root: Path, *, imports: bool = True) -> Dataset:
    path = base / name
    if datasets.is_name(name) or not path.exists():
        return _loaded(name, str(root), imports, "")
    return _loaded(str(path), str(root), imports, dependencies.content(path))


# A worker uses the same data sets again and again; a protocol joins at most four.
# Images in files are read anew every time: of a folder, only the list is kept.
@lru_cache(maxsize=4)
def _loaded(
    name: str,
    root: str,
    imports: bool,  # noqa: FBT001  # a key
    content: str,
) -> Dataset:
    del content  # part of the key: a file that was changed is read again
    return datasets.load(name, root, imports=imports)
