"""Shards: which there are, and how one is read in batches."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _io
from openset.outputs import Outputs

_ENDINGS = (".npz", ".parquet")
_COLUMNS = ("logits", "features", "labels", "groups", "ids")


@dataclass(frozen=True, order=True)
class Shard:
    """A file or folder with some of the samples; its name is that of its results."""

    name: str
    path: Path

    @property
    def n_bytes(self) -> int:
        """Size of its files."""
        files = self.path.rglob("*") if self.path.is_dir() else [self.path]
        return sum(file.stat().st_size for file in files if file.is_file())


def _is_outputs(path: Path) -> bool:
    return (path / "logits.npy").exists() or (path / "features.npy").exists()


def is_folder_of_shards(path: str | Path) -> bool:
    """Tell whether this is a folder of outputs, rather than outputs of one split."""
    path = Path(path)
    return path.is_dir() and not _is_outputs(path)


def find(folder: str | Path, *, caller: str = "shards.find") -> list[Shard]:
    """List the shards of a folder, in the order of their names."""
    folder = Path(folder).resolve()  # workers may have another current folder
    shards = [
        Shard(path.stem if path.is_file() else path.name, path)
        for path in sorted(folder.iterdir())
        if not path.name.startswith(".")
        and (path.suffix in _ENDINGS if path.is_file() else _is_outputs(path))
    ]
    if not shards:
        rule = "outputs, or a folder of them (.npz, .parquet, or folders of .npy files)"
        raise FileNotFoundError(
            _check.must(rule, caller=caller, name=str(folder), got="none of these")
        )
    names = [shard.name for shard in shards]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        rule, got = "shards of different names", f"several called {twice[0]}"
        raise ValueError(_check.must(rule, caller=caller, name=str(folder), got=got))
    return shards


def read(shard: Shard, *, rows: int) -> Iterator[Outputs]:
    """Read a shard in batches of at most `rows` samples.

    Folders are memory-mapped and Parquet files read in parts. A ``.npz`` is read as a
    whole.
    """
    if shard.path.suffix != ".parquet" or shard.path.is_dir():
        yield from Outputs.load(shard.path).batches(rows)
        return
    parquet: Any = _io.optional("Outputs.load", "pyarrow.parquet", name="tables")
    with parquet.ParquetFile(shard.path) as file, _io.naming(shard.path):
        columns = [name for name in _COLUMNS if name in file.schema_arrow.names]
        for batch in file.iter_batches(batch_size=rows, columns=columns):
            if batch.num_rows:
                yield Outputs(**{n: _array(n, batch.column(n)) for n in columns})


def _array(name: str, column: Any) -> NDArray[Any]:
    """Return a column: numbers, text, or lists of one length as rows of a matrix."""
    if name not in {"logits", "features"}:
        return column.to_numpy(zero_copy_only=False)
    flat = column.flatten().to_numpy(zero_copy_only=False)
    if column.null_count or not len(column) or flat.size % len(column):
        rule, got = "lists of one length", "lists of different lengths, or none"
        raise ValueError(_check.must(rule, caller="Outputs", name=name, got=got))
    rows: NDArray[Any] = flat.reshape(len(column), -1)
    lengths = {len(one) for one in (column[0], column[len(column) - 1])}
    if lengths != {rows.shape[1]}:
        rule, got = "lists of one length", "lists of different lengths"
        raise ValueError(_check.must(rule, caller="Outputs", name=name, got=got))
    return np.ascontiguousarray(rows)
