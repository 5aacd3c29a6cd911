"""Shards: list those of a folder, and read one in batches."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _extras, _io
from openset._types import ArtefactError
from openset._urls import is_url
from openset.outputs import Invalid, Outputs, is_outputs
from openset.shards._stores import Entry, downloaded, entries

_ENDINGS = (".npz", ".parquet")
_LIKE_SHARDS = (*_ENDINGS, ".npy", ".pq", ".parq")
_COLUMNS = ("logits", "features", "labels", "groups", "ids")
# What is hashed of a large file: blocks, and its end, where .npz files keep checksums
# of their arrays and Parquet files the ranges of their columns.
_BLOCKS, _BLOCK, _END = 8, 4096, 16384


@dataclass(frozen=True, order=True)
class Shard:
    """A file or folder with some of the samples; its name is that of its results.

    With `remote` it is in an object store; :func:`at_hand` downloads a copy of it.
    """

    name: str
    path: Path
    remote: Entry | None = field(default=None, compare=False)

    @property
    def content(self) -> str:
        """What tells other content: the size, and a hash of parts of its files.

        In an object store, the size and the tag that the store gave, if it gives one.
        """
        if self.remote is not None:
            return f"{self.remote.n_bytes} bytes {self.remote.tag}".strip()
        found, n_bytes = hashlib.sha256(), 0
        files = self.path.rglob("*") if self.path.is_dir() else [self.path]
        for file in sorted(file for file in files if file.is_file()):
            found.update(file.relative_to(self.path).as_posix().encode() + b"\0")
            n_bytes += file.stat().st_size
            with suppress(OSError):  # who reads the shard says why it cannot be read
                _hash_parts(found, file)
        return f"{n_bytes} bytes {found.hexdigest()[:32]}"


def _hash_parts(found: "hashlib._Hash", path: Path) -> None:
    with path.open("rb") as file:
        before_end = max(file.seek(0, 2) - _END, 0)
        if before_end > _BLOCKS * _BLOCK:
            for i in range(_BLOCKS):
                file.seek(i * before_end // _BLOCKS)
                found.update(file.read(_BLOCK))
            file.seek(before_end)
        else:
            file.seek(0)
        found.update(file.read())


@contextmanager
def at_hand(shard: Shard) -> Iterator[Shard]:
    """Give a shard whose files are on this machine."""
    there = shard.remote
    if there is None:
        yield shard
        return
    with downloaded(
        there.url, there.files, there.name, is_folder=there.is_folder
    ) as path:
        yield Shard(shard.name, path)


def listed(
    folder: str | Path,
    is_shard: Callable[[Path, set[str] | None], bool],
    *,
    caller: str,
) -> list[Shard]:
    """List the files and folders in a folder, or in an object store, that are shards.

    `is_shard` gets a path, and for a folder the names of what is in it.
    """
    if isinstance(folder, str) and is_url(folder):
        found = []
        for one in entries(folder, caller=caller):
            path = Path(one.name)
            inner = {Path(file).name for file in one.files} if one.is_folder else None
            if not path.name.startswith(".") and is_shard(path, inner):
                found.append(
                    Shard(path.name if one.is_folder else path.stem, path, one)
                )
        return found
    place = Path(folder).resolve()  # workers may have another current folder
    return [
        Shard(path.stem if path.is_file() else path.name, path)
        for path in sorted(place.iterdir())
        if not path.name.startswith(".")
        and is_shard(path, None if path.is_file() else {p.name for p in path.iterdir()})
    ]


def _is_shard(path: Path, inner: set[str] | None) -> bool:
    if inner is None:
        return path.suffix in _ENDINGS
    return is_outputs(inner)


def _is_missed(path: Path, inner: set[str] | None) -> bool:
    """Whether something that is no shard looks like one, or like a folder of them."""
    names = {path.name} if inner is None else inner
    return any(Path(name).suffix.lower() in _LIKE_SHARDS for name in names)


def is_folder_of_shards(path: str | Path) -> bool:
    """Return whether this is a folder of outputs, rather than outputs of one split.

    A URL always is.
    """
    if is_url(path):
        return True
    path = Path(path)
    return path.is_dir() and not is_outputs(one.name for one in path.iterdir())


def find(folder: str | Path, *, caller: str = "shards.find") -> list[Shard]:
    """List the shards of a folder, or of a URL, in the order of their names."""
    missed: list[Path] = []

    def is_shard(path: Path, inner: set[str] | None) -> bool:
        found = _is_shard(path, inner)
        missed.extend([path] if not found and _is_missed(path, inner) else [])
        return found

    shards = listed(folder, is_shard, caller=caller)
    if shards and missed:
        _check.fail(
            caller,
            str(folder),
            "a folder with all shards directly in it, .npz, .parquet or folders of "
            ".npy files",
            f"{missed[0].name} beside them",
            "It would be left out: rename it or move it away",
        )
    if not shards:
        rule = (
            "a file or folder of outputs, or a folder of shards (.npz, .parquet, or "
            "folders of .npy files)"
        )
        _check.fail(caller, str(folder), rule, "none of these", error=FileNotFoundError)
    need_names_once(shards, folder, caller=caller)
    return shards


def need_names_once(shards: list[Shard], folder: str | Path, *, caller: str) -> None:
    """Raise if two shards have one name: their results would be one file."""
    twice = [name for name, n in Counter(one.name for one in shards).items() if n > 1]
    if twice:
        rule, got = "shards of different names", f"several called {min(twice)}"
        _check.fail(caller, str(folder), rule, got)


def read(shard: Shard, *, rows: int, invalid: Invalid = "error") -> Iterator[Outputs]:
    """Read a shard in batches of at most `rows` samples.

    Folders are memory-mapped and Parquet files read in parts. A ``.npz`` is read as a
    whole. `invalid` is as in :class:`openset.Outputs`; with ``"keep"`` a missing list
    in a Parquet file is an invalid sample, too.
    """
    if shard.path.suffix != ".parquet" or shard.path.is_dir():
        yield from Outputs.load(shard.path, invalid=invalid).batches(rows)
        return
    parquet: Any = _extras.optional("Outputs.load", "pyarrow.parquet", name="tables")
    try:
        with (
            _io.naming(shard.path),
            parquet.ParquetFile(shard.path, page_checksum_verification=True) as file,
        ):
            if not file.metadata.num_rows:
                msg = "Outputs: samples must be at least one, got none. Move it away"
                raise ValueError(msg)
            columns = [name for name in _COLUMNS if name in file.schema_arrow.names]
            widths: dict[str, int] = {}
            for batch in file.iter_batches(batch_size=rows, columns=columns):
                if batch.num_rows:
                    found = {
                        n: _array(n, batch.column(n), widths, keep=invalid == "keep")
                        for n in columns
                    }
                    yield Outputs(**found, invalid=invalid)
    except OSError as error:
        msg = f"Outputs.load: {shard.path} cannot be read, or is damaged ({error})"
        raise ArtefactError(msg) from error


def _array(
    name: str, column: Any, widths: dict[str, int], *, keep: bool
) -> NDArray[Any]:
    """Return a column: numbers, text, or lists of one length as rows of a matrix.

    With `keep`, a missing list is a row of NaN; `widths` are those of earlier batches.
    """
    if name not in {"logits", "features"}:
        return column.to_numpy(zero_copy_only=False)
    rule, got = "lists of one length", "lists of different lengths, or none"
    compute: Any = _extras.optional("Outputs.load", "pyarrow.compute", name="tables")
    try:
        lengths = set(compute.list_value_length(column).unique().to_pylist())
    except NotImplementedError as error:
        got = f"a column of {column.type}"
        msg = _check.must(rule, caller="Outputs", name=name, got=got)
        raise ValueError(msg) from error
    if keep and None in lengths:
        lengths = lengths - {None} or {widths.get(name)}
    if len(lengths) != 1 or not (width := next(iter(lengths))):  # None: one is missing
        _check.fail("Outputs", name, rule, got)
    widths[name] = width
    flat = column.flatten().to_numpy(zero_copy_only=False)
    if not column.null_count:
        return np.ascontiguousarray(flat.reshape(len(column), width))
    is_there = column.is_valid().to_numpy(zero_copy_only=False)
    found = np.full((len(column), width), np.nan)
    found[is_there] = flat.reshape(-1, width)
    return found
