"""`Item`: one table or figure of a paper, and how it is computed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openset.reproduce._table import Table


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Where an item reads data, writes results and runs; the options of the command.

    Parameters
    ----------
    out
        Folder of the item: its study runs and files.
    root
        Folder of the data sets; None: the default one.
    outputs
        Folder of saved outputs of networks, for the items that read such a folder.
    backend, address, jobs
        As in :func:`openset.bench.run`.
    watch
        Progress of a study, as in :func:`openset.bench.run`.
    """

    out: Path
    root: Path | None = None
    outputs: Path | None = None
    backend: str = "loky"
    address: str | None = None
    jobs: int = -1
    watch: Any = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Content:
    """What an item found: tables, figures by name, and remarks.

    A figure is a `report.Display` or a figure of matplotlib.
    """

    tables: tuple[Table, ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Item:
    """One table or figure of a paper.

    Parameters
    ----------
    name
        What users type, e.g. ``openauc-table2``.
    paper
        The paper, in short.
    number
        The number in the paper, e.g. ``Table 2``.
    what
        One line about what is computed.
    needs
        Data sets and extras; "nothing" if it runs anywhere.
    time
        How long it takes, and on what.
    make
        Computes it. A second call in the same folder must continue, not repeat.
    """

    name: str
    paper: str
    number: str
    what: str
    needs: str
    time: str
    make: Callable[[Settings], Content]
