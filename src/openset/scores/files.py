"""Scores as files: ``.npz``, ``.csv`` and ``.parquet``."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _class_names, _io, _npz
from openset._optional import optional
from openset._types import ArtefactError

REQUIRED = ("labels", "predicted", "known")
"""Columns that every file of scores has."""

PER_SAMPLE = ("groups", "ids")
"""Columns that it may have beside them."""

_ALL = (*REQUIRED, *PER_SAMPLE, "n_classes", "class_names")
_ENDINGS = (".npz", ".csv", ".parquet")
_CALLER = "Scores.load"


def write(
    path: Path,
    columns: dict[str, NDArray[Any]],
    n_classes: int | None,
    class_names: tuple[str, ...] | None,
) -> None:
    """Write columns; see :meth:`openset.Scores.save`."""
    kind = _check.ending("Scores.save", path, _ENDINGS)
    if kind == ".npz":
        more: dict[str, Any] = {"n_classes": n_classes, "class_names": class_names}
        columns |= {n: np.array(one) for n, one in more.items() if one is not None}
        _npz.save(path, columns)
        return
    if class_names is not None:
        if _class_names.UNKNOWN_NAME in class_names:
            rule = ".npz for a class that is called 'unknown'"
            _check.fail("Scores.save", "the ending", rule, kind)
        # The label -1 takes the last entry.
        table = np.array([*class_names, _class_names.UNKNOWN_NAME])
        columns |= {name: table[columns[name]] for name in ("labels", "predicted")}
    if kind == ".csv":
        # tolist() gives Python floats, whose repr reads back to the same bits.
        cells = (column.tolist() for column in columns.values())
        _io.put(path, _io.csv_text(columns, zip(*cells, strict=True)))
    else:
        write_parquet(path, columns, n_classes)


def write_parquet(
    path: Path, columns: Mapping[str, Any], n_classes: int | None = None
) -> None:
    """Write columns, arrays or lists, as a table."""
    pa, parquet = optional("pyarrow", "tables"), optional("pyarrow.parquet", "tables")
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    if n_classes is not None:
        table = table.replace_schema_metadata({"openset.n_classes": str(n_classes)})
    with _io.replacing(path) as temporary:
        parquet.write_table(table, temporary, write_page_checksum=True)


def read(path: Path, columns: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of scores; see :meth:`openset.Scores.load`."""
    if not path.exists():
        msg = f"{_CALLER}: no such file: {path}"
        raise FileNotFoundError(msg)
    kind = _check.ending(_CALLER, path, _ENDINGS)
    for name in columns:
        _check.one_of(_CALLER, "columns", name, (*REQUIRED, *PER_SAMPLE))
    try:
        found = _renamed(path, _READERS[kind](path), columns)
        found |= _numbers(found) if kind == ".csv" else {}
    except ArtefactError:
        raise
    # A damaged file can hold anything, such as integers of 100 bits.
    except (OSError, ValueError, LookupError, OverflowError, csv.Error) as error:
        msg = f"{_CALLER}: {path} is damaged or no table of scores ({error})"
        raise ArtefactError(msg) from error
    if not found.keys() >= {*REQUIRED}:
        remedy = (
            "Score these outputs first: openset score, or fitted.score(outputs)"
            if {"logits", "features"} & set(found)
            else "If they have other names there: columns={'known': 'score'}, in the "
            "shell --columns known=score,labels=y"
        )
        rule = f"a file with {', '.join(REQUIRED)}"
        got = ", ".join(sorted(found)) or "nothing"
        _check.fail(_CALLER, str(path), rule, got, remedy, ArtefactError)
    wanted = (*REQUIRED, *PER_SAMPLE) if kind == ".csv" else _ALL
    return {name: _check.frozen(found[name]) for name in wanted if name in found}


def _from_csv(path: Path) -> dict[str, NDArray[Any]]:
    """Return the columns of a file, as text."""
    # Spreadsheets put a byte-order mark first; "-sig" reads files with and without it.
    with path.open(newline="", encoding="utf-8-sig") as stream:
        header, *rows = [row for row in csv.reader(stream) if row] or [[]]
    if len(set(header)) < len(header) or any(len(row) != len(header) for row in rows):
        msg = "columns need different names, and all rows as many cells"
        raise ValueError(msg)
    cells = zip(*rows, strict=True) if rows else [()] * len(header)
    return {
        name: _check.texts(f"{_CALLER}({str(path)!r})", name, column)
        for name, column in zip(header, cells, strict=True)
    }


def _from_parquet(path: Path) -> dict[str, NDArray[Any]]:
    parquet = optional("pyarrow.parquet", "tables")
    table = parquet.read_table(path, page_checksum_verification=True)
    found = {
        name: np.asarray(table[name].to_numpy(zero_copy_only=False))
        for name in table.column_names
    }
    stored = (table.schema.metadata or {}).get(b"openset.n_classes")
    return found if stored is None else found | {"n_classes": np.array(int(stored))}


_READERS = {
    ".npz": lambda path: _npz.load(_CALLER, path)[0],
    ".csv": _from_csv,
    ".parquet": _from_parquet,
}


def _numbers(columns: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Read the cells of a table as numbers; classes may be names."""
    found = {n: columns[n].astype(np.float64) for n in ("known",) if n in columns}
    try:
        columns["labels"].astype(np.float64)
    except (ValueError, KeyError):  # names, or none
        return found
    for name in {"labels", "predicted"} & columns.keys():
        found[name] = columns[name].astype(np.int64)
        texts = np.unique(np.char.strip(columns[name]))
        if texts.size > np.unique(found[name]).size:
            msg = f"{name} such as {texts[:2]}: 01 and 1 may be two classes"
            raise ValueError(msg)
    return found


def _renamed(
    path: Path, found: dict[str, NDArray[Any]], columns: Mapping[str, str]
) -> dict[str, NDArray[Any]]:
    """Give columns the names that scores have; raise if the file has no such column."""
    for name, own in columns.items():
        if own and own not in found:
            rule = f"a column of {path}"
            got = f"{own} beside {', '.join(sorted(found))}"
            _check.fail(_CALLER, name, rule, got, "", ArtefactError)
    found |= {name: found[own] for name, own in columns.items() if own}
    return {name: one for name, one in found.items() if columns.get(name) != ""}
