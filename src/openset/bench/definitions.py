"""Definitions of named benchmarks, each a file in ``definitions/``.

A definition says which classes are known, which data sets are unknown and in which
role, and which metrics are reported with known or unknown as the positive class.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any, Literal, NamedTuple

from openset import _check, metrics
from openset.bench.protocols import Part
from openset.metrics import Metric

_HERE = resources.files("openset.bench")


class Group(Part):
    """Data sets with the same role: what each is, by the name of its file.

    Those of the role "unknown" are of no known class; "shifted" are known classes in
    other images (corrupted, redrawn), known in the full-spectrum columns.
    """

    role: Literal["unknown", "shifted"]
    data: dict[str, str]


class Published(Part):
    """A row of a published table: percent, by metric and column."""

    detector: str
    model: str
    values: dict[str, dict[str, float]]


class Measure(Part):
    """A metric: its key, or another one `of` which it is, with `params`."""

    key: str
    of: str = ""
    short: str = ""
    params: dict[str, Any] = {}
    shown: bool = True

    def metric(self) -> Metric:
        """Return its row of the table of metrics, perhaps with another name."""
        row = metrics.get(self.of or self.key)
        short = self.short or row.short
        if self.params:
            row = replace(row, key=self.key, label=short, params=self.params)
        return replace(row, short=short)


class Listed(Part):
    """The images of one data set that a benchmark uses, by number (``3-5 8``).

    `file` is the path of an image in the folder of the data set, with ``{}`` for its
    number; `source` the list that the benchmark's authors publish.
    """

    of: str
    file: str
    n_images: int
    source: str
    numbers: str


class Column(NamedTuple):
    """A column of the table: the mean over some problems, such as ``near/cifar100``."""

    name: str
    of: tuple[str, ...]


class Benchmark(Part):
    """One benchmark: what is known and unknown, metrics, and what was published.

    `sizes` are the numbers of samples of its files, where they are a public fact;
    `measures` are its metrics, of which the table has those that are `shown`.

    Examples
    --------
    >>> one = load("openood:cifar10")
    >>> one.n_classes, list(one.groups)
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
    groups: dict[str, Group]
    measures: list[Measure]
    conventions: str
    reference: str
    source: str
    status: str
    published: list[Published] = []
    published_source: str = ""
    sizes: dict[str, int] = {}

    def metrics(self, *, shown: bool = False) -> list[Metric]:
        """Return its metrics, or those of the table."""
        return [one.metric() for one in self.measures if one.shown or not shown]

    def files(self, role: str = "") -> tuple[str, ...]:
        """Return the files of outputs it needs, without ending; or those of a role."""
        found = [
            f"{name}/{data}"
            for name, group in self.groups.items()
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
def _all() -> Mapping[str, Benchmark]:
    files = (_HERE / "definitions").iterdir()
    texts = (one.read_text("utf-8") for one in files if one.name.endswith(".toml"))
    made = [Benchmark.model_validate(tomllib.loads(text)) for text in texts]
    return {one.name: one for one in made}
