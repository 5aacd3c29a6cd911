"""Plain tables and shortened lists for the terminal."""

from collections.abc import Sequence

from rich import box
from rich.cells import cell_len
from rich.table import Table


def plain_table(title: str) -> Table:
    """Make a table without a frame, with a left-aligned title."""
    # Little space between columns: a terminal may have only 80.
    return Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )


def column_widths(rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """Return widths of columns that break no word, if the words have room at all.

    The first row are the heads. What room is left goes, a character at a time, to the
    column whose cells have most lines, and then to the one whose head has most.

    Examples
    --------
    >>> column_widths([["metric", "value"], ["open-set accuracy", "0.81"]], 40)
    [17, 5]
    >>> column_widths([["metric", "value"], ["open-set accuracy", "0.81"]], 18)
    [13, 5]
    """
    columns = list(zip(*rows, strict=True))
    widths = [
        max((cell_len(word) for cell in cells for word in cell.split()), default=1)
        for cells in columns
    ]
    heads = [
        max(cell_len(cells[0]), width)
        for cells, width in zip(columns, widths, strict=True)
    ]
    bodies = [max(map(cell_len, [*cells[1:], ""])) for cells in columns]

    def lines(i: int) -> tuple[float, float]:
        return max(1, bodies[i] / widths[i]), heads[i] / widths[i]

    for _ in range(room - sum(widths)):
        widest = max(range(len(widths)), key=lines)
        if lines(widest) <= (1, 1):
            break
        widths[widest] += 1
    return widths


def percent(level: float) -> str:
    """Format a confidence level as a percentage.

    Examples
    --------
    >>> percent(0.95), percent(0.999)
    ('95%', '99.9%')
    """
    return f"{100 * level:g}%"


def few(values: Sequence[object], n: int) -> str:
    """Format a list, shortened to `n` entries.

    Examples
    --------
    >>> few(["cat", "dog", "fox"], 2)
    'cat, dog, … (3)'
    """
    shown = ", ".join(map(str, values[:n]))
    return shown if len(values) <= n else f"{shown}, … ({len(values)})"
