"""The command line: thin commands over the library."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

import openset
from openset import _plugins
from openset._types import ArtefactError
from openset.cli import (
    bench,
    calibrate,
    check,
    compare,
    datasets,
    demo,
    detectors,
    doctor,
    evaluate,
    export,
    extract,
    predict,
    protocols,
    report,
    score,
    serve,
    train,
    watch,
)
from openset.cli._help import Command, Group
from openset.cli._tables import ERRORS

app = typer.Typer(
    name="openset",
    cls=Group,
    help="Open-set recognition: classifiers that also know when they do not know.",
    epilog="Start with: [bold]openset demo[/bold]",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# The order of the panels is that of a first acquaintance.
_PANELS = {
    "Start": {"demo": demo, "doctor": doctor},
    "Evaluate": {
        "evaluate": evaluate,
        "detectors": detectors,
        "score": score,
        "compare": compare,
        "check": check,
        "report": report,
    },
    "Operate": {
        "calibrate": calibrate,
        "predict": predict,
        "export": export,
        "serve": serve,
        "watch": watch,
    },
    "Study and train": {
        "datasets": datasets,
        "train": train,
        "extract": extract,
        "bench": bench,
    },
}
for _panel, _commands in _PANELS.items():
    for _name, _module in _commands.items():
        app.command(_name, cls=Command, epilog=_module.EPILOG, rich_help_panel=_panel)(
            _module.command
        )
app.add_typer(protocols.app, name="protocols", rich_help_panel="Study and train")


def _version(wanted: bool) -> None:  # noqa: FBT001  # typer calls it with the flag
    if wanted:
        typer.echo(f"openset {openset.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_version,
            is_eager=True,
            help="Show the version and exit.",
        ),
    ] = False,
) -> None:
    """Hold the options that belong to no command."""


def _said(error: Exception) -> str:
    """Return the message; what the system says of a file begins with its name."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        # A file is written beside its place, then moved there: the place is meant.
        return f"{error.filename2 or error.filename}: {error.strerror}"
    return str(error)


_SAID = (
    ValueError,
    TypeError,
    OSError,
    ImportError,
    FloatingPointError,  # of a training that diverged
    ArtefactError,
)


def main() -> None:
    """Run a command; what users can mend is one line, not a traceback."""
    try:
        # Modules in the folder one stands in can be named: openset score -d my:Margin.
        with _plugins.searching(Path.cwd()):
            app()
    except _SAID as error:
        ERRORS.print(
            f"[bold red]error:[/bold red] {escape(_said(error))}",
            highlight=False,
            soft_wrap=True,
        )
        sys.exit(2)
