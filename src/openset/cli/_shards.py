"""Options of commands that work on a folder of shards, and what they share."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from rich.markup import escape

from openset import _backends, _check, shards
from openset.cli._console import ERRORS, OUT

_SHOWN = 5  # number of failed shards to print; all are in the folder

# Arguments of the library, by the option they come from.
SHARD_OPTIONS = {
    "format": "--format",
    "jobs": "--jobs",
    "backend": "--backend",
    "address": "--address",
}

Format: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="For shards: format of the result files, parquet or npz "
        "(default: parquet).",
    ),
]
Jobs: TypeAlias = Annotated[
    int | None,
    typer.Option(help="For shards: number of workers (default: one per core)."),
]
Backend: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="For shards: loky (processes on this machine, the default), ray, dask or "
        "sequential."
    ),
]
Address: TypeAlias = Annotated[
    str | None,
    typer.Option(help="For shards: address of a running Ray or Dask cluster."),
]


def need_folder(caller: str, out: str | None) -> str:
    """Return the folder, or URL, for the results of shards; raise if it is a file."""
    if out is not None and shards.is_url(out):
        return out
    if out is None or Path(out).suffix or Path(out).is_file():
        rule = "a folder for the results of a folder of shards"
        got = "none" if out is None else out
        raise typer.BadParameter(
            _check.must(rule, caller=caller, name="--out", got=got)
        )
    return out


def refuse(caller: str, **given: object) -> None:
    """Refuse options that are for shards."""
    unused = [
        f"--{name.rstrip('_')}" for name, value in given.items() if value is not None
    ]
    if unused:
        msg = f"{caller}: {', '.join(unused)} can only be used with a folder of shards"
        raise typer.BadParameter(msg)


def backend_options(
    caller: str, *, backend: str | None, address: str | None, jobs: int | None
) -> dict[str, Any]:
    """Return the options of this name as `shards.run` takes them, checked."""
    found: dict[str, Any] = {
        "backend": backend or "loky",
        "address": address,
        "jobs": -1 if jobs is None else jobs,
    }
    _backends.check(**found, caller=caller)
    return found


def run_shards(
    job: shards.Job,
    found: Sequence[shards.Shard],
    out: str,
    *,
    invalid_are: str = "answered with unknown",
    **options: Any,
) -> None:
    """Run a job over shards; say what was done, and what failed."""
    done = shards.run(job, found, out, **options)
    OUT.say(escape(str(done)))
    if done.invalid:
        first = done.invalid[0]
        name = f", {first['id']}" if "id" in first else ""
        text = (
            f"{done.n_invalid} samples in {len(done.invalid)} shards are invalid and "
            f"{invalid_are}; the first: row {first['row']} of "
            f"{first['shard']}{name}. Numbers by shard: {done.folder}/invalid"
        )
        ERRORS.say(f"[bold yellow]invalid:[/bold yellow] {escape(text)}")
    for one in done.failed[:_SHOWN]:
        text = f"{one['shard']}: {one['error']}"
        ERRORS.say(f"[bold red]failed:[/bold red] {escape(text)}")
    if len(done.failed) > _SHOWN:
        n = len(done.failed) - _SHOWN
        ERRORS.print(f"… and {n} more, in the folder failed/", highlight=False)
    if done.failed:
        raise typer.Exit(1)
