"""The list of items; one module per paper holds its own."""

from openset import _check
from openset.reproduce import imbalance, openauc, postmax
from openset.reproduce._item import Item

_PAPERS = (openauc, imbalance, postmax)


def items() -> tuple[Item, ...]:
    """Return all items, paper by paper.

    Examples
    --------
    >>> [item.name for item in items()][0]
    'openauc-table1'
    """
    return tuple(item for paper in _PAPERS for item in paper.ITEMS)


def get(name: str) -> Item:
    """Return an item by its name."""
    table = {item.name: item for item in items()}
    _check.one_of("reproduce", "name", name, list(table))
    return table[name]
