"""`Results`: one tidy row per measured number."""

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from openset import _check, _io, _optional
from openset._types import ArtefactError


@dataclass(frozen=True, kw_only=True)
class Result:
    """One measured number: metric, model, detector, protocol and number of samples.

    `repeat` numbers the random draws of a protocol's classes, `seed` the training runs
    on one draw, `split` the test splits of one network; `method` is the training
    method, if there is one.
    """

    protocol: str = ""
    repeat: int = 0
    split: int = 0
    model: str = ""
    method: str = ""
    detector: str = ""
    seed: int = 0
    metric: str
    value: float
    n: int = 0

    def __post_init__(self) -> None:
        # A plain float, so that files and tables keep its full precision.
        object.__setattr__(self, "value", _check.number("Result", "value", self.value))


_COLUMNS = tuple(field.name for field in fields(Result))
_KINDS = {"repeat": int, "split": int, "seed": int, "n": int, "value": float}
_BETTER = "better"  # column of a file, if there are metrics of others


class Results:
    """A table of results that can be filtered and saved.

    `better` says whether ``"higher"`` or ``"lower"`` is better, for metrics that are
    not in the table of metrics.

    Examples
    --------
    >>> table = Results(
    ...     [
    ...         Result(detector="msp", seed=0, metric="auroc", value=0.8),
    ...         Result(detector="msp", seed=1, metric="auroc", value=0.9),
    ...         Result(detector="energy", seed=0, metric="auroc", value=0.7),
    ...         Result(detector="energy", seed=1, metric="auroc", value=0.6),
    ...     ]
    ... )
    >>> table.where(detector="msp").column("value")
    array([0.8, 0.9])
    """

    def __init__(
        self, rows: Iterable[Result], *, better: Mapping[str, str] | None = None
    ) -> None:
        self._rows = tuple(rows)
        self.better = dict(better or {})

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Result]:
        return iter(self._rows)

    def __repr__(self) -> str:
        detectors = len({row.detector for row in self._rows})
        metrics = len({row.metric for row in self._rows})
        return f"Results({len(self)} rows, {detectors} detectors, {metrics} metrics)"

    def __add__(self, other: "Results") -> "Results":
        better = self.better | other.better
        return Results((*self._rows, *other._rows), better=better)

    def where(self, **wanted: Any) -> Self:
        """Return the rows whose columns have these values."""
        keep = [
            row
            for row in self._rows
            if all(getattr(row, name) == value for name, value in wanted.items())
        ]
        return type(self)(keep, better=self.better)

    def column(self, name: str) -> NDArray[Any]:
        """Return one column as an array."""
        return np.array([getattr(row, name) for row in self._rows])

    def to_frame(self) -> Any:
        """Return a pandas table."""
        pd = _optional.optional("pandas", "tables")
        return pd.DataFrame(list(self._rows), columns=list(_COLUMNS))

    def save(self, path: str | Path) -> Path:
        """Write a ``.csv`` file; floats keep their exact value."""
        path = Path(path)
        _check.ending("Results.save", path, [".csv"])
        columns = {name: self.column(name).tolist() for name in _COLUMNS}
        if self.better:
            metrics = columns["metric"]
            columns[_BETTER] = [self.better.get(one, "") for one in metrics]
        _io.put(path, _io.csv_text(columns, zip(*columns.values(), strict=True)))
        return path

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what :meth:`save` wrote."""
        path = Path(path)
        rows, better = [], {}
        # Spreadsheets put a byte-order mark first; "-sig" reads files with and without.
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream)
            try:
                for record in reader:
                    if way := record.pop(_BETTER, ""):
                        better[record["metric"]] = way
                    cells = {n: _KINDS.get(n, str)(v) for n, v in record.items()}
                    rows.append(Result(**cells))
            except (ValueError, TypeError, KeyError, csv.Error) as error:
                msg = f"Results.load: {path} is not a table of results ({error})"
                raise ArtefactError(msg) from error
        return cls(rows, better=better)
