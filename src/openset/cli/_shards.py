"""Options of commands that work on a folder of shards, and what they share."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from rich.markup import escape

from openset import _backends, _check, _io, shards
from openset.cli._console import ERRORS, OUT

_SHOWN = 5  # number of failed shards to print; all are in the folder

# Arguments of the library, by the option they come from.
SHARD_OPTIONS = {
    "format": "--format",
    "jobs": "--jobs",
    "backend": "--backend",
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
        help="For shards: loky (processes on this machine, the default), ray (a "
        "running cluster, that of RAY_ADDRESS if set) or sequential."
    ),
]


def need_folder(caller: str, out: str | None) -> str:
    """Return the folder, or URL, for the results of shards; raise if it is a file."""
    if out is not None and _io.is_url(out):
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
    caller: str, *, backend: str | None, jobs: int | None
) -> dict[str, Any]:
    """Return the options of this name as `shards.run` takes them, checked."""
    found: dict[str, Any] = {
        "backend": backend or "loky",
        "jobs": -1 if jobs is None else jobs,
    }
    _backends.check(**found, caller=caller)
    return found


def run_shards(
    job: shards.Job,
    found: Mapping[str, str],
    out: str,
    *,
    invalid_are: str = "answered with unknown",
    **options: Any,
) -> None:
    """Run a job over shards; say what was done, and what failed."""
    done = shards.run(job, found, out, **options)
    OUT.say(escape(str(done)))
    if done.invalid:
        names = ", ".join(list(done.invalid)[:_SHOWN])
        text = (
            f"{sum(done.invalid.values())} samples in {len(done.invalid)} shards are "
            f"invalid and {invalid_are}: {names}{', …' * (len(done.invalid) > _SHOWN)}"
        )
        ERRORS.say(f"[bold yellow]invalid:[/bold yellow] {escape(text)}")
    for name, error in done.failed.items():
        text = f"{name}: {error.splitlines()[0]}"
        ERRORS.say(f"[bold red]failed:[/bold red] {escape(text)}")
    if done.failed:
        raise typer.Exit(1)
