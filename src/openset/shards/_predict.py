"""`Predict`: the decisions of a rejector for every shard."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from openset._urls import is_url
from openset.rejector import Rejector, manifest_of
from openset.shards import _tables
from openset.shards._shards import Shard, read


@dataclass(frozen=True)
class Predict:
    """Classify the samples of shards, or reject them as unknown (-1).

    For each shard a file is written with the columns decision, predicted, known,
    margin, and group and id if its samples have any. If the rejector has prediction
    sets, the column `set` holds lists of classes in Parquet, and a mask of samples by
    classes in ``.npz``.

    Parameters
    ----------
    rejector
        Folder of a saved rejector, or its URL.
    format
        ``"parquet"`` or ``"npz"``.
    rows
        Samples in memory at a time (but a ``.npz`` shard is read as a whole).
    plugins, key
        As in :meth:`openset.Rejector.load`.
    """

    rejector: str | Path
    format: str = "parquet"
    rows: int = 65536
    plugins: tuple[str, ...] = ()
    key: bytes | None = None
    caller: str = "openset predict"

    def __post_init__(self) -> None:
        if not is_url(self.rejector):  # workers may have another current folder
            object.__setattr__(self, "rejector", Path(self.rejector).resolve())
        _tables.check_format(self.caller, self.format)

    @property
    def identity(self) -> dict[str, Any]:
        """The content of the rejector."""
        digest = hashlib.sha256(manifest_of(self.rejector)).hexdigest()
        return {"kind": "predict", "rejector": digest, "format": self.format}

    def files(self, shard: Shard, out: Path) -> list[Path]:
        """Return the file of a shard."""
        return [out / f"{shard.name}.{self.format}"]

    def open(self) -> Callable[[Shard, Path], None]:
        """Load the rejector."""
        return partial(self._write, self.load())

    def load(self) -> Rejector:
        """Return the rejector."""
        return Rejector.load(self.rejector, plugins=self.plugins, key=self.key)

    def _write(self, opened: Rejector, shard: Shard, out: Path) -> None:
        (path,) = self.files(shard, out)
        _tables.write(path, self._columns(opened, shard))

    def _columns(self, opened: Rejector, shard: Shard) -> Iterator[_tables.Columns]:
        for batch in read(shard, rows=self.rows):
            decisions = opened.decide(batch)
            scores = decisions.scores
            named = {
                "group": scores.groups, "id": scores.ids, "set": decisions.sets
            }  # fmt: skip
            yield {
                "decision": decisions.labels,
                "predicted": scores.predicted,
                "known": scores.known,
                "margin": opened.margins(scores),
                **{name: one for name, one in named.items() if one is not None},
            }
