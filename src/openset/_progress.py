"""A progress bar for long work."""

from collections.abc import Iterable
from typing import TypeVar

from rich.console import Console
from rich.progress import track

T = TypeVar("T")


def bar(
    items: Iterable[T], title: str, *, total: int | None = None, show: bool = True
) -> Iterable[T]:
    """Iterate over items with a progress bar, if standard error is a terminal.

    The bar disappears at the end. Standard output is used for results only.
    """
    # Serving calls this for every request: no console is made if none is shown.
    if not (show and (console := Console(stderr=True)).is_terminal):
        return items
    return track(items, title, total=total, console=console, transient=True)
