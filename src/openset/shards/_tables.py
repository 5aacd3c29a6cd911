"""Tables that are written batch by batch: Parquet files, or arrays in a ``.npz``."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _extras, _io, _npz

FORMATS = ("parquet", "npz")
Columns = Mapping[str, NDArray[Any]]


def check_format(caller: str, name: str) -> None:
    """Check the format, and that what it needs is installed."""
    _check.one_of(caller, "format", name, FORMATS)
    if name == "parquet":
        _extras.optional(caller, "pyarrow.parquet", name="tables")


def write(path: Path, batches: Iterable[Columns]) -> None:
    """Write the columns of all batches; the file appears when it is complete.

    A Parquet file is written batch by batch; of a ``.npz`` all columns are in memory.
    A mask, samples by classes, is a column of lists of classes in Parquet.
    """
    if path.suffix == ".npz":
        found = list(batches)
        _npz.write(
            path, {name: np.concatenate([b[name] for b in found]) for name in found[0]}
        )
        return
    pa: Any = _extras.optional("shards", "pyarrow", name="tables")
    parquet: Any = _extras.optional("shards", "pyarrow.parquet", name="tables")
    with _io.replacing(path) as temporary:
        writer = None
        try:
            for batch in batches:
                table = pa.table(
                    {
                        name: pa.array(one) if one.ndim == 1 else _lists(pa, one)
                        for name, one in batch.items()
                    }
                )
                writer = writer or parquet.ParquetWriter(
                    temporary, table.schema, write_page_checksum=True
                )
                writer.write_table(table)
        finally:
            if writer is not None:
                writer.close()


def _lists(pa: Any, mask: NDArray[np.bool_]) -> Any:
    """Return the places of the true entries of each row."""
    ends = np.cumsum(mask.sum(axis=1))
    places = np.nonzero(mask)[1]
    return pa.ListArray.from_arrays(np.concatenate([[0], ends]), places)
