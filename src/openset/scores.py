"""`Scores`: knownness, predicted class and true class of each sample."""

import csv
import io
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check, _io
from openset._types import UNKNOWN, ArtefactError

_REQUIRED = ("labels", "predicted", "known")
_OPTIONAL = ("groups", "n_classes")
_SUFFIXES = (".npz", ".csv", ".parquet")

EVERYONE = "all"
"""Name of the group of all unknowns, if scores have no groups."""


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
        True classes ``0..C-1``, or -1 for a sample of no known class. Shape (n,).
    predicted
        Predicted class without rejection: argmax of the original logits. Shape (n,).
    known
        Knownness, any real numbers; ±inf is allowed, NaN is not. Shape (n,).
    groups
        Where a sample comes from (a data set, a patient, "near", "far"): strings or
        integers. Shape (n,).
    n_classes
        Number of known classes. If omitted, the classes are those that occur.

    Examples
    --------
    >>> Scores(labels=[0, 1, -1], predicted=[0, 1, 1], known=[0.9, 0.7, 0.2])
    Scores(n=3, known=2, unknown=1, classes=2)
    """

    labels: NDArray[np.int64]
    predicted: NDArray[np.int64]
    known: NDArray[np.float64]
    groups: NDArray[Any] | None = None
    n_classes: int | None = None

    def __init__(
        self,
        *,
        labels: ArrayLike,
        predicted: ArrayLike,
        known: ArrayLike,
        groups: ArrayLike | None = None,
        n_classes: int | None = None,
    ) -> None:
        fields = {
            "labels": _check.labels("Scores", "labels", labels, lowest=UNKNOWN),
            "predicted": _check.labels("Scores", "predicted", predicted, lowest=0),
            "known": _knownness(known),
            "groups": None
            if groups is None
            else _check.names("Scores", "groups", groups),
            "n_classes": None
            if n_classes is None
            else _check.positive_int("Scores", "n_classes", n_classes),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        lengths = {name: getattr(self, name).size for name in _REQUIRED}
        if self.groups is not None:
            lengths["groups"] = self.groups.size
        _check.same_length("Scores", lengths)
        if self.n_classes is not None:
            highest = int(max(self.labels.max(), self.predicted.max()))
            if highest >= self.n_classes:
                msg = _check.must(
                    f"below n_classes = {self.n_classes}",
                    caller="Scores",
                    name="labels and predicted",
                    got=highest,
                )
                raise ValueError(msg)

    def __setstate__(self, state: dict[str, Any]) -> None:
        _check.restore(self, state)

    def __repr__(self) -> str:
        groups = (
            "" if self.groups is None else f", groups={np.unique(self.groups).size}"
        )
        return (
            f"Scores(n={len(self)}, known={self.n_known}, unknown={self.n_unknown}, "
            f"classes={self.classes.size}{groups})"
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
            return UnknownGroups((EVERYONE,), _check.frozen(index))
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
        columns = {n: _check.frozen(a[index]) for n, a in self._columns().items()}
        return type(self)(**columns, n_classes=self.n_classes)

    @classmethod
    def concat(cls, parts: "list[Scores]") -> Self:
        """Concatenate several sets."""
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
        counts = {part.n_classes for part in parts}
        names = (*_REQUIRED, "groups") if all(with_groups) else _REQUIRED
        columns = {
            n: _check.frozen(np.concatenate([getattr(p, n) for p in parts]))
            for n in names
        }
        n_classes = None if None in counts else max(c for c in counts if c)
        return cls(**columns, n_classes=n_classes)

    def with_known(self, known: ArrayLike) -> Self:
        """Return the same samples with another knownness."""
        return replace(self, known=known)  # type: ignore[arg-type]

    def _columns(self) -> dict[str, NDArray[Any]]:
        columns: dict[str, NDArray[Any]] = {n: getattr(self, n) for n in _REQUIRED}
        if self.groups is not None:
            columns["groups"] = self.groups
        return columns

    def save(self, path: str | Path) -> Path:
        """Write ``.npz``, ``.csv`` or ``.parquet`` (extra `tables`), by file ending.

        All three keep the exact value of floats. ``.npz`` and ``.parquet`` keep
        `n_classes`; ``.csv`` has only columns.
        """
        path = Path(path)
        kind = _suffix("Scores.save", path)
        columns = self._columns()
        if kind == ".npz":
            if self.n_classes is not None:
                columns["n_classes"] = np.array(self.n_classes)
            _io.write_npz(path, columns)
        elif kind == ".csv":
            _io.write(path, lambda stream: stream.write(_to_csv(columns)))
        else:
            pa = _io.optional("Scores.save", "pyarrow", name="tables")
            parquet = _io.optional("Scores.save", "pyarrow.parquet", name="tables")
            table = pa.table(
                {name: pa.array(column) for name, column in columns.items()}
            )
            if self.n_classes is not None:
                table = table.replace_schema_metadata(
                    {"openset.n_classes": str(self.n_classes)}
                )
            with _io.replacing(path) as temporary:
                parquet.write_table(table, temporary)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what :meth:`save` wrote (or any file with the same columns)."""
        path = Path(path)
        if not path.exists():
            msg = f"Scores.load: no such file: {path}"
            raise FileNotFoundError(msg)
        if path.is_dir():
            msg = f"Scores.load: {path} must be a file of scores, got a folder"
            raise ArtefactError(msg)
        kind = _suffix("Scores.load", path)
        n_classes: int | None = None
        if kind == ".npz":
            columns = _io.read_npz("Scores.load", path)
        elif kind == ".csv":
            columns = _from_csv(path)
        else:
            parquet = _io.optional("Scores.load", "pyarrow.parquet", name="tables")
            try:
                table = parquet.read_table(path)
            except (OSError, ValueError) as error:
                msg = f"Scores.load: {path} is damaged or not Parquet ({error})"
                raise ArtefactError(msg) from error
            columns = {
                name: np.asarray(table[name].to_numpy(zero_copy_only=False))
                for name in table.column_names
            }
            stored = (table.schema.metadata or {}).get(b"openset.n_classes")
            n_classes = None if stored is None else int(stored)
        if "known" not in columns and {"logits", "features"} & set(columns):
            msg = (
                f"Scores.load: {path} must hold scores, got outputs of a network "
                f"({', '.join(sorted(columns))}). Score them first: openset score, or "
                "detectors.make('msp').fit(train).score(outputs)"
            )
            raise ArtefactError(msg)
        columns = _io.pick(
            "Scores.load", path, columns, required=_REQUIRED, optional=_OPTIONAL
        )
        if "n_classes" in columns:
            n_classes = _class_count(path, columns.pop("n_classes"))
        columns = {name: _check.frozen(column) for name, column in columns.items()}
        with _io.naming(path):
            return cls(**columns, n_classes=n_classes)


