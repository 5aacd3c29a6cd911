"""`openset datasets`."""

from typing import Annotated, Any

import typer

import openset
from openset.cli.options import Json, Root
from openset.cli.terminal import pick, print_json, say, table


def command(
    name: Annotated[str | None, typer.Argument(metavar="NAME")] = None,
    root: Root = None,
    as_json: Json = False,
) -> None:
    """List the data sets: kind, size, whether they are present, how to get them.

    Commands also take a folder of images, a .npz file, hf:owner/name or hf:folder
    (Hugging Face), and a loader of your own, package.module:function.

        openset datasets
        openset datasets cub
        openset datasets --json

    Parameters
    ----------
    name
        Data set to describe: the files it needs, and where to put them (default: list
        all).
    """
    if name is not None and not as_json:
        say(openset.datasets.describe(name, root))
        return
    here = set(openset.datasets.available(root))
    names = openset.datasets.names() if name is None else [name]
    records = [_record(one, here) for one in names]
    if as_json:
        print_json(records if name is None else records[0])
        return
    rows = []
    for one in records:
        row = pick(one, "name", "kind", "n_classes", "n_samples")
        row["get it"] = "here" if one["here"] else one["how"]
        rows.append(row | {"what it is": one["about"]})
    n_here = sum(one["here"] for one in records)
    table(rows, f"Data sets ({n_here} of {len(rows)} present)")
    say("What one needs, and where to put it: openset datasets NAME", style="dim")


def _record(name: str, here: set[str]) -> dict[str, Any]:
    """Describe a data set; a broken plug-in must not hide the others."""
    record: dict[str, Any] = {"name": name, "here": name in here, "from": ""}
    sizes = dict.fromkeys(("kind", "n_classes", "n_samples"))
    try:
        info = openset.datasets.info(name)
    except ImportError as error:
        return record | sizes | {"how": "broken plug-in", "about": str(error)}
    found = {key: getattr(info, key) for key in (*sizes, "how", "about")}
    return record | found | {"from": info.source}
