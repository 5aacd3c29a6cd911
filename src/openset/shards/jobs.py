"""`Extract`, `Predict`, `Score`: outputs, decisions and scores, by shard."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from openset import _check, _io, _npz, detectors, extract
from openset._optional import optional
from openset.detectors import Fitted
from openset.outputs import Invalid as Keep
from openset.outputs import Outputs
from openset.rejector import Invalid, Rejector, files
from openset.scores import Scores, write_parquet

_MATRICES, _VECTORS = ("logits", "features"), ("labels", "groups", "ids")


def read(
    path: Path, *, rows: int = 65536, invalid: Keep = "error"
) -> Iterator[Outputs]:
    """Read a shard in batches of at most `rows` samples.

    Folders are memory-mapped and Parquet files read in parts. A ``.npz`` is read as a
    whole. `invalid` is as in :class:`openset.Outputs`.
    """
    if path.suffix != ".parquet" or path.is_dir():
        yield from Outputs.load(path, invalid=invalid).batches(rows)
        return
    parquet = optional("pyarrow.parquet", "tables")
    options = {"page_checksum_verification": True}
    with _io.naming(path), parquet.ParquetFile(path, **options) as file:
        _check.positive_int("shards.read", "samples", file.metadata.num_rows)
        names = {*file.schema_arrow.names}.intersection(_MATRICES + _VECTORS)
        for batch in file.iter_batches(batch_size=rows, columns=sorted(names)):
            arrays = {n: batch.column(n).to_numpy(zero_copy_only=False) for n in names}
            for name in names.intersection(_MATRICES):
                arrays[name] = np.stack(arrays[name])  # lists of one length
            yield Outputs(**arrays, invalid=invalid)


@dataclass(frozen=True, kw_only=True)
class _Options:
    format: str = "parquet"
    rows: int = 65536
    plugins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check.one_of("shards", "format", self.format, ["parquet", "npz"])
        if self.format == "parquet":
            optional("pyarrow.parquet", "tables")


@dataclass(frozen=True)
class Predict(_Options):
    """Classify the samples of shards, or reject them as unknown (-1).

    For each shard a file is written with the columns decision, name, predicted, known,
    margin, invalid, and group and id if its samples have any. If the rejector has
    prediction sets, the column `set` holds lists of classes in Parquet, and a mask of
    samples by classes in ``.npz``.

    Parameters
    ----------
    rejector
        Folder of a saved rejector, or its URL.
    format
        ``"parquet"`` or ``"npz"``.
    rows
        Samples in memory at a time (but a ``.npz`` shard is read as a whole).
    plugins
        As in :meth:`openset.Rejector.load`.
    invalid
        As in :meth:`openset.Rejector.decide`: with ``"error"`` a shard with an invalid
        sample fails; with ``"reject"`` such samples have the decision -1 and are marked
        in the column `invalid`. A run may be continued with another choice.
    """

    rejector: str | Path
    invalid: Invalid = "error"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.one_of("shards.Predict", "invalid", self.invalid, get_args(Invalid))
        if not _io.is_url(self.rejector):  # workers may have another current folder
            object.__setattr__(self, "rejector", Path(self.rejector).resolve())

    @property
    def identity(self) -> dict[str, Any]:
        """The content of the rejector."""
        digest = hashlib.sha256(files.read(self.rejector, files.MANIFEST)).hexdigest()
        return {"kind": "predict", "rejector": digest, "format": self.format}

    def files(self, name: str) -> list[str]:
        """Return the name of the file of a shard."""
        return [f"{name}.{self.format}"]

    def load(self) -> Rejector:
        """Load the rejector."""
        return Rejector.load(self.rejector, plugins=self.plugins)

    def do(self, loaded: Rejector, shard: Path, results: list[Path]) -> int:
        """Write the decisions on a shard."""
        keep: Keep = "keep" if self.invalid == "reject" else "error"
        parts = [
            loaded.columns(loaded.decide(batch, invalid=self.invalid), batch)
            for batch in read(shard, rows=self.rows, invalid=keep)
        ]
        columns = {n: np.concatenate([one[n] for one in parts]) for n in parts[0]}
        n_invalid = int(np.count_nonzero(columns["invalid"]))
        if self.format == "npz":
            _npz.save(results[0], columns)
        else:
            lists = {
                n: [*map(np.flatnonzero, columns[n])] for n in columns.keys() & {"set"}
            }
            write_parquet(results[0], columns | lists)
        return n_invalid


@dataclass(frozen=True)
class Score(_Options):
    """Score labelled shards with detectors that were fitted and saved before.

    For each shard one file of `Scores` per detector is written, in a folder per
    detector.

    Parameters
    ----------
    fitted
        Names, which become those of the folders, and files of `Fitted.save`.
    format
        ``"parquet"`` or ``"npz"``.
    rows
        Samples in memory at a time (but a ``.npz`` shard is read as a whole).
    plugins
        As in :meth:`openset.Rejector.load`.
    """

    fitted: tuple[tuple[str, Path], ...]

    @property
    def identity(self) -> dict[str, Any]:
        """The content of the fitted detectors."""
        digests = {name: _io.sha256(path) for name, path in self.fitted}
        return {"kind": "score", "fitted": digests, "format": self.format}

    def files(self, name: str) -> list[str]:
        """Return the names of the files of a shard, one for each detector."""
        return [f"{one}/{name}.{self.format}" for one, _ in self.fitted]

    def load(self) -> dict[str, Fitted]:
        """Load the detectors."""
        return {n: Fitted.load(path, plugins=self.plugins) for n, path in self.fitted}

    def do(self, loaded: dict[str, Fitted], shard: Path, results: list[Path]) -> int:
        """Write the scores of a shard."""
        parts = [
            detectors.score_all(loaded, one) for one in read(shard, rows=self.rows)
        ]
        for name, file in zip(loaded, results, strict=True):
            Scores.concat([part[name] for part in parts]).save(file)
        return 0


@dataclass(frozen=True)
class Extract:
    """Run a network on shards of images (``.tar``) or arrays (``.npy``).

    For each shard a ``.npz`` of outputs is written. A finished shard has the same
    outputs with ``invalid="keep"`` and without it: a run may go on with the other.

    Parameters
    ----------
    network
        What :func:`openset.extract.load` takes.
    how
        Options of :func:`openset.extract.load`, as pairs of name and value.
    run
        Options of :func:`openset.extract.run`, as pairs.
    """

    network: str
    how: tuple[tuple[str, Any], ...] = ()
    run: tuple[tuple[str, Any], ...] = ()

    @property
    def identity(self) -> dict[str, Any]:
        """What the outputs depend on."""
        kept = {**dict(self.how), **dict(self.run)}
        head = kept.pop("head", None)
        for name in ("batch_size", "device", "invalid"):  # do not matter
            kept.pop(name, None)
        paths = [Path(self.network) / "trained.json", Path(self.network)]
        paths += [Path(head)] if head else []
        files = [_io.sha256(path) for path in paths if path.is_file()]
        about = {"kind": "extract", "network": self.network, "files": files}
        return about | {name: repr(one) for name, one in kept.items()}

    def files(self, name: str) -> list[str]:
        """Return the name of the file of a shard."""
        return [f"{name}.npz"]

    def load(self) -> Any:
        """Load the network."""
        return extract.load(self.network, **dict(self.how))

    def do(self, loaded: Any, shard: Path, results: list[Path]) -> int:
        """Write the outputs of a shard."""
        outputs = extract.run(loaded, shard, progress=False, **dict(self.run))
        outputs.save(results[0])
        return int(outputs.is_invalid.sum())