def need_scores(caller: str, value: object) -> None:
    """Raise TypeError unless these are scores."""
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
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        got = f"dtype {array.dtype}"
        raise TypeError(
            _check.must("real numbers", caller="Scores", name="known", got=got)
        )
    _check.vector("Scores", "known", array)
    array = array.astype(np.float64, copy=False)
    if np.isnan(array.min()):  # min propagates NaN: one pass, no mask
        bad = np.flatnonzero(np.isnan(array))
        msg = _check.must(
            "free of NaN",
            caller="Scores",
            name="known",
            got=f"NaN in {bad.size} of {array.size} samples, first at row {bad[0]}",
            remedy="Look for inf - inf or 0/0 in the logits or features",
        )
        raise ValueError(msg)
    return _check.owned(array, values)


def _suffix(caller: str, path: Path) -> str:
    return _check.one_of(caller, f"the ending of {path.name}", path.suffix, _SUFFIXES)


def _class_count(path: Path, values: NDArray[Any]) -> int:
    """Read the number of classes: one number, or the same number in every row."""
    found = np.unique(values).tolist()
    try:
        (count,) = {int(value) for value in found if int(value) == float(value)}
    except ValueError as error:
        msg = f"Scores.load: {path}: n_classes must be one integer, got {found}"
        raise ArtefactError(msg) from error
    return count


def _to_csv(columns: dict[str, NDArray[Any]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    # tolist() gives Python floats, whose repr reads back to the same bits.
    writer.writerows(zip(*(c.tolist() for c in columns.values()), strict=True))
    return text.getvalue().encode()


def _from_csv(path: Path) -> dict[str, NDArray[Any]]:
    # Spreadsheets put a byte-order mark first; "-sig" reads files with and without it.
    with path.open(newline="", encoding="utf-8-sig") as stream:
        reader = csv.reader(stream)
        try:
            lines = [(reader.line_num, row) for row in reader if row]  # not blank ones
        except (UnicodeDecodeError, csv.Error) as error:
            msg = (
                f"Scores.load: {path} is not a table of comma-separated text ({error})"
            )
            raise ArtefactError(msg) from error
    header, *rows = [row for _, row in lines] or [[]]
    odd = [number for number, row in lines if len(row) != len(header)]
    if odd or not header:
        got = f"{len(odd)} others, first in line {odd[0]}" if odd else "an empty file"
        msg = (
            f"Scores.load: {path} must be a table with a header and equally long rows, "
            f"got {got}"
        )
        raise ArtefactError(msg)
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        msg = (
            f"Scores.load: {path} must have each column once, got {', '.join(twice)} "
            "several times"
        )
        raise ArtefactError(msg)
    columns_of = zip(*rows, strict=True) if rows else [()] * len(header)
    table = dict(zip(header, columns_of, strict=True))
    columns: dict[str, NDArray[Any]] = {}
    kinds = {"labels": np.int64, "predicted": np.int64, "known": np.float64}
    for name, cells in table.items():
        if name not in kinds:
            columns[name] = np.asarray(cells, dtype=np.str_)
            continue
        try:
            columns[name] = np.array(cells, dtype=np.str_).astype(kinds[name])
        except ValueError as error:
            what = "numbers" if name == "known" else "integers"
            msg = f"Scores.load: {path}: column {name} must be {what} ({error})"
            raise ArtefactError(msg) from error
    return columns
