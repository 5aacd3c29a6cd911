"""Names of the cells of a run folder, for people."""

from openset.runs import Cell

_WHO = ("model", "method", "detector")
_WHERE = ("protocol", "repeat", "seed")


def who(cell: Cell) -> str:
    """Say what was measured: network, training and detector."""
    return ", ".join(str(cell.key[n]) for n in _WHO if cell.key.get(n))


def label(cell: Cell) -> str:
    """Name a cell for people; the id tells which files."""
    place = [
        str(cell.key[n]) if n == "protocol" else f"{n} {cell.key[n]}"
        for n in _WHERE
        if n in cell.key
    ]
    return f"{cell.id} ({', '.join([who(cell), *place])})"
