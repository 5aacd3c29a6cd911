"""`Scores`: knownness, predicted class and true class of each sample."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check, _class_names, _io
from openset._types import UNKNOWN, ArtefactError

_REQUIRED = ("labels", "predicted", "known")
_OPTIONAL = ("groups", "n_classes", "class_names")
_SUFFIXES = (".npz", ".csv", ".parquet")

EVERYONE = "all"
"""Name of the group of all unknown samples, if scores have no groups."""


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
    n_classes
        Number of known classes. If omitted, the classes are those that occur.
    class_names
        Names of the classes, in the order of their numbers. If omitted and labels are
        names: those that occur, sorted.
    unknown_label
        The name of unknown samples if labels are names. If omitted it is "unknown"; a
        class that may mean the same ("oos", "other") then raises an error that asks for
        this argument.

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
    n_classes: int | None = None
    class_names: tuple[str, ...] | None = None

    def __init__(
        self,
        *,
        labels: ArrayLike,
        predicted: ArrayLike,
        known: ArrayLike,
        groups: ArrayLike | None = None,
        n_classes: int | None = None,
        class_names: Sequence[str] | None = None,
        unknown_label: str | None = None,
    ) -> None:
        if _class_names.is_text(labels):
            labels, predicted, class_names = _class_names.numbered(
                "Scores",
                labels,
                predicted,
                unknown_label=unknown_label,
                class_names=class_names,
            )
        elif unknown_label is not None:
            msg = _check.must(
                "None where labels are numbers",
                caller="Scores",
                name="unknown_label",
                got=repr(unknown_label),
                remedy="Number the known classes 0..C-1 and label unknown samples "
                f"{UNKNOWN}",
            )
            raise ValueError(msg)
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
            "class_names": None,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        lengths = {name: getattr(self, name).size for name in _REQUIRED}
        if self.groups is not None:
            lengths["groups"] = self.groups.size
        _check.same_length("Scores", lengths)
        highest = -1
        if class_names is not None or self.n_classes is not None:
            highest = int(max(self.labels.max(), self.predicted.max()))
        if class_names is not None:
            named = _class_names.need_names("Scores", class_names, highest)
            object.__setattr__(self, "class_names", named)
        if self.n_classes is not None and highest >= self.n_classes:
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
        columns: dict[str, Any] = {
            n: _check.frozen(a[index]) for n, a in self._columns().items()
        }
        return type(self)(
            **columns, n_classes=self.n_classes, class_names=self.class_names
        )

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
        parts, class_names = _same_names(parts)
        counts = {part.n_classes for part in parts}
        names = (*_REQUIRED, "groups") if all(with_groups) else _REQUIRED
        columns: dict[str, Any] = {
            n: _check.frozen(np.concatenate([getattr(p, n) for p in parts]))
            for n in names
        }
        n_classes = None if None in counts else max(c for c in counts if c)
        return cls(**columns, n_classes=n_classes, class_names=class_names)

    def with_known(self, known: ArrayLike) -> Self:
        """Return the same samples with another knownness."""
        return replace(self, known=known)  # type: ignore[arg-type]

    def _columns(self) -> dict[str, NDArray[Any]]:
        columns: dict[str, NDArray[Any]] = {n: getattr(self, n) for n in _REQUIRED}
        if self.groups is not None:
            columns["groups"] = self.groups
        return columns

    def _named_columns(self, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
        """Labels and predictions as names, as they are written to tables."""
        if _class_names.UNKNOWN_NAME in names:
            msg = _check.must(
                ".npz for a class that is called 'unknown'",
                caller="Scores.save",
                name="the ending",
                got=".csv or .parquet, where this is the name of unknown samples",
            )
            raise ValueError(msg)
        table = np.array([*names, _class_names.UNKNOWN_NAME], dtype=np.str_)
        # the label -1 takes the last entry
        return {"labels": table[self.labels], "predicted": table[self.predicted]}

    def save(self, path: str | Path) -> Path:
        """Write ``.npz``, ``.csv`` or ``.parquet`` (extra `tables`), by file ending.

        All three keep the exact value of floats, and names of classes. ``.npz`` and
        ``.parquet`` keep `n_classes`; ``.csv`` has only columns.
        """
        path = Path(path)
        kind = _suffix("Scores.save", path)
        columns = self._columns()
        if kind == ".npz":
            if self.n_classes is not None:
                columns["n_classes"] = np.array(self.n_classes)
            if self.class_names is not None:
                columns["class_names"] = np.array(self.class_names, dtype=np.str_)
            _io.write_npz(path, columns)
            return path
        if self.class_names is not None:
            columns |= self._named_columns(self.class_names)
        if kind == ".csv":
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
    def load(
        cls,
        path: str | Path,
        *,
        columns: Mapping[str, str] | None = None,
        unknown_label: str | None = None,
        higher_is_unknown: bool = False,
    ) -> Self:
        """Read what :meth:`save` wrote, or any file with such columns.

        Parameters
        ----------
        path
            A file ``.npz``, ``.csv`` or ``.parquet``.
        columns
            Names of the columns in the file, where they differ:
            ``{"labels": "y", "known": "score"}``.
        unknown_label
            The name of unknown samples if labels are names; by default "unknown".
        higher_is_unknown
            The file's score is higher for *unknown* samples: its sign is reversed.
        """
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
            found = _io.read_npz("Scores.load", path)
        elif kind == ".csv":
            found = _from_csv(path)
        else:
            parquet = _io.optional("Scores.load", "pyarrow.parquet", name="tables")
            # A damaged file can hold anything, such as integers of 100 bits.
            try:
                table = parquet.read_table(path)
                found = {
                    name: np.asarray(table[name].to_numpy(zero_copy_only=False))
                    for name in table.column_names
                }
                stored = (table.schema.metadata or {}).get(b"openset.n_classes")
                n_classes = None if stored is None else int(stored)
            except (OSError, ValueError, LookupError, NotImplementedError) as error:
                msg = f"Scores.load: {path} is damaged or not Parquet ({error})"
                raise ArtefactError(msg) from error
        found = _renamed(path, found, columns or {})
        if "known" not in found and {"logits", "features"} & set(found):
            msg = (
                f"Scores.load: {path} must hold scores, got outputs of a network "
                f"({', '.join(sorted(found))}). Score them first: openset score, or "
                "detectors.make('msp').fit(train).score(outputs)"
            )
            raise ArtefactError(msg)
        found = _io.pick(
            "Scores.load",
            path,
            found,
            required=_REQUIRED,
            optional=_OPTIONAL,
            remedy="If they have other names there: columns={'known': 'score'}, in the "
            "shell --columns known=score,labels=y",
        )
        if kind == ".csv":
            found |= _parsed(path, found)
        if "n_classes" in found:
            n_classes = _class_count(path, found.pop("n_classes"))
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
    except (ValueError, OverflowError) as error:
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
    return {
        name: np.asarray(cells, dtype=np.str_)
        for name, cells in zip(header, columns_of, strict=True)
    }


def _parsed(path: Path, columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Read the cells of a text table as numbers; classes may be names."""
    kinds: dict[str, type] = {"known": np.float64}
    if _all_numbers(columns["labels"]):
        kinds |= {"labels": np.int64, "predicted": np.int64}
    parsed: dict[str, NDArray[Any]] = {}
    for name, kind in kinds.items():
        try:
            parsed[name] = columns[name].astype(kind)
        except (ValueError, OverflowError) as error:
            what = "numbers" if name == "known" else "integers"
            row, cell = next(_unreadable(columns[name].tolist(), kind))
            msg = (
                f"Scores.load: {path}: column {name} must be {what}, got {cell!r} in "
                f"row {row}"
            )
            raise ArtefactError(msg) from error
    return parsed


def _unreadable(cells: list[str], kind: type) -> Iterator[tuple[int, str]]:
    """Yield the cells that are no such numbers, with their rows from 1."""
    for row, cell in enumerate(cells, start=1):
        try:
            kind(cell)
        except (ValueError, OverflowError):
            yield row, cell


def _all_numbers(cells: NDArray[Any]) -> bool:
    try:
        cells.astype(np.float64)
    except ValueError:
        return False
    return True


def _renamed(
    path: Path, found: dict[str, NDArray[Any]], columns: Mapping[str, str]
) -> dict[str, NDArray[Any]]:
    """Give columns the names that scores have; raise if the file has no such column."""
    for name, own in columns.items():
        _check.one_of("Scores.load", "columns", name, (*_REQUIRED, "groups"))
        if own not in found:
            msg = (
                f"Scores.load: {path} must have the column {own} for {name}, "
                f"got {', '.join(sorted(found))}"
            )
            raise ArtefactError(msg)
    return found | {name: found[own] for name, own in columns.items()}


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
