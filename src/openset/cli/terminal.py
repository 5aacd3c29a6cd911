"""What commands print: sentences, tables, JSON; and the tables they write."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

import openset
from openset import _check, _io
from openset._safe_text import visible

Rows = Sequence[Mapping[str, Any]]
"""Records of equal keys: the rows of a table."""


class SafeConsole(Console):
    """Shows control characters of names instead of sending them to the terminal.

    Names of classes, groups, samples and files may come from anywhere, and an escape
    sequence in one could move the cursor, or change the title of the window.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render everything as text, but for what rich itself sends."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)


OUT, ERR = SafeConsole(), SafeConsole(stderr=True)


def number(text: str, style: str = "") -> Text:
    """Return a cell with a number as text, such as 0.91 ±0.02."""
    return Text(text, style, justify="right")


def say(text: object, *, style: str = "", to: Console = OUT) -> None:
    """Print a sentence; in a file it is one line. Brackets in names are no markup."""
    to.print(Text(str(text), style=style), soft_wrap=not to.is_terminal)


def warn(text: object) -> None:
    """Print a sentence on standard error, in yellow."""
    say(text, style="yellow", to=ERR)


def table(rows: Iterable[Mapping[str, Any]], title: str = "", bold: int = -1) -> None:
    """Print records of equal keys; the row `bold` is highlighted.

    Numbers are never wrapped or cut, so that names are folded in narrow terminals.
    """
    records = [{name: _cell(value) for name, value in row.items()} for row in rows]
    if title:  # not that of rich's table, which wraps it at the table's width
        say(title, style="italic")
    numeric, least, widths = [], [], []
    for name in records[0] if records else ():
        cells = [row[name] for row in records]
        body = max(cell_len(line) for one in cells for line in one.plain.split("\n"))
        word = max(map(cell_len, name.split()), default=0)
        numeric.append(any(one.justify == "right" for one in cells))
        least.append(max(word, body if numeric[-1] else min(body, 14)))
        widths.append(max(body, cell_len(name)))
    while sum(widths) + 2 * len(widths) > OUT.width and max(widths) > 1:
        # The widest shrinks, as long as there is one that can without harm.
        order = [(w > n, w) for w, n in zip(widths, least, strict=True)]
        widths[order.index(max(order))] -= 1
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name, right, width in zip(
        records[0] if records else (), numeric, widths, strict=True
    ):
        justify: Any = "right" if right else "left"
        shown.add_column(Text(name), justify=justify, width=width, overflow="fold")
    for i, row in enumerate(records):
        shown.add_row(*row.values(), style="bold green" if i == bold else None)
    OUT.print(shown)


def pick(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return some entries of a record, in this order.

    Examples
    --------
    >>> pick({"n": 3, "p_value": 0.5, "urr": 1.0}, "p_value", "n")
    {'p value': 0.5, 'n': 3}
    """
    return {name.replace("_", " "): row[name] for name in names}


def print_json(document: Any) -> None:
    """Print a document as JSON.

    Examples
    --------
    >>> print_json({"threshold": float("-inf")})
    {
      "threshold": "-inf"
    }
    """
    typer.echo(json_text(document))


def json_text(document: Any) -> str:
    """Return JSON; numbers that JSON does not have become text."""
    return json.dumps(_finite(document), indent=2, allow_nan=False)


def deliver(
    out: Path | None, rows: Rows, document: Any, shown: Rows | str | None = None
) -> None:
    """Write .json, .csv or .tex, by the ending, and say so; without a file print JSON.

    `rows` have full precision, for CSV; `shown` (default: `rows`) are those of a
    LaTeX table, or its text.
    """
    if out is None:
        print_json(document)
        return
    _check.ending("openset", out, [".json", ".csv", ".tex"])
    if out.suffix == ".json":
        text = json_text(document) + "\n"
    elif out.suffix == ".csv":
        text = openset.stats.tables.csv_text(rows)
    else:
        text = shown if isinstance(shown, str) else _latex(shown or rows)
    _io.put(out, text)
    say(f"wrote {out}")


def _latex(rows: Rows) -> str:
    tables = openset.stats.tables

    def cell(value: Any) -> str:
        text = tables.latex_text(_cell(value).plain)
        return rf"\textbf{{{text}}}" if "bold" in str(_cell(value).style) else text

    cells = [list(map(cell, row.values())) for row in rows]
    return visible(tables.latex(list(map(tables.latex_text, rows[0])), cells))


def _cell(value: Any) -> Text:
    """Return a value as it is shown.

    Examples
    --------
    >>> [_cell(v).plain for v in (None, True, 3, 0.51239, 1e-7, 12345.6, ["a", "b"])]
    ['–', 'yes', '3', '0.5124', '1e-07', '1.2e+04', 'a, b']
    """
    if isinstance(value, Text):
        return value
    if isinstance(value, float):
        is_plain = value == 0 or 1e-4 <= abs(value) < 1e4
        return number(f"{value:.4f}" if is_plain else f"{value:.2g}")
    if isinstance(value, list | tuple | set):
        return Text(", ".join(map(str, value)))
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, int):
        return number(str(value))
    return Text("–" if value is None else str(value))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    is_number = isinstance(value, float) and not math.isfinite(value)
    return str(value) if is_number else value
