"""Scores as files: ``.npz``, ``.csv`` and ``.parquet``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _class_names, _extras, _io, _npz
from openset._types import ArtefactError
from openset.scores import _csv

REQUIRED = ("labels", "predicted", "known")
"""Columns that every file of scores has."""

PER_SAMPLE = ("groups", "ids")
"""Columns that it may have beside them."""

_OPTIONAL = (*PER_SAMPLE, "n_classes", "class_names")
_ID = "id"  # what others call the ids, and openset predict does
_ENDINGS = (".npz", ".csv", ".parquet")


def write(
    path: Path,
    columns: dict[str, NDArray[Any]],
    n_classes: int | None,
    class_names: tuple[str, ...] | None,
) -> None:
    """Write columns; see :meth:`openset.Scores.save`."""
    kind = _check.ending("Scores.save", path, _ENDINGS)
    if kind == ".npz":
        if n_classes is not None:
            columns["n_classes"] = np.array(n_classes)
        if class_names is not None:
            columns["class_names"] = np.array(class_names, dtype=np.str_)
        _npz.save(path, columns)
        return
    if class_names is not None:
        columns |= _named(columns, class_names)
    if kind == ".csv":
        _io.write(path, lambda stream: stream.write(_csv.written(columns)))
    else:
        write_parquet(path, columns, n_classes)


def _named(
    columns: Mapping[str, NDArray[Any]], names: tuple[str, ...]
) -> dict[str, NDArray[Any]]:
    """Labels and predictions as names, as they are written to tables."""
    if _class_names.UNKNOWN_NAME in names:
        _check.fail(
            "Scores.save",
            "the ending",
            ".npz for a class that is called 'unknown'",
            ".csv or .parquet, where this is the name of unknown samples",
        )
    table = np.array([*names, _class_names.UNKNOWN_NAME], dtype=np.str_)
    # the label -1 takes the last entry
    return {name: table[columns[name]] for name in ("labels", "predicted")}


def write_parquet(
    path: Path, columns: Mapping[str, Any], n_classes: int | None = None
) -> None:
    """Write columns, arrays or lists, as a table."""
    pa = _extras.optional("Scores.save", "pyarrow", name="tables")
    parquet = _extras.optional("Scores.save", "pyarrow.parquet", name="tables")
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    if n_classes is not None:
        table = table.replace_schema_metadata({"openset.n_classes": str(n_classes)})
    with _io.replacing(path) as temporary:
        parquet.write_table(table, temporary, write_page_checksum=True)


def read(
    path: Path, columns: Mapping[str, str]
) -> tuple[dict[str, NDArray[Any]], int | None]:
    """Return the columns and the number of classes; see :meth:`openset.Scores.load`."""
    if not path.exists():
        msg = f"Scores.load: no such file: {path}"
        raise FileNotFoundError(msg)
    if path.is_dir():
        msg = f"Scores.load: {path} must be a file of scores, got a folder"
        raise ArtefactError(msg)
    kind = _check.ending("Scores.load", path, _ENDINGS)
    n_classes: int | None = None
    if kind == ".npz":
        found, _ = _npz.load("Scores.load", path)
    elif kind == ".csv":
        found = _csv.read(path)
    else:
        found, n_classes = _from_parquet(path)
    found = _renamed(path, found, columns)
    if "known" not in found and {"logits", "features"} & set(found):
        msg = (
            f"Scores.load: {path} must hold scores, got outputs of a network "
            f"({', '.join(sorted(found))}). Score them first: openset score, or "
            "detectors.make('msp').fit(train).score(outputs)"
        )
        raise ArtefactError(msg)
    missing = [name for name in REQUIRED if name not in found]
    if missing:
        msg = (
            f"Scores.load: {path} must hold {', '.join(REQUIRED)}; missing "
            f"{', '.join(missing)} (it has {', '.join(sorted(found)) or 'nothing'}). "
            "If they have other names there: columns={'known': 'score'}, in the shell "
            "--columns known=score,labels=y"
        )
        raise ArtefactError(msg)
    found = {n: found[n] for n in (*REQUIRED, *_OPTIONAL) if n in found}
    if kind == ".csv":
        found |= _csv.parsed(path, found)
    if "n_classes" in found:
        n_classes = _class_count(path, found.pop("n_classes"))
    return found, n_classes


def _class_count(path: Path, values: NDArray[Any]) -> int:
    """Read the number of classes: one number, or the same number in every row."""
    found = np.unique(values).tolist()
    try:
        (count,) = {int(value) for value in found if int(value) == float(value)}
    except (ValueError, OverflowError) as error:
        msg = f"Scores.load: {path}: n_classes must be one integer, got {found}"
        raise ArtefactError(msg) from error
    return count


def _from_parquet(path: Path) -> tuple[dict[str, NDArray[Any]], int | None]:
    parquet = _extras.optional("Scores.load", "pyarrow.parquet", name="tables")
    # A damaged file can hold anything, such as integers of 100 bits.
    try:
        table = parquet.read_table(path, page_checksum_verification=True)
        found = {
            name: np.asarray(table[name].to_numpy(zero_copy_only=False))
            for name in table.column_names
        }
        for name, cells in found.items():
            if cells.dtype.hasobject:
                _check.need_similar_lengths("Scores.load", name, cells)
        stored = (table.schema.metadata or {}).get(b"openset.n_classes")
        return found, None if stored is None else int(stored)
    except (OSError, ValueError, LookupError, NotImplementedError) as error:
        msg = f"Scores.load: {path} is damaged or not Parquet ({error})"
        raise ArtefactError(msg) from error


def _renamed(
    path: Path, found: dict[str, NDArray[Any]], columns: Mapping[str, str]
) -> dict[str, NDArray[Any]]:
    """Give columns the names that scores have; raise if the file has no such column."""
    left_out = [name for name in PER_SAMPLE if columns.get(name) == ""]
    columns = {name: own for name, own in columns.items() if name not in left_out}
    for name, own in columns.items():
        _check.one_of("Scores.load", "columns", name, (*REQUIRED, *PER_SAMPLE))
        if own not in found:
            msg = (
                f"Scores.load: {path} must have the column {own} for {name}, "
                f"got {', '.join(sorted(found))}"
            )
            raise ArtefactError(msg)
    found |= {name: found[own] for name, own in columns.items()}
    if "ids" not in found and _ID not in columns.values() and _are_ids(found):
        found["ids"] = found[_ID]
    return {name: column for name, column in found.items() if name not in left_out}


def _are_ids(found: Mapping[str, NDArray[Any]]) -> bool:
    """Whether a file has a column ``id`` that tells its samples.

    It may as well be that of a patient, or have empty cells: then it is not used.
    """
    column = found.get(_ID, np.empty(0))
    if column.shape != found.get("known", column).shape:
        return False
    cells = column.ravel().tolist()
    is_named = {type(one) for one in cells} in ({str}, {int}) and "" not in cells
    return is_named and len(set(cells)) == len(cells)
