"""`Table`: what an item shows, as plain data that is saved, rendered and compared."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from openset import _check


@dataclass(frozen=True)
class Measured:
    """A number, with its standard deviation and the number of values behind it.

    Examples
    --------
    >>> Measured.of([0.8, 0.9]).text(2)
    '0.85 ± 0.07'
    """

    value: float
    spread: float | None = None
    n: int | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Return mean and standard deviation (n - 1) of some values."""
        found = [float(value) for value in values]
        if not found:
            rule = "at least one number"
            raise ValueError(
                _check.must(rule, caller="Measured.of", name="values", got="none")
            )
        n, mean = len(found), math.fsum(found) / len(found)
        if n == 1:
            return cls(mean, None, 1)
        square = math.fsum((value - mean) ** 2 for value in found)
        return cls(mean, math.sqrt(square / (n - 1)), n)

    def text(self, digits: int) -> str:
        """Return the number as tables show it."""
        shown = f"{self.value:.{digits}f}"
        return shown if self.spread is None else f"{shown} ± {self.spread:.{digits}f}"


Entry = str | int | float | bool | Measured | None


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: columns, and rows of text, numbers, yes/no and `Measured` entries.

    Parameters
    ----------
    title
        One line above the table.
    columns
        Headings.
    rows
        As many entries each as there are columns; None is an empty entry.
    digits
        Decimals of numbers.
    note
        A sentence under the table.

    Examples
    --------
    >>> made = Table(
    ...     title="Accuracy",
    ...     columns=("method", "published", "ours"),
    ...     rows=(("softmax", Measured(0.81, 0.02), 0.8),),
    ...     digits=2,
    ... )
    >>> print(made.markdown())
    | method | published | ours |
    |---|---:|---:|
    | softmax | 0.81 ± 0.02 | 0.80 |
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    digits: int = 3
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                rule = f"as long as columns ({len(self.columns)})"
                raise ValueError(
                    _check.must(rule, caller="Table", name="a row", got=len(row))
                )

    def texts(self) -> list[list[str]]:
        """Return the entries as text."""
        return [[_text(entry, self.digits) for entry in row] for row in self.rows]

    def markdown(self) -> str:
        """Return the table in Markdown, without its title and note."""
        is_text = [
            all(isinstance(row[i], str) for row in self.rows)
            for i in range(len(self.columns))
        ]
        lines = [
            "| " + " | ".join(self.columns) + " |",
            "|" + "|".join("---" if text else "---:" for text in is_text) + "|",
        ]
        lines += ["| " + " | ".join(row) + " |" for row in self.texts()]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "title": self.title,
            "columns": list(self.columns),
            "rows": [[_plain(entry) for entry in row] for row in self.rows],
            "digits": self.digits,
            "note": self.note,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` returned."""
        return cls(
            title=data["title"],
            columns=tuple(data["columns"]),
            rows=tuple(
                tuple(Measured(**one) if isinstance(one, dict) else one for one in row)
                for row in data["rows"]
            ),
            digits=data["digits"],
            note=data["note"],
        )


def _text(entry: Entry, digits: int) -> str:
    if entry is None:
        return ""
    if isinstance(entry, bool):  # before int, which it also is
        return "yes" if entry else "no"
    if isinstance(entry, Measured):
        return entry.text(digits)
    return f"{entry:.{digits}f}" if isinstance(entry, float) else str(entry)


def _plain(entry: Entry) -> Any:
    if isinstance(entry, Measured):
        return {"value": entry.value, "spread": entry.spread, "n": entry.n}
    return entry
