"""A progress bar for long work."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import track

T = TypeVar("T")


def bar(
    items: Iterable[T], title: str, *, total: int | None = None, show: bool = True
) -> Iterator[T]:
    """Iterate over items with a progress bar, if standard error is a terminal.

    The bar disappears at the end. Standard output is used for results only.
    """
    if not show:  # serving calls this for every request: make no console
        yield from items
        return
    console = Console(stderr=True)
    is_hidden = not console.is_terminal
    yield from track(
        items,
        title,
        total=total,
        console=console,
        transient=True,
        disable=is_hidden,
    )
