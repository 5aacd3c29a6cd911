"""Scores as comma-separated text: columns in, columns out."""

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset._types import ArtefactError

_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def written(columns: Mapping[str, NDArray[Any]]) -> bytes:
    """Return columns as text."""
    text = io.StringIO(newline="")
    # Python before 3.13 leaves a lone carriage return unquoted, which ends a line.
    names = [column for column in columns.values() if column.dtype.kind == "U"]
    has_return = any((np.char.find(column, "\r") >= 0).any() for column in names)
    writer = csv.writer(
        text,
        lineterminator="\n",
        quoting=csv.QUOTE_NONNUMERIC if has_return else csv.QUOTE_MINIMAL,
    )
    writer.writerow(columns)
    # tolist() gives Python floats, whose repr reads back to the same bits.
    writer.writerows(zip(*(c.tolist() for c in columns.values()), strict=True))
    return text.getvalue().encode()


def read(path: Path) -> dict[str, NDArray[Any]]:
    """Return the columns of a file, as text."""
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
    if problem := _problem(header, odd):
        msg = f"Scores.load: {path} must {problem}"
        raise ArtefactError(msg)
    columns_of = list(zip(*rows, strict=True)) if rows else [()] * len(header)
    for name, cells in zip(header, columns_of, strict=True):
        _check.need_similar_lengths(f"Scores.load({str(path)!r})", name, cells)
    return {
        name: np.asarray(cells, dtype=np.str_)
        for name, cells in zip(header, columns_of, strict=True)
    }


def _problem(header: list[str], odd: list[int]) -> str:
    """Return what is wrong with a table, if anything."""
    rule = "be a table with a header and equally long rows, got"
    if not header:
        return f"{rule} an empty file"
    other = [name for one, name in _SEPARATORS.items() if one in header[0]]
    if len(header) == 1 and other:
        return (
            f"have commas between its columns, got {other[0]}. Write it with commas, "
            "and numbers with a decimal point: pandas' to_csv does so by default"
        )
    if _all_numbers(np.asarray(header)):
        return f"{rule} numbers in its first line. Put the names of the columns there"
    if odd:
        return f"{rule} {len(odd)} others, first in line {odd[0]}"
    twice = sorted({name for name in header if header.count(name) > 1})
    return f"have each column once, got {', '.join(twice)} several times" * bool(twice)


def parsed(path: Path, columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Read the cells of scores as numbers; classes may be names."""
    kinds: dict[str, type] = {"known": np.float64}
    if _all_numbers(columns["labels"]):
        kinds |= {"labels": np.int64, "predicted": np.int64}
    found: dict[str, NDArray[Any]] = {}
    for name, kind in kinds.items():
        try:
            found[name] = columns[name].astype(kind)
        except (ValueError, OverflowError) as error:
            what = "numbers" if name == "known" else "integers"
            cells = enumerate(columns[name].tolist(), start=1)
            row, cell = next((i, x) for i, x in cells if not _is(kind, x))
            got = f"got {cell!r} in row {row}"
            msg = f"Scores.load: {path}: column {name} must be {what}, {got}"
            raise ArtefactError(msg) from error
        if name != "known":
            _need_one_spelling(path, name, columns[name], found[name])
    return found


def _need_one_spelling(
    path: Path, name: str, cells: NDArray[Any], numbers: NDArray[Any]
) -> None:
    """Raise if "01" and "1", which may be two classes, became one number."""
    if (cells == numbers.astype(np.str_)).all():
        return
    seen: dict[int, str] = {}
    for number, cell in zip(numbers.tolist(), cells.tolist(), strict=True):
        other = seen.setdefault(number, cell.strip())
        if other != cell.strip():
            msg = (
                f"Scores.load: {path}: column {name} must write a class in one way, "
                f"got {other!r} and {cell.strip()!r}. If they are two classes, give "
                "them names that are no numbers, or save the scores as .npz"
            )
            raise ArtefactError(msg)


def _is(kind: type, cell: str) -> bool:
    try:
        np.asarray([cell]).astype(kind)
    except (ValueError, OverflowError):
        return False
    return True


def _all_numbers(cells: NDArray[Any]) -> bool:
    try:
        cells.astype(np.float64)
    except ValueError:
        return False
    return True
