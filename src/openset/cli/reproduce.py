"""`openset reproduce`."""

from pathlib import Path
from typing import Annotated, Any

import typer

import openset
from openset import _check
from openset.cli.options import Backend, Out, Root
from openset.cli.terminal import ERR, say, table


def command(
    name: Annotated[str | None, typer.Argument(metavar="NAME")] = None,
    listed: Annotated[bool, typer.Option("--list")] = False,
    root: Root = None,
    out: Out = None,
    outputs: Path | None = None,
    jobs: int = -1,
    backend: Backend = "loky",
) -> None:
    """Recompute a table or figure of a paper, next to the published numbers.

    The same command continues a run that was interrupted.

        openset reproduce --list
        openset reproduce openauc-table1
        openset reproduce class-imbalance-small --out runs/imbalance
        openset reproduce postmax-table1 --outputs outputs

    Parameters
    ----------
    name
        Name of a table or figure (default: list all).
    listed
        List all tables and figures, then exit.
    out
        Folder of results (default: reproduced/NAME).
    outputs
        Folder of saved outputs of networks, for items of the PostMax paper (default: a
        small network is trained on digits).
    """
    reproduce = openset.reproduce
    if name is None or listed:
        rows = []
        for one in reproduce.items():
            text = f"{one.paper}, {one.number}. {one.what}\n{one.needs}; {one.time}"
            rows.append({"item": one.name, "content; needs; time": text})
        table(rows, "Tables and figures of the papers")
        return
    _check.one_of("openset", "NAME", name, [one.name for one in reproduce.items()])
    out = out or Path("reproduced") / name
    how: Any = {"root": root, "outputs": outputs, "backend": backend, "jobs": jobs}
    try:
        made = reproduce.run(name, out, **how)
    except (OSError, ValueError, ImportError) as error:  # data that cannot be had
        text = "\n".join([f"error: {error}", *getattr(error, "__notes__", ())])
        say(text, style="red", to=ERR)
        raise typer.Exit(1) from error
    for part in made.tables:
        texts = (dict(zip(part.columns, row, strict=True)) for row in part.texts())
        table(texts, part.title)
        if part.note:
            say(part.note)
    for note in made.notes:
        say(note)
    say(f"wrote {out / 'page.md'} and {out / 'results.json'}")
