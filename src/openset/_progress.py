"""A bar for work that takes a while."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console
from rich.progress import track

T = TypeVar("T")


def bar(
    items: Iterable[T], title: str, *, total: int | None = None, show: bool = True
) -> Iterator[T]:
    """Go through items, and show how far it is, if there is a terminal to show it on.

    It is gone when all is done. Standard output belongs to results.
    """
    if not show:  # as serving does, thousands of times a second: no console is made
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
