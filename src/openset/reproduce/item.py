"""`run`: compute a table or figure of a paper; write its results, page and figures."""

import functools
import json
import pkgutil
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Self

from openset import _check, _io, runs

_HERE = resources.files("openset.reproduce")


@dataclass(frozen=True)
class Measured:
    """A number, with its standard deviation and the number of values behind it.

    Examples
    --------
    >>> print(Measured.of([0.8, 0.9]).text(2))
    0.85 ± 0.07
    """

    value: float
    spread: float | None = None
    n: int | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Return mean and standard deviation (n - 1) of some values."""
        spread = stdev(values) if len(values) > 1 else None
        return cls(fmean(values), spread, len(values))

    def text(self, digits: int) -> str:
        """Return the number as tables show it."""
        shown = f"{self.value:.{digits}f}"
        return shown if self.spread is None else f"{shown} ± {self.spread:.{digits}f}"


Entry = str | int | float | bool | Measured | None


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: headings, rows of entries, decimals of numbers, a sentence below.

    Examples
    --------
    >>> row = ("softmax", Measured(0.81, 0.02), 0.8)
    >>> table = Table(title="Accuracy", columns=("", "paper", "ours"), rows=[row])
    >>> print(table.markdown())
    |  | paper | ours |
    |---|---:|---:|
    | softmax | 0.810 ± 0.020 | 0.800 |
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    digits: int = 3
    note: str = ""

    def texts(self) -> list[list[str]]:
        """Return the entries as text."""
        return [[_text(entry, self.digits) for entry in row] for row in self.rows]

    def markdown(self) -> str:
        """Return the table in Markdown, without its title and note."""
        columns = zip(*self.rows, strict=True)
        ruler = [
            "---" if all(isinstance(entry, str) for entry in column) else "---:"
            for column in columns
        ]
        lines = [f"| {' | '.join(self.columns)} |", f"|{'|'.join(ruler)}|"]
        return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in self.texts())])


def _text(entry: Entry, digits: int) -> str:
    match entry:
        case None:
            return ""
        case bool():  # before int, which it also is
            return "yes" if entry else "no"
        case Measured():
            return entry.text(digits)
        case float():
            return f"{entry:.{digits}f}"
    return str(entry)


@dataclass(frozen=True, kw_only=True, eq=False)
class Content:
    """What an item found: tables, figures by name, remarks."""

    tables: Sequence[Table] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def markdown(self) -> str:
        """Return tables, figures and remarks in Markdown."""
        parts = []
        for table in self.tables:
            parts += [f"**{table.title}**", table.markdown(), table.note]
        parts += [f"![{name}]({name}.png)" for name in self.figures]
        parts += ["\n".join(f"- {note}" for note in self.notes)]
        return "\n\n".join(part for part in parts if part)


@dataclass(frozen=True, kw_only=True)
class Item:
    """One table or figure of a paper: what it is, what it needs, how long it takes.

    `sets` are the data sets it reads, `also` what else it needs; `make` names the
    function that computes it, and `options` are the function's.
    """

    name: str
    paper: str
    number: str
    what: str
    make: str
    sets: Sequence[str] = ()
    also: str = "nothing (digits), or --outputs DIR"
    time: str = "seconds"
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def needs(self) -> str:
        """Data sets, extras and machines that it needs."""
        return ", ".join([*self.sets, self.also])


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is computed, where it reads and writes, and options of :func:`bench.run`."""

    item: Item
    out: Path
    root: str | Path | None = None
    outputs: str | Path | None = None
    running: Mapping[str, Any] = field(default_factory=dict)

    def content(
        self, *rows: Sequence[Sequence[Entry]], figure: Any = None, note: str = ""
    ) -> Content:
        """Return rows as the item's tables, whose titles and columns are given."""
        options = self.item.options
        pairs = zip(rows, options["tables"], strict=True)
        return Content(
            tables=[Table(rows=of_table, **about) for of_table, about in pairs],
            figures={} if figure is None else {self.item.name: figure},
            notes=[*filter(None, [note]), *options.get("notes", ())],
        )


@functools.cache
def _table() -> Mapping[str, Item]:
    found = {}
    papers = tomllib.loads((_HERE / "items.toml").read_text("utf-8"))
    for paper, listed in papers.items():
        for name, own in listed.items():
            about = listed.get(own.get("like"), {}) | own
            plain = {k: about[k] for k in about if k in Item.__dataclass_fields__}
            options = {k: about[k] for k in about if k not in plain}
            found[name] = Item(name=name, paper=paper, **plain, options=options)
    return found


def items() -> tuple[Item, ...]:
    """Return all items, paper by paper.

    Examples
    --------
    >>> items()[0].name
    'openauc-table1'
    """
    return tuple(_table().values())


def published(name: str) -> Mapping[str, Mapping[str, Measured]]:
    """Return the numbers of a published table: by row, then by column.

    ``published/NAME.json`` also says of which paper and table they are.

    Examples
    --------
    >>> published("openauc-table2")["CE+"]["CIFAR10"]
    Measured(value=88.1, spread=1.7, n=None)
    """
    text = (_HERE / "published" / f"{name}.json").read_text("utf-8")
    return {
        row: {
            column: Measured(*(one if isinstance(one, list) else [one]))
            for column, one in of_row.items()
        }
        for row, of_row in json.loads(text)["values"].items()
    }


def run(
    name: str,
    out: str | Path,
    *,
    root: str | Path | None = None,
    outputs: str | Path | None = None,
    **running: Any,
) -> Content:
    """Compute an item; write ``results.json``, ``page.md`` and its figures.

    A second call in the same folder continues the first: finished cells of a study and
    scores are not computed again.

    Parameters
    ----------
    name
        An item, see :func:`items`.
    out
        Folder of the item: its study runs and files.
    root
        Folder of the data sets; None: the default one.
    outputs
        Folder of saved outputs of networks, for the items of the PostMax paper; None: a
        small network is trained on digits.
    running
        Options of :func:`openset.bench.run`: `backend`, `jobs`, …

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = run("openauc-table1", folder)
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['page.md', 'results.json']
    """
    _check.one_of("reproduce", "name", name, list(_table()))
    item, out, started = _table()[name], Path(out), time.time()
    out.mkdir(parents=True, exist_ok=True)
    make = pkgutil.resolve_name(f"openset.reproduce.{item.make}")
    given = Settings(item=item, out=out, root=root, outputs=outputs, running=running)
    found: Content = make(given)
    for title, figure in found.figures.items():
        draw = getattr(figure, "plot", None) or figure.savefig  # ours, or matplotlib's
        draw(out / f"{title}.png")
    folder = "" if outputs is None else f" --outputs {Path(outputs).name}"
    about = {key: getattr(item, key) for key in ("name", "paper", "number", "what")}
    result = about | {
        "command": f"openset reproduce {name}{folder}",
        "tables": [asdict(table) for table in found.tables],
        "figures": [f"{title}.png" for title in found.figures],
        "notes": list(found.notes),
        "provenance": runs.provenance(started),
    }
    page = f"# {item.paper}: {item.number}\n\n{item.what}\n\n{found.markdown()}\n"
    _io.put(out / "page.md", page)
    text = json.dumps(result, indent=1, ensure_ascii=False)
    _io.put(out / "results.json", f"{text}\n")  # last: the item is finished
    return found
