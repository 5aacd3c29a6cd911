"""`Predict`: the decisions of a rejector for every shard."""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

from openset import _check, _io
from openset._urls import is_url
from openset.outputs import Invalid as Keep
from openset.rejector import Invalid, Rejector
from openset.rejector.files import MANIFEST
from openset.rejector.files import read as read_file
from openset.shards import _tables
from openset.shards._run import INVALID
from openset.shards._shards import Shard, read


@dataclass(frozen=True)
class Predict:
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
        in the column `invalid`, and ``invalid/SHARD.json`` says how many there are. A
        run may be continued with another choice.
    """

    rejector: str | Path
    format: str = "parquet"
    rows: int = 65536
    plugins: tuple[str, ...] = ()
    caller: str = "openset predict"
    invalid: Invalid = "error"

    def __post_init__(self) -> None:
        _check.one_of(self.caller, "invalid", self.invalid, get_args(Invalid))
        if not is_url(self.rejector):  # workers may have another current folder
            object.__setattr__(self, "rejector", Path(self.rejector).resolve())
        _tables.check_format(self.caller, self.format)

    @property
    def identity(self) -> dict[str, Any]:
        """The content of the rejector."""
        digest = hashlib.sha256(read_file(self.rejector, MANIFEST)).hexdigest()
        return {"kind": "predict", "rejector": digest, "format": self.format}

    def files(self, shard: Shard, out: Path) -> list[Path]:
        """Return the file of a shard."""
        return [out / f"{shard.name}.{self.format}"]

    def open(self) -> Callable[[Shard, Path], None]:
        """Load the rejector."""
        return partial(self._write, self.load())

    def load(self) -> Rejector:
        """Return the rejector."""
        return Rejector.load(self.rejector, plugins=self.plugins)

    def _write(self, opened: Rejector, shard: Shard, out: Path) -> None:
        (path,) = self.files(shard, out)
        record = out / INVALID / f"{shard.name}.json"
        record.unlink(missing_ok=True)  # of other data, before they were replaced
        _tables.write(path, self._columns(opened, shard, record))

    def _columns(
        self, opened: Rejector, shard: Shard, record: Path
    ) -> Iterator[_tables.Columns]:
        keep: Keep = "keep" if self.invalid == "reject" else "error"
        n, start = 0, 0
        first: dict[str, int | str] = {}
        for batch in read(shard, rows=self.rows, invalid=keep):
            decisions = opened.decide(batch, invalid=self.invalid)
            if decisions.n_invalid and not n:
                row = int(decisions.is_invalid.argmax())
                first = {"row": start + row}
                if batch.ids is not None:
                    first["id"] = str(batch.ids[row])
            n, start = n + decisions.n_invalid, start + len(batch)
            yield opened.columns(decisions, batch)
        if n:  # before the file of decisions appears: the shard is done then
            text = json.dumps({"shard": shard.name, "n": n, **first}, indent=1)
            _io.put(record, text)
