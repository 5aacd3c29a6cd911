"""Published numbers: JSON files with paper, table and source."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from openset.reproduce._table import Measured


@dataclass(frozen=True, kw_only=True)
class Published:
    """The numbers of one published table.

    `values` maps row and column to a number; `source` says where they stand.
    """

    name: str
    paper: str
    number: str
    source: str
    unit: str
    values: Mapping[str, Mapping[str, Measured]]

    @property
    def rows(self) -> tuple[str, ...]:
        """Names of the rows."""
        return tuple(self.values)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in the order of the first row."""
        return tuple(dict.fromkeys(c for row in self.values.values() for c in row))


def published(name: str) -> Published:
    """Read ``published/NAME.json`` of this package.

    An entry is a number, or a list of a number and its standard deviation.

    Examples
    --------
    >>> published("openauc-table2").values["CE+"]["CIFAR10"]
    Measured(value=88.1, spread=1.7, n=None)
    """
    path = resources.files("openset.reproduce") / "published" / f"{name}.json"
    data = json.loads(path.read_text("utf-8"))
    values = {
        row: {
            column: Measured(*one) if isinstance(one, list) else Measured(one)
            for column, one in of_row.items()
        }
        for row, of_row in data["values"].items()
    }
    about = {key: data[key] for key in ("paper", "number", "source", "unit")}
    return Published(name=name, values=values, **about)
