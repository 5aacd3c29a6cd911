"""`openset datasets`."""

from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
from rich.markup import escape
from rich.table import Table

from openset import _check, datasets
from openset.cli._console import OUT, Json, print_json
from openset.cli._errors_in_options import Root, naming
from openset.cli._lists import plain_table

_KINDS = {
    "image": "Images",
    "text": "Texts",
    "table": "Tables of numbers",
    "": "Plug-ins of unknown kind",
}

EPILOG = """[bold]Examples[/bold]

openset datasets

openset datasets cub --root data/

openset datasets --json"""


def command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Data set to describe: the files it needs, and where to put them "
            "(default: list all).",
        ),
    ] = None,
    root: Root = None,
    as_json: Json = False,
) -> None:
    """List the data sets: kind, size, whether they are present, how to get them."""
    if name is not None and ":" not in name:
        _check.one_of("openset datasets", "NAME", name, datasets.names())
    if name is not None and not as_json:
        with naming("openset datasets"):
            text = datasets.describe(name, root)
        OUT.say(escape(text))
        return
    here = set(datasets.available(root))
    listed = datasets.names() if name is None else [name]
    with naming("openset datasets"):
        records = [_record(one, here) for one in listed]
    if as_json:
        shown = records if name is None else records[0]
        print_json(shown)
        return
    OUT.print(_table(records))
    OUT.print(
        "Also: a folder of images, a .npz file, [bold]hf:owner/name[/bold] or "
        "[bold]hf:folder[/bold] (Hugging Face), or a loader of your own, "
        "[bold]package.module:function[/bold]. Files needed by a data set: "
        "[bold]openset datasets NAME[/bold]"
    )


def _table(records: list[dict[str, Any]]) -> Table:
    n_here = sum(record["here"] for record in records)
    table = plain_table(f"Data sets ({n_here} of {len(records)} present)")
    table.add_column("name", no_wrap=True)
    table.add_column("classes", justify="right", no_wrap=True)
    table.add_column("samples", justify="right", no_wrap=True)
    table.add_column("get it", no_wrap=True)
    table.add_column("what it is", style="dim", overflow="fold")
    for kind, title in _KINDS.items():
        rows = [record for record in records if record["kind"] == kind]
        if rows:
            table.add_section()
            table.add_row(f"[bold]{title}[/bold]")
        for row in rows:
            sizes = [row["n_classes"], row["n_samples"]]
            counts = ["" if size is None else f"{size:,}" for size in sizes]
            way = "[green]here[/green]" if row["here"] else row["how"]
            source = f" ({_host(row['from'])})" if row["from"] else ""
            table.add_row(row["name"], *counts, way, escape(row["about"] + source))
    return table


def _record(name: str, here: set[str]) -> dict[str, Any]:
    """Describe a data set; a broken plug-in must not hide the others."""
    record = {
        "name": name,
        "kind": "",
        "n_classes": None,
        "n_samples": None,
        "from": "",
    }
    try:
        info = datasets.info(name)
    except ImportError as error:
        return record | {"here": False, "how": "broken plug-in", "about": str(error)}
    return record | {
        "kind": info.kind,
        "n_classes": info.n_classes,
        "n_samples": info.n_samples,
        "here": name in here,
        "how": info.how,
        "from": info.source,
        "about": info.about,
    }


def _host(source: str) -> str:
    """Return the host of an address, or the text as it is."""
    return urlsplit(source).hostname or source
