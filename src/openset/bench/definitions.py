"""Definitions of named benchmarks, each a file in ``definitions/``.

A definition says which classes are known, which data sets are unknown and in which
role, and which metrics are reported with known or unknown as the positive class.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any

from openset import _check, metrics, protocols
from openset.metrics import Metric
from openset.protocols import Protocol

_HERE = resources.files("openset.bench")


@dataclass(frozen=True, kw_only=True)
class Group:
    """Data sets with the same role: what each is, by the name of its file.

    Those of the role "unknown" are of no known class; "shifted" are known classes in
    other images (corrupted, redrawn), known in the full-spectrum columns.
    """

    name: str
    role: str
    data: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Published:
    """A row of a published table: percent, by metric and column."""

    detector: str
    model: str
    values: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, kw_only=True)
class Listed:
    """The images of one data set that a benchmark uses, by number (``3-5 8``).

    `file` is the path of an image in the folder of the data set, with ``{}`` for its
    number; `source` the list that the benchmark's authors publish.
    """

    of: str
    file: str
    n_images: int
    source: str
    numbers: str


@dataclass(frozen=True)
class Column:
    """A column of the table: the mean over some problems, such as ``near/cifar100``."""

    name: str
    of: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One benchmark: what is known and unknown, metrics, and what was published.

    `sizes` are the numbers of samples of its files, where they are a public fact;
    `shown` are the metrics of its table.

    Examples
    --------
    >>> one = load("openood:cifar10")
    >>> one.n_classes, [group.name for group in one.groups]
    (10, ['near', 'far'])
    >>> one.files()[:3]
    ('known', 'near/cifar100', 'near/tin')
    >>> [column.name for column in one.columns()][:3]
    ['near', 'far', 'cifar100']
    """

    name: str
    title: str
    known: str
    n_classes: int
    groups: tuple[Group, ...]
    metrics: tuple[Metric, ...]
    shown: tuple[str, ...]
    conventions: str
    reference: str
    source: str
    status: str
    published: tuple[Published, ...] = ()
    published_source: str = ""
    split_of: str = ""
    splits: Mapping[str, str] | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)

    def files(self, role: str = "") -> tuple[str, ...]:
        """Return the files of outputs it needs, without ending; or those of a role."""
        found = [
            f"{group.name}/{data}"
            for group in self.groups
            if role in {"", group.role}
            for data in group.data
        ]
        return tuple(found) if role else ("known", *found)

    def columns(self) -> tuple[Column, ...]:
        """Return the columns of the table: groups first, then each data set.

        Of the full spectrum, with shifted images as known ones, there are groups only.
        """
        plain, grouped = self.files("unknown"), dict[str, list[str]]()
        spectra = ("", "fs-") if self.files("shifted") else ("",)
        for problem in (f"{start}{file}" for start in spectra for file in plain):
            grouped.setdefault(problem.partition("/")[0], []).append(problem)
        means = [Column(name, tuple(of)) for name, of in grouped.items()]
        # A group of one data set is shown once.
        single = [
            Column(file.partition("/")[2], (file,))
            for file in plain
            if len(grouped[file.partition("/")[0]]) > 1
        ]
        return (*means, *single)

    def protocol(self, group: str = "", split: int = 0) -> Protocol:
        """Return the published class lists it uses, if it has any.

        Examples
        --------
        >>> load("ssb:cub").protocol("hard")
        Protocol(cub/Hard, known=100, unknown=34, unused=66, openness=0.075, ...)
        """
        if not self.split_of:
            _check.fail("Benchmark.protocol", self.name, "one with class lists", "none")
        return protocols.published(self.split_of, (self.splits or {}).get(group, split))

    def lists(self) -> dict[str, Listed]:
        """Return the lists of images that come with the package, by data set.

        Examples
        --------
        >>> found = load("openood:cifar10").lists()
        >>> {name: one.n_images for name, one in found.items()}
        {'near/tin': 7793, 'validation/tin': 1000}
        """
        file = _HERE / "lists" / f"{self.name.replace(':', '-')}.toml"
        found = tomllib.loads(file.read_text("utf-8")) if file.is_file() else {}
        return {name: Listed(**one) for name, one in found.items()}

    def images(self, data: str) -> tuple[str, ...]:
        """Return which images of a data set it uses, if they are listed here.

        Paths are relative to the folder of the data set, as its authors publish it.

        Examples
        --------
        >>> load("openood:cifar10").images("near/tin")[:2]
        ('val/images/val_0.JPEG', 'val/images/val_1.JPEG')
        """
        found = self.lists()
        _check.one_of("Benchmark.images", "data", data, list(found))
        numbers: list[int] = []
        for word in found[data].numbers.split():
            first, _, last = word.partition("-")
            numbers += range(int(first), int(last or first) + 1)
        return tuple(found[data].file.format(number) for number in numbers)


def names() -> list[str]:
    """Return the names of all benchmarks.

    Examples
    --------
    >>> names()[:2]
    ['cifar+10', 'imagenet-protocols:p1']
    """
    return sorted(_all())


def load(name: str) -> Benchmark:
    """Return the definition of a benchmark.

    Examples
    --------
    >>> load("mnist-small").known
    'MNIST, the digits 0 to 5'
    """
    _check.one_of("named.load", "name", name, names())
    return _all()[name]


@cache
def _all() -> dict[str, Benchmark]:
    folder = (_HERE / "definitions").iterdir()
    files = (file for file in folder if file.name.endswith(".toml"))
    made = [_parsed(tomllib.loads(file.read_text("utf-8"))) for file in files]
    return {one.name: one for one in made}


def _parsed(given: dict[str, Any]) -> Benchmark:
    rows = given.pop("metrics")
    groups = given.pop("groups")
    published = given.pop("published", [])
    return Benchmark(
        **given,
        groups=tuple(Group(name=name, **group) for name, group in groups.items()),
        metrics=tuple(map(_metric, rows)),
        shown=tuple(row["key"] for row in rows if row.get("shown", True)),
        published=tuple(Published(**row) for row in published),
    )


def _metric(row: Mapping[str, Any]) -> Metric:
    """Return a row of the table of metrics, perhaps with parameters and a name."""
    made = metrics.get(row.get("of") or row["key"])
    short = row.get("short", made.short)
    if "params" in row:
        made = replace(made, key=row["key"], label=short, params=row["params"])
    return replace(made, short=short)
