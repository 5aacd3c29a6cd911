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
from openset.scores import files
from openset.scores.files import PER_SAMPLE, REQUIRED
from openset.scores.pairing import in_order_of


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
        names.

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
        columns = {"labels": labels, "predicted": predicted, "known": known}
        _check.same_order("Scores", columns | {"groups": groups, "ids": ids})
        if _class_names.is_text(labels):
            labels, predicted, class_names = _class_names.numbered(
                "Scores", labels, predicted, unknown_label, class_names
            )
        elif unknown_label is not None:
            labels = _class_names.with_unknown(
                "Scores", labels, predicted, unknown_label
            )
        fields: dict[str, Any] = {
            "labels": _check.labels("Scores", "labels", labels, lowest=UNKNOWN),
            "predicted": _check.labels("Scores", "predicted", predicted, lowest=0),
            "known": _knownness(known),
            "n_classes": n_classes,
            "class_names": class_names,
        }
        if n_classes is not None:
            fields["n_classes"] = _check.positive_int("Scores", "n_classes", n_classes)
        for name, names in (("groups", groups), ("ids", ids)):
            if names is not None:
                fields[name] = _check.names("Scores", name, names)
        vars(self).update(fields)
        lengths = {name: column.size for name, column in self._columns().items()}
        _check.same_length("Scores", lengths)
        if self.class_names is not None:
            named = _class_names.need_names("Scores", self.class_names, self._highest)
            vars(self).update(class_names=named)
        if self.n_classes is not None and self._highest >= self.n_classes:
            rule = f"below n_classes = {self.n_classes}"
            _check.fail("Scores", "labels and predicted", rule, self._highest)

    def __setstate__(self, state: dict[str, Any]) -> None:
        _check.restore(self, state)

    def __repr__(self) -> str:
        text = f"n={len(self)}, known={self.n_known}, unknown={self.n_unknown}"
        text += f", classes={self.classes.size}"
        if self.groups is not None:
            text += f", groups={np.unique(self.groups).size}"
        return f"Scores({text}{', with ids' * (self.ids is not None)})"

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
        size = self._highest + 1
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
        columns = {n: _check.frozen(a[index]) for n, a in self._columns().items()}
        return replace(self, **columns)  # type: ignore[arg-type]

    @classmethod
    def concat(cls, parts: "list[Scores]") -> Self:
        """Concatenate several sets. The result has ids if all parts have some."""
        parts = list(parts)
        if not parts:
            _check.fail("Scores.concat", "parts", "a non-empty list", "[]")
        for part in parts:
            need_scores("Scores.concat", part)
        parts = _with_same_names(parts)
        fields: dict[str, Any] = {"class_names": parts[0].class_names}
        for name in (*REQUIRED, *PER_SAMPLE):
            arrays = [getattr(part, name) for part in parts]
            missing = sum(one is None for one in arrays)
            if name == "groups" and 0 < missing < len(parts):
                rule = "given for all parts or for none"
                _check.fail("Scores.concat", name, rule, f"{missing} without")
            fields[name] = None if missing else _check.frozen(np.concatenate(arrays))
        counts = [part.n_classes for part in parts]
        return cls(**fields, n_classes=None if None in counts else max(counts))  # type: ignore[type-var]

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

    @property
    def _highest(self) -> int:
        return int(max(self.labels.max(), self.predicted.max()))

    def _columns(self) -> dict[str, NDArray[Any]]:
        every = {name: getattr(self, name) for name in (*REQUIRED, *PER_SAMPLE)}
        return {name: column for name, column in every.items() if column is not None}

    def save(self, path: str | Path) -> Path:
        """Write ``.npz``, ``.csv`` or ``.parquet`` (extra `tables`), by file ending.

        All three keep the exact value of floats, and names of classes. ``.npz`` and
        ``.parquet`` keep `n_classes`; ``.csv`` has only columns.
        """
        path = Path(path)
        files.write(path, self._columns(), self.n_classes, self.class_names)
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
            leaves them out.
        unknown_label
            The label of unknown samples; by default -1, or "unknown" if labels are
            names.
        higher_is_unknown
            The file's score is higher for *unknown* samples: its sign is reversed.
        """
        path = Path(path)
        found = files.read(path, columns or {})
        if higher_is_unknown:
            found["known"] = -found["known"]
        for name in {"n_classes", "class_names"} & found.keys():
            found[name] = found[name].tolist()
        with _io.naming(path):
            return cls(**found, unknown_label=unknown_label)


def need_scores(caller: str, value: object) -> None:
    """Raise TypeError if the argument is not `Scores`."""
    remedy = (
        "Score your outputs first: fitted.score(outputs); or wrap your arrays: "
        "Scores(labels=..., predicted=..., known=...)"
    )
    _check.instance(caller, "scores", value, Scores, rule="Scores", remedy=remedy)


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
        got = f"NaN in {bad.size} of {array.size} samples, first at row {bad[0]}"
        remedy = "Look for inf - inf or 0/0 in the logits or features"
        _check.fail("Scores", "known", "free of NaN", got, remedy)
    return _check.owned(array, values)


def _with_same_names(parts: "list[Scores]") -> "list[Scores]":
    """Give equal names of classes equal numbers in all parts."""
    sets = [part.class_names for part in parts]
    if len(set(sets)) == 1:
        return parts
    given = [one for one in sets if one is not None]
    if len(given) < len(sets):
        rule = "given for all parts or for none"
        got = f"{len(sets) - len(given)} without"
        _check.fail("Scores.concat", "class_names", rule, got)
    names, moved = _class_names.merged(given)
    return [
        replace(
            part,
            labels=move[part.labels],
            predicted=move[part.predicted],
            n_classes=None if part.n_classes is None else len(names),
            class_names=names,
        )
        for part, move in zip(parts, moved, strict=True)
    ]
