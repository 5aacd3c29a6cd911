"""`Dataset`: inputs, labels and class names."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check, _io
from openset._types import UNKNOWN
from openset.datasets import lazy_inputs
from openset.protocols.classes import Class, class_list
from openset.protocols.sampling import Stream, take_share

PART_NAMES = ("train", "validation", "test")


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """Samples of named classes, with the official parts where there are any.

    Parameters
    ----------
    inputs
        One entry per sample: an array, or a lazy sequence of images.
    labels
        Class numbers ``0..C-1``; -1 for samples of no class, if `unlisted` names them.
    classes
        The C class names.
    kind
        "image", "text" or "table".
    name
        Name of the data set.
    parts
        Rows of the official parts "train", "validation", "test"; may be empty:
        :meth:`with_parts` draws parts, :func:`folds` cross-validates.
    ids
        Official class ids, such as WordNet ids, where they differ from the names.
    unlisted
        Name of the samples labelled -1, which protocols may use as a class.
    label_set
        Name of the data set whose class numbers the labels use; by default this one.
    note
        A caveat for readers of results: "lossy copy", "labels are noisy".

    Examples
    --------
    >>> pets = Dataset(
    ...     inputs=[[0.1], [0.2], [0.3]],
    ...     labels=[0, 1, 1],
    ...     classes=["cat", "dog"],
    ...     kind="table",
    ...     name="pets",
    ... )
    >>> pets
    Dataset(pets, table, n=3, classes=2)
    >>> pets.counts
    array([1, 2])
    """

    inputs: Any
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    kind: str
    name: str = ""
    parts: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    ids: tuple[str, ...] = ()
    unlisted: str = ""
    label_set: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        _check.one_of("Dataset", "kind", self.kind, lazy_inputs.KINDS)
        if isinstance(self.inputs, list | tuple):
            set_field(self, "inputs", np.asarray(self.inputs))
        if isinstance(self.inputs, np.ndarray):
            _no_objects(self.inputs)
            set_field(self, "inputs", _check.read_only(self.inputs))
        set_field(
            self,
            "labels",
            _check.labels("Dataset", "labels", self.labels, lowest=UNKNOWN),
        )
        lengths = {"inputs": len(self.inputs), "labels": len(self.labels)}
        _check.same_length("Dataset", lengths)
        names = tuple(str(c) for c in self.classes)
        set_field(self, "classes", class_list("Dataset", "classes", names))
        set_field(self, "label_set", self.label_set or self.name)
        self._check_labels()
        self._check_ids()
        self._check_parts()

    def _check_labels(self) -> None:
        highest = int(self.labels.max())
        if highest >= len(self.classes):
            msg = _check.must(
                f"below {len(self.classes)}, the number of classes",
                caller="Dataset",
                name="labels",
                got=highest,
            )
            raise ValueError(msg)
        has_unlisted = bool((self.labels == UNKNOWN).any())
        if has_unlisted != bool(self.unlisted):
            got = f"{self.unlisted!r} and {'some' if has_unlisted else 'no'} labels -1"
            msg = _check.must(
                "given exactly if there are labels -1",
                caller="Dataset",
                name="unlisted",
                got=got,
                remedy="It is the name of the samples that belong to no class",
            )
            raise ValueError(msg)
        if self.unlisted in self.classes:
            msg = _check.must(
                "no class name", caller="Dataset", name="unlisted", got=self.unlisted
            )
            raise ValueError(msg)

    def _check_ids(self) -> None:
        object.__setattr__(self, "ids", class_list("Dataset", "ids", self.ids))
        if self.ids and len(self.ids) != len(self.classes):
            got = f"{len(self.ids)} for {len(self.classes)} classes"
            raise ValueError(
                _check.must("one per class", caller="Dataset", name="ids", got=got)
            )

    def _check_parts(self) -> None:
        parts = {}
        seen = np.zeros(len(self), dtype=np.bool_)
        for part, values in dict(self.parts).items():
            _check.one_of("Dataset", "parts", part, PART_NAMES)
            rows = np.asarray(values)
            if rows.dtype.kind not in "iu" or rows.ndim != 1 or rows.size == 0:
                got = f"dtype {rows.dtype}, shape {rows.shape}"
                rule = "a non-empty list of rows"
                raise ValueError(
                    _check.must(rule, caller="Dataset", name=f"part {part}", got=got)
                )
            if rows.min() < 0 or rows.max() >= len(self):
                got = f"rows {rows.min()} to {rows.max()}"
                rule = f"rows in 0..{len(self) - 1}"
                raise ValueError(
                    _check.must(rule, caller="Dataset", name=f"part {part}", got=got)
                )
            if seen[rows].any() or np.unique(rows).size < rows.size:
                msg = (
                    f"Dataset: parts must be disjoint, got a row of {part!r} twice. "
                    "A sample that is trained on must not be tested on"
                )
                raise ValueError(msg)
            seen[rows] = True
            parts[part] = _check.read_only(rows.astype(np.int64))
        object.__setattr__(self, "parts", MappingProxyType(parts))

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        shown = [self.name] if self.name else []
        shown += [self.kind, f"n={len(self)}", f"classes={len(self.classes)}"]
        shown += [f"{part}={rows.size}" for part, rows in self.parts.items()]
        if self.unlisted:
            shown.append(f"{self.unlisted}={int((self.labels == UNKNOWN).sum())}")
        return f"Dataset({', '.join(shown)})"

    @property
    def counts(self) -> NDArray[np.int64]:
        """Samples per class; those labelled -1 are not counted."""
        listed = self.labels[self.labels != UNKNOWN]
        return np.bincount(listed, minlength=len(self.classes))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """Label of each name; class names come before ids, ids before `unlisted`."""
        found = {self.unlisted: UNKNOWN} if self.unlisted else {}
        found |= {c: i for i, c in enumerate(self.ids)}
        return found | {c: i for i, c in enumerate(self.classes)}

    def number(self, name: Class, *, caller: str = "Dataset.number") -> int:
        """Return the label of a class given by name, official id or number.

        A number that is also the name of another class is refused.

        Examples
        --------
        >>> pets = Dataset(inputs=[[0.1]], labels=[0], classes=["cat"], kind="table")
        >>> pets.number("cat")
        0
        """
        if isinstance(name, int | np.integer) and not isinstance(name, bool):
            if 0 <= name < len(self.classes):
                self._check_number(int(name), caller)
                return int(name)
        elif name in self._numbers:
            return self._numbers[str(name)]
        first = ", ".join(repr(c) for c in self.classes[:5])
        more = ", …" if len(self.classes) > 5 else ""
        msg = _check.must(
            f"a class of {self.name or 'the data set'} "
            f"(0..{len(self.classes) - 1}, or {first}{more})",
            caller=caller,
            name="class",
            got=repr(name),
        )
        raise ValueError(msg)

    def _check_number(self, number: int, caller: str) -> None:
        """Refuse a number that is the name of another class, as of folders 1, 10, 2."""
        named = self._numbers.get(str(number), number)
        if named != number and self.classes[named] == str(number):
            msg = _check.must(
                "unambiguous",
                caller=caller,
                name="class",
                got=f"{number}: class {self.classes[number]!r} has this number, and "
                f"class number {named} has this name",
                remedy=f"Give names in quotes: {str(number)!r}",
            )
            raise ValueError(msg)

    def part(self, name: str) -> Self:
        """Return one official part as a data set without parts."""
        if name not in self.parts:
            have = ", ".join(self.parts) or "none"
            msg = _check.must(
                f"a part of {self.name or 'the data set'}",
                caller="Dataset.part",
                name="name",
                got=repr(name),
                remedy=f"Its parts: {have}",
            )
            raise ValueError(msg)
        return replace(self.take(self.parts[name]), name=f"{self.name}:{name}")

    def take(self, rows: ArrayLike) -> Self:
        """Return the samples that `rows` (a mask or indices) selects, without parts."""
        index = np.asarray(rows)
        if index.dtype.kind == "b":
            index = np.flatnonzero(index)
        if index.size == 0:
            got = "a selection of no samples"
            raise ValueError(
                _check.must("non-empty", caller="Dataset.take", name="rows", got=got)
            )
        labels = self.labels[index]
        return replace(
            self,
            inputs=lazy_inputs.take(self.inputs, index),
            labels=labels,
            parts={},
            unlisted=self.unlisted if (labels == UNKNOWN).any() else "",
        )

    def with_parts(self, *, test: float, validation: float = 0.0, rng: Any = 0) -> Self:
        """Draw parts of these shares, the same share of each class.

        Examples
        --------
        >>> from openset import datasets
        >>> datasets.load("digits").with_parts(test=0.5, rng=1)
        Dataset(digits, table, n=1797, classes=10, train=896, test=901)
        """
        caller = "Dataset.with_parts"
        for name, value in (("test", test), ("validation", validation)):
            _check.number(caller, name, value, low=0, high=1, open_high=True)
        if test + validation >= 1:
            msg = (
                f"{caller}: test + validation must be below 1, got {test + validation}"
            )
            raise ValueError(msg)
        stream = Stream(caller, rng)
        left = np.arange(len(self))
        parts = {}
        for name, share in (("test", test), ("validation", validation)):
            if share:
                # The second share is of all samples, not of what the first one left.
                share_of_left = share if name == "test" else share / (1 - test)
                mask = take_share(self.labels[left], share_of_left, stream)
                parts[name], left = left[mask], left[~mask]
        parts["train"] = left
        ordered = {p: parts[p] for p in PART_NAMES if p in parts and parts[p].size}
        return replace(self, parts=ordered)

    def save(self, path: str | Path) -> Path:
        """Write the data set as one ``.npz`` that :func:`load` reads back.

        Images that are read from files must be resized to one size first: see
        :func:`resized`.
        """
        path = Path(path)
        if path.suffix != ".npz":
            got = repr(path.name)
            raise ValueError(
                _check.must("a .npz file", caller="Dataset.save", name="path", got=got)
            )
        if not isinstance(self.inputs, np.ndarray):
            msg = (
                "Dataset.save: inputs must be an array, got lazy images. Use "
                "datasets.resized(dataset, side) first"
            )
            raise TypeError(msg)
        texts = ("kind", "name", "unlisted", "label_set", "note")
        arrays: dict[str, NDArray[Any]] = {"inputs": self.inputs, "labels": self.labels}
        arrays["classes"] = np.array(self.classes, dtype=np.str_)
        arrays |= {text: np.array(getattr(self, text)) for text in texts}
        arrays |= {f"part_{part}": rows for part, rows in self.parts.items()}
        if self.ids:
            arrays["ids"] = np.array(self.ids, dtype=np.str_)
        _io.write_npz(path, arrays)
        return path


def consecutive(sizes: Mapping[str, int]) -> dict[str, NDArray[np.int64]]:
    """Rows of parts that lie one after the other.

    Examples
    --------
    >>> consecutive({"train": 2, "test": 1})
    {'train': array([0, 1]), 'test': array([2])}
    """
    ends = np.cumsum(list(sizes.values()))
    rows = np.split(np.arange(int(ends[-1])), ends[:-1])
    return dict(zip(sizes, rows, strict=True))


def stacked(
    parts: Mapping[str, tuple[NDArray[Any], NDArray[Any]]], **more: Any
) -> Dataset:
    """Make a data set of parts given as inputs and labels; `more` as in `Dataset`."""
    return Dataset(
        inputs=np.concatenate([inputs for inputs, _ in parts.values()]),
        labels=np.concatenate([labels for _, labels in parts.values()]).astype(
            np.int64
        ),
        parts=consecutive({part: len(labels) for part, (_, labels) in parts.items()}),
        **more,
    )


def _no_objects(inputs: NDArray[Any]) -> None:
    if inputs.dtype.hasobject:
        msg = _check.must(
            "numbers or strings",
            caller="Dataset",
            name="inputs",
            got=f"dtype {inputs.dtype}",
            remedy="Texts: numpy.array(texts, dtype=str)",
        )
        raise TypeError(msg)
