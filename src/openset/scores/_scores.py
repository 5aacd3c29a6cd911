"""`Scores`: knownness, predicted class and true class of each sample."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check, _class_names, _io
from openset._types import UNKNOWN
from openset.scores._files import PER_SAMPLE, REQUIRED, read, write
from openset.scores._pairing import in_order_of

_IF_A_CLASS = "Pass it as unknown_label=; if it is a class, pass n_classes="


@dataclass(frozen=True, eq=False)
class UnknownGroups:
    """Names of the groups, and the index of the group of each unknown sample."""

    names: tuple[str, ...]
    index: NDArray[np.intp]


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """Scores of a detector on a labelled set, as NumPy arrays.

    Higher `known` means more known; a sample is accepted iff ``known >= threshold``.
    Scores never change: writeable arrays are copied; read-only arrays and memory maps
    are not.

    Parameters
    ----------
    labels
        True classes ``0..C-1``, or -1 for a sample of no known class. Shape (n,). Or
        names of classes, and "unknown" for a sample of none of them.
    predicted
        Predicted class without rejection: argmax of the original logits. Shape (n,).
        Names if `labels` are names.
    known
        Knownness, any real numbers; ±inf is allowed, NaN is not. Shape (n,).
    groups
        Where a sample comes from (a data set, a patient, "near", "far"): strings or
        integers. Shape (n,).
    ids
        Identifier of each sample, such as a file name: strings or integers, shape (n,).
        Two sets of scores with ids are compared sample by sample in whatever order they
        are; without, row by row.
    n_classes
        Number of known classes. If omitted, the classes are those that occur.
    class_names
        Names of the classes, in the order of their numbers. If omitted and labels are
        names: those that occur, sorted.
    unknown_label
        The label of unknown samples. If omitted it is -1, or "unknown" if labels are
        names; a class that may mean the same ("oos", "other") then raises an error that
        asks for this argument.

    Examples
    --------
    >>> Scores(labels=[0, 1, -1], predicted=[0, 1, 1], known=[0.9, 0.7, 0.2])
    Scores(n=3, known=2, unknown=1, classes=2)
    >>> named = Scores(
    ...     labels=["cat", "dog", "unknown"],
    ...     predicted=["cat", "dog", "dog"],
    ...     known=[0.9, 0.7, 0.2],
    ... )
    >>> named.labels, named.class_names
    (array([ 0,  1, -1]), ('cat', 'dog'))
    """

    labels: NDArray[np.int64]
    predicted: NDArray[np.int64]
    known: NDArray[np.float64]
    groups: NDArray[Any] | None = None
    ids: NDArray[Any] | None = None
    n_classes: int | None = None
    class_names: tuple[str, ...] | None = None

    def __init__(
        self,
        *,
        labels: ArrayLike,
        predicted: ArrayLike,
        known: ArrayLike,
        groups: ArrayLike | None = None,
        ids: ArrayLike | None = None,
        n_classes: int | None = None,
        class_names: Sequence[str] | None = None,
        unknown_label: str | int | None = None,
    ) -> None:
        given = {"labels": labels, "predicted": predicted, "known": known}
        _check.same_order("Scores", {**given, "groups": groups, "ids": ids})
        if _class_names.is_text(labels):
            labels, predicted, class_names = _class_names.numbered(
                "Scores",
                labels,
                predicted,
                unknown_label=unknown_label,
                class_names=class_names,
            )
        elif unknown_label is not None:
            labels = _class_names.with_unknown(
                "Scores", labels, predicted, unknown_label=unknown_label
            )
        elif n_classes is None and class_names is None:
            _check.no_lost_sign("Scores", labels, _IF_A_CLASS)
        fields = {
            "labels": _check.labels("Scores", "labels", labels, lowest=UNKNOWN),
            "predicted": _check.labels("Scores", "predicted", predicted, lowest=0),
            "known": _knownness(known),
            "groups": None
            if groups is None
            else _check.names("Scores", "groups", groups),
            "ids": None if ids is None else _check.names("Scores", "ids", ids),
            "n_classes": None
            if n_classes is None
            else _check.positive_int("Scores", "n_classes", n_classes),
            "class_names": None,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        lengths = {name: column.size for name, column in self._columns().items()}
        _check.same_length("Scores", lengths)
        highest = -1
        if class_names is not None or self.n_classes is not None:
            highest = int(max(self.labels.max(), self.predicted.max()))
        if class_names is not None:
            named = _class_names.need_names("Scores", class_names, highest)
            object.__setattr__(self, "class_names", named)
        if self.n_classes is not None and highest >= self.n_classes:
            _check.fail(
                "Scores",
                "labels and predicted",
                f"below n_classes = {self.n_classes}",
                highest,
            )

    def __setstate__(self, state: dict[str, Any]) -> None:
        _check.restore(self, state)

    def __repr__(self) -> str:
        groups = (
            "" if self.groups is None else f", groups={np.unique(self.groups).size}"
        )
        ids = "" if self.ids is None else ", with ids"
        return (
            f"Scores(n={len(self)}, known={self.n_known}, unknown={self.n_unknown}, "
            f"classes={self.classes.size}{groups}{ids})"
        )

    def __len__(self) -> int:
        return self.labels.size

    @cached_property
    def is_unknown(self) -> NDArray[np.bool_]:
        """Mask of samples that belong to no known class."""
        return _check.frozen(self.labels == UNKNOWN)

    @cached_property
    def is_correct(self) -> NDArray[np.bool_]:
        """Mask of known samples that are classified correctly, without rejection."""
        # the label -1 equals no prediction
        return _check.frozen(self.labels == self.predicted)

    @cached_property
    def n_unknown(self) -> int:
        """Number of unknown samples."""
        return int(np.count_nonzero(self.is_unknown))

    @property
    def n_known(self) -> int:
        """Number of known samples."""
        return len(self) - self.n_unknown

    @cached_property
    def unknown_groups(self) -> "UnknownGroups":
        """The groups of the unknown samples; without groups, one called "all"."""
        if self.groups is None:
            index = np.zeros(self.n_unknown, dtype=np.intp)
            return UnknownGroups(("all",), _check.frozen(index))
        names, index = np.unique(self.groups[self.is_unknown], return_inverse=True)
        return UnknownGroups(tuple(str(n) for n in names), _check.frozen(index))

    @cached_property
    def classes(self) -> NDArray[np.int64]:
        """The known classes: ``0..n_classes-1``, or those that occur."""
        if self.n_classes is not None:
            return _check.frozen(np.arange(self.n_classes))
        size = int(max(self.labels.max(), self.predicted.max())) + 1
        # A table of flags instead of np.unique, which would sort.
        if size <= 8 * len(self) + 1024:
            occurs = np.zeros(size + 1, dtype=bool)
            occurs[self.labels] = True  # unknowns, labelled -1, set the last entry
            occurs[self.predicted] = True
            return _check.frozen(np.flatnonzero(occurs[:-1]))
        both = np.concatenate([self.labels[~self.is_unknown], self.predicted])
        return _check.frozen(np.unique(both))

    def decided(self, threshold: float) -> NDArray[np.int64]:
        """Predicted class where accepted (``known >= threshold``), else -1."""
        threshold = _check.threshold("Scores.decided", threshold)
        return np.where(self.known >= threshold, self.predicted, UNKNOWN)

    def take(self, rows: ArrayLike) -> Self:
        """Return the samples that `rows` (a mask, slice or indices) selects."""
        index = _check.rows("Scores.take", rows, len(self))
        columns: dict[str, Any] = {
            n: _check.frozen(a[index]) for n, a in self._columns().items()
        }
        return type(self)(
            **columns, n_classes=self.n_classes, class_names=self.class_names
        )

    @classmethod
    def concat(cls, parts: "list[Scores]") -> Self:
        """Concatenate several sets. The result has ids if all parts have some."""
        parts = list(parts)
        if not parts:
            msg = "Scores.concat: parts must be a non-empty list, got []"
            raise ValueError(msg)
        for part in parts:
            need_scores("Scores.concat", part)
        with_groups = [part.groups is not None for part in parts]
        if any(with_groups) and not all(with_groups):
            msg = "Scores.concat: groups must be given for all parts or for none"
            raise ValueError(msg)
        parts, class_names = _same_names(parts)
        counts = {part.n_classes for part in parts}
        columns: dict[str, Any] = {
            n: _check.frozen(np.concatenate([getattr(p, n) for p in parts]))
            for n in REQUIRED
        }
        if all(with_groups):
            groups = [part.groups for part in parts if part.groups is not None]
            columns["groups"] = _check.frozen(_check.joined_names(groups))
        ids = [part.ids for part in parts if part.ids is not None]
        if len(ids) == len(parts):
            columns["ids"] = _check.frozen(_check.joined_names(ids))
        n_classes = None if None in counts else max(c for c in counts if c)
        return cls(**columns, n_classes=n_classes, class_names=class_names)

    def with_known(self, known: ArrayLike) -> Self:
        """Return the same samples with another knownness."""
        return replace(self, known=known)  # type: ignore[arg-type]

    def in_order_of(self, other: "Scores") -> Self:
        """Return these samples in the order of other scores of the same samples.

        Samples are told by their ids; if one of the two has none, rows stay as they
        are, and labels must agree. Other samples are refused.

        Examples
        --------
        >>> columns = {"labels": [0, -1], "predicted": [0, 0], "ids": ["a", "b"]}
        >>> mine = Scores(known=[2, 1], **columns)
        >>> yours = mine.take([1, 0])
        >>> yours.in_order_of(mine).known
        array([2., 1.])
        """
        need_scores("Scores.in_order_of", other)
        names = "other", "these scores"
        return in_order_of(self, other, caller="Scores.in_order_of", names=names)

    def _columns(self) -> dict[str, NDArray[Any]]:
        columns: dict[str, NDArray[Any]] = {n: getattr(self, n) for n in REQUIRED}
        for name in PER_SAMPLE:
            column = getattr(self, name)
            if column is not None:
                columns[name] = column
        return columns

    def save(self, path: str | Path) -> Path:
        """Write ``.npz``, ``.csv`` or ``.parquet`` (extra `tables`), by file ending.

        All three keep the exact value of floats, and names of classes. ``.npz`` and
        ``.parquet`` keep `n_classes`; ``.csv`` has only columns.
        """
        path = Path(path)
        write(path, self._columns(), self.n_classes, self.class_names)
        return path

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        columns: Mapping[str, str] | None = None,
        unknown_label: str | int | None = None,
        higher_is_unknown: bool = False,
    ) -> Self:
        """Read what :meth:`save` wrote, or any file with such columns.

        Parameters
        ----------
        path
            A file ``.npz``, ``.csv`` or ``.parquet``.
        columns
            Names of the columns in the file, where they differ:
            ``{"labels": "y", "known": "score"}``. An empty name for groups or ids
            leaves them out. A column ``id`` with a different value in each row is taken
            for the ids if no other is.
        unknown_label
            The label of unknown samples; by default -1, or "unknown" if labels are
            names.
        higher_is_unknown
            The file's score is higher for *unknown* samples: its sign is reversed.
        """
        path = Path(path)
        found, n_classes = read(path, columns or {})
        names = found.pop("class_names", None)
        if higher_is_unknown:
            found["known"] = -found["known"]
        arrays = {name: _check.frozen(column) for name, column in found.items()}
        with _io.naming(path):
            return cls(
                **arrays,
                n_classes=n_classes,
                class_names=None if names is None else names.tolist(),
                unknown_label=unknown_label,
            )


def need_scores(caller: str, value: object) -> None:
    """Raise TypeError if the argument is not `Scores`."""
    _check.instance(
        caller,
        "scores",
        value,
        Scores,
        rule="Scores",
        remedy="Score your outputs first: fitted.score(outputs); or wrap your arrays: "
        "Scores(labels=..., predicted=..., known=...)",
    )


def need_both_sides(caller: str, scores: Scores) -> None:
    """Raise unless these are scores with known and unknown samples."""
    need_scores(caller, scores)
    _check.both_sides(caller, scores.n_known, scores.n_unknown)


def need_known(caller: str, scores: Scores) -> None:
    """Raise unless these are scores with known samples."""
    need_scores(caller, scores)
    _check.some_known(caller, scores.n_known)


def _knownness(values: ArrayLike) -> NDArray[np.float64]:
    _check.unmasked("Scores", "known", values)
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        got = f"dtype {array.dtype}"
        _check.fail("Scores", "known", "real numbers", got, error=TypeError)
    _check.vector("Scores", "known", array)
    array = array.astype(np.float64, copy=False)
    if np.isnan(array.min()):  # min propagates NaN: one pass, no mask
        bad = np.flatnonzero(np.isnan(array))
        _check.fail(
            "Scores",
            "known",
            "free of NaN",
            f"NaN in {bad.size} of {array.size} samples, first at row {bad[0]}",
            "Look for inf - inf or 0/0 in the logits or features",
        )
    return _check.owned(array, values)


def _same_names(
    parts: "list[Scores]",
) -> "tuple[list[Scores], tuple[str, ...] | None]":
    """Give equal names equal numbers in all parts; return the names too."""
    sets = [part.class_names for part in parts if part.class_names is not None]
    if not sets:
        return parts, None
    if len(sets) < len(parts):
        msg = "Scores.concat: class_names must be given for all parts or for none"
        raise ValueError(msg)
    if len(set(sets)) == 1:
        return parts, sets[0]
    names, moved = _class_names.merged(sets)
    renumbered = [
        replace(
            part,
            labels=np.where(part.is_unknown, UNKNOWN, move[part.labels]),
            predicted=move[part.predicted],
            n_classes=None if part.n_classes is None else len(names),
            class_names=names,
        )
        for part, move in zip(parts, moved, strict=True)
    ]
    return renumbered, names
