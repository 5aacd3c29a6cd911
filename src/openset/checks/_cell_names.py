"""Readable names of the cells of a run folder."""

from openset.runs import Cell

_WHO = ("model", "method", "detector")
_WHERE = ("protocol", "repeat", "split", "seed")


def who(cell: Cell) -> str:
    """Return what was measured: network, training method and detector."""
    return ", ".join(str(cell.key[n]) for n in _WHO if cell.key.get(n))


def label(cell: Cell) -> str:
    """Return a readable name of a cell, with the id its files have."""
    place = [
        str(cell.key[n]) if n == "protocol" else f"{n} {cell.key[n]}"
        for n in _WHERE
        if n in cell.key
    ]
    return f"{cell.id} ({', '.join([who(cell), *place])})"
