"""`openset datasets`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from openset import _check, datasets
from openset.cli._lists import plain_table
from openset.cli._tables import OUT

_KINDS = {"image": "Images", "text": "Texts", "table": "Tables of numbers"}

EPILOG = """[bold]Examples[/bold]

openset datasets

openset datasets cub --root data/

openset datasets --json"""


def command(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Show one: its files, and where they go."),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the data sets; by default $OPENSET_DATA, else the "
            "user's cache."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the data sets: kind, size, whether they are here, how to get them."""
    here = set(datasets.available(root))
    if name is not None and not as_json:
        text = datasets.describe(name, root)
        OUT.print(text, soft_wrap=True, highlight=False, markup=False)
        return
    if as_json:
        typer.echo(json.dumps(_records(name, here), indent=2))
        return
    table = plain_table(f"Data sets, {len(here)} of {len(datasets.names())} here")
    table.add_column("name", no_wrap=True)
    table.add_column("classes", justify="right", no_wrap=True)
    table.add_column("samples", justify="right", no_wrap=True)
    table.add_column("get it", no_wrap=True)
    table.add_column("what it is", style="dim", overflow="fold")
    for kind, title in _KINDS.items():
        table.add_section()
        table.add_row(f"[bold]{title}[/bold]")
        for source in datasets.REGISTRY.values():
            if source.kind == kind:
                table.add_row(
                    source.name,
                    f"{source.n_classes:,}",
                    f"{source.n_samples:,}",
                    "[green]here[/green]"
                    if source.name in here
                    else _short(source.how),
                    source.about,
                )
    OUT.print(table)
    OUT.print(
        "Also: a folder of images, a .npz file, [bold]hf:owner/name[/bold] or "
        "[bold]hf:folder[/bold] (Hugging Face). "
        "Which files go where: [bold]openset datasets NAME[/bold]"
    )


def _records(name: str | None, here: set[str]) -> Any:
    """Return all data sets as plain records, or the one of this name."""
    records = {
        source.name: {
            "name": source.name,
            "kind": source.kind,
            "n_classes": source.n_classes,
            "n_samples": source.n_samples,
            "here": source.name in here,
            "how": source.how,
            "about": source.about,
        }
        for source in datasets.REGISTRY.values()
    }
    if name is None:
        return list(records.values())
    return records[_check.one_of("datasets", "name", name, datasets.names())]


def _short(how: str) -> str:
    # File names would break a narrow table; `openset datasets NAME` has them whole.
    return "by hand" if how.startswith("bring") else how
