"""Benchmarks by name on the command line: list, describe, score."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from openset import _check
from openset.cli._console import ERRORS, OUT
from openset.cli._detector_options import recipe
from openset.cli._lists import plain_table

if TYPE_CHECKING:
    from openset.bench import named

_ARROWS = {"higher": " ↑", "lower": " ↓", "neither": ""}
_NAMES, _NUMBER = 24, 6  # width of names, with room after them; of "100.00"
_RESULTS, _TABLE = "results.csv", "table.md"


def is_name(study: Path) -> bool:
    """Return whether STUDY names a benchmark; a file of that name goes first."""
    from openset.bench import named  # noqa: PLC0415  # the extra may be missing

    text = str(study)
    if study.is_file() or study.suffix in {".yaml", ".yml", ".toml"}:
        return False
    is_word = study.name == text and not study.suffix and not study.exists()
    if (":" in text or is_word) and text not in named.names():
        msg = _check.must(
            f"a study file, or one of {', '.join(map(repr, named.names()))}",
            caller="openset bench",
            name="STUDY",
            got=f"{text}, and there is no such file",
            remedy=_check.near(text, named.names()),
        )
        raise ValueError(msg)
    return text in named.names()


def list_all() -> None:
    """Print one line per benchmark."""
    from openset.bench import named  # noqa: PLC0415

    table = plain_table("Benchmarks")
    for head in ("name", "known", "unknown"):
        table.add_column(head, overflow="fold", no_wrap=head == "name")
    for name in named.names():
        one = named.load(name)
        groups = [
            f"{group.name}: {', '.join(group.data)}"
            for group in one.groups
            if group.role == "unknown"
        ]
        table.add_row(*map(escape, (name, one.known, "; ".join(groups))))
    OUT.print(table)
    _say("openset bench NAME describes one, and the files of outputs it needs.")


def describe(name: str) -> None:
    """Print a definition, and the files of outputs it needs."""
    from openset.bench import named  # noqa: PLC0415

    one = named.load(name)
    table = plain_table(escape(f"{one.title} ({name})"))
    table.add_column("file of outputs")
    table.add_column("what it is", overflow="fold")
    table.add_row("train.npz", "training samples, for detectors that are fitted")
    table.add_row("known.npz", escape(f"test samples of {one.known}"))
    for group in one.groups:
        for data, what in group.data.items():
            more = ", known classes (full spectrum)" * (group.role == "shifted")
            table.add_row(escape(f"{group.name}/{data}.npz"), escape(what + more))
    OUT.print(table)
    kinds = "; ".join(row.short for row in one.metrics)
    for head, text in (
        ("Metrics", kinds),
        ("Conventions", one.conventions),
        ("Reference", one.reference),
        ("Data", one.source),
        ("Status", one.status),
        ("Published rows", one.published_source),
    ):
        _say(f"{head}: {text.strip()}")
    for data, found in one.lists().items():
        _say(
            f"Images of {data}: {found.n_images} of {found.of}. "
            f"openset extract NETWORK FOLDER --list {name}/{data}"
        )
    _say(f"Score outputs: openset bench {name} --outputs FOLDER --out DIR")


def pack(name: str, outputs: Path, path: Path) -> None:
    """Write the outputs to one file."""
    from openset.bench import named  # noqa: PLC0415

    done = named.pack(named.load(name), outputs, path)
    _say(f"{done}: {done.stat().st_size / 1e6:.1f} MB. To score it: --outputs {done}")


def score(
    name: str,
    outputs: Path,
    out: Path,
    detectors: Sequence[str] | None,
    *,
    partial: bool,
) -> None:
    """Score outputs, print the table and save the results."""
    from openset.bench import named  # noqa: PLC0415

    one = named.load(name)
    recipes = {text: recipe(text) for text in detectors} if detectors else None
    with (
        named.folder_of(one, outputs) as folder,
        ERRORS.status(escape(f"scoring {name}")),
    ):
        found = named.evaluate(one, folder, recipes, partial=partial)
    found.results.save(out / _RESULTS)
    found.save_markdown(out / _TABLE)
    OUT.print(*_shown(found), sep="\n")
    for note in found.notes():
        _say(note)
    _say(f"All numbers: {out / _RESULTS}; this table: {out / _TABLE}")


def _shown(found: "named.Table") -> Iterator[Table]:
    """Yield one table; in a narrow terminal, groups and data sets one after another."""
    columns = found.columns()
    widths = [max(_NUMBER, len(found.header(one.name))) + 2 for one in columns]
    n_groups = sum(one.name == one.of[0].partition("/")[0] for one in columns)
    is_wide = _NAMES + sum(widths) > OUT.width
    cuts = [0, n_groups, len(columns)] if is_wide else [0, len(columns)]
    for start, end in pairwise(cuts):
        if start < end:
            yield _part(found, slice(start, end))


def _part(found: "named.Table", chosen: slice) -> Table:
    """Make a table of some columns; published rows that have none of them are left."""
    table = plain_table(escape(found.title()))
    table.add_column("", overflow="fold", min_width=_NAMES - 2, max_width=_NAMES - 2)
    for column in found.columns()[chosen]:
        header = escape(found.header(column.name))
        table.add_column(header, justify="right", no_wrap=True, min_width=_NUMBER)
    for metric in found.benchmark.metrics:
        if metric.key not in found.benchmark.shown:
            continue
        table.add_section()
        table.add_row(f"[bold]{escape(metric.short)}{_ARROWS[metric.better]}[/bold]")
        rows = [(row, row.cells[chosen]) for row in found.rows(metric.key)]
        for row, cells in rows:
            if any(cells):
                style = "dim" if row.is_published else ""
                table.add_row(escape(row.name), *cells, style=style)
    return table


def _say(text: str) -> None:
    OUT.print(escape(text), highlight=False)
