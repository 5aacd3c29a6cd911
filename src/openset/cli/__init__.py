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
    reproduce,
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
    help="Open-set recognition: classifiers that reject samples of unknown classes.",
    epilog="Start with: [bold]openset demo[/bold]",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# Panels in the order in which a new user meets the commands.
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
        "reproduce": reproduce,
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
    """Define the options of the program itself."""


def _message(error: Exception) -> str:
    """Return the message of an error; system errors begin with the name of the file."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        # A file is written under a temporary name, then renamed: show the final name.
        return f"{error.filename2 or error.filename}: {error.strerror}"
    return str(error)


_SHOWN_IN_ONE_LINE = (
    ValueError,
    TypeError,
    OSError,
    ImportError,
    FloatingPointError,  # raised when training diverges
    ArtefactError,
)


def main() -> None:
    """Run a command; print errors that users can fix as one line, without traceback."""
    try:
        # Modules in the current folder can be used: openset score -d my:Margin.
        with _plugins.searching(Path.cwd()):
            app()
    except _SHOWN_IN_ONE_LINE as error:
        ERRORS.print(
            f"[bold red]error:[/bold red] {escape(_message(error))}",
            highlight=False,
            soft_wrap=True,
        )
        sys.exit(2)
