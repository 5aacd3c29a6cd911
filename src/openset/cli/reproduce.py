"""`openset reproduce`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from openset.cli._console import OUT
from openset.cli._errors_in_options import Root, Workers, naming, need_root
from openset.cli._lists import column_widths, plain_table

if TYPE_CHECKING:  # the extra may be missing
    from openset.reproduce import Item

EPILOG = """[bold]Examples[/bold]

openset reproduce --list

openset reproduce openauc-table1

openset reproduce class-imbalance-small --root data --out runs/imbalance

openset reproduce postmax-table1 --outputs outputs

Run the same command again to continue. docs/papers/ shows our results next to the \
published numbers."""

# Arguments of the library, by the option they come from.
_OPTIONS = {
    "name": "NAME",
    "out": "--out",
    "root": "--root",
    "outputs": "--outputs",
    "backend": "--backend",
    "address": "--address",
    "jobs": "--jobs",
}


@naming("openset reproduce", _OPTIONS)
def command(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Name of a table or figure, from --list."),
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="List all tables and figures, then exit.")
    ] = False,
    root: Root = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of results (default: reproduced/NAME).",
            metavar="DIR",
            show_default=False,
        ),
    ] = None,
    outputs: Annotated[
        Path | None,
        typer.Option(
            help="Folder of saved outputs of networks, for items of the PostMax paper "
            "(default: a small network is trained on digits).",
            metavar="DIR",
            show_default=False,
        ),
    ] = None,
    backend: Annotated[
        str,
        typer.Option(
            help="Where the cells of a study run: loky (processes on this machine), "
            "ray, dask or sequential."
        ),
    ] = "loky",
    address: Annotated[
        str | None, typer.Option(help="Address of a running Ray or Dask cluster.")
    ] = None,
    jobs: Workers = -1,
) -> None:
    """Recompute a table or figure of a paper, next to the published numbers.

    Needs the extra bench; openset doctor says whether it is installed.
    """
    # Imported here: extras may be missing, and --help should be fast.
    from openset import bench, reproduce  # noqa: PLC0415

    if name is None or listed:
        OUT.print(_listing(reproduce.items()))
        return
    need_root("openset reproduce", root)
    out = Path("reproduced") / name if out is None else out
    try:
        made = reproduce.run(
            name,
            out,
            root=root,
            outputs=outputs,
            backend=backend,
            address=address,
            jobs=jobs,
            watch=bench.live_progress,
        )
    except KeyboardInterrupt:
        advice = "Run the same command again to continue."
        raise KeyboardInterrupt(advice) from None
    for shown in made.tables:
        table = plain_table(escape(shown.title))
        texts = shown.texts()
        # Beside each column stand up to two spaces.
        room = OUT.width - 2 * len(shown.columns) - 2
        widths = column_widths([shown.columns, *texts], room)
        for column, width in zip(shown.columns, widths, strict=True):
            table.add_column(escape(column), width=width, overflow="fold")
        for row in texts:
            table.add_row(*map(escape, row))
        OUT.print(table)
        if shown.note:
            OUT.print(escape(shown.note), highlight=False)
    for note in made.notes:
        OUT.print(escape(note), highlight=False)
    OUT.say(escape(f"wrote {out / 'page.md'} and {out / 'results.json'}"))


def _listing(items: "tuple[Item, ...]") -> Table:
    """Show the items under their papers: what each is, what it needs and takes."""
    table = plain_table("Tables and figures of the papers: openset reproduce ITEM")
    table.add_column("item", no_wrap=True)  # copied: it stays on one line
    table.add_column("content; requirements and duration", overflow="fold")
    paper = ""
    for item in items:
        if item.paper != paper:
            paper = item.paper
            table.add_section()
            table.add_row(f"[bold]{escape(paper)}[/bold]")
        cost = f"{item.needs}; {item.time}" if item.needs != "nothing" else item.time
        what = f"{escape(item.number)}. {escape(item.what)}"
        table.add_row(item.name, f"{what}\n[dim]{escape(cost)}[/dim]")
    return table
