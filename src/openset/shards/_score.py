"""`Score`: the scores of fitted detectors for every shard."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from openset import _io, detectors
from openset.detectors import Fitted
from openset.outputs import Outputs
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
        failed: dict[str, Exception] = {}
        for batch in read(shard, rows=self.rows):
            left = {name: one for name, one in opened.items() if name not in failed}
            for name, scores in _scored(left, batch, failed).items():
                parts[name].append(scores)
        for name, path in zip(opened, self.files(shard, out), strict=True):
            if name not in failed:
                Scores.concat(parts[name]).save(path)
        if failed:  # the others are written; this shard is tried again next time
            msg = "; ".join(f"{name}: {error}" for name, error in failed.items())
            raise ValueError(msg)


def _scored(
    opened: dict[str, Fitted], batch: Outputs, failed: dict[str, Exception]
) -> dict[str, Scores]:
    """Score in one pass; if a detector fails, each in a pass of its own."""
    try:
        return detectors.score_all(opened, batch)
    except ValueError as error:
        if len(opened) == 1:
            failed |= dict.fromkeys(opened, error)
            return {}
    found: dict[str, Scores] = {}
    for name, one in opened.items():
        found |= _scored({name: one}, batch, failed)
    return found
