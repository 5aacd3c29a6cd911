"""Definitions of benchmarks, one TOML file each."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from openset import _check, metrics, protocols
from openset.bench.named._image_lists import Listed, lists_of
from openset.metrics import Metric
from openset.protocols import Protocol

_FOLDER = "definitions"

Role = Literal["unknown", "shifted"]


@dataclass(frozen=True, kw_only=True)
class Group:
    """Data sets with the same role, and the name of their folder.

    Parameters
    ----------
    role
        ``"unknown"``: samples of no known class. ``"shifted"``: known classes in other
        images (corrupted, redrawn); they count as known in the full-spectrum columns.
    data
        What each data set is, by the name of its file.
    """

    name: str
    role: Role
    data: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Published:
    """A row of a published table: percent, by metric and column."""

    detector: str
    model: str
    values: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Column:
    """A column of the table: the mean over some data sets.

    `of` are the problems it is the mean of, such as ``near/cifar100``; those of the
    full spectrum are ``fs-near/ninco``.
    """

    name: str
    of: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One benchmark: what is known and unknown, metrics, and what was published.

    `sizes` are the numbers of samples of its files, where they are a public fact.

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

    def files(self) -> tuple[str, ...]:
        """Return the files of outputs it needs, without ending."""
        return ("known", *(f"{g.name}/{data}" for g in self.groups for data in g.data))

    def problems(self) -> dict[str, tuple[str, str, bool]]:
        """Return group, data set and whether it is of the full spectrum, by name."""
        found = {}
        spectra = (False, True) if self.shifted() else (False,)
        for is_full in spectra:
            for group in self.groups:
                if group.role == "unknown":
                    start = "fs-" * is_full + group.name
                    for data in group.data:
                        found[f"{start}/{data}"] = (group.name, data, is_full)
        return found

    def shifted(self) -> tuple[str, ...]:
        """Return the files of known classes under a covariate shift."""
        return tuple(
            f"{group.name}/{data}"
            for group in self.groups
            if group.role == "shifted"
            for data in group.data
        )

    def columns(self) -> tuple[Column, ...]:
        """Return the columns of the table: groups first, then each data set."""
        problems = self.problems()
        grouped: dict[str, list[str]] = {}
        for problem in problems:
            grouped.setdefault(problem.partition("/")[0], []).append(problem)
        means = [Column(name, tuple(of)) for name, of in grouped.items()]
        # A group of one data set is shown once. The data sets of the full spectrum are
        # in the results only: the table would be too wide.
        single = [
            Column(data, (problem,))
            for problem, (group, data, is_full) in problems.items()
            if not is_full and len(grouped[group]) > 1
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
            msg = f"Benchmark.protocol: {self.name} has no class lists here"
            raise ValueError(msg)
        chosen = (self.splits or {}).get(group, split)
        return protocols.published(self.split_of, chosen)

    def lists(self) -> dict[str, Listed]:
        """Return the lists of images that come with the package, by data set.

        Examples
        --------
        >>> found = load("openood:cifar10").lists()
        >>> {name: one.n_images for name, one in found.items()}
        {'near/tin': 7793, 'validation/tin': 1000}
        """
        return dict(lists_of(self.name))

    def images(self, data: str) -> tuple[str, ...]:
        """Return which images of a data set it uses, if they are listed here.

        Paths are relative to the folder of the data set, as its authors publish it.

        Examples
        --------
        >>> load("openood:cifar10").images("near/tin")[:2]
        ('val/images/val_0.JPEG', 'val/images/val_1.JPEG')
        """
        found = self.lists()
        if not found:
            msg = f"Benchmark.images: {self.name} has no lists of images here"
            raise ValueError(msg)
        _check.one_of("Benchmark.images", "data", data, list(found))
        return found[data].paths()


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
    folder = files("openset.bench.named") / _FOLDER
    texts = [
        file.read_text(encoding="utf-8")
        for file in folder.iterdir()
        if file.name.endswith(".toml")
    ]
    made = [_parsed(tomllib.loads(text)) for text in texts]
    return {one.name: one for one in made}


def _parsed(given: dict[str, Any]) -> Benchmark:
    rows = given.pop("metrics")
    groups = given.pop("groups")
    published = given.pop("published", [])
    return Benchmark(
        **given,
        groups=tuple(Group(name=name, **group) for name, group in groups.items()),
        metrics=tuple(_metric(**row) for row in rows),
        shown=tuple(row["key"] for row in rows if row.get("shown", True)),
        published=tuple(Published(**row) for row in published),
    )


def _metric(
    *,
    key: str,
    of: str = "",
    short: str = "",
    params: Mapping[str, Any] | None = None,
    shown: bool = True,  # noqa: ARG001  # read by the caller
) -> Metric:
    """Return a row of the table of metrics, perhaps with the benchmark's parameters."""
    row = metrics.get(of or key)
    if params is not None:
        row = replace(row, key=key, label=short, params=params)
    return replace(row, short=short or row.short)
