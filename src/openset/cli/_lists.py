"""Plain tables and shortened lists for the terminal."""

from collections.abc import Sequence

from rich import box
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
