"""`Score`: the scores of fitted detectors for every shard."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from openset import _io, detectors
from openset.detectors import Fitted
from openset.scores import Scores
from openset.shards import _tables
from openset.shards._shards import Shard, read


@dataclass(frozen=True)
class Score:
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
    format: str = "parquet"
    rows: int = 65536
    plugins: tuple[str, ...] = ()
    caller: str = "openset score"

    def __post_init__(self) -> None:
        _tables.check_format(self.caller, self.format)

    @property
    def identity(self) -> dict[str, Any]:
        """The content of the fitted detectors."""
        digests = {name: _io.sha256(path) for name, path in self.fitted}
        return {"kind": "score", "fitted": digests, "format": self.format}

    def files(self, shard: Shard, out: Path) -> list[Path]:
        """Return the files of a shard, one for each detector."""
        return [out / name / f"{shard.name}.{self.format}" for name, _ in self.fitted]

    def open(self) -> Callable[[Shard, Path], None]:
        """Load the detectors."""
        opened = {
            name: Fitted.load(path, plugins=self.plugins) for name, path in self.fitted
        }
        return partial(self._write, opened)

    def _write(self, opened: dict[str, Fitted], shard: Shard, out: Path) -> None:
        parts: dict[str, list[Scores]] = {name: [] for name in opened}
        for batch in read(shard, rows=self.rows):
            for name, scores in detectors.score_all(opened, batch).items():
                parts[name].append(scores)
        for name, path in zip(opened, self.files(shard, out), strict=True):
            Scores.concat(parts[name]).save(path)
