"""`Table`: records with the same columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _extras


@dataclass(frozen=True, eq=False)
class Table(Sequence[dict[str, Any]]):
    """Records with the same columns; `to_frame` gives them to pandas.

    Examples
    --------
    >>> table = Table(({"alpha": 0.1, "oosa": 0.7}, {"alpha": 0.9, "oosa": 0.8}))
    >>> table.column("oosa")
    array([0.7, 0.8])
    """

    records: tuple[dict[str, Any], ...]

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, i: Any) -> Any:
        return self.records[i]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.records)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.records[0]) if self.records else ()

    def column(self, name: str) -> NDArray[Any]:
        """Return one column as an array."""
        _check.one_of("Table.column", "name", name, self.columns)
        return np.array([record[name] for record in self.records])

    def to_frame(self) -> Any:
        """Return a pandas table."""
        pd = _extras.optional("Table.to_frame", "pandas", name="tables")
        return pd.DataFrame(list(self.records))
